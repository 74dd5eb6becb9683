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
    settings.OVERLOAD_OPENING_SECONDS = 0.3


async def hold(admission: Admission, seconds: float, *, handed: bool = False, opens: bool = False) -> None:
    async with admission.room(opens=opens) as room:
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
        assert admission._asking._since is None
        return told

    told = async_to_sync(crowd)()
    assert len(told) == 25
    # The first wait as long as a burst takes, the last as long as is bearable for nothing.
    waits = [waited for _began, waited in sorted(told)]
    assert waits[0] > 0.25
    assert waits[-1] < 0.25


def test_process_that_is_ending_works_off_what_was_sent_to_it() -> None:
    async def crowd() -> None:
        admission = Admission()
        admission.announce_end()
        # Twice as long as a burst may wait.
        await asyncio.gather(*(hold(admission, 0.1, opens=True) for _ in range(12)))
        assert admission._taken == 0

    async_to_sync(crowd)()


def test_question_that_opens_its_conversation_waits_once_and_so_for_both(settings: Any) -> None:
    settings.OVERLOAD_OPENING_SECONDS = 0.05

    async def crowd() -> None:
        admission = Admission()
        holding = [asyncio.create_task(hold(admission, 0.15)) for _ in range(MOST)]
        await asyncio.sleep(0)

        async def come(*, asks: bool) -> None:
            async with admission.room(opens=True, asks=asks):
                pass

        [refused, asked] = await asyncio.gather(come(asks=False), come(asks=True), return_exceptions=True)
        await asyncio.gather(*holding)
        assert (type(refused), asked) == (OverloadedError, None)

    async_to_sync(crowd)()


def test_who_has_a_conversation_goes_before_who_opens_one() -> None:
    async def crowd() -> list[str]:
        admission, order = Admission(), list[str]()
        holding = [asyncio.create_task(hold(admission, 0.05)) for _ in range(MOST)]
        await asyncio.sleep(0)

        async def come(name: str, *, opens: bool) -> None:
            await hold(admission, 0.01, opens=opens)
            order.append(name)

        opening = [asyncio.create_task(come("opens", opens=True)) for _ in range(4)]
        await asyncio.sleep(0)
        asking = [asyncio.create_task(come("asks", opens=False)) for _ in range(4)]
        await asyncio.gather(*holding, *opening, *asking)
        assert admission._taken == 0
        return order

    assert async_to_sync(crowd)() == ["asks"] * 4 + ["opens"] * 4


@given(st.lists(st.tuples(st.integers(0, 4), *[st.booleans()] * 3), max_size=12))
def test_places_come_back_whoever_gives_up(people: list[tuple[int, bool, bool, bool]]) -> None:
    async def some() -> None:
        admission = Admission()
        tasks = [
            asyncio.create_task(hold(admission, steps / 1000, handed=handed, opens=opens))
            for steps, handed, _, opens in people
        ]
        await asyncio.sleep(0.001)
        for task, (_steps, _handed, leaves, _opens) in zip(tasks, people, strict=True):
            if leaves:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Who was cancelled with a place in hand and had handed it over leaves it when the turn ends.
        kept = sum(1 for task, (_s, handed, _l, _o) in zip(tasks, people, strict=True) if task.cancelled() and handed)
        assert 0 <= admission._taken <= min(MOST, kept)
        assert not admission._asking._places
        assert not admission._opening._places

    async_to_sync(some)()
