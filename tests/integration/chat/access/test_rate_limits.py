"""Limits on asking, reading and signing in, at every door."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import AsyncClient, Client, TestCase, override_settings

from agents.database import in_database
from agents.models import RuntimeSettings
from chat.access import rate_limits
from chat.models import Conversation
from config import settings
from tests.admin_pages import client_of
from tests.constants import override
from tests.factories import make_api_key, make_conversation, make_exchange, make_user
from tests.integration.chat.turn.test_path import KNOWN
from tests.readers import LibraryCase
from tests.sockets import Socket


@override_settings(RATE_LIMITS=True)
class DoorTests(LibraryCase):
    @pytest.fixture(autouse=True)
    def _full_buckets(self) -> Iterator[None]:
        rate_limits.forget()
        yield
        rate_limits.forget()

    def allow(self, **limits: int) -> None:
        RuntimeSettings(values=limits).save()

    async def ask(self, client: AsyncClient, **headers: str) -> Any:
        body = {"message": KNOWN, "deployment": self.deployment.slug}
        return await client.post("/api/rag/chat", body, "application/json", headers=headers)

    async def test_person_who_asks_too_much_is_told_for_how_long_and_stores_nothing(self) -> None:
        await in_database(self.allow, asks_per_minute_user=2)
        client = AsyncClient()
        await client.get("/")
        assert [(await self.ask(client)).status_code for _ in range(2)] == [200, 200]
        refused = await self.ask(client)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert 1 <= int(refused["Retry-After"]) <= 30
        assert refused["Retry-After"] in refused.json()["message"]
        assert await in_database(Conversation.objects.count) == 2
        assert (await self.ask(AsyncClient())).status_code == 200

    async def test_address_is_limited_whoever_asks_there(self) -> None:
        await in_database(self.allow, asks_per_minute_address=2)
        answers = [(await self.ask(AsyncClient())).status_code for _ in range(3)]
        assert answers == [200, 200, 429]

    async def test_answering_again_counts_as_asking(self) -> None:
        await in_database(self.allow, asks_per_minute_user=2)
        client = AsyncClient()
        body = {"deployment": self.deployment.slug}
        created = await client.post("/api/conversations/", body, "application/json")
        conversation = await in_database(Conversation.objects.get, pk=created.json()["id"])
        turn = await in_database(make_exchange, conversation, KNOWN, "…", status="interrupted")
        retry = f"/api/rag/turns/{turn.pk}/retry"
        socket = Socket(f"/ws/chat/{conversation.pk}/", client)
        await socket.open()
        await socket.send(type="retry", turnId=str(turn.pk))
        assert (await socket.until_end())[-1]["type"] == "done"
        assert (await client.post(retry)).status_code == 200
        assert (await client.post(retry)).status_code == 429
        await socket.send(type="retry", turnId=str(turn.pk))
        assert (await socket.receive())["code"] == "rate_limited"
        await socket.close()

    def test_empty_conversations_are_not_opened_without_end(self) -> None:
        self.allow(asks_per_minute_user=2, asks_per_minute_address=3)
        client, body = Client(), {"deployment": self.deployment.slug}
        client.get("/")
        opened = [
            asker.post("/api/conversations/", body, "application/json").status_code
            for asker in (client, client, client, Client(), Client())
        ]
        assert opened == [201, 201, 429, 201, 429]
        assert Conversation.objects.count() == 3

    async def test_key_is_limited_as_openai_says_it(self) -> None:
        await in_database(self.allow, asks_per_minute_key=1, asks_per_minute_address=1)
        body = {"model": self.deployment.slug, "messages": [{"role": "user", "content": KNOWN}]}
        answers = []
        for secret in [await in_database(make_api_key, self.deployment) for _ in range(2)]:
            headers = {"Authorization": f"Bearer {secret}"}
            for _ in range(2):
                answers.append(
                    await AsyncClient().post("/v1/chat/completions", body, "application/json", headers=headers)
                )
        assert [answer.status_code for answer in answers] == [200, 429, 200, 429]
        assert answers[1].json()["error"]["code"] == "rate_limit_exceeded"
        assert int(answers[1]["Retry-After"]) >= 1

    def test_zero_is_no_limit(self) -> None:
        self.allow(asks_per_minute_user=0, asks_per_minute_address=0)
        for _ in range(500):
            rate_limits.limit_asking(1, "203.0.113.1")

    def limit_sign_ins(self) -> None:
        self.enterContext(self.settings(ACCOUNT_RATE_LIMITS=settings.ACCOUNT_RATE_LIMITS))

    def test_failures_to_sign_in_add_up_by_address_and_by_name_and_successes_do_not(self) -> None:
        self.limit_sign_ins()
        make_user(username="anne", password="right", is_staff=True)

        def opens(word: str, address: str = "203.0.113.1", name: str = "anne") -> bool:
            form, client = {"login": name, "password": word}, Client(REMOTE_ADDR=address)
            client.post("/login/", form)
            return "_auth_user_id" in client.session

        assert all(opens("right") for _ in range(12))
        assert not any(opens("wrong") for _ in range(10))
        assert not opens("right")
        # A stranger at one address does not lock the owner out; many do.
        assert opens("right", "198.51.100.1")
        assert not any(opens("wrong", f"192.0.2.{number}") for number in range(40))
        assert not opens("right", "198.51.100.1")

    def test_old_passwords_are_tried_no_more_often(self) -> None:
        self.limit_sign_ins()
        client = client_of(make_user(password="un-mot-de-passe"))
        tried = {"oldpassword": "un autre", "password1": "x", "password2": "y"}
        answers = [client.post("/password/", tried) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        self.assertContains(answers[-1], "Trop d’essais", status_code=429)

    def test_whoever_is_signed_in_tries_no_other_name(self) -> None:
        make_user(username="admin", password="right", is_staff=True)
        client = client_of(low := make_user(username="low"))
        for word in ("wrong", "right"):
            self.assertRedirects(client.post("/login/", {"login": "admin", "password": word}), "/")
        assert client.session["_auth_user_id"] == str(low.pk)


LIST = "/api/conversations/"


@override(RATE_LIMITS=True, READS_PER_MINUTE=5, EXPORTS_PER_MINUTE=2, READERS_PER_ADDRESS=3)
class ReadingTests(TestCase):
    """Lists, messages and exports are counted for each caller, and for each address."""

    def setUp(self) -> None:
        rate_limits.forget()
        self.addCleanup(rate_limits.forget)
        user = make_user()
        conversation = make_conversation(user=user, title="t")
        make_exchange(conversation, "Quels horaires ?", "De neuf à dix heures.")
        self.client, self.own = client_of(user), f"{LIST}{conversation.pk}/"

    def test_reading_is_counted_for_each_caller(self) -> None:
        addresses = [LIST, self.own, f"{self.own}messages/", LIST, LIST, LIST]
        answers: list[Any] = [self.client.get(address) for address in addresses]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 429]
        assert answers[-1].json()["code"] == "rate_limited"
        assert int(answers[-1]["Retry-After"]) > 0
        assert Client().get(LIST).status_code == 200
        # What somebody deletes is not held back by what they have read.
        assert self.client.delete(self.own).status_code == 204

    def test_exports_have_a_limit_of_their_own(self) -> None:
        answers = [self.client.get(f"{self.own}export?format=md").status_code for _ in range(3)]
        assert answers == [200, 200, 429]
        assert self.client.get(LIST).status_code == 200

    def test_a_new_visitor_each_time_is_counted_by_address(self) -> None:
        assert [Client().get(LIST).status_code for _ in range(16)] == [200] * 15 + [429]
