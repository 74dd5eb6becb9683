"""Conversations over HTTP: own ones only, asked in, exported, and read where their deployment closed."""

import json
import threading
import uuid
from typing import Any
from unittest import mock

import pytest
from django.contrib.sessions.models import Session
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import AsyncClient, Client, TestCase

from agents.database import in_database
from agents.models import Audience, Deployment
from chat.api.conversations import FORMATS
from chat.models import Conversation, Message
from chat.thread.turns import claim_turn
from tests.admin_pages import client_of
from tests.factories import make_conversation, make_deployment, make_exchange, make_user
from tests.readers import QUESTION, LibraryCase, ReaderTest

KNOWN = "Quels sont les horaires d'ouverture de la bibliothèque ?"


def events_of(body: str) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for block in body.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        rows.append((fields["event"], json.loads(fields["data"])))
    return rows


async def streamed(response: HttpResponseBase) -> str:
    assert isinstance(response, StreamingHttpResponse)
    return b"".join([part async for part in response]).decode()


class ConversationApiTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()

    def create(self, client: Client) -> str:
        response = client.post("/api/conversations/", {"deployment": self.deployment.slug}, "application/json")
        assert response.status_code == 201, response.content
        return str(response.json()["id"])

    def test_conversation_is_renamed_and_deleted_by_its_owner(self) -> None:
        client = Client()
        url = f"/api/conversations/{self.create(client)}/"
        renamed = client.patch(url, {"title": " Ma question "}, "application/json")
        assert renamed.json()["title"] == "Ma question"
        assert client.patch(url, {"title": ""}, "application/json").status_code == 400
        assert client.delete(url).status_code == 204
        assert not Conversation.objects.exists()

    def test_messages_carry_sanitised_html_and_their_turn(self) -> None:
        client = Client()
        conversation = self.create(client)
        make_exchange(Conversation.objects.get(pk=conversation), "q", "**oui** <script>x</script>")
        body = client.get(f"/api/conversations/{conversation}/messages/").json()
        assert "<strong>oui</strong>" in body["messages"][1]["html"]
        assert "<script" not in body["messages"][1]["html"]
        assert body["messages"][1]["turn"]["status"] == "done"

    def test_session_without_csrf_token_is_refused(self) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(make_user())
        foreign = {"Origin": "http://testserver:8214"}
        for url in ("/api/rag/chat", "/api/conversations/"):
            with self.assertLogs("chat.api.framework") as logs:
                response = client.post(url, {"message": "Où ?"}, "application/json", headers=foreign)
            assert response.status_code == 403, url
            assert "testserver:8214" in logs.output[0]
            assert "CSRF_TRUSTED_ORIGINS" in logs.output[0]

    def test_new_conversation_hands_out_both_cookies(self) -> None:
        client = Client(enforce_csrf_checks=True)
        body = {"deployment": make_deployment().slug}
        assert client.post("/api/conversations/", body, "application/json").status_code == 201
        refused = Client().post("/api/conversations/", {**body, "temporary": True}, "application/json")
        self.assertContains(refused, "temporary", status_code=400)
        assert {"sessionid", "csrftoken"} <= client.cookies.keys()


class UnknownAddressTests(TestCase):
    def test_whatever_is_asked_for_below_api_is_told_in_json(self) -> None:
        for path in ("/api/nothing", "/api/conversations/17/export", "/api/rag/turns/a/events"):
            response = self.client.get(path, headers={"accept-language": "en"})
            assert response.status_code == 404
            assert response.json() == {"code": "not_found", "message": f"Unknown URL: GET {path}."}
        assert self.client.get("/api/conversations").status_code == 301
        assert self.client.get("/nothing")["Content-Type"].startswith("text/html")


