"""The admin of conversations and turns."""

from typing import Any

from django.contrib.admin.models import DELETION, LogEntry
from django.test import TestCase

from agents.admin_base import admin_url
from chat.models import AnswerSource, Conversation, Feedback, Message, Role, Turn
from chat.thread.rounds import append_batch
from chat.thread.turns import claim_turn
from tests.admin_pages import client_of, make_staff, run_action, superuser_client
from tests.factories import make_batch, make_conversation, make_exchange

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
    def test_answers_are_shown_as_their_reader_saw_them(self) -> None:
        client = superuser_client()
        turn = make_exchange(
            make_conversation(),
            "Quels horaires ?",
            "De **9** à `17 h` [1]. <script>x</script>",
            model="direct_qr_match",
        )
        give_sources(turn, text="12 **euros**.")
        page = client.get(admin_url(Turn, "change", turn.pk)).content.decode()
        assert "<strong>9</strong> à <code>17 h</code>" in page
        assert "12 <strong>euros</strong>." in page
        assert "Boucle d’outils" not in page  # No model was asked.
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
        private = client_of(make_staff("chat.view_feedback"))
        assert private.get(admin_url(Feedback, "changelist")).status_code == 403

    def test_conversation_is_deleted_for_good_by_whoever_may(self) -> None:
        turn, kept = make_answered(), make_answered()
        seeing, deleting = "chat.view_turn", "chat.delete_conversation"
        deletion = admin_url(Conversation, "delete", turn.conversation_id)
        looking = client_of(make_staff(seeing))
        assert looking.post(deletion, {"post": "yes"}).status_code == 403
        run_action(looking, "delete_selected", kept.conversation, post="yes")
        assert Conversation.objects.count() == 2
        client = client_of(make_staff(seeing, deleting))
        page = client.get(admin_url(Conversation, "change", turn.conversation_id))
        self.assertContains(page, deletion)
        self.assertContains(client.get(deletion), str(turn.conversation))
        client.post(deletion, {"post": "yes"})
        assert not Turn.objects.filter(pk=turn.pk).exists()
        run_action(client, "delete_selected", kept.conversation, post="yes")
        assert not Message.objects.exists()
        # The log says that it was done, not what it was about.
        logged = LogEntry.objects.filter(action_flag=DELETION)
        assert set(logged.values_list("object_repr", flat=True)) == {"conversation"}
        assert {entry.object_id for entry in logged} == {str(turn.conversation_id), str(kept.conversation_id)}


class WhyPageTest(TestCase):
    def page(self, turn: Turn) -> Any:
        return superuser_client().get(admin_url(Turn, "change", turn.pk))

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
        self.assertContains(self.page(turn), "Aucune étape")

    def test_the_thread_shows_which_tools_were_asked_for_what_they_said_and_its_other_versions(self) -> None:
        turn = make_answered(rounds=1, stop_reason="answered", efficiency=95.0)
        messages = make_batch(turn.conversation, "a")
        for message in messages:
            message.turn = turn
        append_batch(messages, max_tool_calls=10)
        claim_turn(
            conversation_id=turn.conversation_id, client_message_id="a", question="Et demain ?", replaces=turn.pk
        )
        thread = superuser_client().get(admin_url(Conversation, "change", turn.conversation_id))
        self.assertContains(thread, "Outils demandés : lookup")
        self.assertContains(thread, "{&quot;call&quot;: &quot;a&quot;}")
        assert [entry["is_other_version"] for entry in thread.context["thread"]] == [True, True, True, True, False]
        self.assertContains(self.page(turn), "relances : 1 · efficacité : 95 % (Excellent)")
