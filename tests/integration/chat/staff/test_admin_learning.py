"""From conversations to validated answers: a message validated by staff, and the replay of unanswered questions."""

from typing import Any

from django.test import TestCase

from agents.admin_base import admin_url
from agents.database import in_database
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, Role, Turn, TurnStatus, Verdict
from chat.staff.golden import recent_questions
from chat.thread.verdicts import give_feedback
from faqs.answers import without_citations
from faqs.models import GroupStatus, LearnedResponse, LearnedStatus, QuestionGroup, UnansweredQuestion, UnansweredReason
from faqs.unanswered import draft_from_group, group_questions
from tests.admin_pages import client_of, make_staff, shown_messages, superuser_client
from tests.factories import make_conversation, make_exchange, make_library
from tests.integration.chat.turn.test_path import FAR, KNOWN, NEAR, ask, scripted

RIGHTS = ("chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse")
UNKNOWN = "Peut-on louer un xylophone quelconque ?"


def make_answered(**overrides: Any) -> Turn:
    return make_exchange(
        make_conversation(make_library()),
        "Où garer son vélo ?",
        "Sous l'abri [1], à gauche [2].\n\n*Source : plan.md* [1]",
        answer_source=AnswerSource.LLM,
        **overrides,
    )


class ValidateMessageTests(TestCase):
    def test_form_shows_the_exchange_without_its_citations(self) -> None:
        turn = make_answered()
        client = client_of(make_staff(*RIGHTS))
        assert "Corriger" in client.get(admin_url(Turn, "change", turn.pk)).content.decode()
        page = client.get(admin_url(Turn, "correct", turn.pk)).content.decode()
        assert "Où garer son vélo ?" in page
        form = client.get(admin_url(Turn, "correct", turn.pk)).context["form"]
        assert form["answer"].value() == "Sous l'abri, à gauche."

    def test_temporary_chat_teaches_nothing_and_is_tried_with_no_index(self) -> None:
        turn = make_answered()
        Conversation.objects.update(is_temporary=True)
        client, address = superuser_client(), admin_url(Turn, "correct", turn.pk)
        assert address not in client.get(admin_url(Turn, "change", turn.pk)).content.decode()
        for response in (client.get(address), client.post(address, {"question": "Q ?"})):
            assert response.status_code == 302
        assert not LearnedResponse.objects.exists()
        agent = turn.conversation.deployment.agent
        assert recent_questions(agent, 5) == []
        Conversation.objects.update(is_temporary=False)
        assert address in client.get(admin_url(Turn, "change", turn.pk)).content.decode()
        assert recent_questions(agent, 5) == ["Où garer son vélo ?"]

    def test_the_first_quoted_passage_is_proposed_as_the_answer(self) -> None:
        turn = make_answered()
        Turn.objects.filter(pk=turn.pk).update(answer_source=AnswerSource.EXTRACTIVE)
        sources = [{"n": 1, "text": "Le premier passage."}, {"n": 2, "text": "Le second."}]
        turn.messages.filter(role=Role.ASSISTANT).update(sources=sources)
        form = superuser_client().get(admin_url(Turn, "correct", turn.pk)).context["form"]
        assert form["answer"].value() == "Le premier passage."

    def test_corrected_answer_becomes_a_validated_answer(self) -> None:
        turn = make_answered()
        user = make_staff(*RIGHTS, "faqs.view_learnedresponse")
        data = {"question": "Où garer son vélo ?", "answer": "Derrière la mairie."}
        response = client_of(user).post(admin_url(Turn, "correct", turn.pk), data)
        row = LearnedResponse.objects.get()
        assert response["Location"] == admin_url(Turn, "correct", turn.pk, saved=row.pk)
        assert (row.answer, row.source_message, row.owner) == (data["answer"], turn.pk, user)

    def test_exchange_without_an_answer_is_not_validated(self) -> None:
        turn = make_answered(status=TurnStatus.INTERRUPTED)
        response = superuser_client().get(admin_url(Turn, "correct", turn.pk), follow=True)
        assert "pas de réponse à valider" in shown_messages(response)

    def test_every_right_is_asked_for(self) -> None:
        turn = make_answered()
        for missing in RIGHTS:
            staff = make_staff(*(right for right in RIGHTS if right != missing))
            assert client_of(staff).get(admin_url(Turn, "correct", turn.pk)).status_code == 403

    def test_action_leads_to_the_form_of_one_exchange(self) -> None:
        turn, client = make_answered(), superuser_client()
        data = {"action": "correct", "_selected_action": [turn.pk]}
        response = client.post(admin_url(Turn, "changelist"), data)
        assert response["Location"] == admin_url(Turn, "correct", turn.pk)
        data["_selected_action"] = [turn.pk, make_answered().pk]
        response = client.post(admin_url(Turn, "changelist"), data, follow=True)
        assert "une seule question" in shown_messages(response)

    def test_links_words_and_code_in_brackets_stay(self) -> None:
        text = "Voir [1](https://a.fr), `row[0]` et [annexe] [2]."
        assert without_citations(text) == "Voir [1](https://a.fr), `row[0]` et [annexe]."


