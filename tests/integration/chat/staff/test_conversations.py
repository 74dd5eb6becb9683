"""The admin of conversations and turns."""

import uuid
from typing import Any

from django.contrib.admin.models import DELETION, LogEntry
from django.test import TestCase

from agents.admin_base import admin_url
from chat.models import AnswerSource, Conversation, Feedback, Message, Role, ServiceToken, Turn
from chat.thread.rounds import Batch, append_batch
from chat.thread.turns import claim_turn
from knowledge.models import Chunk, Document
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, superuser_client
from tests.constants import override
from tests.factories import (
    fresh,
    make_agent,
    make_batch,
    make_conversation,
    make_deployment,
    make_exchange,
    make_service_token,
)

TRACE = [
    {"step": "search", "outcome": "found", "score": 0.83, "threshold": None, "ms": 4.2, "detail": ""},
    {
        "step": "direct_answer",
        "outcome": "second_key_refused",
        "score": 0.83,
        "threshold": 0.72,
        "ms": 0.4,
        "detail": "Combien coûte la carte en 2023 ? : date",
    },
]


def make_answered(**overrides: Any) -> Turn:
    conversation = overrides.pop("conversation", None) or make_conversation(title="Horaires")
    defaults = {"answer_source": AnswerSource.EXTRACTIVE, "trace": TRACE, "score": 0.83}
    return make_exchange(conversation, "Quels horaires ?", "De 9 à 17 h.", **{**defaults, **overrides})


def give_sources(turn: Turn, **source: Any) -> None:
    defaults = {"n": 1, "title": "faq.md", "type": "qa_pair", "question": "Prix ?", "score": 0.83}
    Message.objects.filter(turn=turn, role=Role.ASSISTANT).update(sources=[{**defaults, "text": "12 euros.", **source}])


