"""The newest human word wins: every way to write a validated answer × every place that may hold an older one.

Each cell is asked twice: as soon as the row is committed, before anything has followed it (a worker that is dead, a
process that was killed), and once it has taken effect.
"""

import tempfile
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.test import TestCase
from django.utils.timezone import now

from agents.admin_base import admin_url
from agents.models import Deployment
from chat.models import AnswerSource, Turn
from chat.turn.values import TurnResult
from faqs.answer_points import SyncReport, sync_learned
from faqs.answers import save_learned, set_status
from faqs.learning import remember_answer
from faqs.models import CachedResponse, EntryStatus, IndexState, LearnedResponse, LearnedStatus, StatusReason
from faqs.precedence import vouch_for_entries
from knowledge.errors import VectorStoreUnavailableError
from knowledge.models import Synonym
from tests.admin_pages import run_action, superuser_client
from tests.factories import (
    add_document,
    fresh,
    make_agent,
    make_conversation,
    make_deployment,
    make_entry,
    make_exchange,
    make_learned,
    make_lesson,
    make_synonym,
    store_answer,
)
from tests.integration.chat.turn.test_path import ask
from tests.matrix import IS_REPEATED

QUESTION = "Quels sont les horaires de la piscine ?"
REWORDED = "Pouvez-vous me dire quels sont les horaires de la piscine ?"
OTHER_FORM = "Quels sont les horaires du centre aquatique de la Plage ?"
SHORT_FORM = "Quels sont les horaires du CAP ?"
OLD, NEW = "De 9 heures à 20 heures.", "De 7 heures à 22 heures."

Write = Callable[[Deployment], None]
FORM = {
    "kind": "faq",
    "question": QUESTION,
    "answer": NEW,
    "category": "FAQ",
    "status": LearnedStatus.VALID,
    "phrasing_lines": "",
    "save_anyway": "on",
}


def typed(deployment: Deployment) -> None:
    """In the admin, over the warning that another answer is there."""
    superuser_client().post(admin_url(LearnedResponse, "add"), {**FORM, "agent": deployment.agent_id})


def edited(deployment: Deployment) -> None:
    """An answer that was there, and out of service, is put right."""
    row = store_answer(status=LearnedStatus.TO_REVIEW, agent=deployment.agent, question=QUESTION, answer="Brouillon.")
    superuser_client().post(admin_url(LearnedResponse, "change", row.pk), FORM)


def corrected(deployment: Deployment) -> None:
    """« Corriger » on an answer that was given."""
    turn = make_exchange(make_conversation(deployment), QUESTION, OLD)
    superuser_client().post(admin_url(Turn, "correct", turn.pk), {"question": QUESTION, "answer": NEW})


def commanded(deployment: Deployment) -> None:
    call_command("add_faq", deployment.agent.slug, question=QUESTION, answer=NEW, verbosity=0)


def imported(deployment: Deployment) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faq.csv"
        path.write_text(f'question,answer\n"{QUESTION}","{NEW}"\n')
        call_command("import_faqs", deployment.agent.slug, str(path), "--yes", verbosity=0)


def promoted(deployment: Deployment) -> None:
    """From the memory of another deployment of the agent, where another audience was told otherwise."""
    other = make_deployment(deployment.agent, slug=f"autre-{uuid.uuid4().hex[:6]}")
    entry = make_entry(other, QUESTION, NEW)
    run_action(superuser_client(), "promote", entry, confirmed="1")


def put_back(deployment: Deployment) -> None:
    """The action « Valider » on an answer that was out of service."""
    row = make_learned(deployment.agent, question=QUESTION, answer=NEW, status=LearnedStatus.OBSOLETE)
    set_status([row], LearnedStatus.VALID)


WAYS: dict[str, Write] = {
    each.__name__: each for each in (typed, edited, corrected, commanded, imported, promoted, put_back)
}
#: A promotion compares first, and is refused where a person has answered otherwise.
REFUSED = {("promoted", place) for place in ("in_another_answer", "in_another_answer_reworded")}


def in_memory(deployment: Deployment) -> None:
    make_entry(deployment, QUESTION, OLD)


def in_memory_reworded(deployment: Deployment) -> None:
    make_entry(deployment, REWORDED, OLD)


def in_memory_vouched_for(deployment: Deployment) -> None:
    entry = make_entry(deployment, QUESTION, OLD)
    vouch_for_entries(CachedResponse.objects.filter(pk=entry.pk))


def in_another_answer(deployment: Deployment) -> None:
    make_learned(deployment.agent, question=QUESTION, answer=OLD)