class KeepingTests(TestCase):
    def setUp(self) -> None:
        self.deployment: Deployment = make_library()

    async def kept(self) -> list[tuple[str, str]]:
        rows = UnansweredQuestion.objects.order_by("pk").values_list("question", "reason")
        return await in_database(lambda: list(rows))

    async def test_refused_question_is_kept_and_an_answered_one_is_not(self) -> None:
        await ask(self.deployment, KNOWN)
        await ask(self.deployment, FAR)
        assert await self.kept() == [(FAR, UnansweredReason.REFUSED)]

    async def test_question_asked_again_in_its_place_counts_once(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        for _ in range(3):
            turn = await conversation.turns.order_by("-started_at").afirst()
            await ask(self.deployment, FAR, conversation, replaces=turn.pk if turn else None)
        assert await self.kept() == [(FAR, UnansweredReason.REFUSED)]

    async def test_edited_question_counts_beside_the_first(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        await ask(self.deployment, FAR, conversation)
        first = await conversation.turns.aget()
        await ask(self.deployment, f"{FAR} papaye ?", conversation, replaces=first.pk)
        assert len(await self.kept()) == 2

    async def test_thumbs_down_on_every_version_count_once(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        await ask(self.deployment, KNOWN, conversation)
        first = await conversation.turns.aget()
        await ask(self.deployment, KNOWN, conversation, replaces=first.pk)
        async for turn in conversation.turns.all():
            await in_database(give_feedback, turn, Verdict.DOWN)
        assert await self.kept() == [(KNOWN, UnansweredReason.REPORTED)]

    async def test_poor_passages_count_as_unanswered_from_the_threshold_on(self) -> None:
        result, _ = await ask(self.deployment, NEAR)
        best = result.answer.best_score or 0
        await in_database(UnansweredQuestion.objects.all().delete)
        for threshold, expected in ((best, []), (best + 0.01, [UnansweredReason.LOW_SCORE])):
            self.deployment.config_overlay = {"unanswered_threshold": threshold}
            await self.deployment.asave()
            await ask(self.deployment, NEAR)
            assert [reason for _question, reason in await self.kept()] == expected

    async def test_model_answer_on_poor_passages_is_kept_too(self) -> None:
        self.deployment.config_overlay = {"unanswered_threshold": 1.0}
        await self.deployment.asave()
        with scripted(["Je ne sais pas."]):
            await ask(self.deployment, NEAR)
        assert len(await self.kept()) == 1

    async def test_setting_switches_it_off(self) -> None:
        self.deployment.config_overlay = {"record_unanswered": False}
        await self.deployment.asave()
        await ask(self.deployment, FAR)
        assert await self.kept() == []

    async def test_deleted_conversation_takes_its_questions_along(self) -> None:
        await ask(self.deployment, FAR)
        await in_database(Conversation.objects.all().delete)
        assert await self.kept() == []


class ReplayTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library()
        self.client = superuser_client()

    async def _ask(self, question: str) -> None:
        await ask(self.deployment, question)

    def make_group(self) -> QuestionGroup:
        from asgiref.sync import async_to_sync

        async_to_sync(self._ask)(UNKNOWN)
        group_questions()
        return QuestionGroup.objects.get()

    def replay(self, group: QuestionGroup) -> str:
        address = admin_url(Turn, "replay_group", group.pk)
        response = self.client.post(address, {"deployment": self.deployment.pk})
        return response.content.decode()

    def test_group_is_drafted_approved_and_its_replay_shows_it_answered(self) -> None:
        group = self.make_group()
        before = Turn.objects.count()
        assert "0 question" in self.replay(group)
        draft = draft_from_group(group)
        LearnedResponse.objects.filter(pk=draft.pk).update(answer="Oui, à l'accueil.")
        response = self.client.post(admin_url(QuestionGroup, "approve", group.pk))
        assert response["Location"] == admin_url(Turn, "replay_group", group.pk)
        page = self.replay(group)
        assert "1 question sur 1 a maintenant une réponse" in page
        group.refresh_from_db()
        draft.refresh_from_db()
        assert (group.status, draft.status) == (GroupStatus.ANSWERED, LearnedStatus.VALID)
        assert (Turn.objects.count(), draft.times_served) == (before, 0)
        assert UnansweredQuestion.objects.count() == 1

    def test_page_says_what_it_will_do_and_asks_for_its_rights(self) -> None:
        group = self.make_group()
        address = admin_url(Turn, "replay_group", group.pk)
        assert "rien n’est enregistré" in self.client.get(address).content.decode()
        for right in ("chat.view_turn", "faqs.view_questiongroup"):
            assert client_of(make_staff(right)).get(address).status_code == 403
