"""Learning from the click: what people chose is kept for staff, and answers once they have accepted it."""

import threading
import uuid
from contextlib import suppress
from datetime import timedelta
from functools import partial
from string import ascii_lowercase
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from django.utils.crypto import get_random_string

from agents.admin_base import admin_url
from agents.database import in_database
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, Verdict
from chat.runs.afterwards import _keep_of
from chat.thread.verdicts import give_feedback
from faqs import choices as choice_module
from faqs.answers.writing import save_learned, set_status
from faqs.choices import Choice, accept_choice, claim_question, keep_choice, purge_choices
from faqs.exceptions import AnswerRejectedError
from faqs.memory.entries import delete_entries
from faqs.memory.entries import set_status as set_entry_status
from faqs.models import (
    CachedResponse,
    ChoiceClaim,
    ChoiceStatus,
    EntryStatus,
    LearnedResponse,
    LearnedStatus,
    OptionChoice,
    Phrasing,
    StatusReason,
)
from knowledge.exceptions import EmbeddingUnavailableError
from knowledge.models import Chunk
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, shown_messages, superuser_client
from tests.factories import (
    add_document,
    make_agent,
    make_conversation,
    make_deployment,
    make_entry,
    make_exchange,
    make_learned,
)
from tests.integration.chat.turn.test_clarification import ASKED, CARDS, CHOSEN
from tests.integration.chat.turn.test_path import ask

LIST = admin_url(OptionChoice, "changelist")
OTHER = "Combien coûte la carte de lecteur adulte ?"
OVERLAY = {"clarification_band": 0.3, "clarification_margin": 0.3, "memory_threshold": 0.7}


def act(action: str, *choices: OptionChoice, client: Any = None) -> Any:
    form = {"action": action, "_selected_action": [choice.pk for choice in choices]}
    return (client or superuser_client()).post(LIST, form, follow=True)


def accept(choice: OptionChoice) -> str:
    return shown_messages(act("accept", choice))


async def click(deployment: Deployment, option: str = CHOSEN, **conversation: Any) -> Conversation:
    """The ambiguous question, then one of the options."""
    thread = await in_database(make_conversation, deployment, **conversation)
    first, _ = await ask(deployment, ASKED, thread)
    assert first.answer.source == AnswerSource.CLARIFICATION
    second, _ = await ask(deployment, option, thread)
    assert second.answer.source == AnswerSource.DIRECT_QA
    return thread


def choice_of(deployment: Deployment, **overrides: Any) -> Choice:
    values: dict[str, Any] = {
        "deployment_id": deployment.pk,
        "question": f"Quelle carte {get_random_string(12, ascii_lowercase)} ?",
        "option": CHOSEN,
        "answer": "6 euros.",
        "sources": [],
        "language": "fr",
    }
    return Choice(**{**values, **overrides})


def make_choice(deployment: Deployment | None = None, **overrides: Any) -> OptionChoice:
    choice = choice_of(deployment or make_deployment(), **overrides)
    assert keep_choice(choice, turn_id=uuid.uuid4())
    return OptionChoice.objects.latest("pk")


class KeepingTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent(), config_overlay=OVERLAY)
        add_document(self.deployment.agent, text=CARDS)

    async def test_click_is_kept_once_and_counted_with_each_person(self) -> None:
        await click(self.deployment)
        await click(self.deployment)
        await click(self.deployment, OTHER)
        kept = OptionChoice.objects.order_by("-times_chosen").values_list(
            "question", "option", "times_chosen", "status"
        )
        assert [row async for row in kept] == [
            (ASKED, CHOSEN, 2, ChoiceStatus.OPEN),
            (ASKED, OTHER, 1, ChoiceStatus.OPEN),
        ]

    async def test_nothing_is_answered_from_it_before_staff_accept_it(self) -> None:
        for _ in range(3):
            await click(self.deployment)
        again, _ = await ask(self.deployment, ASKED)
        assert again.answer.source == AnswerSource.CLARIFICATION
        assert not await CachedResponse.objects.aexists()
        assert not await LearnedResponse.objects.aexists()

    async def test_temporary_chat_and_switched_off_learning_keep_nothing(self) -> None:
        await click(self.deployment, is_temporary=True)
        assert not await OptionChoice.objects.aexists()
        self.deployment.config_overlay = {**OVERLAY, "memory_learning": "off"}
        await self.deployment.asave()
        await click(self.deployment)
        assert not await OptionChoice.objects.aexists()

    async def test_asking_an_option_that_was_not_offered_is_no_choice(self) -> None:
        result, _ = await ask(self.deployment, CHOSEN)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert not await OptionChoice.objects.aexists()

    async def test_regenerating_the_chosen_answer_counts_it_once(self) -> None:
        thread = await click(self.deployment)
        turn = await thread.turns.alatest("started_at")
        result, _ = await ask(self.deployment, CHOSEN, thread, replaces=turn.pk)
        assert result.choice is not None
        choice = await OptionChoice.objects.aget()
        assert choice.times_chosen == 1

    def test_question_with_personal_data_is_not_kept(self) -> None:
        asked = "Quelle carte pour jeanne.martin@example.org ?"
        choice = choice_of(self.deployment, question=asked)
        assert not keep_choice(choice, turn_id=uuid.uuid4())
        assert not OptionChoice.objects.exists()

    async def test_question_of_one_conversation_goes_with_it(self) -> None:
        thread = await click(self.deployment)
        await thread.adelete()
        assert not await OptionChoice.objects.aexists()

    async def test_question_that_others_asked_too_stays_without_its_turn(self) -> None:
        await click(self.deployment)
        thread = await click(self.deployment)
        assert (await OptionChoice.objects.aget()).last_turn is not None
        await thread.adelete()
        choice = await OptionChoice.objects.aget()
        assert (choice.last_turn, choice.times_chosen) == (None, 2)

    async def test_accepted_choice_outlives_its_conversation(self) -> None:
        thread = await click(self.deployment)
        await OptionChoice.objects.aupdate(status=ChoiceStatus.ACCEPTED)
        await thread.adelete()
        assert (await OptionChoice.objects.aget()).last_turn is None

    @override_settings(UNANSWERED_RETENTION_DAYS=30, CLARIFICATION_MAX_CHOICES=2)
    def test_old_choices_and_those_beyond_the_limit_are_forgotten(self) -> None:
        old = make_choice(self.deployment)
        then = timezone.now() - timedelta(days=31)
        OptionChoice.objects.filter(pk=old.pk).update(last_chosen_at=then)
        kept = [make_choice(self.deployment).pk for _ in range(3)]
        assert purge_choices() == 2
        assert set(OptionChoice.objects.values_list("pk", flat=True)) == set(kept[1:])


class DeletedMeanwhileTests(TransactionTestCase):
    """A conversation that is deleted while something of its turn is being kept."""

    def test_nothing_is_kept_of_a_conversation_that_is_deleted_meanwhile(self) -> None:
        conversation = make_conversation()
        turn = make_exchange(conversation, CHOSEN, "6 euros.")
        deleting = threading.Thread(target=self.delete, args=(conversation,))

        def while_it_is_deleted(turn_id: uuid.UUID) -> list[uuid.UUID]:
            deleting.start()
            deleting.join(timeout=0.3)
            return []

        keep = partial(keep_choice, choice_of(conversation.deployment))
        with mock.patch("chat.runs.afterwards.earlier_versions", while_it_is_deleted):
            _keep_of(turn.pk, keep)
        deleting.join()
        assert not Conversation.objects.exists()
        assert not OptionChoice.objects.exists()

    def test_nothing_is_kept_of_a_conversation_that_is_gone(self) -> None:
        conversation = make_conversation()
        turn = make_exchange(conversation, CHOSEN, "6 euros.")
        conversation.delete()
        _keep_of(turn.pk, partial(keep_choice, choice_of(conversation.deployment)))
        assert not OptionChoice.objects.exists()

    def delete(self, conversation: Conversation) -> None:
        try:
            Conversation.objects.get(pk=conversation.pk).delete()
        finally:
            connection.close()