def in_another_answer_reworded(deployment: Deployment) -> None:
    make_learned(deployment.agent, question=REWORDED, answer=OLD)


def in_a_document(deployment: Deployment) -> None:
    add_document(deployment.agent, name="piscine.md", text=f"## {QUESTION}\n\n{OLD}\n")


IN_MEMORY = (in_memory, in_memory_reworded, in_memory_vouched_for)
IN_ANSWERS = (in_another_answer, in_another_answer_reworded, in_a_document)
PLACES: dict[str, Write] = {each.__name__: each for each in (*IN_MEMORY, *IN_ANSWERS)}


def _hold_answer(deployment: Deployment, question: str, answer: str) -> None:
    make_learned(deployment.agent, question=question, answer=answer)


#: Where a door writes the points itself, after the commit.
SETTLES = ("answers", "management.commands.add_faq", "management.commands.import_faqs")


class NewestWordTests(TestCase):
    def make_deployment(self) -> Deployment:
        agent = make_agent()
        add_document(agent)
        return make_deployment(agent, config_overlay={"memory_threshold": 0.7})

    def answer(self, deployment: Deployment, question: str = QUESTION) -> TurnResult:
        result, _listener = async_to_sync(ask)(deployment, question)
        return result

    def cells(self) -> Any:
        """Every way at every place; where the suite is repeated, every way and every place."""
        for number, (way, write) in enumerate(WAYS.items()):
            places = list(PLACES.items())
            for place, hold in [places[number % len(places)]] if IS_REPEATED else places:
                if (way, place) not in REFUSED:
                    yield way, write, place, hold

    def test_next_question_gets_the_new_answer_once_it_has_taken_effect(self) -> None:
        for way, write, place, hold in self.cells():
            with self.subTest(way=way, place=place):
                deployment = make_deployment(config_overlay={"memory_threshold": 0.7})
                hold(deployment)
                assert OLD in self.answer(deployment).answer.text
                with self.captureOnCommitCallbacks(execute=True):
                    write(deployment)
                assert OLD not in self.answer(deployment, REWORDED).answer.text
                given = self.answer(deployment).answer.text
                assert (NEW in given, OLD in given) == (True, False)

    def test_next_question_gets_it_before_anything_has_followed_the_row(self) -> None:
        for way, write, place, hold in self.cells():
            with self.subTest(way=way, place=place):
                deployment = self.make_deployment()
                hold(deployment)
                # Killed after the commit of the row: neither the points nor what they withdraw.
                with ExitStack() as killed:
                    for module in SETTLES:
                        name = f"faqs.{module}.sync_learned"
                        killed.enter_context(mock.patch(name, return_value=SyncReport()))
                    write(deployment)
                unsettled = LearnedResponse.objects.unsettled().filter(agent=deployment.agent)
                assert unsettled.exists()
                given = self.answer(deployment).answer
                assert (given.source, NEW in given.text) == (AnswerSource.DIRECT_QA, True)
                assert OLD not in self.answer(deployment, REWORDED).answer.text

    def test_every_deployment_of_the_agent_forgets_what_it_learned(self) -> None:
        deployment = self.make_deployment()
        second = make_deployment(deployment.agent, slug="second")
        third = make_deployment(make_agent(), slug="troisieme")
        third.specialists.create(agent=deployment.agent)
        entries = [make_entry(each, QUESTION, OLD) for each in (deployment, second, third)]
        row = make_learned(deployment.agent, question=QUESTION, answer=NEW)
        for entry in entries:
            assert (fresh(entry).status, entry.status_reason) == (EntryStatus.OBSOLETE, "superseded")
            assert entry.superseded_by == row
        assert set(row.superseded_entries.all()) == set(entries)

    def test_older_answer_to_the_other_form_of_a_synonym_is_withheld_at_once_and_then_withdrawn(self) -> None:
        for place, hold in (("memory", make_entry), ("answer", _hold_answer)):
            with self.subTest(place=place):
                deployment = self.make_deployment()
                make_synonym(deployment.agent, "CAP", "centre aquatique de la Plage")
                hold(deployment, OTHER_FORM, OLD)
                assert OLD in self.answer(deployment, OTHER_FORM).answer.text
                draft = store_answer(
                    status=LearnedStatus.TO_REVIEW, agent=deployment.agent, question=SHORT_FORM, answer=NEW
                )
                # Before anything has followed the row.
                LearnedResponse.objects.filter(pk=draft.pk).mark_pending(status=LearnedStatus.VALID, validated_at=now())
                assert OLD not in self.answer(deployment, OTHER_FORM).answer.text
                with self.captureOnCommitCallbacks(execute=True):
                    sync_learned([draft.pk])
                for question in (OTHER_FORM, SHORT_FORM):
                    assert OLD not in self.answer(deployment, question).answer.text
                assert NEW in self.answer(deployment, SHORT_FORM).answer.text

    def test_synonym_that_comes_later_withdraws_what_is_older_in_the_other_form(self) -> None:
        deployment = self.make_deployment()
        entry = make_entry(deployment, OTHER_FORM, OLD)
        row = make_learned(deployment.agent, question=SHORT_FORM, answer=NEW)
        assert fresh(entry).status == EntryStatus.VALID
        pair = {"short": "CAP", "long": "centre aquatique de la Plage"}
        with self.captureOnCommitCallbacks(execute=True):
            superuser_client().post(admin_url(Synonym, "add"), {"agent": deployment.agent_id, **pair})
        assert OLD not in self.answer(deployment, OTHER_FORM).answer.text
        sync_learned([row.pk])
        assert (fresh(entry).status, entry.superseded_by) == (EntryStatus.OBSOLETE, row)

    def test_entry_that_asks_something_else_stays(self) -> None:
        deployment = self.make_deployment()
        entry = make_entry(deployment, "Quels sont les horaires de la piscine le dimanche ?", OLD)
        make_learned(deployment.agent, question=QUESTION, answer=NEW)
        assert fresh(entry).status == EntryStatus.VALID

    def test_turn_that_was_running_teaches_nothing_older(self) -> None:
        deployment = self.make_deployment()
        make_synonym(deployment.agent, "CAP", "centre aquatique de la Plage")
        for asked, answered in ((QUESTION, QUESTION), (OTHER_FORM, SHORT_FORM)):
            lesson = make_lesson(deployment, asked, f"{OLD} [1]", agent_ids=[deployment.agent_id])
            make_learned(deployment.agent, question=answered, answer=NEW)
            kept = remember_answer(lesson, mode="valid", max_age_days=180)
            assert (kept.outcome, kept.reason) == ("refused", "answered")
        assert not CachedResponse.objects.exists()

    def test_withdrawn_answer_does_not_bring_the_entry_back(self) -> None:
        deployment = self.make_deployment()
        entry = make_entry(deployment, QUESTION, OLD)
        row = make_learned(deployment.agent, question=QUESTION, answer=NEW)
        with self.captureOnCommitCallbacks(execute=True):
            set_status([row], LearnedStatus.OBSOLETE)
        assert OLD not in self.answer(deployment).answer.text
        lesson = make_lesson(deployment, QUESTION, f"{OLD} [1]")
        assert remember_answer(lesson, mode="valid", max_age_days=180).reason == "set_aside"
        assert fresh(entry).status == EntryStatus.OBSOLETE