class RagChatTests(LibraryCase):
    async def post(self, client: AsyncClient, **body: object) -> tuple[int, str]:
        response = await client.post("/api/rag/chat", body, "application/json")
        if not response.streaming:
            return response.status_code, response.content.decode()
        return response.status_code, await streamed(response)

    async def test_question_is_answered_as_events_and_saved_once(self) -> None:
        status, body = await self.post(AsyncClient(), message=KNOWN, deployment=self.deployment.slug)
        events = events_of(body)
        assert status == 200
        assert [name for name, _ in events] == ["meta", "sources", "delta", "done"]
        assert events[-1][1]["answerSource"] == "direct_qa"
        assert await in_database(Message.objects.count) == 2

    async def test_message_sent_again_with_or_without_its_conversation_is_answered_once(self) -> None:
        client = AsyncClient()
        _, first = await self.post(client, message=KNOWN, clientMessageId="a1")
        for known in ({}, {"conversationId": events_of(first)[0][1]["conversationId"]}):
            _, again = await self.post(client, message=KNOWN, clientMessageId="a1", **known)
            assert events_of(first)[0][1]["turnId"] == events_of(again)[0][1]["turnId"]
        assert await in_database(Message.objects.count) == 2
        _, stranger = await self.post(AsyncClient(), message=KNOWN, clientMessageId="a1")
        assert events_of(stranger)[0][1]["turnId"] != events_of(first)[0][1]["turnId"]
        assert await in_database(Conversation.objects.count) == 2

    async def test_program_that_kept_its_session_alone_is_given_the_token_with_the_refusal(self) -> None:
        client = AsyncClient(enforce_csrf_checks=True)
        asked = {"message": KNOWN, "clientMessageId": "a1"}
        _, first = await self.post(client, **asked)
        del client.cookies["csrftoken"]
        status, refusal = await self.post(client, **asked)
        assert (status, json.loads(refusal)["code"]) == (403, "csrf")
        headers = {"X-CSRFToken": client.cookies["csrftoken"].value}
        again = await client.post("/api/rag/chat", asked, "application/json", headers=headers)
        assert events_of(await streamed(again))[0][1] == events_of(first)[0][1]
        assert await in_database(Message.objects.count) == 2

    async def test_events_continue_after_the_last_id(self) -> None:
        client = AsyncClient()
        _, body = await self.post(client, message=KNOWN)
        turn = events_of(body)[0][1]["turnId"]
        response = await client.get(f"/api/rag/turns/{turn}/events", headers={"last-event-id": "2"})
        rest = await streamed(response)
        assert [name for name, _ in events_of(rest)] == ["delta", "done"]
        stranger = await AsyncClient().get(f"/api/rag/turns/{turn}/events")
        assert stranger.status_code == 404

    async def test_bad_requests_name_the_field(self) -> None:
        for body, status, word in (
            ({"message": ""}, 422, "message"),
            ({"message": "a" * 9000}, 422, "message"),
            ({"message": "Où ?", "conversationId": "x"}, 422, "conversationId"),
            ({"message": "Où ?", "conversationId": str(uuid.uuid4())}, 404, "conversation"),
            ({"message": "Où ?", "deployment": "nulle-part"}, 404, "guichet"),
        ):
            got, text = await self.post(AsyncClient(), **body)
            assert got == status, text
            assert word in json.loads(text)["message"]


