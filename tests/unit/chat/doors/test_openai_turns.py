"""What a client of `/v1` is told when the process that ran its turn dies: the text goes on, nothing of it comes twice."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from chat.api.v1 import views
from chat.protocol import Delta, Done, Event, Meta
from chat.runs.runner import runner

TURN = uuid.uuid4()


def told(text: str) -> list[Event]:
    """A turn's events as they are told from the start, its text in two pieces."""
    meta = Meta(TURN, uuid.uuid4(), "a", "title", "question")
    half = len(text) // 2
    return [meta, Delta(text[:half]), Delta(text[half:])]


@pytest.mark.parametrize("first", ["", "Un", "Un début", "Un début et la fin."])
def test_text_that_is_told_again_comes_once(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "Un début et la fin."
    done = Done("done", "llm", "m", 1, whole)

    async def follow(turn_id: uuid.UUID, after: int = 0) -> AsyncIterator[tuple[int, Event]]:
        for number, event in enumerate([*told(first), *told(whole), done], start=1):
            yield number, event

    monkeypatch.setattr(runner, "follow", follow)

    async def read() -> list[Event]:
        return [event async for event in views.follow_turn(TURN, language="fr")]

    events = asyncio.run(read())
    assert "".join(event.text for event in events if isinstance(event, Delta)) == whole
    assert events[-1] == done