class BothValidatedTests(TestCase):
    """Where staff validated both, the newer wins and the older is shown for review."""

    def setUp(self) -> None:
        self.deployment = make_deployment(config_overlay={"memory_threshold": 0.7})
        self.client = superuser_client()

    def act(self, action: str, entry: CachedResponse) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            run_action(self.client, action, entry)

    def test_entry_validated_before_goes_to_review(self) -> None:
        entry = make_entry(self.deployment, QUESTION, OLD)
        self.act("validate_entries", entry)
        row = make_learned(self.deployment.agent, question=QUESTION, answer=NEW)
        assert (fresh(entry).status, entry.status_reason) == (EntryStatus.TO_REVIEW, StatusReason.SUPERSEDED)
        assert entry.superseded_by == row

    def test_entry_validated_since_takes_the_place_of_the_answer(self) -> None:
        row = make_learned(self.deployment.agent, question=REWORDED, answer=OLD)
        entry = make_entry(self.deployment, QUESTION, NEW)
        self.act("validate_entries", entry)
        row.refresh_from_db()
        assert fresh(entry).status == EntryStatus.VALID
        assert (row.status, row.superseded_by_entry) == (LearnedStatus.TO_REVIEW, entry)
        result, _ = async_to_sync(ask)(self.deployment, REWORDED)
        assert NEW in result.answer.text

    def test_older_answer_goes_to_review_with_a_link(self) -> None:
        older = make_learned(self.deployment.agent, question=REWORDED, answer=OLD)
        newer = make_learned(self.deployment.agent, question=QUESTION, answer=NEW)
        assert (fresh(older).status, older.superseded_by) == (LearnedStatus.TO_REVIEW, newer)
        assert older.index_state == IndexState.PENDING
        make_learned(self.deployment.agent, question=REWORDED, answer=NEW)
        assert fresh(newer).status == LearnedStatus.VALID, "the same answer, in other words of the question"

    def test_entry_made_from_the_answer_leaves_it_in_service(self) -> None:
        row = make_learned(self.deployment.agent, question=QUESTION, answer=NEW)
        source = {"n": 1, "type": "qa_pair", "learned_id": row.pk, "chunk_id": None, "text": NEW}
        entry = make_entry(self.deployment, QUESTION, "Dès 7 heures [1].", sources=[source])
        self.act("validate_entries", entry)
        assert fresh(row).status == LearnedStatus.VALID
        result, _ = async_to_sync(ask)(self.deployment, QUESTION)
        assert result.answer.source == AnswerSource.MEMORY_GUARD

    def test_answer_that_is_settled_after_a_newer_one_goes_to_review(self) -> None:
        older = LearnedResponse(agent=self.deployment.agent, question=REWORDED, answer=OLD)
        save_learned(older, in_worker=False)
        newer = make_learned(self.deployment.agent, question=QUESTION, answer=NEW)
        sync_learned([older.pk])
        assert (fresh(older).status, older.superseded_by) == (LearnedStatus.TO_REVIEW, newer)

    def test_entry_vouched_for_in_a_phase_says_what_holds_there(self) -> None:
        entry = make_entry(self.deployment, QUESTION, OLD, phase="travaux", is_scoped=True, validated_at=now())
        make_learned(self.deployment.agent, question=QUESTION, answer=NEW)
        assert fresh(entry).status == EntryStatus.VALID

    def test_store_that_is_away_keeps_an_entry_from_being_validated_by_halves(self) -> None:
        row = make_learned(self.deployment.agent, question=QUESTION, answer=OLD)
        entry = make_entry(self.deployment, QUESTION, NEW, status=EntryStatus.TO_REVIEW)
        away = VectorStoreUnavailableError("away")
        with mock.patch("faqs.precedence.near_answers", side_effect=away):
            self.act("validate_entries", entry)
        entry.refresh_from_db()
        row.refresh_from_db()
        assert (entry.status, row.status) == (EntryStatus.TO_REVIEW, LearnedStatus.VALID)

    def test_draft_of_an_answer_given_in_review_is_not_served(self) -> None:
        row = make_learned(self.deployment.agent, question=QUESTION, answer=OLD)
        LearnedResponse.objects.update(status=LearnedStatus.TO_REVIEW, is_given_in_review=True)
        row.refresh_from_db()
        row.answer = NEW
        save_learned(row)
        result, _ = async_to_sync(ask)(self.deployment, QUESTION)
        assert NEW not in result.answer.text

    def test_more_entries_than_one_lookup_takes_are_withdrawn(self) -> None:
        for number in range(30):
            make_entry(self.deployment, QUESTION, OLD, project=f"projet {number}")
        make_learned(self.deployment.agent, question=QUESTION, answer=NEW)
        assert not CachedResponse.objects.filter(status=EntryStatus.VALID).exists()


