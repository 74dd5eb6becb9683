"""Places of a process and the line before them: nothing is lost of either, whoever comes, goes or gives up."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from hypothesis import given
from hypothesis import strategies as st

from chat.exceptions import OverloadedError
from chat.runs.admission import Admission

MOST = 2


@pytest.fixture(autouse=True)
def _limits(settings: Any) -> None:
    settings.TURNS_PREPARED_AT_ONCE = MOST
    settings.OVERLOAD_BURST_SECONDS, settings.OVERLOAD_WAIT_SECONDS = 0.3, 0.1


async def hold(admission: Admission, seconds: float, *, handed: bool = False) -> None:
    async with admission.room() as room:
        room.is_handed_over = handed
        await asyncio.sleep(seconds)
    room.leave()
    room.leave()


def test_burst_is_worked_off_in_line() -> None:
    async def burst() -> None:
        admission = Admission()
        await asyncio.gather(*(hold(admission, 0.02) for _ in range(12)))
        assert admission._taken == 0

    async_to_sync(burst)()


def test_line_that_stands_tells_soon() -> None:
    async def crowd() -> list[Any]:
        admission = Admission()
        holding = [asyncio.create_task(hold(admission, 1.2)) for _ in range(MOST)]
        waiting = []
        loop, told = asyncio.get_running_loop(), []

        async def come() -> None:
            began = loop.time()
            with pytest.raises(OverloadedError):
                await hold(admission, 0)
            told.append((began, loop.time() - began))

        for _ in range(25):
            waiting.append(asyncio.create_task(come()))
            await asyncio.sleep(0.02)
        await asyncio.gather(*waiting, *holding)
        assert admission._taken == 0
        assert admission._line_since is None
        return told

    told = async_to_sync(crowd)()
    assert len(told) == 25
    # The first wait as long as a burst takes, the last as long as is bearable for nothing.
    waits = [waited for _began, waited in sorted(told)]
    assert waits[0] > 0.25
    assert waits[-1] < 0.25


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), max_size=12))
def test_places_come_back_whoever_gives_up(people: list[tuple[int, bool, bool]]) -> None:
    async def some() -> None:
        admission = Admission()
        tasks = [
            asyncio.create_task(hold(admission, steps / 1000, handed=handed))
            for steps, handed, _ in people
        ]
        await asyncio.sleep(0.001)
        for task, (_steps, _handed, leaves) in zip(tasks, people, strict=True):
            if leaves:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Who was cancelled with a place in hand and had handed it over leaves it when the turn ends.
        kept = sum(
            1
            for task, (_s, handed, _l) in zip(tasks, people, strict=True)
            if task.cancelled() and handed
        )
        assert 0 <= admission._taken <= min(MOST, kept)
        assert not admission._line

    async_to_sync(some)()
