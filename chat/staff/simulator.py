"""The simulator: a question on the production path under given settings, without writing.

Every page, command and worker that asks without a reader goes through `simulate`: a try, a replay, golden questions,
the proof of a correction. Nothing is stored, counted or learned.
"""

from asgiref.sync import async_to_sync

from agents.llm.base import language_model
from chat.protocol import Event
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult


def simulate(request: TurnRequest, *, closes_model: bool = False) -> TurnResult:
    """Answer a dry run. A worker closes the model's connections, since its event loop ends with the question."""
    return async_to_sync(_run)(request, closes_model)


async def _run(request: TurnRequest, closes_model: bool) -> TurnResult:
    try:
        return await run_turn(request, _ignore)
    finally:
        if closes_model and (model := language_model()) is not None:
            await model.aclose()


async def _ignore(event: Event) -> None:
    """Nobody follows a dry run."""
