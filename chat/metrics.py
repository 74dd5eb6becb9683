"""Figures about answers, for `/metrics` (`config.health`): what was answered how, how fast, and what failed.

No label holds what somebody wrote or who they are: statuses, exits and error codes only. With several web processes on
one port (`chat.serve`) their figures are added up, and those of a process that died stay counted.
"""

import time
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

#: Seconds: an answer from the memory takes milliseconds, one of the model with tools a minute.
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

TURNS = Counter("repondant_turns", "Turns that ended, by status and exit.", ["status", "source"])
FAILURES = Counter("repondant_turn_failures", "Turns that failed, by error code.", ["code"])
REFUSED = Counter("repondant_refused_questions", "Questions refused because of overload.")
MODEL_CALLS = Counter("repondant_model_calls", "Calls of the language model for answers.")
TURN_SECONDS = Histogram(
    "repondant_turn_seconds", "From the question to the stored answer.", ["source"], buckets=_BUCKETS
)
FIRST_TEXT_SECONDS = Histogram("repondant_first_text_seconds", "From the question to the first text.", buckets=_BUCKETS)
RUNNING = Gauge("repondant_running_turns", "Turns that run now.", multiprocess_mode="livesum")
SOCKETS = Gauge("repondant_sockets", "Open WebSockets.", multiprocess_mode="livesum")


class ModelSeen:
    """When the language model last answered a turn of this process, and when it last failed one."""

    def __init__(self) -> None:
        self._answered: float | None = None
        self._failed: float | None = None

    def note(self, *, failed: bool) -> None:
        if failed:
            self._failed = time.monotonic()
        else:
            self._answered = time.monotonic()

    def as_json(self) -> dict[str, Any]:
        """`status` by the later of the two; ages in seconds."""
        answered, failed = self._answered, self._failed
        status = "unknown" if answered is None else "ok"
        if failed is not None and (answered is None or failed > answered):
            status = "failing"
        return {"status": status, "answered_seconds_ago": _age(answered), "failed_seconds_ago": _age(failed)}


def _age(then: float | None) -> float | None:
    return None if then is None else round(time.monotonic() - then, 1)


MODEL_SEEN = ModelSeen()


class TurnClock:
    """Times one turn: its first text, then its end."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._has_text = False

    def text(self) -> None:
        if not self._has_text:
            self._has_text = True
            FIRST_TEXT_SECONDS.observe(time.perf_counter() - self._start)

    def milliseconds(self) -> int:
        """So far."""
        return round(1000 * (time.perf_counter() - self._start))

    def ended(self, *, status: str, source: str, llm_calls: int, error_code: str) -> None:
        """`source` is empty where the turn ended before one was chosen."""
        TURNS.labels(status, source).inc()
        MODEL_CALLS.inc(llm_calls)
        if error_code:
            FAILURES.labels(error_code).inc()
        if error_code.startswith("llm_") or (llm_calls and not error_code):
            MODEL_SEEN.note(failed=bool(error_code))
        if source:
            TURN_SECONDS.labels(source).observe(time.perf_counter() - self._start)
