"""The examples of `/api/schema/`, sent as they stand to a site with a deployment `demo`."""

from typing import Any

from django.test import TestCase
from drf_spectacular.generators import SchemaGenerator

from agents.database import in_database
from chat.api.schema import EXAMPLES
from chat.models import Conversation
from config.version import VERSION
from tests.factories import make_api_key, make_deployment


def _operations() -> dict[str, tuple[str, dict[str, Any]]]:
    generator: Any = SchemaGenerator
    paths = generator().get_schema(request=None, public=True)["paths"]
    return {
        operation["operationId"]: (path, operation) for path, found in paths.items() for operation in found.values()
    }


class SchemaExamplesTest(TestCase):
    def test_examples_stand_in_the_schema(self) -> None:
        operations = _operations()
        for name, example in EXAMPLES.items():
            body = operations[name][1]["requestBody"]["content"]["application/json"]
            assert body["example"] == example
        below = {"turn_events", "turn_retry", "turn_stop"}
        assert {"rag_chat", "conversations_delete_several", *below} <= set(operations)

    def test_a_version_that_a_caller_names_goes_into_no_header(self) -> None:
        for version in ("%0a", "%00", "x%22%3bfoo%3d1"):
            answer = self.client.get(f"/api/schema/?version={version}")
            assert answer.status_code == 200
            assert VERSION in answer["Content-Disposition"]

    async def test_examples_run(self) -> None:
        deployment = await in_database(lambda: make_deployment(slug="demo"))
        secret = await in_database(make_api_key, deployment)
        operations = _operations()
        for name in EXAMPLES:
            path = operations[name][0]
            if "{" not in path:
                held = {"Authorization": f"Bearer {secret}"} if path.startswith("/v1") else {}
                response: Any = await self.async_client.post(
                    path, EXAMPLES[name], content_type="application/json", headers=held
                )
                assert response.status_code in (200, 201), (name, response.content)
                if response.streaming:
                    told = b"".join([part async for part in response])
                    assert b"event: done" in told
        assert await Conversation.objects.acount()
