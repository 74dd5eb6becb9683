"""How tests wait and how they bound work: on conditions and on work done, never on the clock of a busy machine."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from django.db import connections

Result = TypeVar("Result")

#: Reached only where what is awaited never comes; several busy programs on the same cores stay well below.
PATIENCE_SECONDS = 60.0


def wait_until(condition: Callable[[], object], patience: float = PATIENCE_SECONDS) -> None:
    """Return as soon as the condition holds."""
    limit = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < limit, "What the test waits for does not come."
        time.sleep(0.02)


async def until(condition: Callable[[], object], patience: float = PATIENCE_SECONDS) -> None:
    """The same in an event loop; the condition runs in the loop."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110  # any condition, not only an event of our own
            await asyncio.sleep(0.01)


def in_threads(*works: Callable[[], Result]) -> list[Result]:
    """Do all of this at once, each in a thread with a database connection of its own, as other processes would.

    Returns what each returned, and raises what one raised.
    """
    together = threading.Barrier(len(works))

    def run(work: Callable[[], Result]) -> Result:
        try:
            together.wait(PATIENCE_SECONDS)
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


@contextmanager
def little_work(seconds: float) -> Iterator[None]:
    """What is inside keeps a processor busy for no longer; the time that other programs take does not count."""
    before = time.thread_time()
    yield
    assert time.thread_time() - before < seconds