class PagesTest(TestCase):
    def test_every_page_opens_with_the_one_right(self) -> None:
        client, turn = client_of(make_staff("chat.view_turn")), make_answered()
        for model, key in ((Conversation, turn.conversation_id), (Turn, turn.pk)):
            assert client.get(admin_url(model, "changelist")).status_code == 200
            assert client.get(admin_url(model, "change", key)).status_code == 200

    def test_answers_are_shown_as_their_reader_saw_them(self) -> None:
        client = superuser_client()
        turn = make_exchange(
            make_conversation(),
            "Quels horaires ?",
            "De **9** à `17 h` [1]. <script>x</script>",
            model="direct_qr_match",
        )
        give_sources(turn)
        page = client.get(admin_url(Turn, "change", turn.pk)).content.decode()
        assert "<strong>9</strong> à <code>17 h</code>" in page
        thread = client.get(admin_url(Conversation, "change", turn.conversation_id))
        for shown in (page, thread.content.decode()):
            assert f'href="#source-{turn.pk}-1"' in shown
            assert f'id="source-{turn.pk}-1"' in shown
        assert "direct_qr_match" not in page
        assert str(turn.pk) not in page.split("<title>")[1].split("</title>")[0]
        assert "<strong>9</strong>" in thread.content.decode()
        assert "<script>x" not in page + thread.content.decode()

    def test_no_other_right_opens_what_people_asked(self) -> None:
        turn = make_answered()
        staff = make_staff("chat.view_conversation", "chat.change_turn", "chat.view_message")
        client = client_of(staff)
        for model, key in ((Conversation, turn.conversation_id), (Turn, turn.pk)):
            assert client.get(admin_url(model, "changelist")).status_code == 403
            assert client.get(admin_url(model, "change", key)).status_code == 403

    def test_nothing_is_added_changed_or_deleted_here(self) -> None:
        client, turn = superuser_client(), make_answered()
        for model, key in ((Conversation, turn.conversation_id), (Turn, turn.pk)):
            assert client.get(admin_url(model, "add")).status_code == 403
            assert client.post(admin_url(model, "change", key), {}).status_code == 403
        deletion = admin_url(Turn, "delete", turn.pk)
        assert client.post(deletion, {"post": "yes"}).status_code == 403

    def test_conversation_is_deleted_for_good_by_whoever_may(self) -> None:
        turn, kept = make_answered(), make_answered()
        seeing, deleting = "chat.view_turn", "chat.delete_conversation"
        deletion = admin_url(Conversation, "delete", turn.conversation_id)
        chosen = {"action": "delete_selected", "_selected_action": [kept.conversation_id]}
        changelist = admin_url(Conversation, "changelist")
        looking = client_of(make_staff(seeing))
        assert looking.post(deletion, {"post": "yes"}).status_code == 403
        looking.post(changelist, {**chosen, "post": "yes"})
        assert Conversation.objects.count() == 2
        client = client_of(make_staff(seeing, deleting))
        page = client.get(admin_url(Conversation, "change", turn.conversation_id))
        self.assertContains(page, deletion)
        self.assertContains(client.get(deletion), str(turn.conversation))
        client.post(deletion, {"post": "yes"})
        assert not Turn.objects.filter(pk=turn.pk).exists()
        client.post(changelist, {**chosen, "post": "yes"})
        assert not Message.objects.exists()
        # The log says that it was done, not what it was about.
        logged = LogEntry.objects.filter(action_flag=DELETION)
        assert set(logged.values_list("object_repr", flat=True)) == {"conversation"}
        assert {entry.object_id for entry in logged} == {str(turn.conversation_id), str(kept.conversation_id)}

    def test_right_to_delete_shows_nobody_what_was_asked(self) -> None:
        turn = make_answered()
        client = client_of(make_staff("chat.delete_conversation"))
        deletion = admin_url(Conversation, "delete", turn.conversation_id)
        assert client.get(deletion).status_code == 403
        assert client.post(deletion, {"post": "yes"}).status_code == 403

    @override(ADMIN_MAX_DELETED=1)
    def test_more_than_one_action_deletes_is_refused_in_words(self) -> None:
        chosen = [make_answered().conversation_id for _ in range(2)]
        answer = superuser_client().post(
            admin_url(Conversation, "changelist"),
            {"action": "delete_selected", "_selected_action": chosen},
            follow=True,
        )
        self.assertContains(answer, "Supprimez 1 éléments au plus à la fois.")
        assert Conversation.objects.count() == 2

    def test_lists_take_the_same_queries_whatever_their_length(self) -> None:
        client, deployment = superuser_client(), make_deployment()

        def make_row() -> Turn:
            return make_answered(conversation=make_conversation(deployment))

        for model in (Conversation, Turn):
            one, ten = queries_with_one_and_ten_rows(client, admin_url(model, "changelist"), make_row)
            assert one == ten, model.__name__

    def test_turns_of_one_conversation_are_listed(self) -> None:
        client, turn = superuser_client(), make_answered()
        make_answered()
        page = client.get(admin_url(Turn, "changelist", conversation__id__exact=turn.conversation_id))
        assert list(page.context["cl"].result_list) == [turn]
        self.assertContains(page, "Quels horaires ?")


class TemporaryChatsTest(TestCase):
    def setUp(self) -> None:
        self.client = client_of(make_staff("chat.view_turn"))
        self.lasting = make_answered(conversation=make_conversation(title="Durable"))
        self.brief = make_answered(conversation=make_conversation(title="Passagère", is_temporary=True))
        for turn in (self.lasting, self.brief):
            Feedback.objects.create(turn=turn, verdict="down")

    def page(self, *address: Any, **query: Any) -> str:
        return self.client.get(admin_url(*address, **query)).content.decode()

    def test_lists_mark_temporary_chats_and_no_others(self) -> None:
        for model in (Conversation, Turn, Feedback):
            assert self.page(model, "changelist").count(">Temporaire<") == 1