class AcceptingDocumentChoiceTests(TestCase):
    """The option is a question of a document."""

    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent(), config_overlay=OVERLAY)
        add_document(self.deployment.agent, text=CARDS)

    async def test_accepted_question_is_answered_directly_in_its_deployment_only(self) -> None:
        await click(self.deployment)
        await in_database(accept, await OptionChoice.objects.aget())
        result, listener = await ask(self.deployment, ASKED)
        assert result.answer.source == AnswerSource.MEMORY_GUARD
        assert "6 euros" in listener.text
        beside = await in_database(make_deployment, self.deployment.agent, config_overlay=OVERLAY, slug="a-cote")
        elsewhere, _ = await ask(beside, ASKED)
        assert elsewhere.answer.source == AnswerSource.CLARIFICATION

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    async def test_visitor_who_chose_does_not_alone_withdraw_what_staff_accepted(self) -> None:
        thread = await click(self.deployment, visitor=uuid.uuid4())
        await in_database(accept, await OptionChoice.objects.aget())
        turn = await thread.turns.alatest("started_at")
        await in_database(give_feedback, turn, Verdict.DOWN)
        entry = await CachedResponse.objects.aget()
        assert entry.status == EntryStatus.VALID

    async def test_changed_passage_withdraws_the_accepted_answer(self) -> None:
        await click(self.deployment)
        choice = await OptionChoice.objects.aget()
        await in_database(accept, choice)
        assert choice.chunk_id is not None
        await Chunk.objects.filter(pk=choice.chunk_id).aupdate(enabled=False)
        result, _ = await ask(self.deployment, ASKED)
        assert result.answer.source != AnswerSource.MEMORY_GUARD

    async def test_choice_whose_passage_changed_cannot_be_accepted(self) -> None:
        await click(self.deployment)
        choice = await OptionChoice.objects.select_related("chunk").aget()
        assert choice.chunk is not None
        await Chunk.objects.filter(pk=choice.chunk.pk).aupdate(knowledge_units=[])
        told = await in_database(accept, choice)
        assert "le passage a changé" in told
        assert not await CachedResponse.objects.aexists()

    async def test_choice_whose_question_was_edited_cannot_be_accepted(self) -> None:
        await click(self.deployment)
        chunk = await Chunk.objects.aget(option_choices__option=CHOSEN)
        for unit in chunk.knowledge_units:
            unit["question"] = "Combien coûte la carte de lecteur senior ?"
        await Chunk.objects.filter(pk=chunk.pk).aupdate(knowledge_units=chunk.knowledge_units)
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "le passage a changé" in told
        assert not await CachedResponse.objects.aexists()

    async def test_second_option_of_the_same_question_is_refused(self) -> None:
        await click(self.deployment)
        await click(self.deployment, OTHER)
        first, second = [row async for row in OptionChoice.objects.order_by("pk")]
        await in_database(accept, first)
        told = await in_database(accept, second)
        assert "la mémoire a déjà" in told
        entry = await CachedResponse.objects.aget()
        assert "6 euros" in entry.answer

    async def test_other_option_is_accepted_once_the_answer_of_the_first_is_gone(self) -> None:
        await click(self.deployment)
        await click(self.deployment, OTHER)
        first, second = [row async for row in OptionChoice.objects.order_by("pk")]
        await in_database(accept, first)
        await in_database(delete_entries, CachedResponse.objects.all())
        assert "1 choix accepté" in await in_database(accept, second)
        result, listener = await ask(self.deployment, ASKED)
        assert result.answer.source == AnswerSource.MEMORY_GUARD
        assert "12 euros" in listener.text
        decided = OptionChoice.objects.order_by("pk").values_list("status", flat=True)
        assert [row async for row in decided] == [ChoiceStatus.DISMISSED, ChoiceStatus.ACCEPTED]

    async def test_answer_that_staff_set_aside_is_not_brought_back(self) -> None:
        await click(self.deployment)
        choice = await OptionChoice.objects.aget()
        await in_database(accept, choice)
        await in_database(set_entry_status, CachedResponse.objects.all(), EntryStatus.OBSOLETE, StatusReason.STAFF)
        await OptionChoice.objects.aupdate(status=ChoiceStatus.OPEN)
        told = await in_database(accept, choice)
        assert "écartée de la mémoire" in told

    async def test_question_that_staff_have_answered_since_keeps_their_answer(self) -> None:
        await click(self.deployment)
        await in_database(make_learned, self.deployment.agent, question=ASKED, answer="Cela varie.")
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "répond déjà" in told
        result, listener = await ask(self.deployment, ASKED)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "Cela varie." in listener.text

    async def test_answer_that_the_memory_has_by_now_is_not_replaced(self) -> None:
        await click(self.deployment)
        entry = await in_database(
            make_entry, self.deployment, ASKED, "Six ou douze euros.", validated_at=timezone.now()
        )
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "la mémoire a déjà" in told
        await entry.arefresh_from_db()
        assert (entry.answer, entry.status) == ("Six ou douze euros.", EntryStatus.VALID)

    async def test_without_a_memory_staff_are_told(self) -> None:
        await click(self.deployment)
        self.deployment.config_overlay = {**OVERLAY, "memory": False}
        await self.deployment.asave()
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "désactivée" in told
        assert (await OptionChoice.objects.aget()).status == ChoiceStatus.OPEN


