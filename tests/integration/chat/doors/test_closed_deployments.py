"""A deployment that closed: its people read, take and delete what they said there; they ask nothing, and nobody else
reads it.
"""

import uuid
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from agents.models import Audience, Deployment
from chat.models import Conversation
from tests.factories import make_conversation, make_deployment, make_exchange, make_user

pytestmark = pytest.mark.django_db
CLOSED: list[dict[str, Any]] = [{"is_active": False}, {"audience": Audience.GROUPS}]


@pytest.fixture(params=CLOSED, ids=["inactive", "another audience"])
def kept(request: pytest.FixtureRequest) -> tuple[Client, Conversation]:
    user = make_user()
    conversation = make_conversation(user=user, title="Mes horaires")
    make_exchange(conversation, "Quels horaires ?", "De neuf à dix heures.")
    Deployment.objects.update(**request.param)
    client = Client()
    client.force_login(user)
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


def test_its_owner_asks_and_shares_nothing_there(kept: tuple[Client, Conversation]) -> None:
    client, conversation = kept
    address = f"/api/conversations/{conversation.pk}/"
    asked = {"message": "Et demain ?", "conversationId": str(conversation.pk)}
    assert client.post("/api/rag/chat", asked, "application/json").status_code == 404
    assert client.post(f"{address}links", {}, "application/json").status_code == 404
    assert client.patch(address, {"title": "x"}, "application/json").status_code == 404
    opened = {"deployment": conversation.deployment.slug}
    assert client.post("/api/conversations/", opened, "application/json").status_code == 404


def test_nobody_else_reads_it(kept: tuple[Client, Conversation]) -> None:
    _client, conversation = kept
    stranger = Client()
    stranger.force_login(make_user(username="stranger"))
    address = f"/api/conversations/{conversation.pk}/"
    for client in (stranger, Client()):
        for path in ("", "messages/", "export"):
            assert client.get(f"{address}{path}").status_code == 404
        assert client.delete(address).status_code == 404
    assert Conversation.objects.exists()


def page_of(conversation: Conversation) -> str:
    return f"/d/{conversation.deployment.slug}/c/{conversation.pk}/"


def test_its_owner_has_a_page_to_read_export_and_delete(kept: tuple[Client, Conversation]) -> None:
    client, conversation = kept
    shown = client.get(page_of(conversation))
    page = shown.content.decode()
    assert shown.status_code == 200
    for part in ("Ce service est fermé", "Quels horaires ?", "De neuf à dix heures.", "format=json"):
        assert part in page
    for gone in ('id="composer"', "<textarea", "page.js"):
        assert gone not in page
    desk = client.get(f"/d/{conversation.deployment.slug}/")
    assert desk.status_code == 404
    assert page_of(conversation) in desk.content.decode()


def test_nobody_else_has_that_page(kept: tuple[Client, Conversation]) -> None:
    _client, conversation = kept
    stranger = Client()
    stranger.force_login(make_user(username="stranger"))
    for client in (stranger, Client()):
        for address in (page_of(conversation), f"/d/{conversation.deployment.slug}/"):
            shown = client.get(address)
            assert shown.status_code == 404
            assert "horaires" not in shown.content.decode()


def test_open_deployments_page_is_no_way_to_it(kept: tuple[Client, Conversation]) -> None:
    client, conversation = kept
    make_deployment(slug="ouvert")
    assert client.get(f"/d/ouvert/c/{conversation.pk}/").status_code == 404


def test_a_page_that_is_not_there_keeps_no_session() -> None:
    make_deployment()
    missing = Client().get(f"/d/none/{uuid.uuid4()}/")
    for answer in (Client().get("/d/none/"), missing):
        assert (answer.status_code, "sessionid" in answer.cookies) == (404, False)
    assert Session.objects.count() == 0
    assert "sessionid" in Client().get("/").cookies
