"""What a turn leaves behind once its answer is out: counters, a lesson, a question without an answer.

Nothing here delays an answer, and a failure costs nobody one: it is logged. A dry run leaves nothing. Until it is kept
it stands in the row of the turn, so that a worker keeps it where the process of the turn was killed or the database was
in trouble.
"""

import logging
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from django.db import DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from agents.database import PreparedSelect, PreparedUpdate, in_database, parameter, short_write
from agents.errors import ApplicationError
from chat.models import Turn, TurnStatus
from chat.thread.branches import earlier_versions
from chat.thread.verdicts import report_again
from chat.turn.values import Learning, Trace, TurnRequest, TurnResult, left_behind
from faqs.answers import record_served
from faqs.learning import remember_answer
from faqs.unanswered import keep_unanswered
from tools_registry.execution import record_selected

#: After so long a worker keeps it in the place of a process that did not, so many turns at a look.
UNSETTLED_SECONDS = 60.0
UNSETTLED_BATCH = 100

logger = logging.getLogger(__name__)


async def settle(request: TurnRequest, result: TurnResult) -> None:
    """Keep what a finished turn teaches; of one that waits for a person, which tools were chosen: it chooses once."""
    if request.turn_id is None:
        return
    try:
        for keep in _KEPT.get(result.status, ()):
            await keep(request.turn_id, result)
    except DatabaseError as error:
        logger.warning("turn round_id=%s: nothing is kept of it for now: %s", request.turn_id, error)


def settle_left_behind() -> int:
    """Keep what turns left behind whose process did not come to it; how many there were.

    Twice is as good as once, should that process live after all.
    """
    before = timezone.now() - timedelta(seconds=UNSETTLED_SECONDS)
    found = Turn.objects.exclude(unsettled="").filter(finished_at__lt=before)
    turns = list(found.order_by("finished_at")[:UNSETTLED_BATCH])
    for turn in turns:
        try:
            result = left_behind(turn)
            for keep in (_keep_question_now, _learn_now):
                keep(turn.pk, result)
        except DatabaseError:
            raise  # The next look finds it again.
        except Exception as error:
            if isinstance(error, ApplicationError) and error.retryable:
                logger.warning("round_id=%s is settled later: %s", turn.pk, error)
                break
            # Of another version, or broken: it would stop those behind it.
            logger.exception("what was left behind cannot be kept round_id=%s", turn.pk)
        _settled(turn.pk)
    return len(turns)


async def _count(_turn_id: uuid.UUID, result: TurnResult) -> None:
    """The use of a validated answer, and of the tools that were chosen for the question."""
    if result.answer.learned_id is not None:
        await in_database(record_served, result.answer.learned_id)
    if result.chosen_tools:
        await in_database(record_selected, result.chosen_tools)


def _keep_question_now(turn_id: uuid.UUID, result: TurnResult) -> None:
    if result.unanswered is not None:
        _keep_of(turn_id, partial(keep_unanswered, result.unanswered))


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
    lambda: Turn.objects.filter(pk=parameter(Turn, "id"), conversation__is_temporary=False).order_by().values_list("pk")
)


def _turn() -> "QuerySet[Turn]":
    return Turn.objects.filter(pk=parameter(Turn, "id"))


_TRACED = PreparedUpdate(_turn, {"trace": parameter(Turn, "trace"), "unsettled": ""})
_SETTLED = PreparedUpdate(_turn, {"unsettled": ""})


def _learn_now(turn_id: uuid.UUID, result: TurnResult) -> None:
    if result.learning is not None:
        _remember(turn_id, result.learning, result.trace)


async def _keep(turn_id: uuid.UUID, result: TurnResult) -> None:
    if result.unanswered is not None:
        await in_database(_keep_asked, turn_id, result)
    if result.learning is not None:
        await in_database(_learn_now, turn_id, result)


def _keep_asked(turn_id: uuid.UUID, result: TurnResult) -> None:
    _keep_question_now(turn_id, result)
    if result.learning is None:
        _settled(turn_id)


def _settled(turn_id: uuid.UUID) -> None:
    _SETTLED.run(id=turn_id)


def _remember(turn_id: uuid.UUID, learning: Learning, trace: Trace) -> None:
    """Teach the memory, and say in the trace what it kept, or why not."""
    if not _stands(turn_id):
        _settled(turn_id)
        return
    learned = remember_answer(learning.lesson, mode=learning.mode, max_age_days=learning.max_age_days)
    outcome = "not_kept" if learned.outcome == "refused" else learned.outcome
    trace.came_to("learn", outcome, detail=learned.reason, entry=learned.entry_id)
    _TRACED.run(id=turn_id, trace=trace.lines)
    report_again(turn_id)


_KEPT: dict[TurnStatus, tuple[Callable[[uuid.UUID, TurnResult], Awaitable[None]], ...]] = {
    TurnStatus.DONE: (_count, _keep),
    TurnStatus.AWAITING_APPROVAL: (_count,),
}
