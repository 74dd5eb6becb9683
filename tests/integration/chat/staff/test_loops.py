"""Loops close: whatever way a validated answer is written, the open work that it answers is ended by itself, and by it
only.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from asgiref.sync import async_to_sync
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.admin_base import admin_url
from agents.models import Agent, Deployment
from chat.models import AnswerSource, Conversation, Feedback, Turn, Verdict
from chat.staff.quality import tasks
from chat.staff.quality.loops import ClosedLoops, close_loops
from chat.staff.quality.open_work import Work, end, open_work
from chat.staff.quality.replay import given_answers
from chat.thread.verdicts import give_feedback, withdraw_feedback
from config.celery import _reap
from faqs.answers.indexing import expire_reviews, schedule_indexing
from faqs.answers.indexing import sync_learned as index_now
from faqs.answers.writing import add_manual_faq, save_learned, set_status
from faqs.choices import accept_choice
from faqs.files.importing import apply_import, plan_import
from faqs.loops import answered_text
from faqs.models import (
    ChoiceStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    OptionChoice,
    QuestionGroup,
    UnansweredQuestion,
    UnansweredReason,
)
from faqs.promotion import promote_entry
from faqs.tasks import sync_learned
from faqs.unanswered import approve_draft, dismiss, draft_from_group, group_questions, mark_answered
from knowledge.exceptions import VectorStoreUnavailableError
from knowledge.vectors.base import vector_store
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, superuser_client
from tests.factories import (
    make_agent,
    make_conversation,
    make_deployment,
    make_entry,
    make_exchange,
    make_learned,
    make_library,
)
from tests.integration.chat.turn.test_choices import make_choice
from tests.integration.chat.turn.test_path import ask, model, scripted
from tests.integration.faqs.test_unanswered import keep, make_group

ASKED = "Peut-on louer un xylophone quelconque ?"
OTHER = "Peut-on louer un xylophone quelconque en 2031 ?"
#: Asks the same in other words of no weight: the second key agrees.
SAME = "Est-ce que l'on peut louer un xylophone quelconque ?"
ANSWER = "Oui, à l'accueil."
LOOPS = "chat.staff.quality.loops"
LIST = admin_url(Feedback, "changelist")


def make_verdict(
    deployment: Deployment, question: str = ASKED, *, source: str = AnswerSource.LLM, **overrides: Any
) -> Feedback:
    """A thumb down on an answer; the group of its question goes, where a test is not about it."""
    conversation = make_conversation(deployment, **overrides)
    turn = make_exchange(conversation, question, "Je ne sais pas.", answer_source=source)
    return give_feedback(turn, Verdict.DOWN)


def import_file(agent: Agent, data: bytes) -> None:
    apply_import(plan_import(agent, data))


class LoopsCase(TestCase):
    deployment: Deployment

    def setUp(self) -> None:
        self.deployment = make_library()
        self.agent = self.deployment.agent

    def take_effect(self, write: Callable[[], Any] = lambda: None) -> Any:
        """Write, and do what a worker does: the points, then what hangs on them."""
        with self.captureOnCommitCallbacks(execute=True):
            written = write()
        due = LearnedResponse.objects.unsettled().values_list("pk", flat=True)
        with self.captureOnCommitCallbacks(execute=True):
            sync_learned(list(due))
        return written

    def write(self, question: str = ASKED, **options: Any) -> LearnedResponse:
        def typed() -> LearnedResponse:
            return add_manual_faq(agent=self.agent, question=question, answer=ANSWER, **options)

        row: LearnedResponse = self.take_effect(typed)
        return row


class WaysTests(LoopsCase):
    """Each way to write a validated answer ends each kind of open work."""

    def ends_all(self, write: Callable[[], Any]) -> LearnedResponse:
        group = make_group(self.agent, ASKED)
        verdict = make_verdict(self.deployment)
        choice = make_choice(self.deployment, question=ASKED)
        self.take_effect(write)
        row = LearnedResponse.objects.standing().latest("updated_at")
        for each in (group, verdict, choice):
            each.refresh_from_db()
        assert (group.status, group.response) == (GroupStatus.ANSWERED, row)
        assert group.answered_at is not None
        assert verdict.settled_at is not None
        assert verdict.settled_by == row
        assert (choice.status, choice.answered_by) == (ChoiceStatus.ANSWERED, row)
        assert not LearnedResponse.objects.with_open_loops().exists()
        return row

    def test_typed(self) -> None:
        form = {"agent": self.agent.pk, "kind": "faq", "question": ASKED, "answer": ANSWER}
        form |= {"category": "FAQ", "status": "valid", "phrasing_lines": ""}
        client = superuser_client()
        self.ends_all(lambda: client.post(admin_url(LearnedResponse, "add"), form))

    def test_typed_in_the_terminal_and_indexed_there(self) -> None:
        def typed() -> None:
            row = add_manual_faq(agent=self.agent, question=ASKED, answer=ANSWER, in_worker=False)
            index_now([row.pk])

        self.ends_all(typed)

    def test_corrected_from_a_turn(self) -> None:
        turn = make_exchange(make_conversation(self.deployment), ASKED, "Non.", answer_source=AnswerSource.LLM)
        client, form = superuser_client(), {"question": ASKED, "answer": ANSWER}
        self.ends_all(lambda: client.post(admin_url(Turn, "correct", turn.pk), form))

    def test_promoted(self) -> None:
        entry = make_entry(self.deployment, ASKED, ANSWER)

        self.ends_all(lambda: promote_entry(entry, owner=None))

    def test_imported(self) -> None:
        data = f'question,answer\n"{ASKED}","{ANSWER}"\nOù est la gare ?,Là.\n'.encode()
        group = make_group(self.agent, ASKED)
        self.take_effect(lambda: import_file(self.agent, data))
        group.refresh_from_db()
        assert group.response == LearnedResponse.objects.get(question=ASKED)
        LearnedResponse.objects.all().delete()
        QuestionGroup.objects.all().delete()
        self.ends_all(lambda: import_file(self.agent, data.replace(b"O\xc3\xb9 est la gare ?,L\xc3\xa0.\n", b"")))

    def test_from_a_group(self) -> None:
        group = make_group(self.agent, ASKED)
        draft = draft_from_group(group)
        LearnedResponse.objects.filter(pk=draft.pk).update(answer=ANSWER)
        draft.refresh_from_db()
        group.response = draft
        assert self.ends_all(lambda: approve_draft(group)) == draft

    def test_from_a_choice(self) -> None:
        row = make_learned(self.agent, question="Louez-vous des instruments ?", answer=ANSWER)
        accepted = make_choice(self.deployment, question=ASKED, option=row.question, learned_id=row.pk)
        assert self.ends_all(lambda: accept_choice(accepted)) == row
        accepted.refresh_from_db()
        assert accepted.status == ChoiceStatus.ACCEPTED

    def test_put_back_into_service(self) -> None:
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        self.take_effect(lambda: set_status([row], LearnedStatus.OBSOLETE))
        assert self.ends_all(lambda: set_status([row], LearnedStatus.VALID)) == row

    def test_edited_until_it_answers(self) -> None:
        row = make_learned(self.agent, question="Louez-vous des instruments ?", answer=ANSWER)
        self.ends_all(lambda: save_learned(row, phrasings=[ASKED]))


class EndingTests(LoopsCase):
    def test_work_that_is_not_given_this_answer_stays_open(self) -> None:
        group = make_group(self.agent, OTHER)
        verdict = make_verdict(self.deployment, OTHER)
        choice = make_choice(self.deployment, question=OTHER)
        self.write()
        for each in (group, verdict, choice):
            each.refresh_from_db()
        assert (group.status, verdict.settled_at) == (GroupStatus.OPEN, None)
        assert choice.status == ChoiceStatus.OPEN

    def test_group_is_closed_once_all_of_its_questions_are_answered(self) -> None:
        group = make_group(self.agent, ASKED)
        for text in (SAME, OTHER):
            UnansweredQuestion.objects.filter(pk=keep(self.agent, text).pk).update(group=group)
        first = self.write()
        group.refresh_from_db()
        assert (group.status, group.response) == (GroupStatus.OPEN, None)
        left = group.questions.filter(answered_by=None).values_list("question", flat=True)
        assert list(left) == [OTHER]
        page = superuser_client().get(admin_url(QuestionGroup, "change", group.pk)).content.decode()
        assert "1 question n’a pas encore de réponse validée." in page
        assert page.count("Sans réponse") == 1
        assert admin_url(LearnedResponse, "change", first.pk) in page
        second = self.write(OTHER)
        group.refresh_from_db()
        assert (group.status, group.response) == (GroupStatus.ANSWERED, second)

    def test_questions_are_asked_where_they_were_asked(self) -> None:
        quiet = make_deployment(self.agent, slug="quiet", config_overlay={"direct_answers": False})
        here = make_verdict(self.deployment)
        there = make_verdict(quiet)
        self.write()
        here.refresh_from_db()
        there.refresh_from_db()
        assert here.settled_at is not None
        assert there.settled_at is None

    def test_question_kept_at_the_end_of_a_turn_is_closed(self) -> None:
        async_to_sync(ask)(self.deployment, ASKED)
        self.write()  # its group is made on the way
        assert QuestionGroup.objects.get().status == GroupStatus.ANSWERED

    def test_other_agents_are_left_alone(self) -> None:
        other = make_library()
        group, verdict = make_group(other.agent, ASKED), make_verdict(other)
        self.write()
        group.refresh_from_db()
        verdict.refresh_from_db()
        assert (group.status, verdict.settled_at) == (GroupStatus.OPEN, None)

    def test_what_staff_have_decided_stays(self) -> None:
        group = make_group(self.agent, ASKED)
        dismiss(QuestionGroup.objects.filter(pk=group.pk))
        choice = make_choice(self.deployment, question=ASKED)
        OptionChoice.objects.update(status=ChoiceStatus.DISMISSED)
        self.write()
        group.refresh_from_db()
        choice.refresh_from_db()
        assert (group.status, choice.status) == (GroupStatus.DISMISSED, ChoiceStatus.DISMISSED)

    def test_only_standing_thumbs_down_are_settled(self) -> None:
        taken_back, changed = make_verdict(self.deployment), make_verdict(self.deployment)
        withdraw_feedback(taken_back.turn)
        give_feedback(changed.turn, Verdict.UP)
        self.write()
        assert not Feedback.objects.filter(settled_at__isnull=False).exists()

    def test_temporary_chat_is_not_read(self) -> None:
        verdict = make_verdict(self.deployment)
        Conversation.objects.update(is_temporary=True)
        self.write()
        verdict.refresh_from_db()
        assert verdict.settled_at is None

    def test_answer_that_is_complained_of_settles_nothing_until_it_is_corrected(self) -> None:
        row = self.write()
        verdict = make_verdict(self.deployment, source=AnswerSource.DIRECT_QA)
        group_questions()
        group = QuestionGroup.objects.get()
        assert group.questions.get().reason == UnansweredReason.REPORTED
        self.take_effect(lambda: schedule_indexing([row.pk]))
        verdict.refresh_from_db()
        group.refresh_from_db()
        assert (verdict.settled_at, group.status) == (None, GroupStatus.OPEN)

        row.answer, row.validated_at = "Non, plus maintenant.", timezone.now()
        self.take_effect(lambda: save_learned(row))
        verdict.refresh_from_db()
        group.refresh_from_db()
        assert (verdict.settled_by, group.response) == (row, row)

    def test_two_answers_at_once_end_what_each_is_given(self) -> None:
        groups = [make_group(self.agent, text) for text in ("Où est la gare ?", "Qui est élu maire ?")]
        data = "question,answer\nOù est la gare ?,Là.\nQui est élu maire ?,Personne.\n".encode()
        self.take_effect(lambda: import_file(self.agent, data))
        for group in groups:
            group.refresh_from_db()
            assert group.response is not None
            assert group.response.question == group.question

    def test_question_that_something_else_answers_is_not_ended(self) -> None:
        """An answer of the memory, say, that comes first."""
        self.deployment.config_overlay = {"memory_threshold": 0.7}
        self.deployment.save()
        group = make_group(self.agent, ASKED)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        make_entry(self.deployment, ASKED, "Non.")
        report = close_loops([row.pk])
        group.refresh_from_db()
        assert (group.status, report.replays) == (GroupStatus.OPEN, 1)


class ReopeningTests(LoopsCase):
    def setUp(self) -> None:
        super().setUp()
        self.group = make_group(self.agent, ASKED)
        self.verdict = make_verdict(self.deployment)
        self.choice = make_choice(self.deployment, question=ASKED)
        self.row = self.write()
        assert self.states() == ("answered", True, "answered")

    def states(self) -> tuple[str, bool, str]:
        for each in (self.group, self.verdict, self.choice):
            each.refresh_from_db()
        return self.group.status, self.verdict.settled_at is not None, self.choice.status

    def test_withdrawn(self) -> None:
        self.take_effect(lambda: set_status([self.row], LearnedStatus.OBSOLETE))
        assert self.states() == ("open", False, "open")
        assert (self.group.response, self.verdict.settled_by) == (None, None)

    def test_expired_answer_stays_as_the_draft_to_be_read_again(self) -> None:
        yesterday = timezone.localdate() - timedelta(days=1)
        LearnedResponse.objects.update(review_date=yesterday)
        self.take_effect(expire_reviews)
        assert self.states() == ("drafted", False, "open")
        assert (self.group.response, self.group.answered_at) == (self.row, None)

    def test_edited_so_that_it_asks_something_else(self) -> None:
        self.row.question = OTHER
        self.take_effect(lambda: save_learned(self.row))
        assert self.states() == ("open", False, "open")

    def test_edited_answer_to_the_same_question_still_answers(self) -> None:
        self.row.answer = "Non."
        with mock.patch(f"{LOOPS}.given_answers", wraps=given_answers) as replayed:
            self.take_effect(lambda: save_learned(self.row))
        assert self.states() == ("answered", True, "answered")
        assert all(not call.args[0] for call in replayed.call_args_list)

    def test_deleted(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.row.delete()
        assert self.states() == ("open", False, "open")

    def test_another_answer_that_is_given_takes_its_place(self) -> None:
        twin = make_learned(self.agent, question=ASKED, answer=ANSWER)
        self.take_effect(lambda: set_status([self.row], LearnedStatus.OBSOLETE))
        assert self.states() == ("answered", True, "answered")
        assert (self.verdict.settled_by, self.choice.answered_by) == (twin, twin)
        assert self.group.questions.get(reason=UnansweredReason.REFUSED).answered_by == twin

    def test_newer_answer_to_the_same_takes_over_what_the_older_had_closed(self) -> None:
        newer = make_learned(self.agent, question=ASKED, answer="Non.")
        self.take_effect()
        self.row.refresh_from_db()
        assert self.row.status == LearnedStatus.TO_REVIEW
        assert self.states() == ("answered", True, "answered")
        assert (self.verdict.settled_by, self.choice.answered_by) == (newer, newer)
        assert (answered_text(self.row.pk), self.group.response) == ("", newer)

    def test_what_it_had_not_closed_stays_closed(self) -> None:
        by_hand = make_group(self.agent, "Où est la gare ?")
        mark_answered(by_hand)
        self.take_effect(lambda: set_status([self.row], LearnedStatus.OBSOLETE))
        by_hand.refresh_from_db()
        assert by_hand.status == GroupStatus.ANSWERED

    def test_question_asked_again_in_vain_opens_the_group_and_the_next_answer_closes_it(self) -> None:
        keep(self.agent, ASKED)
        group_questions()
        self.group.refresh_from_db()
        assert (self.group.status, self.group.answered_at) == (GroupStatus.OPEN, None)
        self.take_effect(lambda: schedule_indexing([self.row.pk]))
        assert self.states()[0] == "answered"


class CostTests(LoopsCase):
    def replays_of(self, *rows: LearnedResponse) -> ClosedLoops:
        return close_loops([row.pk for row in rows])

    def test_no_model_is_asked(self) -> None:
        """Also not to verify, where staff want the model behind the second key: a call would fail the scripted one."""
        self.deployment.config_overlay = {"verify_answers": True}
        self.deployment.save()
        make_group(self.agent, f"{ASKED[:-2]} plastifié ?")
        make_verdict(self.deployment, f"{ASKED[:-2]} plastifié ?")
        closed = make_verdict(self.deployment)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        with scripted():
            report = self.replays_of(row)
            model().assert_exhausted()
        closed.refresh_from_db()
        assert closed.settled_by == row
        assert report.replays == 2

    def test_question_that_many_asked_is_asked_once(self) -> None:
        for _ in range(5):
            make_verdict(self.deployment)
        report = self.replays_of(make_learned(self.agent, question=ASKED, answer=ANSWER))
        assert (report.verdicts, report.replays) == (5, 1)

    def test_nothing_is_asked_where_nothing_is_near(self) -> None:
        make_group(self.agent, "Où déclarer un nuisible dans le jardin ?")
        make_verdict(self.deployment, "Qui est élu maire ?")
        report = self.replays_of(make_learned(self.agent, question=ASKED, answer=ANSWER))
        assert report.replays == 0

    @override_settings(LOOP_REPLAYS=2)
    def test_replays_are_bounded_and_the_rest_is_done_the_next_time(self) -> None:
        texts = [f"{'Bonjour, ' * times}{ASKED}" for times in range(3)]
        verdicts = [make_verdict(self.deployment, text) for text in texts]
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        report = self.replays_of(row)
        assert (report.verdicts, report.replays) == (2, 2)
        assert row in LearnedResponse.objects.with_open_loops()
        assert self.replays_of(row).verdicts == 1
        assert row not in LearnedResponse.objects.with_open_loops()
        assert len(verdicts) == Feedback.objects.filter(settled_by=row).count()

    @override_settings(LOOP_REPLAYS=1)
    def test_answer_that_is_given_to_nothing_is_not_tried_for_ever(self) -> None:
        self.deployment.config_overlay = {"shadow_mode": True}
        self.deployment.save()
        for text in (ASKED, SAME):
            make_verdict(self.deployment, text)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        assert self.replays_of(row).replays == 1
        assert row not in LearnedResponse.objects.with_open_loops()

    def test_import_is_tried_with_one_look_at_the_open_work(self) -> None:
        make_group(self.agent, "Question numéro 7 ?")
        lines = "".join(f"Question numéro {number} ?,Réponse {number}\n" for number in range(60))
        with mock.patch(f"{LOOPS}.open_work", wraps=open_work) as looked:
            self.take_effect(lambda: import_file(self.agent, f"question,answer\n{lines}".encode()))
        assert looked.call_count == 1
        closed = QuestionGroup.objects.get().response
        assert closed is not None
        assert closed.question == "Question numéro 7 ?"


class RetryTests(LoopsCase):
    def test_killed_in_the_middle_the_next_run_finishes(self) -> None:
        for text in (ASKED, SAME):
            make_verdict(self.deployment, text)
        group = make_group(self.agent, ASKED)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        ended: list[Work] = []

        def dies_after_the_first(work: Work, learned_id: int | None) -> bool:
            if ended:
                raise KeyboardInterrupt
            ended.append(work)
            return end(work, learned_id)

        with mock.patch(f"{LOOPS}.end", dies_after_the_first), pytest.raises(KeyboardInterrupt):
            close_loops([row.pk])
        assert row in LearnedResponse.objects.with_open_loops()
        report = close_loops([row.pk])
        group.refresh_from_db()
        assert group.status == GroupStatus.ANSWERED
        assert Feedback.objects.filter(settled_by=row).count() == 2
        assert report.groups == 1
        assert row not in LearnedResponse.objects.with_open_loops()
        assert close_loops([row.pk]) == ClosedLoops()

    def test_killed_between_the_last_question_and_its_group(self) -> None:
        group = make_group(self.agent, ASKED)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        with mock.patch(f"{LOOPS}.close_groups", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            close_loops([row.pk])
        group.refresh_from_db()
        assert group.status == GroupStatus.OPEN
        close_loops([row.pk])
        group.refresh_from_db()
        assert (group.status, group.response) == (GroupStatus.ANSWERED, row)

    def test_reaper_finds_what_no_message_told(self) -> None:
        group = make_group(self.agent, ASKED)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        tasks.reap_loops()
        group.refresh_from_db()
        assert group.status == GroupStatus.OPEN  # its own message may still be on its way
        earlier = timezone.now() - timedelta(minutes=1)
        LearnedResponse.objects.update(indexed_at=earlier)
        with mock.patch("django.db.close_old_connections"):
            _reap()
        group.refresh_from_db()
        assert (group.status, group.response) == (GroupStatus.ANSWERED, row)
        assert tasks.reap_loops() == 0

    def test_store_that_is_down_leaves_it_for_the_next_time(self) -> None:
        make_group(self.agent, ASKED)
        row = make_learned(self.agent, question=ASKED, answer=ANSWER)
        down = mock.patch.object(type(vector_store()), "query", side_effect=VectorStoreUnavailableError("down"))
        with down, pytest.raises(VectorStoreUnavailableError):
            close_loops([row.pk])
        assert row in LearnedResponse.objects.with_open_loops()

    def test_answer_whose_points_are_not_written_waits(self) -> None:
        group = make_group(self.agent, ASKED)
        row = add_manual_faq(agent=self.agent, question=ASKED, answer=ANSWER)
        assert close_loops([row.pk]) == ClosedLoops()
        group.refresh_from_db()
        assert group.status == GroupStatus.OPEN

    def test_task_declares_its_limits(self) -> None:
        task = tasks.close_loops
        assert task.name == "chat.staff.quality.tasks.close_loops"
        assert (task.soft_time_limit, task.time_limit) == (600, 660)


class PagesTests(LoopsCase):
    def setUp(self) -> None:
        super().setUp()
        self.group = make_group(self.agent, ASKED)
        self.verdict = make_verdict(self.deployment)
        self.choice = make_choice(self.deployment, question=ASKED)
        self.row = self.write()
        self.client = superuser_client()

    def page(self, address: str) -> str:
        response = self.client.get(address)
        assert response.status_code == 200
        return response.content.decode()

    def test_answer_says_what_it_has_answered_with_links(self) -> None:
        assert answered_text(self.row.pk) == "A répondu à 1 groupe, 1 avis, 1 choix."
        page = self.page(admin_url(LearnedResponse, "change", self.row.pk))
        for address in (
            admin_url(QuestionGroup, "changelist", response__id__exact=self.row.pk),
            admin_url(Feedback, "changelist", settled_by__id__exact=self.row.pk),
            admin_url(OptionChoice, "changelist", answered_by__id__exact=self.row.pk),
        ):
            assert address in page
            assert "xylophone" in self.page(address)
        other = make_learned(self.agent)
        assert answered_text(other.pk) == ""
        self.page(admin_url(LearnedResponse, "change", other.pk))

    def test_group_says_that_it_was_closed_and_by_what(self) -> None:
        page = self.page(admin_url(QuestionGroup, "change", self.group.pk))
        assert "Fermé de lui-même" in page
        assert "A répondu à 1 groupe, 1 avis, 1 choix." in page
        assert "Sans réponse" not in page

    def test_choice_names_the_answer(self) -> None:
        link = admin_url(LearnedResponse, "change", self.row.pk)
        assert link in self.page(admin_url(OptionChoice, "changelist"))
        assert link in self.page(admin_url(OptionChoice, "change", self.choice.pk))

    def test_verdicts_are_listed_by_what_is_left_to_do(self) -> None:
        waiting = make_verdict(self.deployment, "Qui est élu maire ?")
        settled, todo = self.page(f"{LIST}?follow_up=settled"), self.page(f"{LIST}?follow_up=todo")
        link = admin_url(LearnedResponse, "change", self.row.pk)
        assert ("xylophone" in settled, "maire" in settled, link in settled) == (True, False, True)
        assert ("xylophone" in todo, "maire" in todo) == (False, True)
        assert link in self.page(admin_url(Feedback, "change", self.verdict.pk))
        self.page(admin_url(Feedback, "change", waiting.pk))

    def test_lists_take_the_same_queries_whatever_their_length(self) -> None:
        def settled() -> None:
            verdict = make_verdict(self.deployment, f"Question {uuid.uuid4().hex} ?")
            Feedback.objects.filter(pk=verdict.pk).update(
                settled_at=timezone.now(), settled_by=make_learned(self.agent)
            )

        one, ten = queries_with_one_and_ten_rows(self.client, LIST, settled)
        assert one == ten

    def test_pages_ask_for_their_right(self) -> None:
        staff = client_of(make_staff("faqs.view_learnedresponse"))
        assert staff.get(f"{LIST}?follow_up=todo").status_code == 403
        address = admin_url(LearnedResponse, "change", self.row.pk)
        assert staff.get(address).status_code == 200


class DeploymentlessTests(TestCase):
    def test_question_of_an_agent_without_deployment_stays_open(self) -> None:
        agent = make_agent()
        group = make_group(agent, ASKED)
        row = make_learned(agent, question=ASKED)
        assert close_loops([row.pk]).replays == 0
        group.refresh_from_db()
        assert group.status == GroupStatus.OPEN
