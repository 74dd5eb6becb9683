"""`check_model`: what the configured language model can be trusted with, and what to switch off."""

from typing import Any

from agents.jobs import carry_out, enqueue
from agents.models import JobKind
from chat.staff.model_check import told
from knowledge.management.terminal import JsonCommand, progress_bar


class Command(JsonCommand):
    help = "Try the configured language model with the calls of production."

    def handle(self, *args: Any, **options: Any) -> None:
        with progress_bar("check", disable=None) as advance:
            outcome = carry_out(enqueue(JobKind.MODEL_CHECK, tells=False).pk, on_progress=advance)
        report = outcome.value if outcome else {"model": "", "rows": []}
        rows = told(report)
        lines = (
            f"{'ok  ' if row['passed'] else 'FAIL'} {row['label']}: {row['figure']}  {row['switch_off']}"
            for row in rows
        )
        self.tell(options, {**report, "rows": rows}, [str(report["model"]), *lines])
