"""What a reader does with a thread besides asking: verdicts, searches, exports, links, temporary chats."""

import io
import json
import subprocess
import sys
import uuid
from datetime import timedelta
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.test import Client, TestCase, override_settings
from django.utils import timezone
from markdown_it import MarkdownIt
from pypdf import PdfReader

from agents.admin_base import admin_url
from agents.models import Audience, Deployment
from chat.archive.retention import forget_expired
from chat.models import (
    AnswerSource,
    Conversation,
    Feedback,
    Message,
    Role,
    SharedThread,
    Turn,
    TurnStatus,
    Verdict,
)
from chat.rendering import render_answer
from chat.thread.messages import claim_turn
from chat.thread.verdicts import asked_question, give_feedback, withdraw_feedback
from chat.turn.trace import Trace
from faqs.memory.entries import delete_entries, edit_entry, validate_entries
from faqs.memory.keys import question_hash
from faqs.models import (
    AnswerDoubt,
    CachedResponse,
    EntryStatus,
    UnansweredQuestion,
    WrongPair,
)
from knowledge.embeddings.base import embedder
from knowledge.exceptions import EmbeddingUnavailableError
from tests.admin_pages import superuser_client
from tests.factories import (
    make_api_key,
    make_conversation,
    make_deployment,
    make_entry,
    make_exchange,
    make_turn,
    make_user,
)

QUESTION = "Où réserver une salle ?"


class ReaderTest(TestCase):
    """A visitor with one conversation of one answered question."""

    def setUp(self) -> None:
        self.deployment: Deployment = make_deployment()
        self.client = Client()
        self.conversation = self.open_conversation()
        self.turn = make_exchange(self.conversation, QUESTION, "À l’accueil [1].")
        self.source({"n": 1, "title": "Guide > Salles", "question": "Où ?", "text": "Le texte."})

    def open_conversation(self, **body: Any) -> Conversation:
        body = {"deployment": self.deployment.slug, **body}
        created = self.client.post("/api/conversations/", body, "application/json")
        assert created.status_code == 201, created.content
        return Conversation.objects.get(pk=created.json()["id"])

    def source(self, *sources: dict[str, Any]) -> None:
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(sources=list(sources))

    @property
    def answer(self) -> Message:
        return Message.objects.get(turn=self.turn, role=Role.ASSISTANT)

    def judge(self, verdict: str, client: Client | None = None, **body: str) -> Any:
        url = f"/api/messages/{self.answer.pk}/feedback"
        return (client or self.client).post(url, {"verdict": verdict, **body}, "application/json")


class CrossSiteTests(ReaderTest):
    """Whatever carries a session changes nothing for another site: a visitor's no less than that of somebody signed in."""

    def setUp(self) -> None:
        super().setUp()
        visitor, self.client = self.client, Client(enforce_csrf_checks=True)
        self.client.cookies = visitor.cookies

    def test_no_door_takes_a_visitors_session_without_the_token(self) -> None:
        own = f"/api/conversations/{self.conversation.pk}"
        refused = [
            self.client.post("/api/conversations/", {}, "application/json"),
            self.client.patch(f"{own}/", {"title": "Pris"}, "application/json"),
            self.client.post(f"{own}/branch/", {"turnId": self.turn.pk}, "application/json"),
            self.client.post(f"{own}/links", {}, "application/json"),
            self.judge("down"),
            self.client.delete(f"{own}/"),
        ]
        assert [response.status_code for response in refused] == [403] * 6
        assert Conversation.objects.get().title == QUESTION
        assert not SharedThread.objects.exists()

    def test_the_pages_own_token_opens_them(self) -> None:
        self.client.get("/")
        token = self.client.cookies["csrftoken"].value
        url = f"/api/conversations/{self.conversation.pk}/"
        assert self.client.delete(url).status_code == 403
        assert self.client.delete(url, headers={"X-CSRFToken": token}).status_code == 204


