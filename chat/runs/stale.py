"""Turns whose process died: found, read from what is left of their logs, and interrupted with that text.

Three steps that do not mix: rows, the network, rows again.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from agents.database import in_database, in_thread
from chat.runs.event_log.base import event_logs
from chat.thread.turns import StaleTurn, interrupt_turns, stale_turns


async def settle_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """Interrupt the stale turns of one conversation, or of all, step by step; returns how many there were."""
    stale = await in_database(stale_turns, conversation_id)
    if not stale:
        return 0
    return await in_database(interrupt_turns, await in_thread(_with_texts, stale))


def interrupt_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """The same in one go, for jobs and synchronous views: nothing waits for them on an event loop."""
    return interrupt_turns(_with_texts(stale_turns(conversation_id)))


def _with_texts(stale: Sequence[StaleTurn]) -> list[StaleTurn]:
    """The turns with what their readers had been told, where a log still has it."""
    logs, found = event_logs(), []
    for turn in stale:
        partial = logs.partial_answer(turn.turn_id, run=turn.run)
        if partial is not None:
            turn = replace(turn, text=partial.text, sources=partial.sources)
        found.append(turn)
    return found
