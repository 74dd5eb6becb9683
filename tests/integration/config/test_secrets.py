"""Secrets stay where they are configured: planted in every place, looked for in every column, log line, page and file."""

import os
import uuid
from typing import Any
from unittest import mock

from django.apps import apps
from django.db import connection
from django.test import AsyncClient, TestCase, override_settings

from agents.database import in_database
from agents.models import Deployment
from chat.models import Channel, Turn
from tests.doors.world import SITE, widget_token
from tests.factories import make_api_key, make_conversation, make_library, make_service_token, make_user
from tests.integration.chat.api.test_conversations import streamed
from tests.integration.chat.turn.test_path import NEAR
from tests.integration.chat.turn.test_tool_loop import closed, served
from tests.servers.model_server import ModelReply, ModelServer
from tools_registry.models import ToolSource
from tools_registry.sources.base import resolved_headers

#: What stands in settings and in the environment; keys, tokens and passwords are drawn in the test.
CONFIGURED = {
    "SECRET_KEY": "planted-secret-key-" + "k" * 40,
    "METRICS_TOKEN": "planted-metrics-token",
    "QDRANT_API_KEY": "planted-qdrant-key",
    "OPENAI_API_KEY": "planted-openai-key",
}
TOOL_SECRET = "planted-tool-secret"
MODEL_KEY = "planted-model-key"
PASSWORD, WRONG = "planted-Password-1", "planted-Wrong-1"


def stored_text() -> str:
    """Every column of every table, as text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT * FROM {name}")  # noqa: S608  # a name of our own
            found += [f"{table}: {row}" for row in cursor.fetchall()]
    return "\n".join(found)


class SecretsTest(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library(slug="public", allowed_origins=SITE)

    def setUp(self) -> None:
        self.enterContext(override_settings(**CONFIGURED))
        self.enterContext(mock.patch.dict(os.environ, {"TOOL_SECRET_SHOP": TOOL_SECRET}))
        self.staff = make_user(username="odile", password=PASSWORD, is_staff=True, is_superuser=True)
        self.key = make_api_key(self.deployment)
        self.service = make_service_token()[1]
        self.widget = widget_token(self.deployment, uuid.uuid4())
        self.told: list[str] = []
        source = ToolSource(slug="shop", name="Shop", kind="openapi", document="{}")
        source.headers = {"Authorization": "Bearer ${TOOL_SECRET_SHOP}"}
        source.save()
        assert TOOL_SECRET in str(resolved_headers(source.headers, []))

    @property
    def secrets(self) -> dict[str, str]:
        drawn = {"api key": self.key, "service token": self.service, "widget": self.widget}
        typed = {"password": PASSWORD, "wrong password": WRONG}
        return {**CONFIGURED, **drawn, **typed, "tool": TOOL_SECRET, "model": MODEL_KEY}

    async def hear(self, answer: Any) -> None:
        body = await streamed(answer) if answer.streaming else answer.content.decode("latin-1")
        self.told.append(f"{answer.headers} {body}")

    async def sign_in(self, client: AsyncClient) -> None:
        for password in (WRONG, PASSWORD):
            form = {"login": "odile", "password": password}
            await self.hear(await client.post("/login/?next=/admin/", form))

    async def ask_everywhere(self, client: AsyncClient) -> None:
        """By the page, a program and the widget; the model answers once and then refuses its key, repeating it."""
        asked = {"message": NEAR, "deployment": "public"}
        json = "application/json"
        await self.hear(await client.post("/api/rag/chat", asked, json))
        await self.hear(await client.post("/api/rag/chat", asked, json))
        body = {"model": "public", "messages": [{"role": "user", "content": NEAR}]}
        for key in (self.key, f"{self.key}x"):
            headers = {"Authorization": f"Bearer {key}"}
            await self.hear(await AsyncClient().post("/v1/chat/completions", body, json, headers=headers))
        headers = {"Authorization": f"Visitor {self.widget}"}
        await self.hear(await AsyncClient().post("/widget/ask", asked, json, headers=headers))
        conversation = await in_database(make_conversation, self.deployment)
        headers = {"Authorization": f"Bearer {self.service}"}
        address = f"/api/ui/chat-sessions/{conversation.pk}/messages"
        await self.hear(await AsyncClient().get(address, headers=headers))

    async def look_everywhere(self, client: AsyncClient) -> None:
        """The admin's pages of what was configured and of what happened, exports, health and figures."""
        async for turn in Turn.objects.select_related("conversation"):
            await self.hear(await client.get(f"/admin/chat/turn/{turn.pk}/change/"))
            if turn.conversation.channel == Channel.PAGE:
                for kind in ("md", "json"):
                    address = f"/api/conversations/{turn.conversation_id}/export?format={kind}"
                    await self.hear(await client.get(address))
        for model in ("chat/apikey", "tools_registry/toolsource", "auth/user"):
            await self.hear(await client.get(f"/admin/{model}/"))
            row = await apps.get_model(model.replace("/", ".")).objects.afirst()
            await self.hear(await client.get(f"/admin/{model}/{row.pk}/change/"))
        for address in ("/", "/readyz", "/metrics", "/api/schema/"):
            await self.hear(await client.get(address))

    async def test_no_planted_secret_is_found_anywhere(self) -> None:
        refused = ModelReply(status=401, error_message=f"Incorrect API key provided: {MODEL_KEY}.")
        client = AsyncClient()
        with self.assertLogs(level="DEBUG") as log, ModelServer() as server, served(server, key=MODEL_KEY):
            server.script(ModelReply(tokens=["À l'accueil [1]."]), *[refused] * 6)
            await self.sign_in(client)
            await self.ask_everywhere(client)
            await self.look_everywhere(client)
            await closed()
        places = {"rows": await in_database(stored_text), "log": "\n".join(log.output), "answers": "\n".join(self.told)}
        # What is looked through is what was said: the question is in each, by its own words where it may be.
        assert NEAR in places["rows"]
        assert NEAR in places["answers"]
        assert "turn round_id=" in places["log"]
        assert "error_code=" in places["log"] or "llm_" in places["log"]
        found: list[Any] = [
            (name, place, text[max(0, at - 60) : at + 20])
            for name, secret in self.secrets.items()
            for place, text in places.items()
            if (at := text.find(secret)) >= 0
        ]
        assert found == []
