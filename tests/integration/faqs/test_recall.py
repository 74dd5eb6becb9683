"""The memory guard, row by row of seed 000: the lookup, its thresholds, its counters, its scope, what is never served."""

from datetime import timedelta
from typing import Any

import numpy as np
from django.contrib.auth.models import Group
from django.db import connection
from django.test import TestCase, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Audience, Deployment
from faqs.learning import report_wrong
from faqs.memory import audience_key, edit_entry, may_answer, normalised_question, validate_entries
from faqs.models import CachedResponse, EntryStatus, StatusReason
from faqs.recall import Lookup, Recall, examine_memory, memory_mark, memory_threshold, recall_cached, stored_mark
from knowledge.embeddings.base import Recipe
from knowledge.models import Chunk
from knowledge.thresholds import threshold_profile
from tests.factories import fresh, make_agent, make_config, make_deployment, make_entry, make_library, recall, source_of
from tests.readers import LibraryCase

QUESTION = "Quels sont les horaires de la piscine ?"
PLANE = Recipe(model="plane", dimensions=2)


def at(cosine: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A unit vector whose cosine with (1, 0) is this."""
    return np.array([cosine, np.sqrt(1 - cosine**2)], dtype=np.float32)


def in_plane(deployment: Deployment, cosine: float, **overrides: Any) -> CachedResponse:
    """An entry at this cosine of (1, 0)."""
    return make_entry(deployment, vector=at(cosine), recipe=PLANE, **overrides)


def ask_plane(deployment: Deployment, question: str = QUESTION, **overrides: Any) -> Recall:
    mark = stored_mark(deployment.pk)
    assert mark is not None
    lookup = Lookup(**{"question": question, "threshold": 0.85, "max_age_days": 180, **overrides})
    return recall_cached(mark, lookup, vector=at(1.0), recipe=PLANE)


def refusals(found: Recall) -> list[str]:
    return [verdict.refusal for verdict in found.refused]


class SeedSection2FlowTests(TestCase):
    """2. Flux décisionnel."""

    def test_a_deployment_without_entries_is_known_without_a_query(self) -> None:
        loaded = Deployment.objects.select_related("memory").get(pk=make_deployment().pk)
        with self.assertNumQueries(0):
            assert memory_mark(loaded) is None

    def test_hit_is_one_statement_on_an_array_that_is_up_to_date(self) -> None:
        deployment = make_deployment()
        make_entry(deployment)
        with CaptureQueriesContext(connection) as captured:
            assert recall(deployment, QUESTION).answer is not None
        claims = [q["sql"] for q in captured if q["sql"].startswith("UPDATE responses")]
        assert len(claims) == 1


class SeedSection3StructureTests(TestCase):
    """3. Structure des données."""

    def test_table_responses_has_the_columns_and_indexes_of_the_seed(self) -> None:
        with connection.cursor() as cursor:
            described = connection.introspection.get_table_description(cursor, "responses")
            found = connection.introspection.get_constraints(cursor, "responses")
        wanted = "id key_hash question answer metadata embedding created_at usage_count"
        assert set(wanted.split()) <= {column.name for column in described}
        assert found["idx_responses_key_hash"]["columns"] == ["key_hash"]
        assert found["idx_responses_created_at"]["columns"] == ["created_at"]

    def test_normalised_question_keeps_accents_and_words(self) -> None:
        assert normalised_question("OÙ  est-ce ?") == "où est-ce"
        assert normalised_question("ou est-ce") != normalised_question("où est-ce")

    def test_embedding_is_float32_bytes(self) -> None:
        entry = in_plane(make_deployment(), 0.6)
        assert np.frombuffer(entry.embedding, dtype=np.float32).tolist() == at(0.6).tolist()

    def test_same_question_in_the_same_scope_is_kept_once(self) -> None:
        deployment = make_deployment()
        make_entry(deployment)
        make_entry(deployment, question=f"{QUESTION.upper()}  ", answer="Fermée.")
        assert list(CachedResponse.objects.values_list("answer", flat=True)) == ["Fermée."]


class SeedSection4SimilarityTests(TestCase):
    """4. Logique de similarité."""

    def setUp(self) -> None:
        self.deployment = make_deployment()

    def test_threshold_is_inclusive(self) -> None:
        in_plane(self.deployment, 0.85)
        assert ask_plane(self.deployment, threshold=0.85).answer is not None
        assert ask_plane(self.deployment, threshold=0.850001).answer is None

    def test_equal_similarity_gives_the_most_recent(self) -> None:
        now = timezone.now()
        for days, answer in ((3, "ancienne"), (1, "récente"), (2, "moyenne")):
            in_plane(self.deployment, 0.9, phase=answer, answer=answer, created_at=now - timedelta(days=days))
        found = ask_plane(self.deployment)
        assert found.answer is not None
        assert found.answer.text == "récente"

    def test_nearer_entry_wins_over_a_more_recent_one(self) -> None:
        now = timezone.now()
        in_plane(self.deployment, 0.97, phase="a", answer="proche", created_at=now - timedelta(9))
        in_plane(self.deployment, 0.90, phase="b", answer="récente")
        found = ask_plane(self.deployment)
        assert found.answer is not None
        assert found.answer.text == "proche"

    def test_hit_adds_one_use_and_two_from_095(self) -> None:
        for cosine, uses in ((0.9499, 1), (0.95, 2), (1.0, 2)):
            deployment = make_deployment()
            entry = in_plane(deployment, cosine)
            assert ask_plane(deployment).answer is not None
            assert fresh(entry).usage_count == uses, cosine

    def test_default_threshold_is_that_of_the_embedding_model(self) -> None:
        config = make_config(self.deployment)
        assert memory_threshold(config, model="text-embedding-3-small") == 0.85
        profile = threshold_profile("universal-sentence-encoder-multilingual-3")
        assert profile is not None
        assert memory_threshold(config, model=profile.model) == profile.memory
        assert memory_threshold(config, model="unknown") is None


class SecondKeyTests(TestCase):
    def test_next_candidate_answers_when_the_nearest_disagrees(self) -> None:
        deployment = make_deployment()
        make_entry(deployment, "Combien coûte la carte en 2023 ?", "12 euros.")
        make_entry(deployment, "Combien coûte la carte de lecteur en 2024 ?", "14 euros.")
        make_entry(deployment, "Combien coûte la carte en 2024 ?", "13 euros.")
        found = recall(deployment, "Combien coûte la carte en 2024", threshold=0.3)
        assert found.answer is not None
        assert found.answer.text == "13 euros."


class SeedSection5PolicyTests(TestCase):
    """5. Politique d’apprentissage: révision and expiration (acquisition and filters are in test_learning)."""

    def setUp(self) -> None:
        self.deployment = make_deployment()

    def aged(self, days: float, **overrides: Any) -> CachedResponse:
        return make_entry(self.deployment, created_at=timezone.now() - timedelta(days=days), **overrides)

    def test_expiration_max_age_days_is_inclusive(self) -> None:
        self.aged(179.999)
        assert recall(self.deployment, QUESTION).answer is not None
        self.aged(180.001)
        assert refusals(recall(self.deployment, QUESTION)) == ["expired"]
        assert CachedResponse.objects.count() == 1, "not served even before it is deleted"

    def test_auto_prune_deletes_what_is_too_old_at_the_lookup(self) -> None:
        self.aged(182)
        self.aged(1, question="Où est la mairie ?")
        assert recall(self.deployment, QUESTION, prune_days=180).answer is None
        assert CachedResponse.objects.get().question == "Où est la mairie ?"

    def test_old_answer_that_staff_confirm_is_served_again(self) -> None:
        self.aged(181)
        validate_entries(CachedResponse.objects.all())
        assert recall(self.deployment, QUESTION).answer is not None

    def test_answer_past_its_review_date_goes_to_review(self) -> None:
        entry = make_entry(self.deployment)
        today = timezone.localdate()
        for on, served in ((today, True), (today - timedelta(days=1), False)):
            entry.refresh_from_db()
            entry.review_on = on
            edit_entry(entry)
            assert (recall(self.deployment, QUESTION).answer is not None) is served
        assert (fresh(entry).status, entry.status_reason) == (EntryStatus.TO_REVIEW, "review_due")


class SeedSection6ConfigurationTests(TestCase):
    """6. Configuration."""

    @override_settings(MEMORY_SIMILARITY_THRESHOLD=0.81)
    def test_memory_similarity_threshold_of_the_environment_stands_between_staff_and_profile(self) -> None:
        config = make_config()
        assert memory_threshold(config, model="text-embedding-3-small") == 0.81
        assert memory_threshold(config, model="unknown") == 0.81
        by_staff = make_config(make_deployment(make_agent(memory_threshold=0.9)))
        assert memory_threshold(by_staff, model="text-embedding-3-small") == 0.9


class ScopeTests(TestCase):
    def test_another_deployment_of_the_same_agent_has_its_own_memory(self) -> None:
        agent = make_agent()
        here = make_deployment(agent)
        there = make_deployment(agent, slug="there")
        make_entry(here)
        make_entry(there, "Où est la mairie ?")
        assert recall(here, QUESTION).answer is not None
        assert recall(there, QUESTION).answer is None

    def test_answer_of_members_is_not_given_to_the_public(self) -> None:
        deployment = make_deployment(audience=Audience.SIGNED_IN)
        make_entry(deployment)
        assert recall(deployment, QUESTION).answer is not None
        Deployment.objects.update(audience=Audience.PUBLIC)
        assert refusals(recall(deployment, QUESTION)) == ["audience"]

    def test_answer_of_one_group_is_not_given_to_another(self) -> None:
        staff, board = (Group.objects.create(name=name) for name in ("staff", "board"))
        deployment = make_deployment(audience=Audience.GROUPS)
        deployment.groups.set([board])
        make_entry(deployment)
        assert recall(deployment, QUESTION).answer is not None
        deployment.groups.set([board, staff])
        assert refusals(recall(deployment, QUESTION)) == ["audience"]

    def test_answer_is_given_to_an_audience_wholly_inside_its_own(self) -> None:
        public, members = audience_key("public"), audience_key("signed_in")
        one, both = audience_key("groups", [1]), audience_key("groups", [2, 1])
        none = audience_key("groups", [])
        assert may_answer(public, members)
        assert may_answer(members, one)
        assert may_answer(both, one)
        assert not may_answer(one, both)
        assert not may_answer(one, members)
        assert not may_answer(members, public)
        assert not may_answer(none, one)

    def test_vectors_of_another_embedding_model_are_not_compared(self) -> None:
        deployment = make_deployment()
        entry = make_entry(deployment)
        in_plane(deployment, 1.0, question="Où est la mairie ?")
        assert recall(deployment, "Où est la mairie ?").answer is None
        found = recall(deployment, QUESTION)
        assert found.answer is not None
        assert found.answer.entry_id == entry.pk


class AgentTests(TestCase):
    def test_deployment_given_to_another_agent_stops_the_answers_of_the_first(self) -> None:
        deployment = make_library()
        chunk = Chunk.objects.order_by("pk")[0]
        entry = make_entry(deployment, sources=[source_of(chunk)])
        with self.captureOnCommitCallbacks(execute=True):
            deployment.save()
        assert recall(deployment, QUESTION).answer is not None
        deployment.agent = make_agent()
        with self.captureOnCommitCallbacks(execute=True):
            deployment.save()
        assert recall(deployment, QUESTION).answer is None
        assert fresh(entry).status_reason == StatusReason.AGENT_CHANGED


class StalenessTests(LibraryCase):
    def setUp(self) -> None:
        self.chunk = Chunk.objects.order_by("pk")[0]
        self.entry = make_entry(self.deployment, sources=[source_of(self.chunk)])

    def state(self) -> tuple[str, str]:
        self.entry.refresh_from_db()
        return self.entry.status, self.entry.status_reason

    def test_deleting_a_chunk_stops_every_answer_from_it_at_once(self) -> None:
        sources = [source_of(chunk) for chunk in Chunk.objects.order_by("pk")[:2]]
        make_entry(self.deployment, "Où est la mairie ?", "Réponse.", sources=sources)
        # Not through the ORM's signals: serving must not depend on them.
        Chunk.objects.filter(pk=self.chunk.pk)._raw_delete(using="default")
        for question in ("Où est la mairie ?", QUESTION):
            assert recall(self.deployment, question).answer is None

    def test_passage_that_is_switched_off_or_deleted_moves_its_answers_to_review_at_once(self) -> None:
        off, deleted, last = Chunk.objects.order_by("pk")[:3]
        off.enabled = False
        for chunk, change in ((off, off.save), (deleted, deleted.delete), (last, last.document.delete)):
            self.entry = make_entry(self.deployment, sources=[source_of(chunk)])
            with self.captureOnCommitCallbacks(execute=True):
                change()
            assert self.state() == (EntryStatus.TO_REVIEW, StatusReason.CHUNK_CHANGED)

    def test_passage_that_is_changed_or_switched_off_stops_its_answers_until_staff_confirm_them(self) -> None:
        for change in ({"content": "Autre chose."}, {"enabled": False}):
            # Without a signal, as a script does it: serving must not depend on one.
            Chunk.objects.filter(pk=self.chunk.pk).update(**change)
            assert refusals(recall(self.deployment, QUESTION)) == ["chunk_changed"]
            assert self.state() == (EntryStatus.TO_REVIEW, StatusReason.CHUNK_CHANGED)
            validate_entries(CachedResponse.objects.all())
            assert recall(self.deployment, QUESTION).answer is not None

    def test_changed_answer_of_a_passage_stops_the_answers_made_from_it(self) -> None:
        chunk = Chunk.objects.exclude(knowledge_units=[]).order_by("pk")[0]
        source = source_of(chunk, type="qa_pair", text=chunk.knowledge_units[0]["answer"])
        make_entry(self.deployment, "Où est la mairie ?", "Ici.", sources=[source])
        assert recall(self.deployment, "Où est la mairie ?").answer is not None
        chunk.knowledge_units[0]["answer"] = "Autre chose."
        with self.captureOnCommitCallbacks(execute=True):
            chunk.save()
        assert recall(self.deployment, "Où est la mairie ?").answer is None

    def test_questions_added_to_a_passage_leave_the_answers_from_its_text_alone(self) -> None:
        self.chunk.knowledge_units = [*self.chunk.knowledge_units, {"question": "?", "answer": "!"}]
        with self.captureOnCommitCallbacks(execute=True):
            self.chunk.save()
        assert recall(self.deployment, QUESTION).answer is not None


class ReportTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.entry = make_entry(self.deployment)

    def test_reported_pair_is_never_served_again_even_when_the_entry_is_validated(self) -> None:
        other = "Quels sont les horaires de cette piscine ?"
        report_wrong(entry_id=self.entry.pk, question=other)
        validate_entries(CachedResponse.objects.all())
        assert recall(self.deployment, QUESTION).answer is not None
        assert "reported" in refusals(recall(self.deployment, other, threshold=0.3))

    def test_same_question_reported_is_served_again_once_its_answer_is_corrected(self) -> None:
        report_wrong(entry_id=self.entry.pk, question=QUESTION)
        validate_entries(CachedResponse.objects.all())
        assert refusals(recall(self.deployment, QUESTION)) == ["reported"]
        self.entry.refresh_from_db()
        self.entry.answer = "De 10 heures à 19 heures."
        edit_entry(self.entry)
        assert recall(self.deployment, QUESTION).answer is not None

    def test_report_of_an_entry_that_is_gone_says_so(self) -> None:
        assert not report_wrong(entry_id=self.entry.pk + 1, question=QUESTION)


class ExaminationTests(TestCase):
    def test_examination_gives_each_verdict_and_writes_nothing(self) -> None:
        deployment = make_deployment()
        in_plane(deployment, 1.0)
        in_plane(deployment, 0.9, question="Quels sont les horaires de la mairie ?")
        in_plane(deployment, 0.5, question="Où est la gare ?")
        mark = stored_mark(deployment.pk)
        assert mark is not None
        lookup = Lookup(question=QUESTION, threshold=0.85, max_age_days=180, writes=False)
        verdicts = examine_memory(mark, lookup, vector=at(1.0), recipe=PLANE, limit=5)
        assert [v.refusal for v in verdicts] == ["", "second_key", "below_threshold"]
        assert set(CachedResponse.objects.values_list("usage_count", flat=True)) == {0}
