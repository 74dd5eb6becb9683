"""What a turn leaves behind once its answer is out: counters, a lesson, a question without an answer, a choice.

Nothing here delays an answer, and a failure costs nobody one: it is logged. A dry run leaves nothing.
"""

import logging
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

from django.db import DatabaseError

from agents.database import in_database, short_write
from agents.processes.statements import PreparedSelect, PreparedUpdate, parameter
from chat.models import Turn, TurnStatus
from chat.thread.branches import earlier_versions
from chat.thread.verdicts import report_again
from chat.turn.trace import Trace
from chat.turn.values import Learning, TurnRequest, TurnResult
from faqs.answers.writing import record_served
from faqs.choices import keep_choice
from faqs.learning import remember_answer
from faqs.unanswered import keep_unanswered
from tools_registry.execution.usage import record_selected

logger = logging.getLogger(__name__)


async def settle(request: TurnRequest, result: TurnResult) -> None:
    """Keep what a finished turn teaches; of one that waits for a person, which tools were chosen: it chooses once."""
    if request.turn_id is None:
        return
    for keep in _KEPT.get(result.status, ()):
        await _logged(keep, request.turn_id, result)


async def _logged(
    keep: Callable[[uuid.UUID, TurnResult], Awaitable[None]],
    turn_id: uuid.UUID,
    result: TurnResult,
) -> None:
    try:
        await keep(turn_id, result)
    except DatabaseError as error:
        logger.warning("turn round_id=%s: nothing was learned from it: %s", turn_id, error)


async def _count(_turn_id: uuid.UUID, result: TurnResult) -> None:
    """The use of a validated answer, and of the tools that were chosen for the question."""
    if result.answer.learned_id is not None:
        await in_database(record_served, result.answer.learned_id)
    if result.chosen_tools:
        await in_database(record_selected, result.chosen_tools)


async def _keep_question(turn_id: uuid.UUID, result: TurnResult) -> None:
    if result.unanswered is not None:
        await in_database(_keep_of, turn_id, partial(keep_unanswered, result.unanswered))


async def _keep_choice(turn_id: uuid.UUID, result: TurnResult) -> None:
    if result.choice is not None:
        await in_database(_keep_of, turn_id, partial(keep_choice, result.choice))


def _keep_of(turn_id: uuid.UUID, keep: Callable[..., object]) -> None:
    """Keep something of a turn that may teach, with its row held: its deletion comes before this, or after all of it."""
    with short_write():
        held = Turn.objects.select_for_update(no_key=True).filter(pk=turn_id).first()
        if held is not None and _stands(turn_id):
            keep(turn_id=turn_id, earlier=earlier_versions(turn_id))


def _stands(turn_id: uuid.UUID) -> bool:
    """Whether the turn may teach: a conversation that was deleted meanwhile, or is temporary, leaves nothing."""
    return bool(_STANDING.rows(id=turn_id))


_STANDING = PreparedSelect(
    lambda: (
        Turn.objects.filter(pk=parameter(Turn, "id"), conversation__is_temporary=False)
        .order_by()
        .values_list("pk")
    )
)
_TRACED = PreparedUpdate(
    lambda: Turn.objects.filter(pk=parameter(Turn, "id")), {"trace": parameter(Turn, "trace")}
)


async def _learn(turn_id: uuid.UUID, result: TurnResult) -> None:
    learning = result.learning
    if learning is not None:
        await in_database(_remember, turn_id, learning, result.trace)


def _remember(turn_id: uuid.UUID, learning: Learning, trace: Trace) -> None:
    """Teach the memory, and say in the trace what it kept, or why not."""
    if not _stands(turn_id):
        return
    learned = remember_answer(
        learning.lesson, mode=learning.mode, max_age_days=learning.max_age_days
    )
    outcome = "not_kept" if learned.outcome == "refused" else learned.outcome
    trace.came_to("learn", outcome, detail=learned.reason, entry=learned.entry_id)
    _TRACED.run(id=turn_id, trace=trace.lines)
    report_again(turn_id)


_KEPT: dict[TurnStatus, tuple[Callable[[uuid.UUID, TurnResult], Awaitable[None]], ...]] = {
    TurnStatus.DONE: (_count, _keep_question, _keep_choice, _learn),
    TurnStatus.AWAITING_APPROVAL: (_count,),
}
