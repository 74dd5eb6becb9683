"""Validated answers: one row owns its points in both places, and the two never drift."""

import uuid
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.test import TestCase
from django.utils import timezone

from agents.jobs import carry_out, ensure
from agents.models import Agent, IndexingMethod, Job, JobKind
from faqs.answer_points import expire_reviews, point_ids, reap_learned, sync_learned
from faqs.answers import (
    AnswerRejectedError,
    cited_sources,
    learn_from_message,
    review_stale_answers,
    save_learned,
    set_status,
)
from faqs.models import IndexState, LearnedResponse, LearnedStatus
from faqs.neighbours import LEARNED_COLLECTION
from faqs.origins import keep_passages, origins_of
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.jobs import create_rebuild, reconcile_agent, run_build
from knowledge.indexing.path import update_documents
from knowledge.indexing.rebuild import preview_rebuild, rollback_agent_index
from knowledge.models import Chunk
from knowledge.search import SearchResult, confirm_passages
from knowledge.vectors.base import Point, collection_alias, vector_store
from tests.factories import (
    add_document,
    fresh,
    make_agent,
    make_deployment,
    make_learned,
    search_index,
    set_settings,
    source_of,
    store_answer,
)
from tests.failing_store import failing_store
from tests.hashing import HashingEmbedder

QA, LEGACY = IndexingMethod.QA_ATOMIC, IndexingMethod.LEGACY
QUESTION, ANSWER = "Où garer son vélo ?", "Devant l’entrée, sous l’abri."


def stored(collection: str, row: LearnedResponse) -> dict[str, Point]:
    if vector_store().resolve_alias(collection) is None:
        return {}
    return vector_store().fetch(collection, point_ids(row))


def everywhere(row: LearnedResponse, *methods: IndexingMethod) -> list[dict[str, Point]]:
    aliases = [collection_alias(row.agent.slug, method) for method in methods or (QA,)]
    return [stored(name, row) for name in (LEARNED_COLLECTION, *aliases)]


def ask(agent: Agent, question: str, *, categories: tuple[str, ...] = ()) -> SearchResult:
    found = search_index(agent, question, categories=categories)
    return confirm_passages(found, agent_id=agent.pk)


def answers(agent: Agent, question: str = QUESTION) -> list[str]:
    return [hit.content for hit in ask(agent, question).hits if hit.is_faq]


