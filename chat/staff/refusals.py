"""What the second key refused lately: the question asked, the stored ones that came near, and why each was not given.

Read from the traces of the last turns, so that nothing is written for it and it goes with the conversations.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from chat.models import Message, Role, Turn
from chat.staff.explanation import refusal_lines

#: Of the latest turns, how many the page of refused answers reads.
REFUSALS_MAX_TURNS = 1_000

#: Steps of a turn at which a stored answer may be refused, with the outcome that says so.
STEPS = {"memory_guard": "refused", "direct_answer": "second_key_refused"}
#: Refusals shown at once, the latest first.
_SHOWN = 100
_BATCH = 200


@dataclass(frozen=True, slots=True)
class Refusal:
    """One step of one turn. `reasons`: one line a stored question, « question (score) : why »."""

    turn_id: uuid.UUID
    asked_at: datetime
    deployment: str
    question: str
    step: str
    score: float | None
    reasons: tuple[str, ...]


def recent_refusals(turns: QuerySet[Turn], *, text: str = "", step: str = "") -> list[Refusal]:
    """The latest refusals among the last `REFUSALS_MAX_TURNS` of these turns, with `text` in a question or a reason."""
    found: list[Refusal] = []
    for turn, question in _latest(turns):
        for refusal in _refusals(turn, question):
            searched = "\n".join((refusal.question, *refusal.reasons)).casefold()
            if step in ("", refusal.step) and text.casefold() in searched:
                found.append(refusal)
        if len(found) >= _SHOWN:
            break
    return found[:_SHOWN]


def _latest(turns: QuerySet[Turn]) -> Iterator[tuple[Turn, str]]:
    """The latest turns with the question of each, in batches of two statements."""
    latest = (
        turns.order_by("-started_at", "-pk")
        .select_related("conversation__deployment")
        .only("trace", "started_at", "conversation__deployment__name")
    )
    for start in range(0, REFUSALS_MAX_TURNS, _BATCH):
        batch = list(latest[start : min(start + _BATCH, REFUSALS_MAX_TURNS)])
        refused = [turn for turn in batch if any(_is_refusal(line) for line in turn.trace)]
        asked = dict(
            Message.objects.filter(turn__in=refused, role=Role.USER).order_by("-pk").values_list("turn_id", "content")
        )
        yield from ((turn, asked.get(turn.pk, "")) for turn in refused)
        if len(turns) < _BATCH:
            return


def _is_refusal(line: dict[str, object]) -> bool:
    step = line.get("step")
    return isinstance(step, str) and step in STEPS and line.get("outcome") == STEPS[step]


def _refusals(turn: Turn, question: str) -> Iterator[Refusal]:
    for line in turn.trace:
        if _is_refusal(line):
            yield Refusal(
                turn_id=turn.pk,
                asked_at=turn.started_at,
                deployment=str(turn.conversation.deployment),
                question=question,
                step=line["step"],
                score=line.get("score"),
                # An older trace has its lines as they were written for whoever asked.
                reasons=tuple(refusal_lines(line) or filter(None, str(line.get("detail") or "").splitlines())),
            )