class AcceptingValidatedChoiceTests(TestCase):
    """The options are validated answers: the question becomes a phrasing of the one that was chosen."""

    def setUp(self) -> None:
        agent = make_agent()
        self.deployment = make_deployment(agent, config_overlay=OVERLAY)
        add_document(agent, text=CARDS.partition("## ")[0] + "## Où est la carte ?\n\nIci.\n")
        self.student = make_learned(agent, question=CHOSEN, answer="La carte coûte 6 euros.")
        make_learned(agent, question=OTHER, answer="La carte adulte coûte 12 euros.")

    async def test_accepted_question_is_answered_directly_by_the_validated_answer(self) -> None:
        await click(self.deployment)
        choice = await OptionChoice.objects.aget()
        assert (choice.response_id, choice.chunk_id) == (self.student.pk, None)
        await in_database(accept, choice)
        result, listener = await ask(self.deployment, ASKED)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert result.answer.learned_id == self.student.pk
        assert "6 euros" in listener.text
        assert not await CachedResponse.objects.aexists()

    async def test_second_option_of_the_same_question_is_refused(self) -> None:
        await click(self.deployment)
        await click(self.deployment, OTHER)
        first, second = [row async for row in OptionChoice.objects.order_by("pk")]
        await in_database(accept, first)
        assert "répond déjà" in await in_database(accept, second)

    async def test_answer_out_of_service_is_refused(self) -> None:
        await click(self.deployment)
        await in_database(set_status, [self.student], LearnedStatus.OBSOLETE)
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "n’est plus servie" in told
        assert not await self.student.phrasings.aexists()

    async def test_answer_to_another_question_by_now_is_refused(self) -> None:
        await click(self.deployment)
        self.student.question, self.student.answer = "Où se fait la carte ?", "À la mairie."
        await in_database(save_learned, self.student, in_worker=False)
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "ne répond plus à la question choisie" in told
        assert not await self.student.phrasings.aexists()

    async def test_question_that_has_a_validated_answer_is_refused(self) -> None:
        await click(self.deployment)
        await in_database(make_learned, self.deployment.agent, question=ASKED, answer="Cela varie.")
        told = await in_database(accept, await OptionChoice.objects.aget())
        assert "répond déjà" in told
        assert not await self.student.phrasings.aexists()