class RebuildTests(TestCase):
    def rebuild(self, agent: Agent, method: IndexingMethod = QA) -> None:
        run_build(create_rebuild(agent=agent, method=method).pk)

    def test_rebuild_carries_the_faq_points_along(self) -> None:
        row = make_learned(question=QUESTION, phrasings=["Y a-t-il un abri à vélos ?"])
        add_document(row.agent)
        with mock.patch.object(HashingEmbedder, "_embed_batch") as embed:
            self.rebuild(row.agent)
        assert embed.call_count == 0
        assert [len(points) for points in everywhere(row)] == [2, 2]
        assert answers(row.agent) == ["Au premier étage."] * 2

    def test_preview_of_a_rebuild_knows_the_faq_points(self) -> None:
        row = make_learned()
        diff = preview_rebuild(agent=row.agent, method=QA)
        assert (diff["added"], diff["removed"], diff["changed"]) == (0, 0, 0)

    def test_faq_written_while_the_alias_moves_forth_or_back_is_in_the_index_that_comes(self) -> None:
        agent = make_agent()
        add_document(agent)
        made: list[LearnedResponse] = []
        plain = type(vector_store()).point_alias

        def add_first(store: Any, alias: str, collection: str) -> None:
            if alias.startswith("agent_") and not made:
                made.append(make_learned(agent, question=QUESTION))
            plain(store, alias, collection)

        for move in (self.rebuild, lambda agent: rollback_agent_index(agent=agent, method=QA)):
            made.clear()
            with mock.patch.object(type(vector_store()), "point_alias", add_first):
                move(agent)
            assert [len(points) for points in everywhere(made[0])] == [1, 1]

    def test_rollback_answers_with_the_faq_as_it_is_now_and_documents_as_they_were(self) -> None:
        agent = make_agent()
        document = add_document(agent)
        row = make_learned(agent, question=QUESTION, phrasings=["Y a-t-il un abri à vélos ?"])
        gone = make_learned(agent)
        self.rebuild(agent)
        chunk = document.chunks.get(index=0)
        chunk.content = "Ouverte la nuit."
        chunk.save()
        update_documents(agent=agent, documents=[document])
        row.question, row.answer = "Où attacher un vélo ?", ANSWER
        save_learned(row, phrasings=[])
        added = make_learned(agent, question="Où lire la presse ?")
        set_status([gone], LearnedStatus.OBSOLETE)
        sync_learned()
        assert "Ouverte la nuit." in self.texts(agent, is_faq=False)
        embed = embedder()._embed_batch
        with mock.patch.object(HashingEmbedder, "_embed_batch", side_effect=embed) as calls:
            rollback_agent_index(agent=agent, method=QA)
        assert calls.call_count == 1, "for the question that was changed"
        assert sorted(self.texts(agent, is_faq=True)) == [added.answer, ANSWER]
        assert [len(points) for each in (row, added, gone) for points in everywhere(each)] == [1, 1, 1, 1, 0, 0]
        assert answers(agent, row.question)[0] == ANSWER
        best = ask(agent, row.question).hits[0]
        assert (best.question, round(best.score, 3)) == (row.question, 1.0)
        assert "Ouverte la nuit." not in self.texts(agent, is_faq=False)
        assert len(self.texts(agent, is_faq=False)) == 5

    def texts(self, agent: Agent, *, is_faq: bool) -> list[Any]:
        """What the points in service say, those of validated answers or those of documents."""
        batches = vector_store().scroll(collection_alias(agent.slug, QA))
        points = [point for batch in batches for point in batch]
        return [p.payload["display_text"] for p in points if p.payload.get("is_faq", False) is is_faq]

    def test_rollback_of_two_methods_moves_none_where_the_faq_points_of_one_cannot_be_written(self) -> None:
        row = make_learned(question=QUESTION)
        make_deployment(row.agent, config_overlay={"indexing_method": "legacy"})
        for method in (QA, LEGACY, QA, LEGACY):
            self.rebuild(row.agent, method)
        aliases = [collection_alias(row.agent.slug, method) for method in (QA, LEGACY)]
        current = [vector_store().resolve_alias(alias) for alias in aliases]
        row.answer = ANSWER
        save_learned(row)
        sync_learned()
        # The commands go through the methods by name: the second one fails.
        with failing_store(aliases[0]), pytest.raises(CommandError):
            call_command("rebuild_agent_index", row.agent.slug, "--rollback")
        assert [vector_store().resolve_alias(alias) for alias in aliases] == current
        assert answers(row.agent) == [ANSWER]


