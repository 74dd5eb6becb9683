"""Limits on asking, reading and signing in, at every door."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import AsyncClient, Client, TestCase, override_settings

from agents.database import in_database
from agents.models import RuntimeSettings
from chat.access import rate_limits
from chat.models import Conversation
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

    def test_old_passwords_are_tried_no_more_often(self) -> None:
        self.allow(sign_ins_per_minute=3)
        user = make_user(is_staff=True, password="un-mot-de-passe")
        client, new = Client(), {"new_password1": "x", "new_password2": "y"}
        client.force_login(user)

        def status(old: str) -> int:
            form = {"old_password": old, **new}
            return client.post("/admin/password_change/", form).status_code

        # The right one is no failure, whatever becomes of the new one.
        assert [status("un-mot-de-passe") for _ in range(5)] == [200] * 5
        assert [status("un autre") for _ in range(4)] == [200] * 3 + [429]
        assert status("un-mot-de-passe") == 429
        sign_in = {"username": user.get_username(), "password": "un-mot-de-passe"}
        assert Client().post("/login/", sign_in).status_code == 429
        assert client.get("/admin/password_change/").status_code == 200

    def test_failures_to_sign_in_add_up_and_successes_do_not(self) -> None:
        self.allow(sign_ins_per_minute=3)
        make_user(username="anne", password="right", is_staff=True)
        right, wrong = ({"username": "anne", "password": word} for word in ("right", "wrong"))
        for address in ("/login/", "/admin/login/"):
            rate_limits.forget()
            client = Client()
            statuses = [asker.post(address, right).status_code for asker in (Client(), *[client] * 4)]
            assert statuses == [302] * 5
            statuses = [Client().post(address, wrong).status_code for _ in range(4)]
            assert statuses == [200, 200, 200, 429]
            refused = Client().post(address, right)
            assert refused.status_code == 429
            assert int(refused["Retry-After"]) >= 1
            assert Client().get(address).status_code == 200

    def tries(self, *names: str) -> list[int]:
        """The statuses of wrong passwords, each from an address of its own."""
        return [
            Client()
            .post("/login/", {"username": name, "password": "wrong"}, REMOTE_ADDR=f"203.0.113.{number}")
            .status_code
            for number, name in enumerate(names)
        ]

    def test_stranger_at_one_address_does_not_lock_the_owner_out(self) -> None:
        self.allow(sign_ins_per_minute=3)
        make_user(username="anne", password="right")
        wrong, right = {"username": "anne", "password": "wrong"}, {"username": "anne", "password": "right"}
        statuses = [Client().post("/login/", wrong, REMOTE_ADDR="203.0.113.1").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert Client().post("/login/", right, REMOTE_ADDR="198.51.100.1").status_code == 302

    @override(ADDRESSES_PER_NAME=1)
    def test_name_has_a_limit_whatever_the_addresses(self) -> None:
        self.allow(sign_ins_per_minute=3)
        assert self.tries(*["anne"] * 4) == [200, 200, 200, 429]

    def test_whoever_is_signed_in_has_no_more_tries_at_another_name(self) -> None:
        self.allow(sign_ins_per_minute=3)
        make_user(username="admin", password="right", is_staff=True)
        client = client_of(make_user(username="low"))
        for address in ("/login/", "/admin/login/"):
            rate_limits.forget()
            tried = {"username": "admin", "password": "wrong"}
            statuses = [client.post(address, tried).status_code for _ in range(4)]
            assert statuses == [200, 200, 200, 429]

    @override(ADDRESSES_PER_NAME=1)
    def test_name_is_counted_as_the_one_that_is_looked_up(self) -> None:
        self.allow(sign_ins_per_minute=3)
        written = ["admin", " admin", "admin\u3000\n", "ａｄｍｉｎ", "adⓜin"]
        for name in written:
            rate_limits.forget()
            make_user(username="admin", password="right")
            data = {"username": name, "password": "right"}
            assert Client().post("/login/", data).status_code == 302, name
            get_user_model().objects.get(username="admin").delete()
        rate_limits.forget()
        assert self.tries(*written) == [200, 200, 200, 429, 429]

    @override(ADDRESSES_PER_NAME=1)
    def test_names_that_the_database_tells_apart_are_counted_apart(self) -> None:
        self.allow(sign_ins_per_minute=1)
        assert self.tries("admin", "Admin", "ADMIN", "strasse", "straße") == [200] * 5


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
