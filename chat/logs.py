"""The one place that logs about a turn: identifiers, outcomes and sizes.

The text of a message reaches the log here alone: at level DEBUG, and the stored question of a direct answer at INFO;
shortened, and with everything masked that may name a person (addresses, numbers, words with a capital).
"""

import logging
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

from agents.errors import ApplicationError
from agents.llm.base import PromptMessage, RequestedCall
from chat.exceptions import IsolationError

logger = logging.getLogger(__name__)


def log_turn(facts: Mapping[str, object], error: ApplicationError | None = None) -> None:
    """One line a turn. The text of an error of ours names statuses and identifiers, never what a person wrote."""
    level = logging.INFO
    if error is not None:
        level = logging.ERROR if isinstance(error, IsolationError) else logging.WARNING
        facts = {**facts, "error": error.code, "detail": str(error)}
    line = " ".join(f"{name}={value}" for name, value in facts.items())
    logger.log(level, "turn %s", line, extra={"facts": facts})


def log_direct_answer(turn_id: uuid.UUID | None, agent: str, stored_question: str, score: float) -> None:
    """A stored answer was given without a model (seed 001, section 5.1.2): whose question it is the answer to."""
    logger.info(
        "direct answer round_id=%s agent=%s score=%.4f question_matched=%s",
        turn_id,
        agent,
        score,
        masked(stored_question),
    )


#: How many of the last messages are logged before a call (seed 002, section VI).
LOGGED_MESSAGES = 8
LOGGED_CHARACTERS = 120
_PERSONAL = re.compile(r"\S*@\S*|\w+://\S+|\S*\d\S*|(?<!\w)[^\W\d_a-zà-öø-ÿ][\w’'-]*")


def masked(text: str) -> str:
    """A short excerpt without addresses, numbers and capitalised words."""
    return _PERSONAL.sub("•••", " ".join(text[: 4 * LOGGED_CHARACTERS].split()))[:LOGGED_CHARACTERS]


def log_model_call(
    messages: Sequence[PromptMessage], *, turn_id: uuid.UUID | None, operation_id: uuid.UUID | None, round_index: int
) -> None:
    """One line before a call of the loop: which messages it ends with, by role and size."""
    shown = [_shape(message) for message in messages[-LOGGED_MESSAGES:]]
    logger.info(
        "model call round_id=%s operation_id=%s relance_index=%d messages=%d last=%s",
        turn_id,
        operation_id,
        round_index,
        len(messages),
        " ".join(shown),
    )
    if logger.isEnabledFor(logging.DEBUG):
        for message in messages[-LOGGED_MESSAGES:]:
            logger.debug("round_id=%s %s: %s", turn_id, message.role, masked(message.content))


def _shape(message: PromptMessage) -> str:
    if message.tool_calls:
        return f"assistant(tool_calls={len(message.tool_calls)})"
    return f"{message.role}({len(message.content)})"


def log_tool_calls(calls: Iterable[RequestedCall], *, turn_id: uuid.UUID | None, round_index: int) -> None:
    """The calls of a round, by name and id; arguments stay out."""
    named = " ".join(f"{call.name}({call.id})" for call in calls)
    logger.info("tool calls round_id=%s relance_index=%d calls=%s", turn_id, round_index, named)


def log_batch(
    event: str, *, turn_id: uuid.UUID | None, operation_id: uuid.UUID, round_index: int, applied: bool | None
) -> None:
    """How a batch went: `applied`, `replayed`, `conflict` (then `applied` is unknown), `repaired`."""
    logger.info(
        "batch %s round_id=%s operation_id=%s relance_index=%d applied=%s",
        event,
        turn_id,
        operation_id,
        round_index,
        "unknown" if applied is None else str(applied).lower(),
    )


def log_isolation(conversation_id: uuid.UUID | None, foreign: Iterable[uuid.UUID | None]) -> None:
    logger.error(
        "isolation violated session_id=%s foreign=%s",
        conversation_id,
        ",".join(sorted({str(identifier) for identifier in foreign})),
    )
