"""What a monitoring system is told, and whom."""

from typing import Any

from django.test import Client, override_settings
from prometheus_client.parser import text_string_to_metric_families

from agents.database import in_database
from agents.errors import LLMUnavailableError
from tests.admin_pages import superuser_client
from tests.integration.chat.turn.test_path import FAR, KNOWN, NEAR, ask, scripted
from tests.readers import LibraryCase

BEARER: Any = {"HTTP_AUTHORIZATION": "Bearer collector-secret"}


def figures(client: Client) -> dict[str, float]:
    """Every sample by its name and labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


class MetricsTests(LibraryCase):
    def setUp(self) -> None:
        self.staff = superuser_client()

    async def _counted(self, question: str, *replies: Any) -> dict[str, float]:
        """What one turn adds."""
        before = await in_database(figures, self.staff)
        with scripted(*replies):
            await ask(self.deployment, question)
        after = await in_database(figures, self.staff)
        return {
            name: after[name] - before.get(name, 0.0)
            for name in after
            if name.startswith("repondant_") and after[name] != before.get(name, 0.0)
        }

    def test_strangers_are_told_nothing(self) -> None:
        assert Client().get("/metrics").status_code == 403
        with override_settings(METRICS_TOKEN="collector-secret"):
            assert Client().get("/metrics", **BEARER).status_code == 200
            assert Client(HTTP_AUTHORIZATION="Bearer x").get("/metrics").status_code == 403

    async def test_turns_are_counted_by_their_exit(self) -> None:
        for question, source, calls in ((KNOWN, "direct_qa", 0), (NEAR, "llm", 1)):
            added = await self._counted(question, "Elles se réservent à l’accueil [1].")
            assert added[f"repondant_turns_total[('source', '{source}'), ('status', 'done')]"] == 1
            assert added[f"repondant_turn_seconds_count[('source', '{source}')]"] == 1
            assert added["repondant_first_text_seconds_count[]"] == 1
            assert added.get("repondant_model_calls_total[]", 0) == calls
        assert "repondant_running_turns[]" not in added

    async def test_failures_are_counted_by_their_code(self) -> None:
        added = await self._counted(NEAR, LLMUnavailableError("503"))
        assert added["repondant_turn_failures_total[('code', 'llm_unavailable')]"] == 1

    async def test_no_label_holds_what_was_asked(self) -> None:
        await self._counted(FAR, "Oui [1].")
        told = await in_database(figures, self.staff)
        assert not any("xylophone" in name for name in told)
