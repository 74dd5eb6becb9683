"""The threads of requests: one each while they run, kept for those that come after."""

import asyncio
import threading
from typing import Any
from unittest import IsolatedAsyncioTestCase

import pytest
from asgiref.sync import sync_to_async

from config.request_threads import in_kept_threads


class Requests:
    """What ran where, behind `in_kept_threads`; each request takes two steps."""

    def __init__(self, most_idle: int) -> None:
        self.threads: list[set[int]] = []
        self.together = asyncio.Event()
        self._application = in_kept_threads(self._answer, most_idle)

    async def _answer(self, scope: Any, _receive: Any, _send: Any) -> None:
        first = await sync_to_async(threading.get_ident)()
        if scope.get("waits"):
            await self.together.wait()
        self.threads.append({first, await sync_to_async(threading.get_ident)()})
        if scope.get("fails"):
            raise ValueError("no")

    async def ask(self, **scope: Any) -> None:
        await self._application(scope, None, None)


class RequestThreadTests(IsolatedAsyncioTestCase):
    async def test_the_next_request_runs_in_the_same_thread(self) -> None:
        requests = Requests(most_idle=4)
        for _request in range(3):
            await requests.ask()
        with pytest.raises(ValueError, match="no"):
            await requests.ask(fails=True)
        await requests.ask()
        assert len(set.union(*requests.threads)) == 1

    async def test_requests_that_run_together_have_a_thread_each(self) -> None:
        requests = Requests(most_idle=1)
        async with asyncio.TaskGroup() as group:
            for _request in range(3):
                group.create_task(requests.ask(waits=True))
            await asyncio.sleep(0)
            requests.together.set()
        assert len(set.union(*requests.threads)) == 3
        # The others ended with their requests.
        await requests.ask()
        await requests.ask()
        assert requests.threads[-1] == requests.threads[-2]

    async def test_a_request_that_is_given_up_keeps_its_thread_until_its_step_ends(self) -> None:
        began, may_end = threading.Event(), threading.Event()

        def step() -> None:
            began.set()
            may_end.wait(10)

        async def slow(_scope: Any, _receive: Any, _send: Any) -> None:
            await sync_to_async(step)()

        application = in_kept_threads(slow, most_idle=1)
        given_up = asyncio.create_task(application(None, None, None))
        await asyncio.to_thread(began.wait, 10)
        given_up.cancel()
        next_one = asyncio.create_task(application(None, None, None))
        began.clear()
        assert await asyncio.to_thread(began.wait, 10), "it waits behind the one before"
        may_end.set()
        await next_one
        with pytest.raises(asyncio.CancelledError):
            await given_up