class SeveralAgentsTests(TestCase):
    """The newest word of any agent of a deployment."""

    def setUp(self) -> None:
        self.default, self.specialist = make_agent(), make_agent()
        for agent in (self.default, self.specialist):
            add_document(agent)
        self.deployment = make_deployment(self.default, config_overlay={"memory_threshold": 0.7})

    def answer(self) -> str:
        result, _ = async_to_sync(ask)(self.deployment, QUESTION)
        return result.answer.text

    def test_newer_answer_of_another_agent_is_given(self) -> None:
        self.deployment.specialists.create(agent=self.specialist)
        make_learned(self.default, question=QUESTION, answer=OLD)
        make_learned(self.specialist, question=QUESTION, answer=NEW)
        assert NEW in self.answer()

    def test_agent_that_joins_brings_its_validated_answers(self) -> None:
        entry = make_entry(self.deployment, QUESTION, OLD)
        make_learned(self.specialist, question=QUESTION, answer=NEW)
        assert OLD in self.answer()
        with self.captureOnCommitCallbacks(execute=True):
            self.deployment.specialists.create(agent=self.specialist)
        assert NEW in self.answer()
        sync_learned()
        assert fresh(entry).status == EntryStatus.OBSOLETE

    def test_correction_is_kept_for_the_agent_that_answered(self) -> None:
        self.deployment.specialists.create(agent=self.specialist)
        turn = make_exchange(make_conversation(self.deployment), QUESTION, OLD)
        Turn.objects.filter(pk=turn.pk).update(answered_by=self.specialist.name)
        data = {"question": QUESTION, "answer": NEW}
        superuser_client().post(admin_url(Turn, "correct", turn.pk), data)
        assert LearnedResponse.objects.get().agent == self.specialist