class AcceptingAtOnceTests(TransactionTestCase):
    """Two people accept two options of one question; each has looked for other answers before either writes."""

    def setUp(self) -> None:
        agent = make_agent()
        self.deployment = make_deployment(agent, config_overlay=OVERLAY)
        self.answers = [
            make_learned(agent, question=CHOSEN, answer="La carte coûte 6 euros."),
            make_learned(agent, question=OTHER, answer="La carte adulte coûte 12 euros."),
        ]

    def of_answers(self) -> list[OptionChoice]:
        return [
            make_choice(self.deployment, question=ASKED, option=row.question, answer=row.answer, learned_id=row.pk)
            for row in self.answers
        ]

    def of_passages(self) -> list[OptionChoice]:
        document = add_document(self.deployment.agent, text=CARDS)
        made = []
        for option, answer in ((CHOSEN, "6 euros."), (OTHER, "12 euros.")):
            [chunk] = [
                each
                for each in Chunk.objects.filter(document=document)
                if option in {unit["question"] for unit in each.knowledge_units}
            ]
            [given] = [u["answer"] for u in chunk.knowledge_units if u["question"] == option]
            source = {"type": "qa_pair", "chunk_id": chunk.pk, "text": given}
            made.append(
                make_choice(
                    self.deployment, question=ASKED, option=option, answer=answer, chunk_id=chunk.pk, sources=[source]
                )
            )
        return made

    def accepted_at_once(self, choices: list[OptionChoice]) -> list[str]:
        """What each was told, empty where nothing was wrong."""
        both_looked = threading.Barrier(len(choices))
        told = [""] * len(choices)
        really_looked = choice_module._require_no_other_answer

        def look(choice: OptionChoice) -> None:
            really_looked(choice)
            # Broken where the other one is not let in at all.
            with suppress(threading.BrokenBarrierError):
                both_looked.wait(timeout=2.0)

        def accept_one(place: int) -> None:
            try:
                accept_choice(choices[place])
            except AnswerRejectedError as error:
                told[place] = str(error.public_message)
            finally:
                connection.close()

        with mock.patch("faqs.choices._require_no_other_answer", look):
            threads = [threading.Thread(target=accept_one, args=(n,)) for n in range(len(choices))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return told

    def require_one_winner(self, choices: list[OptionChoice], told: list[str]) -> OptionChoice:
        assert sorted(map(bool, told)) == [False, True], told
        assert any("quelqu’un d’autre" in each for each in told)
        winner, loser = sorted(choices, key=lambda choice: bool(told[choices.index(choice)]))
        winner.refresh_from_db()
        loser.refresh_from_db()
        assert winner.status == ChoiceStatus.ACCEPTED
        # The winner's answer may be the loser's question's by now; the loser's option is not.
        assert loser.status in (ChoiceStatus.OPEN, ChoiceStatus.ANSWERED)
        assert not ChoiceClaim.objects.exists()
        return winner

    def test_one_of_two_validated_answers_gets_the_question(self) -> None:
        choices = self.of_answers()
        winner = self.require_one_winner(choices, self.accepted_at_once(choices))
        phrased = Phrasing.objects.filter(text=ASKED).values_list("response_id", flat=True)
        assert list(phrased) == [winner.response_id]
        standing = LearnedResponse.objects.filter(status=LearnedStatus.VALID)
        assert standing.count() == len(self.answers)

    def test_one_of_two_passages_is_remembered(self) -> None:
        choices = self.of_passages()
        winner = self.require_one_winner(choices, self.accepted_at_once(choices))
        entry = CachedResponse.objects.get()
        assert (entry.answer, entry.status) == (winner.answer, EntryStatus.VALID)

    def test_the_loser_is_told_by_the_admin_in_french(self) -> None:
        [choice, _other] = self.of_answers()
        claim_question(choice)
        assert "quelqu’un d’autre accepte en ce moment" in accept(choice)
        assert not Phrasing.objects.exists()

    def test_what_fails_gives_the_question_back(self) -> None:
        [choice, other] = self.of_answers()
        failing = mock.patch("faqs.choices.find_same", side_effect=EmbeddingUnavailableError("away"))
        with failing, pytest.raises(EmbeddingUnavailableError):
            accept_choice(choice)
        accept_choice(other)
        other.refresh_from_db()
        assert other.status == ChoiceStatus.ACCEPTED

    def test_who_died_holds_the_question_for_a_while_only(self) -> None:
        [choice, other] = self.of_answers()
        claim_question(choice)
        with pytest.raises(AnswerRejectedError):
            accept_choice(other)
        ChoiceClaim.objects.update(expires_at=timezone.now())
        accept_choice(other)
        other.refresh_from_db()
        assert other.status == ChoiceStatus.ACCEPTED

    def overtaken(self, choice: OptionChoice, other: OptionChoice) -> None:
        """`choice` is accepted so slowly that its time ends and somebody else begins with `other`."""
        really_looked = choice_module._require_no_other_answer

        def slowly(choice: OptionChoice) -> None:
            really_looked(choice)
            ChoiceClaim.objects.update(expires_at=timezone.now())
            claim_question(other)

        with (
            mock.patch("faqs.choices._require_no_other_answer", slowly),
            pytest.raises(AnswerRejectedError, match="trop longtemps"),
        ):
            accept_choice(choice)
        choice.refresh_from_db()
        assert choice.status == ChoiceStatus.OPEN
        # The other one's hold is left to them.
        assert ChoiceClaim.objects.count() == 1

    def test_who_was_overtaken_adds_no_phrasing(self) -> None:
        self.overtaken(*self.of_answers())
        assert not Phrasing.objects.exists()

    def test_who_was_overtaken_leaves_the_memory_alone(self) -> None:
        self.overtaken(*self.of_passages())
        assert not CachedResponse.objects.exists()

    def test_claims_of_the_dead_are_tidied_up(self) -> None:
        [choice, _other] = self.of_answers()
        claim_question(choice)
        purge_choices()
        assert ChoiceClaim.objects.exists()
        ChoiceClaim.objects.update(expires_at=timezone.now())
        purge_choices()
        assert not ChoiceClaim.objects.exists()


class ListTests(TestCase):
    def test_staff_see_question_option_and_count(self) -> None:
        choice = make_choice()
        OptionChoice.objects.update(times_chosen=7)
        page = superuser_client().get(LIST).content.decode()
        assert choice.question in page
        assert CHOSEN in page
        assert ">7<" in page
        shown = superuser_client().get(admin_url(OptionChoice, "change", choice.pk))
        assert "6 euros." in shown.content.decode()

    def test_choice_is_deleted_by_whoever_may(self) -> None:
        choice = make_choice()
        deletion = admin_url(OptionChoice, "delete", choice.pk)
        looking = client_of(make_staff("faqs.view_optionchoice"))
        assert looking.post(deletion, {"post": "yes"}).status_code == 403
        superuser_client().post(deletion, {"post": "yes"})
        assert not OptionChoice.objects.exists()

    def test_dismissed_choice_stays_dismissed_when_it_is_made_again(self) -> None:
        choice = make_choice()
        act("dismiss", choice)
        make_choice(choice.deployment, question=choice.question)
        choice.refresh_from_db()
        assert (choice.status, choice.times_chosen) == (ChoiceStatus.DISMISSED, 2)

    def test_accepting_needs_the_rights_of_what_it_changes(self) -> None:
        choice = make_choice()
        looks = client_of(make_staff("faqs.view_optionchoice", "faqs.change_optionchoice"))
        page = looks.get(LIST).content.decode()
        assert 'value="dismiss"' in page
        assert 'value="accept"' not in page
        act("accept", choice, client=looks)
        choice.refresh_from_db()
        assert choice.status == ChoiceStatus.OPEN

    @override_settings(FAQ_MAX_PROMOTED=1)
    def test_more_than_may_be_accepted_at_once_are_left_and_said(self) -> None:
        deployment = make_deployment()
        told = shown_messages(act("accept", make_choice(deployment), make_choice(deployment)))
        assert "1 choix au plus à la fois" in told
        assert set(OptionChoice.objects.values_list("status", flat=True)) == {ChoiceStatus.OPEN}

    def test_list_takes_as_many_queries_for_ten_as_for_one(self) -> None:
        one, ten = queries_with_one_and_ten_rows(superuser_client(), LIST, make_choice)
        assert one == ten
