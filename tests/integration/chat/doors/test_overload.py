"""A question that comes while too much is asked: refused by its name at every door, and nothing of it is kept."""

import asyncio
from collections.abc import Iterator
from unittest import mock

import pytest
from django.test import AsyncClient, TestCase

from agents.models import Deployment
from chat.access import rate_limits
from chat.models import Conversation, Turn
from chat.runs.runner import runner
from tests.constants import override
from tests.factories import make_api_key, make_library
from tests.sockets import Socket

QUESTION = "Quels sont les horaires d'ouverture de la bibliothèque ?"


@pytest.fixture
def _overload() -> Iterator[None]:
    """No place is free, nor will be soon."""
    with mock.patch.object(runner, "_places", asyncio.Semaphore(0)), override(OVERLOAD_WAIT_SECONDS=0.01):
        yield


@pytest.mark.usefixtures("_overload")
class OverloadTests(TestCase):
    deployment: Deployment
    secret: str

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()
        cls.secret = make_api_key(cls.deployment)

    async def test_http(self) -> None:
        body = {"message": QUESTION, "deployment": self.deployment.slug}
        response = await AsyncClient().post("/api/rag/chat", body, "application/json")
        assert response.status_code == 503
        assert response.json()["code"] == "overloaded"
        assert response["Retry-After"] == "2"
        assert not await Turn.objects.aexists()
        assert not await Conversation.objects.aexists()

    async def test_refused_question_does_not_count(self) -> None:
        """Whoever comes again as told is not refused for that."""
        taken = []
        with (
            override(RATE_LIMITS=True),
            mock.patch.object(rate_limits, "_take", side_effect=lambda *limits: taken.extend(limits)),
        ):
            body = {"message": QUESTION, "deployment": self.deployment.slug}
            await AsyncClient().post("/api/rag/chat", body, "application/json")
            thread = {"model": self.deployment.slug, "messages": [{"role": "user", "content": QUESTION}]}
            headers = {"Authorization": f"Bearer {self.secret}"}
            await AsyncClient().post("/v1/chat/completions", thread, "application/json", headers=headers)
        assert not taken

    async def test_place_is_given_back_where_nothing_is_asked(self) -> None:
        runner._places.release()
        for body in ({"model": self.deployment.slug, "messages": "none"}, {"model": "nobody", "messages": []}):
            headers = {"Authorization": f"Bearer {self.secret}"}
            response = await AsyncClient().post("/v1/chat/completions", body, "application/json", headers=headers)
            assert response.status_code in (400, 404)
            assert runner._places._value == 1

    async def test_openai(self) -> None:
        for path in ("chat/completions", "completions", "responses"):
            response = await AsyncClient().post(
                f"/v1/{path}",
                {
                    "model": self.deployment.slug,
                    "messages": [{"role": "user", "content": QUESTION}],
                    "prompt": QUESTION,
                    "input": QUESTION,
                },
                "application/json",
                headers={"Authorization": f"Bearer {self.secret}"},
            )
            assert response.status_code == 503
            assert response.json()["error"]["code"] == "overloaded"
            assert response["Retry-After"] == "2"

    async def test_socket_takes_it_when_it_comes_again(self) -> None:
        client, opening = AsyncClient(), {"deployment": self.deployment.slug}
        created = await client.post("/api/conversations/", opening, "application/json")
        socket = Socket(f"/ws/chat/{created.json()['id']}/", client)
        await socket.open()
        await socket.send(type="ask", message=QUESTION, clientMessageId="a")
        [told] = await socket.until_end()
        assert (told["code"], told["retryable"]) == ("overloaded", True)
        assert told["retryAfter"] > 0
        runner._places.release()
        await socket.send(type="ask", message=QUESTION, clientMessageId="a")
        assert (await socket.until_end())[-1]["type"] == "done"
        await socket.close()