class DoubleIndexingTests(TestCase):
    """Seed 001: « FAQ ajoutée manuellement - indexée dans agent collection », and « validée depuis message »."""

    def test_faq_added_by_hand_is_indexed_in_both_collections_as_the_seed_says(self) -> None:
        row = make_learned(question=QUESTION, answer=ANSWER)
        for points in everywhere(row):
            (point,) = points.values()
            assert dict(point.payload) == {
                "type": "qa_pair",
                "category": "FAQ",
                "display_text": ANSWER,
                "question": QUESTION,
                "source_doc": "FAQ Validée",
                "parent_context": "",
                "chunk_id": None,
                "document_id": None,
                "agent_id": row.agent_id,
                "is_faq": True,
                "indexed_at": row.updated_at.isoformat(),
            }
            assert point.vector @ embedder().embed_one(QUESTION, purpose=Purpose.QUERY) == pytest.approx(1)
        assert row.index_state == IndexState.INDEXED

    def test_faq_validated_from_a_message_is_indexed_in_both_and_validated_again_updated(self) -> None:
        agent, message = make_agent(), uuid.uuid4()
        for answer in ("Nulle part.", ANSWER):
            row = learn_from_message(agent=agent, message_uuid=message, question=QUESTION, answer=answer)
        sync_learned([row.pk])
        assert (LearnedResponse.objects.get().answer, row.source_message) == (ANSWER, message)
        assert [len(points) for points in everywhere(row)] == [1, 1]

    def test_every_method_in_use_has_the_points_and_a_phrasing_is_embedded_once(self) -> None:
        agent = make_agent()
        make_deployment(agent, config_overlay={"indexing_method": "legacy"})
        row = store_answer(agent=agent, question=QUESTION, answer=ANSWER, phrasings=["Parking à vélos ?"])
        embed = embedder()._embed_batch
        with mock.patch.object(HashingEmbedder, "_embed_batch", side_effect=embed) as calls:
            sync_learned([row.pk])
        assert [len(points) for points in everywhere(row, QA, LEGACY)] == [2, 2, 2]
        assert calls.call_count == 1

    def test_edited_answer_reaches_both_without_a_new_vector(self) -> None:
        row = make_learned(question=QUESTION)
        row.answer = ANSWER
        save_learned(row)
        with mock.patch.object(HashingEmbedder, "_embed_batch") as embed:
            sync_learned([row.pk])
        assert embed.call_count == 0
        texts = [p.payload["display_text"] for points in everywhere(row) for p in points.values()]
        assert texts == [ANSWER, ANSWER]

    def test_removed_phrasing_leaves_both(self) -> None:
        for remove in (lambda row: save_learned(row, phrasings=[]), lambda row: row.phrasings.all().delete()):
            row = make_learned(question=QUESTION, phrasings=["Parking à vélos ?"])
            ids = point_ids(row)
            with self.captureOnCommitCallbacks(execute=True):
                remove(row)
            for name in (LEARNED_COLLECTION, collection_alias(row.agent.slug, QA)):
                assert set(vector_store().fetch(name, ids)) == {str(row.point_id)}

    def test_withdrawn_faq_leaves_both_and_comes_back(self) -> None:
        row = make_learned()
        for status, count, state in (
            (LearnedStatus.OBSOLETE, 0, IndexState.WITHDRAWN),
            (LearnedStatus.VALID, 1, IndexState.INDEXED),
        ):
            set_status([row], status)
            sync_learned([row.pk])
            assert [len(points) for points in everywhere(row)] == [count, count]
            assert fresh(row).index_state == state

    def test_deleted_faq_leaves_both_in_bulk_and_in_cascades(self) -> None:
        for delete in (
            lambda row: row.delete(),
            lambda row: LearnedResponse.objects.filter(pk=row.pk).delete(),
            lambda row: row.agent.delete(),
        ):
            row = make_learned(phrasings=["Une autre question ?"])
            ids, alias = point_ids(row), collection_alias(row.agent.slug, QA)
            with self.captureOnCommitCallbacks(execute=True):
                delete(row)
            assert vector_store().fetch(LEARNED_COLLECTION, ids) == {}
            if vector_store().resolve_alias(alias):
                assert vector_store().fetch(alias, ids) == {}

    def test_new_embedding_model_moves_the_shared_collection_and_makes_every_row_due(self) -> None:
        first, second = make_learned(), make_learned()
        other = HashingEmbedder(dimensions=64)
        with mock.patch("faqs.answer_points.embedder", return_value=other):
            with mock.patch("faqs.answer_points.current_generation", return_value="x") as current:
                current.side_effect = lambda store, *_: _ensured(store, other)
                sync_learned([first.pk])
        assert fresh(second).index_state == IndexState.PENDING
        assert vector_store().info(LEARNED_COLLECTION).recipe == other.recipe


def _ensured(store: Any, model: HashingEmbedder) -> str:
    store.ensure("agent_other_model", model.recipe)
    return "agent_other_model"


