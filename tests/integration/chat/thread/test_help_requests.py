"""A reader asks a person: who may, how it is answered and mailed, and when it ends."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from agents.admin_base import admin_url
from agents.jobs import carry_out, recover
from agents.models import AgentLimit, Job, JobKind, JobStatus, RuntimeSettings
from agents.retention import RULES
from chat.access.rate_limits import forget
from chat.errors import HelpRefusedError
from chat.models import Conversation, HelpRequest, MailState, Message, Role, Turn, TurnStatus
from chat.thread.help_requests import answer_request, ask_a_person, enqueue_due_mails
from chat.thread.rounds import load_thread
from chat.turn.prompt import load_exchanges, summarised
from chat.turn.standalone import rewriting_prompt
from faqs.models import LearnedResponse
from tests.admin_pages import client_of, make_staff, shown_messages, superuser_client
from tests.constants import override
from tests.factories import fresh, make_agent, make_conversation, make_exchange, make_user, set_settings
from tests.readers import QUESTION, ReaderTest
from tests.servers.mail_server import MailServer

ADDRESS, ANSWER = "lea@example.org", "Au guichet 4, avec **une pièce d’identité** (voir [2])."
SMTP = {"EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend", "EMAIL_HOST": "127.0.0.1"}
DUE, SENT, FAILED = MailState


@override_settings(HAS_MAIL=True)
class HelpCase(ReaderTest):
    def setUp(self) -> None:
        super().setUp()
        set_settings(ask_a_person=True, person_hours="De 9 h à 17 h.")

    def ask(self, client: Client | None = None, turn: Turn | None = None, **body: Any) -> Any:
        answer = Message.objects.get(turn=turn or self.turn, role=Role.ASSISTANT)
        body = {"address": ADDRESS, "consent": True, **body}
        return (client or self.client).post(f"/api/messages/{answer.pk}/help", body, "application/json")

    def answered(self) -> HelpRequest:
        assert self.ask().status_code == 200
        assert answer_request(HelpRequest.objects.get(), ANSWER, by=make_user(), link="https://desk.example.org/c/1")
        return HelpRequest.objects.get()


class AskingTests(HelpCase):
    def test_a_request_waits_in_the_thread_and_asked_again_is_the_same(self) -> None:
        assert self.ask().json() == self.ask(address="other@example.org").json()
        thread = self.client.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        [shown] = thread["requests"]
        assert (shown["statusText"], shown["question"], shown["address"]) == ("En attente", QUESTION, ADDRESS)

    def test_it_is_for_those_who_consent_where_the_desk_lets_ask(self) -> None:
        assert self.ask(Client()).status_code == 404
        for body in ({"consent": False}, {"address": "léa"}, {"address": "a@b.fr\nBcc: c@d.fr"}):
            assert self.ask(**body).json()["code"] == "invalid_message", body
        set_settings(ask_a_person=None)
        assert self.ask().json()["code"] == "help_refused"
        assert '"help": null' in self.client.get(f"/d/{self.deployment.slug}/").content.decode()

    def test_an_address_is_kept_of_visitors_alone_where_mail_is_sent(self) -> None:
        user = make_user(email="me@example.org")
        with override_settings(HAS_MAIL=False):
            request = self.answered()
            page = self.client.get(f"/d/{self.deployment.slug}/").content.decode()
        assert (request.address, request.mail, '"mail": false' in page) == ("", "", True)
        request.delete()
        Conversation.objects.update(user=user, visitor=None)
        self.ask(client_of(user))
        assert (HelpRequest.objects.get().address, HelpRequest.objects.get().recipient) == ("", "me@example.org")

    def test_a_minute_and_a_day_have_their_limits(self) -> None:
        other = make_exchange(self.conversation, "Et le soir ?", "Non.")
        with override(HELP_PER_PERSON=1):
            assert self.ask().status_code == 200
            assert "demain" in self.ask(turn=other).json()["message"]
            HelpRequest.objects.update(created_at=timezone.now() - timedelta(days=1))
            assert self.ask(turn=other).status_code == 200
        stranger = make_exchange(make_conversation(self.deployment, visitor=uuid.uuid4()), "Où ?", "Ici.")
        with override(HELP_PER_DEPLOYMENT=1), pytest.raises(HelpRefusedError, match="too many"):
            ask_a_person(Turn.objects.get(pk=stranger.pk), address="")
        RuntimeSettings(values={"asks_per_minute_user": 1}).save()
        with override_settings(RATE_LIMITS=True):
            forget()
            assert [self.ask().status_code, self.ask().status_code] == [200, 429]
        forget()

    def test_requests_and_addresses_are_exported_and_end_with_retention_or_their_conversation(self) -> None:
        answered = self.answered()
        other = HelpRequest.objects.create(turn=make_exchange(self.conversation, "Et ?", "Non."), address=ADDRESS)
        rule = next(rule for rule in RULES if rule.name == "help_requests")
        for days, left in ((89, {answered, other}), (91, {answered})):
            HelpRequest.objects.update(created_at=timezone.now() - timedelta(days=days), mail="")
            list(rule.deleted())
            assert set(HelpRequest.objects.all()) == left
        assert (fresh(answered).answer, answered.address) == (ANSWER, "")
        thread = self.client.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        assert "(voir [2])" in thread["requests"][0]["html"]
        for form in ("json", "md"):
            exported = self.client.get(f"/api/conversations/{self.conversation.pk}/export", {"format": form})
            assert ANSWER in exported.content.decode(), form
        self.client.delete(f"/api/conversations/{self.conversation.pk}/")
        assert not HelpRequest.objects.exists()

    def test_what_a_person_answered_is_told_to_the_model_with_the_desks_answer(self) -> None:
        Turn.objects.update(summary="De rien.", status=TurnStatus.DONE)
        self.answered()
        next_turn = make_exchange(self.conversation, "Et ensuite ?", "Voir plus haut.")
        told = f"Réponse de l’équipe : {ANSWER}"
        history = load_exchanges(conversation_id=self.conversation.pk, limit=3)
        assert ANSWER in rewriting_prompt("Et le soir ?", history, "")[1].content
        thread = load_thread(conversation_id=self.conversation.pk, limit=9).messages
        for prompt in ([line for each in history for line in each.as_prompt()], [each.as_prompt() for each in thread]):
            assert [told in line.content for line in prompt] == [False, True, False, False]
        assert (history[-1].turn_id, summarised(history)) == (next_turn.pk, [])


class MailTests(HelpCase):
    def work(self, **replies: str) -> str:
        """Do the job of the mail as a worker does, before a server that says this; the state then. No address is told."""
        with MailServer() as self.server, override_settings(**SMTP, EMAIL_PORT=self.server.port):
            self.server.replies = replies
            with self.assertLogs("", "INFO") as logs:
                carry_out(Job.objects.get(kind=JobKind.HELP_MAIL, status=JobStatus.QUEUED).pk, in_background=True)
        assert "example.org" not in str([*Job.objects.values("error", "payload", "report", "key"), *logs.output])
        return HelpRequest.objects.get().mail

    def test_the_mail_holds_the_answer_and_the_way_back_and_no_word_of_the_visitor(self) -> None:
        request = self.answered()
        assert self.work() == SENT
        assert enqueue_due_mails() == 0
        [mail] = self.server.mails
        text = mail.get_content()
        assert (mail["To"], ANSWER in text, "https://desk.example.org/c/1" in text) == (ADDRESS, True, True)
        assert QUESTION not in f"{mail['Subject']} {text}"
        assert str(request.turn_id) in mail["Message-ID"]
        assert fresh(request).address == ""

    def test_what_the_server_says_of_an_address_decides_whether_it_is_tried_again(self) -> None:
        self.answered()
        later = ({"RCPT": "450 busy"}, {"DATA": "451 busy"}, {"END": "452 full"}, {"MAIL": "550 you?"})
        for replies in (*later, {"END": "554 no"}, {"DATA": "550 no"}, {"RCPT": "550 unknown"}):
            HelpRequest.objects.update(mail=DUE, address=ADDRESS)
            enqueue_due_mails()
            Job.objects.update(not_before=None)
            assert self.work(**replies) == (DUE if replies in later else FAILED), replies
        assert not Job.objects.filter(kind=JobKind.HELP_MAIL).exists()
        HelpRequest.objects.update(mail=DUE, address=f"{'x' * 70}@{'é' * 70}.example.org")
        enqueue_due_mails()
        assert self.work() == FAILED

    def test_a_mail_is_due_until_it_is_sent_or_days_have_passed(self) -> None:
        self.answered()
        # The worker was killed at each of its tries.
        expired = timezone.now() - timedelta(minutes=2)
        Job.objects.update(status=JobStatus.RUNNING, attempts=5, lease_expires_at=expired)
        recover()
        assert enqueue_due_mails() == 1
        HelpRequest.objects.update(answered_at=timezone.now() - timedelta(days=3))
        assert self.work(MAIL="450 busy") == FAILED


class DeskTests(HelpCase):
    def setUp(self) -> None:
        super().setUp()
        self.ask()
        self.page = admin_url(HelpRequest, "change", HelpRequest.objects.get().pk)

    def test_a_long_question_is_answered_and_validated_under_a_shorter_one(self) -> None:
        Message.objects.filter(turn=self.turn, role=Role.USER).update(content="Où ? " * 100)
        staff = superuser_client()
        staff.post(self.page, {"do": "taken"})
        assert HelpRequest.objects.get().status == "taken"
        assert staff.post(self.page, {"do": "answered", "answer": " "}).status_code == 200
        staff.post(self.page, {"do": "answered", "answer": ANSWER})
        request = HelpRequest.objects.get()
        assert (request.answer, request.mail) == (ANSWER, DUE)
        assert request.link == f"http://testserver/d/{self.deployment.slug}/c/{self.conversation.pk}/"
        again = staff.post(self.page, {"do": "closed"}, follow=True)
        assert "entre-temps" in shown_messages(again)
        kept, address = again.context["correction"].initial, again.context["correct_url"]
        assert "300 caractères" in staff.post(address, kept).content.decode()
        staff.post(address, {**kept, "question": QUESTION})
        assert LearnedResponse.objects.get().answer == ANSWER

    def test_of_two_who_answer_the_first_is_given_and_the_second_keeps_their_text(self) -> None:
        superuser_client().post(self.page, {"do": "answered", "answer": ANSWER})
        said_last = fresh(self.conversation).updated_at
        late = superuser_client().post(self.page, {"do": "answered", "answer": "Au guichet 5."})
        assert "entre-temps" in shown_messages(late)
        self.assertContains(late, "Au guichet 5.")
        assert fresh(self.conversation).updated_at == said_last
        assert (HelpRequest.objects.get().answer, Job.objects.filter(kind=JobKind.HELP_MAIL).count()) == (ANSWER, 1)

    def test_rights_and_limits_hold_and_what_is_closed_is_not_mailed(self) -> None:
        reader, reviewer = make_staff("chat.view_turn"), make_staff("chat.view_turn", "chat.change_helprequest")
        assert client_of(make_staff("chat.change_helprequest")).get(self.page).status_code == 403
        assert client_of(reader).get(self.page).context["form"] is None
        assert client_of(reader).post(self.page, {"do": "closed"}).status_code == 403
        limit = AgentLimit.objects.create(user=reviewer)
        limit.agents.add(make_agent())
        assert client_of(reviewer).post(self.page, {"do": "closed"}).status_code == 404
        limit.agents.add(self.deployment.agent)
        assert client_of(reviewer).post(self.page, {"do": "closed"}).status_code == 302
        closed = HelpRequest.objects.get()
        assert (closed.status, closed.address, closed.mail) == ("closed", "", "")