class ExportTests(ReaderTest):
    def export(self, name: str) -> Any:
        return self.client.get(f"/api/conversations/{self.conversation.pk}/export", {"format": name})

    def test_markdown_has_questions_answers_and_sources(self) -> None:
        response = self.export("md")
        text = response.content.decode()
        assert response["Content-Type"].startswith("text/markdown")
        assert "attachment" in response["Content-Disposition"]
        for part in (f"# {QUESTION}", f"> {QUESTION}", "À l’accueil [1].", "[1] Guide > Salles"):
            assert part in text

    def test_sources_are_named_with_page_question_and_address(self) -> None:
        url = "https://a.example/regles"
        given = {"n": 1, "title": "Guide", "question": "Où ?", "text": "", "page": 3, "url": url}
        self.source(given)
        assert f"- [1] Guide, p. 3 – Où ? – {url}" in self.export("md").content.decode()
        self.source({**given, "url": "javascript:alert(1)"})
        assert "javascript" not in self.export("md").content.decode()

    def test_json_is_whole(self) -> None:
        [exchange] = json.loads(self.export("json").content)["exchanges"]
        assert (exchange["question"], exchange["complete"]) == (QUESTION, True)
        assert exchange["sources"][0]["text"] == "Le texte."

    async def test_a_file_is_written_beside_the_event_loop(self) -> None:
        written_in = []

        def write(conversation: Conversation) -> bytes:
            written_in.append(threading.current_thread())
            return b""

        client = AsyncClient()
        client.cookies = self.client.cookies
        with mock.patch.dict(FORMATS, json=("application/json", write)):
            address = f"/api/conversations/{self.conversation.pk}/export"
            assert (await client.get(address, {"format": "json"})).status_code == 200
        assert written_in != [threading.current_thread()]

    def test_only_known_formats_are_exported(self) -> None:
        assert self.export("docx").status_code == 422

    def test_export_follows_the_branch(self) -> None:
        claimed = claim_turn(
            conversation_id=self.conversation.pk, client_message_id="a", question="Autrement ?", replaces=self.turn.pk
        )
        assert claimed.is_new
        exchanges = json.loads(self.export("json").content)["exchanges"]
        assert [exchange["question"] for exchange in exchanges] == ["Autrement ?"]


pytestmark = pytest.mark.django_db
CLOSED: list[dict[str, Any]] = [{"is_active": False}, {"audience": Audience.GROUPS}]


@pytest.fixture(params=CLOSED, ids=["inactive", "another audience"])
def kept(request: pytest.FixtureRequest) -> tuple[Client, Conversation]:
    user = make_user()
    conversation = make_conversation(user=user, title="Mes horaires")
    make_exchange(conversation, "Quels horaires ?", "De neuf à dix heures.")
    Deployment.objects.update(**request.param)
    client = client_of(user)
    return client, conversation


def test_its_owner_reads_exports_and_deletes_it(kept: tuple[Client, Conversation]) -> None:
    client, conversation = kept
    address = f"/api/conversations/{conversation.pk}/"
    listed = client.get("/api/conversations/").json()["results"]
    assert [row["id"] for row in listed] == [str(conversation.pk)]
    assert client.get(address).json()["title"] == "Mes horaires"
    assert len(client.get(f"{address}messages/").json()["messages"]) == 2
    for name in ("md", "json"):
        assert client.get(f"{address}export?format={name}").status_code == 200
    assert client.delete(address).status_code == 204
    assert not Conversation.objects.exists()


def test_its_owner_asks_nothing_there(kept: tuple[Client, Conversation]) -> None:
    client, conversation = kept
    address = f"/api/conversations/{conversation.pk}/"
    asked = {"message": "Et demain ?", "conversationId": str(conversation.pk)}
    assert client.post("/api/rag/chat", asked, "application/json").status_code == 404
    assert client.patch(address, {"title": "x"}, "application/json").status_code == 404
    opened = {"deployment": conversation.deployment.slug}
    assert client.post("/api/conversations/", opened, "application/json").status_code == 404


def test_a_closed_desk_has_no_page_for_it(kept: tuple[Client, Conversation]) -> None:
    client, conversation = kept
    make_deployment(slug="ouvert")
    for slug in (conversation.deployment.slug, "ouvert"):
        shown = client.get(f"/d/{slug}/c/{conversation.pk}/")
        assert shown.status_code == 404
        assert "horaires" not in shown.content.decode()


def test_a_page_that_is_not_there_keeps_no_session() -> None:
    make_deployment()
    missing = Client().get(f"/d/none/{uuid.uuid4()}/")
    for answer in (Client().get("/d/none/"), missing):
        assert (answer.status_code, "sessionid" in answer.cookies) == (404, False)
    assert Session.objects.count() == 0
    assert "sessionid" in Client().get("/").cookies