class FaultTests(TestCase):
    def test_faq_written_while_the_store_is_down_is_kept_pending_and_indexed_later(self) -> None:
        agent = make_agent()
        with failing_store(""):
            row = store_answer(agent=agent, question=QUESTION, answer=ANSWER)
            report = sync_learned([row.pk])
            assert fresh(row).index_state == IndexState.PENDING
            assert "indisponible" in row.index_error
            assert (row.attempts, len(report.failed)) == (1, 1)
            assert row.next_attempt_at is not None
        LearnedResponse.objects.update(next_attempt_at=timezone.now())
        with mock.patch("faqs.answer_points.nudge") as nudge:
            assert reap_learned() == 1
        sync_learned(nudge.call_args.args[0])
        assert (fresh(row).index_state, row.index_error, row.attempts) == (IndexState.INDEXED, "", 0)
        assert answers(agent) == [ANSWER]

    def test_faq_waits_for_the_first_index_of_its_agent_and_is_written_then(self) -> None:
        agent = make_agent()
        add_document(agent)
        vector_store().remove_alias(collection_alias(agent.slug, QA))
        rows = [
            store_answer(agent=agent, question=QUESTION, answer=ANSWER),
            store_answer(agent=agent, question="Où lire la presse ?", answer=ANSWER),
        ]
        assert len(sync_learned().failed) == 2
        for row in rows:
            assert (fresh(row).index_state, row.attempts) == (IndexState.PENDING, 1)
            assert "rebuild_agent_index" in row.index_error
        [build] = reconcile_agent(agent.pk)
        run_build(build.pk)
        LearnedResponse.objects.update(next_attempt_at=timezone.now())
        with mock.patch("faqs.answer_points.nudge") as nudge:
            assert reap_learned() == 2
        assert sync_learned(nudge.call_args.args[0]).indexed == 2
        assert answers(agent)[:1] == [ANSWER]

    def test_index_that_was_never_built_keeps_no_faq_out_of_the_others(self) -> None:
        agent = make_agent()
        add_document(agent)
        make_deployment(agent, config_overlay={"indexing_method": "legacy"})
        row = make_learned(agent, question=QUESTION, answer=ANSWER)
        assert row.index_state == IndexState.INDEXED
        assert answers(agent) == [ANSWER]
        for build in reconcile_agent(agent.pk):
            run_build(build.pk)
        assert [len(points) for points in everywhere(row, QA, LEGACY)] == [1, 1, 1]

    def test_never_one_point_of_two(self) -> None:
        for down in ("learned_responses", "agent_"):
            agent = make_agent()
            add_document(agent)
            row = store_answer(agent=agent, question=QUESTION, answer=ANSWER)
            with failing_store(down):
                sync_learned([row.pk])
                assert answers(agent) == []
            sync_learned([row.pk])
            assert answers(agent) == [ANSWER]

    def test_deletion_that_fails_serves_nothing_stale(self) -> None:
        row = make_learned(question=QUESTION)
        with failing_store("agent_"):
            set_status([row], LearnedStatus.OBSOLETE)
            sync_learned([row.pk])
        assert fresh(row).index_state == IndexState.PENDING
        assert answers(row.agent) == []

    def test_waits_grow_to_a_limit(self) -> None:
        row = store_answer(agent=make_agent(), question=QUESTION, answer=ANSWER)
        waits = []
        with failing_store(""):
            for _ in range(8):
                sync_learned([row.pk])
                row.refresh_from_db()
                assert row.next_attempt_at is not None
                waits.append(round((row.next_attempt_at - timezone.now()).total_seconds()))
        assert waits[:3] == [15, 30, 60]
        assert waits[-1] == 300

    def test_edit_during_the_indexing_is_followed_too(self) -> None:
        row = store_answer(agent=make_agent(), question=QUESTION, answer="Ancienne.")
        edited: list[str] = []

        def edit(collection: str) -> None:
            if collection.startswith("agent_") and not edited:
                edited.append(collection)
                row.answer = ANSWER
                save_learned(row)

        with failing_store(on_upsert=edit):
            sync_learned([row.pk])
        row.refresh_from_db()
        texts = [p.payload["display_text"] for points in everywhere(row) for p in points.values()]
        assert (row.index_state, texts) == (IndexState.INDEXED, [ANSWER, ANSWER])

    def test_one_agent_with_another_model_keeps_no_other_back(self) -> None:
        broken, fine = make_agent(), make_agent()
        model = HashingEmbedder(dimensions=64)
        vector_store().ensure("agent_old", model.recipe)
        vector_store().point_alias(collection_alias(broken.slug, QA), "agent_old")
        rows = [store_answer(agent=agent, question=QUESTION, answer=ANSWER) for agent in (broken, fine)]
        sync_learned()
        assert [fresh(row).index_state for row in rows] == [IndexState.FAILED, IndexState.INDEXED]


