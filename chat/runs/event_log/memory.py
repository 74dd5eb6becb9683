"""Event logs of one process, or of several that know of each other by the database only."""

import uuid

from chat.runs.event_log.base import EventLogs, PartialAnswer, TurnLog


class MemoryEventLogs(EventLogs):
    def elsewhere(self, turn_id: uuid.UUID, *, run: int) -> TurnLog:
        return TurnLog(run)

    async def ended(self, turn_id: uuid.UUID, *, run: int) -> TurnLog | None:
        return None

    def partial_answer(self, turn_id: uuid.UUID, *, run: int) -> PartialAnswer | None:
        return None