class WhyPageTest(TestCase):
    def page(self, turn: Turn) -> Any:
        return superuser_client().get(admin_url(Turn, "change", turn.pk))

    def test_question_answer_and_path_are_told_in_words(self) -> None:
        page = self.page(make_answered())
        for text in (
            "Pourquoi cette réponse",
            "Quels horaires ?",
            "De 9 à 17&nbsp;h.",
            "mais demandent autre chose",
            "Combien coûte la carte en 2023 ?",
            "0,720",
        ):
            self.assertContains(page, text)

    def test_sources_link_to_their_passage_and_document(self) -> None:
        document = Document.objects.create(agent=make_agent(), name="faq.md")
        chunk = Chunk.objects.create(document=document, index=0, content="x", content_hash="x")
        turn = make_answered()
        give_sources(turn, chunk_id=chunk.pk, document_id=document.pk)
        page = self.page(turn)
        self.assertContains(page, admin_url(Chunk, "change", chunk.pk))
        self.assertContains(page, admin_url(Document, "change", document.pk))
        self.assertContains(page, "0,830")

    def test_a_source_that_is_gone_has_no_link_and_keeps_its_text(self) -> None:
        turn = make_answered()
        give_sources(turn, chunk_id=987_654, document_id=987_654)
        page = self.page(turn)
        self.assertNotContains(page, "987654")
        self.assertContains(page, "passage supprimé depuis")
        self.assertContains(page, "12 euros.")

    def test_what_people_and_documents_wrote_is_escaped(self) -> None:
        turn = make_exchange(make_conversation(), "<script>alert(1)</script>", "<img src=x>")
        give_sources(turn, text="<b>gras</b>")
        page = self.page(turn)
        self.assertNotContains(page, "<script>alert(1)")
        self.assertNotContains(page, "<img src=x>")
        self.assertNotContains(page, "<b>gras</b>")

    def test_a_turn_without_answer_or_trace_still_opens(self) -> None:
        turn = make_answered(trace=[])
        Message.objects.filter(turn=turn, role=Role.ASSISTANT).delete()
        page = self.page(turn)
        self.assertContains(page, "Aucune étape")
        self.assertContains(page, "ne cite aucune source")


class ToolsTest(TestCase):
    def test_the_thread_shows_which_tools_were_asked_for_and_what_they_said(self) -> None:
        turn = make_answered(rounds=1, stop_reason="answered", efficiency=95.0)
        messages = make_batch(turn.conversation, "a")
        append_batch(Batch(turn.conversation_id, messages, uuid.uuid4(), 0), max_tool_calls=10)
        client = client_of(make_staff("chat.view_turn"))
        shown = client.get(admin_url(Conversation, "change", turn.conversation_id)).content.decode()
        assert "Outils demandés : lookup" in shown
        assert "{&quot;call&quot;: &quot;a&quot;}" in shown
        told = client.get(admin_url(Turn, "change", turn.pk)).content.decode()
        assert "Réponse donnée · relances : 1 · efficacité : 95 % (Excellent)" in told


class ServiceTokenTest(TestCase):
    def test_tokens_are_listed_limited_and_revoked_and_never_shown(self) -> None:
        token, secret = make_service_token("site")
        client = superuser_client()
        pages = [admin_url(ServiceToken, "changelist"), admin_url(ServiceToken, "change", token.pk)]
        for page in pages:
            response = client.get(page)
            assert response.status_code == 200
            assert secret not in response.content.decode()
            assert token.token_hash not in response.content.decode()
        assert client.get(admin_url(ServiceToken, "add")).status_code == 403
        client.post(pages[0], {"action": "revoke", "_selected_action": [token.pk]})
        assert fresh(token).is_revoked


class FeedbackAdminTests(TestCase):
    def make_verdict(self, **overrides: Any) -> Feedback:
        fields = {"verdict": "down", "reason": "incomplete", "comment": "Et le soir ?", **overrides}
        return Feedback.objects.create(turn=make_answered(), **fields)

    def test_the_list_links_each_trace(self) -> None:
        client = client_of(make_staff("chat.view_turn"))
        given = self.make_verdict()
        self.make_verdict(verdict="up")
        response = client.get(admin_url(Feedback, "changelist", verdict__exact="down"))
        assert response.context["cl"].result_count == 1
        self.assertContains(response, admin_url(Turn, "change", given.turn_id))
        self.assertContains(response, "Et le soir")
        assert client.get(admin_url(Feedback, "change", given.pk)).status_code == 200

    def test_verdicts_are_private(self) -> None:
        client = client_of(make_staff("chat.view_feedback"))
        assert client.get(admin_url(Feedback, "changelist")).status_code == 403

    def test_other_versions_of_a_conversation_are_marked(self) -> None:
        turn = make_answered()
        claim_turn(
            conversation_id=turn.conversation_id, client_message_id="a", question="Et demain ?", replaces=turn.pk
        )
        page = superuser_client().get(admin_url(Conversation, "change", turn.conversation_id))
        marked = [entry["is_other_version"] for entry in page.context["thread"]]
        assert marked == [True, True, False]