class ZeroByteTests(ReaderTest):
    """PostgreSQL takes no text with a zero byte: an address that holds one names nothing, and is no failure of ours."""

    def test_nothing_has_such_a_name(self) -> None:
        own = f"/api/conversations/{self.conversation.pk}"
        for address in ("/s/%00/", "/widget/%00/?origin=https://a.example", "/v1/models/%00"):
            headers = {"Authorization": f"Bearer {make_api_key(self.deployment)}"}
            assert self.client.get(address, headers=headers).status_code == 404, address
        assert self.client.delete(f"{own}/links/%00").status_code == 404
        listed = self.client.get("/api/conversations/?deployment=%00").json()
        assert listed["results"] == []
        found = self.client.get("/api/conversations/?q=salle%00").json()
        assert len(found["results"]) == 1
        asked = {"message": "Où ?", "deployment": "\0"}
        assert self.client.post("/api/rag/chat", asked, "application/json").status_code == 404


class FeedbackTests(ReaderTest):
    def test_verdict_is_kept_changed_and_shown_to_its_author(self) -> None:
        assert self.judge("up").status_code == 200
        assert self.judge("down", reason="incomplete", comment="Et le soir ?").status_code == 200
        given = Feedback.objects.get()
        assert (given.verdict, given.reason, given.comment) == (
            Verdict.DOWN,
            "incomplete",
            "Et le soir ?",
        )
        messages = self.client.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        assert messages["messages"][1]["feedback"]["verdict"] == "down"

    def test_withdrawn_verdict_stays_for_staff_marked(self) -> None:
        self.judge("down")
        url = f"/api/messages/{self.answer.pk}/feedback"
        assert self.client.delete(url).status_code == 204
        assert Feedback.objects.get().withdrawn_at is not None
        messages = self.client.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        assert messages["messages"][1]["feedback"] is None
        self.judge("up")
        assert Feedback.objects.get().withdrawn_at is None

    def test_others_may_not_judge_and_questions_are_not_judged(self) -> None:
        assert self.judge("down", Client()).status_code == 404
        question = Message.objects.get(turn=self.turn, role=Role.USER)
        url = f"/api/messages/{question.pk}/feedback"
        assert self.client.post(url, {"verdict": "up"}, "application/json").status_code == 404
        assert not Feedback.objects.exists()

    def test_what_is_sent_is_bounded(self) -> None:
        assert self.judge("down", comment="x" * 1_001).status_code == 400
        assert self.judge("down", reason="whatever").status_code == 400
        assert self.judge("sideways").status_code == 400

    def test_thumb_down_keeps_the_question_once(self) -> None:
        for verdict in ("down", "up", "down"):
            self.judge(verdict)
        kept = UnansweredQuestion.objects.get()
        assert (kept.question, kept.reason, kept.source_turn) == (
            QUESTION,
            "reported",
            self.turn.pk,
        )

    def given_from_memory(self, entry: CachedResponse, **owner: Any) -> Turn:
        """The same stored answer in a conversation of its own."""
        conversation = make_conversation(self.deployment, **(owner or {"visitor": uuid.uuid4()}))
        trace = Trace()
        trace.step("memory_guard", "respond_from_memory", entry=entry.pk)
        return make_exchange(
            conversation,
            QUESTION,
            "À l’accueil.",
            answer_source=AnswerSource.MEMORY_GUARD,
            trace=trace.lines,
        )

    def test_thumb_down_of_somebody_signed_in_bars_the_stored_answer_at_once(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        turn = self.given_from_memory(entry, user=make_user())
        for _ in range(2):
            give_feedback(turn, Verdict.DOWN, reason="outdated")
        entry.refresh_from_db()
        assert entry.status == EntryStatus.TO_REVIEW
        assert WrongPair.objects.get().response_id == entry.pk

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_one_anonymous_visitor_bars_nothing_however_often(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        visitor = uuid.uuid4()
        for _ in range(3):
            give_feedback(self.given_from_memory(entry, visitor=visitor), Verdict.DOWN)
        entry.refresh_from_db()
        assert entry.status == EntryStatus.VALID
        assert not WrongPair.objects.exists()
        assert entry.doubts.count() == 1

    def test_as_many_anonymous_visitors_as_the_setting_says_bar_it(self) -> None:
        for needed in (1, 2, 3):
            entry = make_entry(self.deployment, f"{QUESTION} {needed}", "À l’accueil.")
            with self.settings(ANONYMOUS_REPORTS_TO_WITHDRAW=needed):
                for _ in range(needed):
                    entry.refresh_from_db()
                    assert entry.status == EntryStatus.VALID
                    give_feedback(self.given_from_memory(entry), Verdict.DOWN, reason="outdated")
            entry.refresh_from_db()
            assert (entry.status, entry.status_reason) == (EntryStatus.TO_REVIEW, "reported")
            assert not entry.doubts.exists()

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_doubt_that_is_taken_back_does_not_count(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        first, second = self.given_from_memory(entry), self.given_from_memory(entry)
        give_feedback(first, Verdict.DOWN)
        give_feedback(first, Verdict.UP)
        give_feedback(second, Verdict.DOWN)
        withdraw_feedback(second)
        assert not entry.doubts.exists()
        give_feedback(first, Verdict.DOWN)
        give_feedback(second, Verdict.DOWN)
        entry.refresh_from_db()
        assert entry.status == EntryStatus.TO_REVIEW

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_visitor_who_changes_their_mind_again_and_again_costs_one_embedding(self) -> None:
        turn = self.given_from_memory(make_entry(self.deployment, QUESTION, "À l’accueil."))
        with mock.patch("chat.thread.verdicts.embedder", wraps=embedder) as asked:
            for _ in range(3):
                give_feedback(turn, Verdict.DOWN)
                give_feedback(turn, Verdict.UP)
        assert asked.call_count == 1
        assert UnansweredQuestion.objects.count() == 1

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_staff_see_a_doubt_and_their_validation_ends_it(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        give_feedback(self.given_from_memory(entry), Verdict.DOWN, comment="Trop vieux.")
        make_entry(self.deployment, "Une autre question ?")
        staff = superuser_client()
        page = staff.get(admin_url(CachedResponse, "changelist", doubts="1")).content.decode()
        assert "mise en doute par 1 visiteur" in page
        assert "Une autre question ?" not in page
        shown = staff.get(admin_url(CachedResponse, "change", entry.pk)).content.decode()
        assert "Trop vieux." in shown
        validate_entries(CachedResponse.objects.filter(pk=entry.pk))
        assert not entry.doubts.exists()

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_doubt_about_an_answer_that_staff_have_corrected_does_not_count(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        give_feedback(self.given_from_memory(entry), Verdict.DOWN)
        entry.refresh_from_db()
        edit_entry(entry)
        assert entry.doubts.exists()
        entry.answer = "Au premier étage."
        edit_entry(entry)
        assert not entry.doubts.exists()

    def test_words_of_a_report_go_with_its_conversation_and_the_bar_stays(self) -> None:
        entry = make_entry(self.deployment, "Où réserver une grande salle ?", "À l’accueil.")
        turn = self.given_from_memory(entry)
        give_feedback(turn, Verdict.DOWN, comment="Dites-le à Jeanne Martin.")
        entry.refresh_from_db()
        assert "Jeanne" in entry.status_note
        turn.conversation.delete()
        pair = WrongPair.objects.get()
        assert (pair.question, pair.reason, pair.source_turn) == ("", "", None)
        assert pair.question_hash == question_hash(QUESTION)
        entry.refresh_from_db()
        assert (entry.status, entry.status_note) == (EntryStatus.TO_REVIEW, "")
        page = superuser_client().get(admin_url(CachedResponse, "change", entry.pk))
        assert "(conversation supprimée)" in page.content.decode()

    def test_doubt_goes_with_its_conversation_and_with_its_entry(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        turn = self.given_from_memory(entry)
        give_feedback(turn, Verdict.DOWN)
        turn.conversation.delete()
        assert not entry.doubts.exists()
        give_feedback(self.given_from_memory(entry), Verdict.DOWN)
        assert delete_entries(CachedResponse.objects.filter(pk=entry.pk)) == 1
        assert not AnswerDoubt.objects.exists()

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_visitor_alone_does_not_bar_what_staff_validated_from_their_turn(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.", source_turn=self.turn.pk)
        validate_entries(CachedResponse.objects.filter(pk=entry.pk))
        self.judge("down")
        entry.refresh_from_db()
        assert entry.status == EntryStatus.VALID

    def test_thumb_down_bars_what_was_learned_from_the_turn(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        CachedResponse.objects.filter(pk=entry.pk).update(source_turn=self.turn.pk)
        self.judge("down")
        entry.refresh_from_db()
        assert entry.status == EntryStatus.TO_REVIEW

    def test_thumb_up_reports_nothing(self) -> None:
        self.judge("up")
        assert not UnansweredQuestion.objects.exists()

    def test_verdict_is_kept_where_the_report_fails_and_the_next_one_reports(self) -> None:
        failing = mock.patch(
            "chat.thread.verdicts.embedder", side_effect=EmbeddingUnavailableError("down")
        )
        with failing, self.assertLogs("chat.thread.verdicts", "ERROR"):
            assert self.judge("down").status_code == 200
        assert Feedback.objects.get().reported_at is None
        self.judge("down")
        assert Feedback.objects.get().reported_at is not None
        assert UnansweredQuestion.objects.count() == 1

    def test_follow_up_is_reported_with_the_question_that_it_leans_on(self) -> None:
        trace = Trace()
        trace.step("standalone", "follow_up")
        turn = make_exchange(self.conversation, "Et le soir ?", "Non.", trace=trace.lines)
        assert asked_question(turn) == f"{QUESTION}\nEt le soir ?"

    def test_temporary_chat_teaches_nothing(self) -> None:
        Conversation.objects.update(is_temporary=True)
        give_feedback(self.turn, Verdict.DOWN)
        assert not UnansweredQuestion.objects.exists()


def test_connection_that_opens_before_any_page_was_asked_for_can_be_searched_too() -> None:
    """A process reads its database (leases, jobs) before it loads the pages, and keeps that connection."""
    script = """
import sys
import django
django.setup()
from django.db.utils import ConnectionHandler
sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
cursor = ConnectionHandler({"default": sqlite})["default"].cursor()
assert "chat.doors.http.conversations" not in sys.modules
print(cursor.execute("SELECT repondant_folded(%s)", ["Été"]).fetchone()[0])
"""
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert ran.stdout == "ete\n", ran.stderr


class SearchTests(ReaderTest):
    def found(self, text: str) -> int:
        return len(self.client.get("/api/conversations/", {"q": text}).json()["results"])

    def test_search_minds_neither_case_nor_accents(self) -> None:
        for text in ("reserver", "RÉSERVER", "l'accueil", "salle réserver", "  "):
            assert self.found(text) == 1, text
        for text in ("réserver piscine", "50%", "_"):
            assert self.found(text) == 0, text

    def test_search_stays_with_the_own_conversations(self) -> None:
        stranger = Client()
        answer = stranger.get("/api/conversations/", {"q": "salle"}).json()
        assert answer["results"] == []

    @override_settings(SEARCH_MAX_CONVERSATIONS=1)
    def test_search_looks_at_the_latest_conversations_only(self) -> None:
        make_exchange(self.open_conversation(), "Autre chose", "Oui.")
        assert self.found("salle") == 0


class ExportTests(ReaderTest):
    def export(self, name: str, client: Client | None = None) -> Any:
        url = f"/api/conversations/{self.conversation.pk}/export"
        return (client or self.client).get(url, {"format": name})

    def test_markdown_has_questions_answers_and_sources(self) -> None:
        response = self.export("md")
        text = response.content.decode()
        assert response["Content-Type"].startswith("text/markdown")
        assert "attachment" in response["Content-Disposition"]
        for part in (f"# {QUESTION}", f"> {QUESTION}", "À l’accueil [1].", "[1] Guide > Salles"):
            assert part in text

    def test_titles_of_others_are_no_markup(self) -> None:
        evil = "[ici](javascript:x) <img src=x> `c` ![p](http://a.example/p.png)"
        self.source({"n": 1, "title": evil, "question": evil, "text": ""})
        Conversation.objects.update(title=evil)
        lines = self.export("md").content.decode().splitlines()
        for line in (lines[0], lines[-1]):
            html = MarkdownIt().render(line.replace("[1] ", ""))
            assert not any(tag in html for tag in ("<a", "<img", "<code")), html
            assert "![p](http://a.example/p.png)" in html

    def test_json_is_whole(self) -> None:
        [exchange] = json.loads(self.export("json").content)["exchanges"]
        assert (exchange["question"], exchange["complete"]) == (QUESTION, True)
        assert exchange["sources"][0]["text"] == "Le texte."

    def test_pdf_shows_french_and_says_what_it_cannot_show(self) -> None:
        answer = "Été à l’« Œuvre » : 10 €.\n\n- un\n- deux\n\n| a | b |\n|---|---|\n| c | d |\n\n`x`\n\nЖ"
        Message.objects.filter(pk=self.answer.pk).update(content=answer)
        text = "".join(
            page.extract_text() for page in PdfReader(io.BytesIO(self.export("pdf").content)).pages
        )
        for part in ("Été à l’", "« Œuvre »", "10 €", "• un", "c | d", "Guide > Salles", "« ? »"):
            assert part in text.replace("  ", " ").replace("\u00a0", " "), (part, text)

    def test_any_text_makes_a_pdf(self) -> None:
        for text in (
            "",
            "x" * 5_000,
            "# \n> > - 1. a\n\n```\n" + "y" * 300,
            "\u202e\u0007\U0001f600",
        ):
            Message.objects.filter(pk=self.answer.pk).update(content=text)
            assert self.export("pdf").content.startswith(b"%PDF"), text[:20]

    def test_only_the_owner_exports_and_only_known_formats(self) -> None:
        assert self.export("md", Client()).status_code == 404
        assert self.export("docx").status_code == 422

    def test_export_follows_the_branch(self) -> None:
        claimed = claim_turn(
            conversation_id=self.conversation.pk,
            client_message_id="a",
            question="Autrement ?",
            replaces=self.turn.pk,
        )
        assert claimed.is_new
        exchanges = json.loads(self.export("json").content)["exchanges"]
        assert [exchange["question"] for exchange in exchanges] == ["Autrement ?"]


class LinkTests(ReaderTest):
    def setUp(self) -> None:
        super().setUp()
        self.url = f"/api/conversations/{self.conversation.pk}/links"

    def share(self) -> str:
        created = self.client.post(self.url)
        assert created.status_code == 201, created.content
        return str(created.json()["url"]).removeprefix("http://testserver")

    def test_link_shows_a_copy_that_no_engine_keeps(self) -> None:
        page = self.share()
        make_exchange(self.conversation, "Plus tard ?", "Oui.")
        response = Client().get(page)
        text = response.content.decode()
        assert response.status_code == 200
        assert QUESTION in text
        assert "Le texte." in text
        assert "Plus tard" not in text
        assert "noindex" in response["X-Robots-Tag"]
        assert response["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in response["Content-Security-Policy"]

    def test_nothing_in_the_page_names_the_owner(self) -> None:
        owner = make_user(username="odile", email="odile@example.org")
        Conversation.objects.update(user=owner, visitor=None)
        self.client.force_login(owner)
        text = Client().get(self.share()).content.decode()
        assert "odile" not in text
        assert str(self.conversation.pk) not in text

    def test_text_of_a_shared_thread_is_sanitised(self) -> None:
        Message.objects.filter(turn=self.turn).update(content="<script>alert(1)</script> **x**")
        text = Client().get(self.share()).content.decode()
        assert "<script>alert" not in text

    def test_source_keeps_its_own_numbers_in_brackets(self) -> None:
        text = "Selon le décret [12], `rang[3]`."
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(
            sources=[{"n": 1, "title": "Décret", "text": text}]
        )
        page = Client().get(self.share()).content.decode()
        assert "Selon le décret [12], <code>rang[3]</code>." in page

    def test_page_lays_out_each_passage_once_and_no_more_than_so_many(self) -> None:
        texts = ["**un**", "**un**", "**deux** <b>x</b>"]
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(
            sources=[{"n": n, "title": "t", "text": text} for n, text in enumerate(texts, 1)]
        )
        link = self.share()
        with (
            mock.patch("chat.doors.page.views.MAX_RENDERED_CHARACTERS", 10),
            mock.patch("chat.doors.page.views.render_answer", wraps=render_answer) as rendered,
        ):
            page = Client().get(link).content.decode()
        assert page.count("<strong>un</strong>") == 2
        assert "**deux** &lt;b&gt;x&lt;/b&gt;" in page
        assert rendered.call_count == 2

    def test_revoked_link_opens_for_nobody_and_keeps_nothing(self) -> None:
        page = self.share()
        [listed] = self.client.get(self.url).json()["results"]
        assert Client().delete(f"{self.url}/{listed['token']}").status_code == 404
        assert self.client.delete(f"{self.url}/{listed['token']}").status_code == 204
        assert Client().get(page).status_code == 404
        assert not SharedThread.objects.exists()
        assert self.client.delete(f"{self.url}/{listed['token']}").status_code == 404

    def test_link_expires(self) -> None:
        page = self.share()
        SharedThread.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert Client().get(page).status_code == 404
        assert self.client.get(self.url).json()["results"] == []
        forget_expired()
        assert not SharedThread.objects.exists()

    def test_link_follows_the_audience_of_its_deployment(self) -> None:
        page = self.share()
        Deployment.objects.update(audience=Audience.SIGNED_IN)
        assert Client().get(page).status_code == 404
        colleague = Client()
        colleague.force_login(make_user())
        assert colleague.get(page).status_code == 200
        Deployment.objects.update(is_active=False)
        assert colleague.get(page).status_code == 404

    def test_strangers_neither_share_nor_list(self) -> None:
        assert Client().post(self.url).status_code == 404
        assert Client().get(self.url).status_code == 404

    def test_sources_are_shown_as_on_the_chat_page(self) -> None:
        source = {
            "n": 1,
            "title": "Guide > Prix > Quel prix ?",
            "question": "Quel prix ?",
            "text": "`12` euros. <script>x</script>",
        }
        Message.objects.filter(role=Role.ASSISTANT).update(sources=[source])
        page = Client().get(self.share()).content.decode()
        assert "Guide › Prix › Quel prix ?" in page
        assert "<code>12</code> euros" in page
        assert "<script>x" not in page
        assert "passage-question" not in page

    @override_settings(SHARE_MAX_LINKS=2)
    def test_links_of_a_conversation_are_bounded(self) -> None:
        for _ in range(2):
            self.share()
        refused = self.client.post(self.url)
        assert (refused.status_code, refused.json()["code"]) == (409, "sharing_refused")

    def test_temporary_chat_is_not_shared(self) -> None:
        Conversation.objects.update(is_temporary=True)
        assert self.client.post(self.url).status_code == 409

    def test_links_go_with_their_conversation(self) -> None:
        page = self.share()
        assert self.client.delete(f"/api/conversations/{self.conversation.pk}/").status_code == 204
        assert Client().get(page).status_code == 404


class RetentionTests(ReaderTest):
    def age(self, conversation: Conversation, **ago: float) -> None:
        Conversation.objects.filter(pk=conversation.pk).update(
            updated_at=timezone.now() - timedelta(**ago)
        )

    def purge(self, *arguments: str) -> dict[str, int]:
        out = io.StringIO()
        call_command("purge_conversations", "--json", *arguments, stdout=out)
        result: dict[str, int] = json.loads(out.getvalue())
        return result

    def test_temporary_chat_is_not_listed_and_goes_with_time(self) -> None:
        temporary = self.open_conversation(temporary=True)
        make_exchange(temporary, "Secret ?", "Oui.")
        listed = self.client.get("/api/conversations/", {"q": "secret"}).json()["results"]
        assert listed == []
        assert forget_expired() == 0
        self.age(temporary, hours=25)
        assert forget_expired() == 1
        assert Conversation.objects.get() == self.conversation

    def test_purge_deletes_what_is_old_for_good(self) -> None:
        self.judge("down")
        self.client.post(f"/api/conversations/{self.conversation.pk}/links")
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        CachedResponse.objects.filter(pk=entry.pk).update(source_turn=self.turn.pk)
        young = self.open_conversation()
        self.age(self.conversation, days=31)
        assert self.purge("--older-than", "30") == {"found": 1, "deleted": 1, "links": 0}
        assert Conversation.objects.get() == young
        for model in (Turn, Message, Feedback, SharedThread, UnansweredQuestion):
            assert not model._default_manager.exists(), model
        entry.refresh_from_db()
        assert entry.source_turn is None

    def test_dry_run_counts_and_deletes_nothing(self) -> None:
        self.age(self.conversation, days=31)
        assert self.purge("--older-than", "30", "--dry-run")["found"] == 1
        assert Conversation.objects.count() == 1

    def test_conversation_with_a_running_answer_is_left(self) -> None:
        make_turn(self.conversation, status=TurnStatus.RUNNING, client_message_id=str(uuid.uuid4()))
        self.age(self.conversation, days=31)
        assert self.purge("--older-than", "30")["deleted"] == 0

    def test_more_than_one_batch_is_deleted(self) -> None:
        with mock.patch("chat.archive.retention.BATCH", 2):
            for _ in range(4):
                self.open_conversation()
            Conversation.objects.update(updated_at=timezone.now() - timedelta(days=400))
            assert self.purge("--older-than", "365")["deleted"] == 5