class ServingTests(TestCase):
    def test_category_filter_leaves_validated_answers_in(self) -> None:
        row = make_learned(question=QUESTION)
        assert ask(row.agent, QUESTION, categories=("Tarifs",)).hits

    def test_row_changed_behind_the_back_of_its_points_is_never_served_wrongly(self) -> None:
        row = make_learned(question=QUESTION, answer=ANSWER)
        LearnedResponse.objects.update(answer="Corrigée.")
        assert answers(row.agent) == ["Corrigée."]
        LearnedResponse.objects.update(question="Où garer sa moto ?")
        assert answers(row.agent) == []

    def test_answer_of_another_agent_is_not_found(self) -> None:
        make_learned(question=QUESTION)
        other = make_agent()
        add_document(other)
        assert answers(other) == []

    def test_answer_past_its_review_date_is_not_served_and_goes_to_review(self) -> None:
        yesterday = timezone.localdate() - timedelta(days=1)
        row = make_learned(question=QUESTION, review_date=timezone.localdate())
        assert (len(answers(row.agent)), expire_reviews()) == (1, 0)
        LearnedResponse.objects.update(review_date=yesterday)
        assert answers(row.agent) == []
        assert expire_reviews() == 1
        sync_learned([row.pk])
        assert fresh(row).status == LearnedStatus.TO_REVIEW
        assert yesterday.isoformat() in row.status_reason
        assert [len(points) for points in everywhere(row)] == [0, 0]


class RulesTests(TestCase):
    def test_what_cannot_be_kept_is_refused_with_its_reason(self) -> None:
        agent = make_agent()
        for question, answer, reason in (
            (" ? ", "Oui.", "question est vide"),
            ("Quoi ?", "  ", "réponse est vide"),
            ("q" * 301, "Oui.", "300"),
            ("Quoi ?", "r" * 6001, "6000"),
        ):
            with pytest.raises(AnswerRejectedError) as refused:
                store_answer(agent=agent, question=question, answer=answer)
            assert reason in str(refused.value.public_message)
        assert not LearnedResponse.objects.exists()

    def test_draft_needs_no_answer_and_is_not_served(self) -> None:
        row = store_answer(status=LearnedStatus.TO_REVIEW, agent=make_agent(), question=QUESTION)
        sync_learned([row.pk])
        assert (fresh(row).status, row.index_state) == (LearnedStatus.TO_REVIEW, IndexState.WITHDRAWN)
        assert set_status([row], LearnedStatus.VALID) == 0


class ReaperTests(TestCase):
    def test_worker_looks_after_what_waits_what_is_overdue_and_what_is_new(self) -> None:
        waiting = store_answer(agent=make_agent(), question=QUESTION, answer=ANSWER)
        LearnedResponse.objects.update(next_attempt_at=timezone.now())
        overdue = make_learned(review_date=timezone.localdate())
        yesterday = timezone.localdate() - timedelta(days=1)
        LearnedResponse.objects.filter(pk=overdue.pk).update(review_date=yesterday)
        with (
            mock.patch("faqs.answer_points.nudge") as nudge,
            mock.patch("faqs.unanswered.group_questions") as group,
            mock.patch("django.db.close_old_connections"),
        ):
            for _look in range(2):
                Job.objects.update(not_before=None)
                carry_out(ensure(JobKind.RECOVER).pk)
        assert [call.args[0] for call in nudge.call_args_list] == [[waiting.pk]]
        assert group.call_count == 2
        assert fresh(overdue).status == LearnedStatus.TO_REVIEW


