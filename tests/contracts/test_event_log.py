"""Event logs: every backend for the turns of its own process, and the one that other processes can follow."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from chat.protocol import Delta, Done, Event, Failure, Meta, Sources, Tool
from chat.runs.redis_log import _EVENTS, RedisEventLogs, _extend, _key, _packed
from chat.runs.runner import EVENTS_PER_RUN, EventLogs, NumberedEvent, TurnLog
from tests.constants import override
from tests.servers.redis_server import PROGRAM, RedisServer
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.contracts

META = Meta(uuid.uuid4(), uuid.uuid4(), "a", "Un titre", "Une « question » ?")
SOURCES = Sources([{"n": 1, "title": "Règlement", "score": 0.5}])
TOOL = Tool("call-1", "clock", "done", 0, 12)
DONE = Done("done", "llm", "strict", 7, "Bonjour à tous", "t", [1, 2], "Un titre")
FAILURE = Failure("llm_timeout", "Trop tard.", retryable=True)
WORDS = [Delta(word) for word in ("Bon", "jour ", "à ", "tous")]


def _is_between(figure: Callable[[], Any], least: int, most: int) -> bool:
    return least <= int(figure()) <= most


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    if PROGRAM is None:
        pytest.skip("no redis-server on this machine (apt-get install redis-server)")
    with RedisServer() as server:
        yield server.url


@pytest.fixture(params=["memory", "redis"])
def backend(request: pytest.FixtureRequest) -> EventLogs:
    if request.param == "memory":
        return EventLogs()
    return RedisEventLogs(url=request.getfixturevalue("redis_url"))


async def read(log: TurnLog, after: int = 0) -> list[NumberedEvent]:
    return [numbered async for numbered in log.follow(after)]


def told(*events: Event) -> list[Event]:
    return [META, *events]


def text_of(events: list[NumberedEvent]) -> str:
    return "".join(event.text for _number, event in events if isinstance(event, Delta))


@asynccontextmanager
async def closed(*logs: EventLogs) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    finally:
        for one in logs:
            await one.aclose()


def test_lost_log_is_not_copied_for_ever(redis_url: str) -> None:
    async def story() -> None:
        logs = RedisEventLogs(url=redis_url)
        async with closed(logs):
            log = logs.open(uuid.uuid4())
            log.append(META)
            log.lose()
            assert logs._writing is not None
            await asyncio.wait([logs._writing])

    asyncio.run(story())


def test_reader_gets_each_event_once_and_waiting_text_joined(backend: EventLogs) -> None:
    async def story() -> list[list[NumberedEvent]]:
        async with closed(backend):
            log = backend.open(uuid.uuid4())
            for event in told(*WORDS):
                log.append(event)
            readers = [asyncio.create_task(read(log, after)) for after in (0, 5)]
            await asyncio.sleep(0.01)
            log.append(DONE)
            return [await reader for reader in readers]

    whole, rest = asyncio.run(story())
    assert whole == [(1, META), (5, Delta("Bonjour à tous")), (6, DONE)]
    # Who has seen all so far gets nothing twice.
    assert rest == [(6, DONE)]


def test_reader_that_has_seen_the_end_or_an_earlier_run_is_told_what_it_lacks() -> None:
    async def story(run: int, after: int) -> list[NumberedEvent]:
        log = TurnLog(run)
        reader = asyncio.create_task(read(log, after))
        await asyncio.sleep(0)
        for event in (META, DONE):
            log.append(event)
        return await reader

    for after in (2, 57):
        assert asyncio.run(story(0, after)) == [(2, DONE)]
    assert asyncio.run(story(1, 57)) == [(EVENTS_PER_RUN + 1, META), (EVENTS_PER_RUN + 2, DONE)]


def test_log_of_a_turn_that_went_on_is_not_dropped_with_the_first(backend: EventLogs) -> None:
    async def story() -> TurnLog | None:
        async with closed(backend):
            turn_id = uuid.uuid4()
            first = backend.open(turn_id)
            second = backend.open(turn_id, run=1)
            second.append(DONE)
            backend.drop(turn_id, first)
            held = backend.held(turn_id)
            assert held is second
            backend.drop(turn_id, second)
            return backend.held(turn_id)

    assert asyncio.run(story()) is None


# What another process sees: two backends on one Redis


def test_other_process_goes_on_after_the_last_id_in_the_middle_of_an_entry(redis_url: str) -> None:
    async def story() -> list[NumberedEvent]:
        owner, other = RedisEventLogs(url=redis_url), RedisEventLogs(url=redis_url)
        turn_id = uuid.uuid4()
        async with closed(owner, other):
            log = owner.open(turn_id)
            for event in told(*WORDS, DONE):
                log.append(event)
            return await read(other.elsewhere(turn_id, run=0), after=3)

    assert asyncio.run(story()) == [(5, Delta("à tous")), (6, DONE)]


def test_streams_die_by_themselves_the_finished_ones_first(redis_url: str) -> None:
    async def story(turn_id: uuid.UUID) -> list[int]:
        owner, times = RedisEventLogs(url=redis_url), []
        async with closed(owner):
            log = owner.open(turn_id)
            with redis.Redis.from_url(redis_url) as client:
                for event, longest in ((META, 3600), (DONE, 60)):
                    log.append(event)
                    ttl = partial(client.ttl, f"repondant:turn:{turn_id}:0")
                    await until(partial(_is_between, ttl, 0, longest))
                    times.append(int(ttl()))
        return times

    with override(EVENT_LOG_TTL_SECONDS=3600, TURN_LOG_RETENTION_SECONDS=60):
        running, ended = asyncio.run(story(uuid.uuid4()))
    assert 3500 < running <= 3600
    assert 50 < ended <= 60


def test_tokens_of_many_turns_go_to_redis_in_one_round_trip(redis_url: str) -> None:
    async def story() -> int:
        owner = RedisEventLogs(url=redis_url)
        async with closed(owner):
            turns = [uuid.uuid4() for _turn in range(100)]
            logs = [owner.open(turn_id) for turn_id in turns]
            with redis.Redis.from_url(redis_url) as client:
                before = client.info("commandstats").get("cmdstat_xadd", {}).get("calls", 0)
                for log in logs:
                    for word in WORDS * 5:
                        log.append(word)
                await until(lambda: client.info("commandstats").get("cmdstat_xadd", {}).get("calls", 0) >= before + 100)
                assert all(client.xlen(_key(turn_id, 0)) == 1 for turn_id in turns)
                after = client.info("commandstats")["cmdstat_xadd"]["calls"]
            for log in logs:
                log.append(DONE)
        return int(after) - int(before)

    # One entry for a turn, however many tokens waited.
    assert asyncio.run(story()) == 100


def test_trimmed_stream_is_lost_rather_than_told_with_a_hole(redis_url: str) -> None:
    async def story() -> tuple[bool, list[Event]]:
        owner, other = RedisEventLogs(url=redis_url), RedisEventLogs(url=redis_url)
        turn_id = uuid.uuid4()
        async with closed(owner, other):
            log = owner.open(turn_id)
            with redis.Redis.from_url(redis_url) as client:
                for number, word in enumerate(WORDS, 1):
                    log.append(word)
                    length = partial(client.xlen, _key(turn_id, 0))
                    await until(partial(_is_between, length, number, number))
                client.xtrim(f"repondant:turn:{turn_id}:0", maxlen=1, approximate=False)
            replica = other.elsewhere(turn_id, run=0)
            seen = [event for _number, event in await read(replica)]
            log.append(DONE)
            return replica.is_lost, seen

    assert asyncio.run(story()) == (True, [])


@pytest.mark.parametrize("trouble", ["killed", "frozen"])
def test_redis_in_trouble_in_mid_turn_costs_no_token_here_or_elsewhere(trouble: str) -> None:
    if PROGRAM is None:
        pytest.skip("no redis-server on this machine")

    async def story(server: RedisServer) -> tuple[list[NumberedEvent], list[NumberedEvent]]:
        owner, other = RedisEventLogs(url=server.url), RedisEventLogs(url=server.url)
        turn_id, here = uuid.uuid4(), list[NumberedEvent]()
        async with closed(owner, other):
            log = owner.open(turn_id)
            log.append(META)

            async def follow() -> None:
                async for numbered in log.follow():
                    here.append(numbered)

            reading = asyncio.create_task(follow())
            there = asyncio.create_task(read(other.elsewhere(turn_id, run=0)))
            for number in range(120):
                if number == 20:
                    server.kill() if trouble == "killed" else server.freeze()
                if number == 100:
                    # Whoever reads here waits for no Redis.
                    await until(lambda: here[-1][0] == len(log.events))
                    await asyncio.to_thread(server.start if trouble == "killed" else server.thaw)
                log.append(Delta(f"{number} "))
                await asyncio.sleep(0.03)
            log.append(DONE)
            await reading
            return here, await there

    with override(EVENT_LOG_RETRY_CEILING_SECONDS=0.3, EVENT_LOG_TIMEOUT_SECONDS=2.0), RedisServer() as server:
        here, there = asyncio.run(story(server))
    whole = "".join(f"{number} " for number in range(120))
    assert text_of(here) == text_of(there) == whole
    assert here[-1] == there[-1] == (122, DONE)


# What is written is what is read

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
events = st.one_of(
    texts.map(Delta),
    st.sampled_from([SOURCES, TOOL, FAILURE]),
    st.builds(Tool, texts, texts, st.just("running"), st.integers(0, 10), st.none(), texts),
)


@given(st.lists(events, max_size=12), st.integers(0, 3), st.data())
def test_events_survive_any_cutting_into_entries(told: list[Event], run: int, data: st.DataObject) -> None:
    whole: list[Event] = [META, *told, DONE]
    entries, position, seen = [], 0, TurnLog(run)
    while position < len(whole):
        size = data.draw(st.integers(1, len(whole) - position))
        position += size
        entry_id = f"{run * EVENTS_PER_RUN + position}-0".encode()
        packed = _packed(whole[position - size : position]).encode()
        entries.append((entry_id, {b"events": packed}))
    overlap = data.draw(st.integers(0, len(entries)))
    _extend(seen, entries[:overlap])
    _extend(seen, entries)
    assert seen.events == whole
    assert not seen.is_lost


def test_events_of_another_version_lose_the_log_and_no_more() -> None:
    log = TurnLog(run=0)
    _extend(log, [(b"1-0", {_EVENTS: b'[["done", {"html": "<p>"}]]'})])
    assert log.is_lost
    assert not log.events