class OriginTests(TestCase):
    """A validated answer made from an exchange remembers the passages that were cited."""

    def setUp(self) -> None:
        self.agent = make_agent()
        add_document(self.agent)
        self.chunks = list(Chunk.objects.order_by("pk")[:2])
        sources = [source_of(chunk, n=n) for n, chunk in enumerate(self.chunks, start=1)]
        cited = cited_sources("Devant l'entrée [2].", sources)
        told: dict[str, Any] = {"question": QUESTION, "answer": ANSWER, "sources": cited}
        self.row = learn_from_message(agent=self.agent, message_uuid=uuid.uuid4(), **told)
        sync_learned([self.row.pk])

    def change(self, chunk: Chunk, content: str = "Autrement.") -> None:
        chunk.content = content
        with self.captureOnCommitCallbacks(execute=True):
            chunk.save()
        self.row.refresh_from_db()

    def test_cited_passages_are_followed_and_others_are_not(self) -> None:
        assert list(self.row.origins.values_list("chunk_id", flat=True)) == [self.chunks[1].pk]
        self.change(self.chunks[0])
        assert self.row.status == LearnedStatus.VALID

    def test_passages_of_which_something_was_shown_beside_one_are_followed_too(self) -> None:
        first, second = self.chunks
        shown = f"{first.content}\n\n{second.content.splitlines()[-1]}"
        found = origins_of([source_of(first, text=shown)])
        assert {each.chunk_id for each in found or ()} == {first.pk, second.pk}
        changed = (second.content, f"{shown}\n\nPhrase retirée depuis.")
        assert [origins_of([source_of(first, text=text)]) for text in changed] == [None, None]

    def test_change_that_does_not_bear_on_it_leaves_it_in_service_and_lists_it(self) -> None:
        text = "La piscine est au {} rue des Bains.\n\nPour vous baigner, {} est {} par le règlement de la piscine."
        said = ("le short de bain", "interdit")
        Chunk.objects.filter(pk=self.chunks[1].pk).update(content=text.format(12, *said))
        chunk = Chunk.objects.get(pk=self.chunks[1].pk)
        self.row.question, self.row.answer = "Peut-on se baigner en short ?", "Non, le short de bain est interdit."
        save_learned(self.row)
        sync_learned([self.row.pk])
        given = [self.row.answer]
        for wording, expected in ((text.format(14, *said), given), (text.format(14, said[0], "admis"), [])):
            self.change(chunk, wording)
            assert (self.row.status, answers(self.agent)) == (LearnedStatus.TO_REVIEW, expected)

    def test_passage_cited_beside_the_one_that_answers_does_not_take_it_out_of_service(self) -> None:
        self.chunks[0].content = "L'entrée plein tarif coûte 4,20 €, la réduite 2,80 €."
        self.chunks[1].content = "La piscine est au 12 rue des Bains."
        Chunk.objects.bulk_update(self.chunks, ["content"])
        self.row.question, self.row.answer = "Combien coûte l'entrée de la piscine ?", "4,20 €, ou 2,80 € réduit."
        save_learned(self.row)
        keep_passages(self.row, origins_of([source_of(chunk) for chunk in self.chunks]) or ())
        sync_learned([self.row.pk])
        self.change(self.chunks[1], "La piscine est au 14 rue des Bains.")
        assert (self.row.status, answers(self.agent)) == (LearnedStatus.TO_REVIEW, [self.row.answer])

    def test_disabled_or_deleted_passage_does_too(self) -> None:
        self.chunks[1].enabled = False
        for change in (self.chunks[1].save, self.chunks[1].delete):
            LearnedResponse.objects.update(status=LearnedStatus.VALID)
            with self.captureOnCommitCallbacks(execute=True):
                change()
            assert fresh(self.row).status == LearnedStatus.TO_REVIEW

    def test_staff_may_have_it_given_while_it_is_reviewed(self) -> None:
        set_settings(Agent.objects.filter(pk=self.agent.pk), withhold_stale_answers=False)
        self.change(self.chunks[1])
        assert self.row.status == LearnedStatus.TO_REVIEW
        assert answers(self.agent) == [ANSWER]

    def test_validating_it_takes_its_passages_as_they_stand(self) -> None:
        self.change(self.chunks[1])
        with self.captureOnCommitCallbacks(execute=True):
            set_status([self.row], LearnedStatus.VALID)
        assert review_stale_answers({self.chunks[1].pk: (0, "")}) == 0
        assert answers(self.agent) == [ANSWER]
