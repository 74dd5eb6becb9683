"""The threads in which HTTP requests take their synchronous steps: kept for the next request, and their database
connections with them.
"""

from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext

Application = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


class _Thread(ThreadPoolExecutor):
    """One thread that knows its last step."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="request")
        self._last: Future[Any] | None = None

    def submit(self, step: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._last = super().submit(step, *args, **kwargs)
        return self._last

    def when_free(self, then: Callable[[], None]) -> None:
        """Now, or from the thread where the step of a request that was given up still runs."""
        if self._last is None or self._last.done():
            then()
        else:
            self._last.add_done_callback(lambda _step: then())


def in_kept_threads(application: Application, most_idle: int) -> Application:
    """The application with a thread of its own for each request that runs, as Django gives it, but not always a new
    one.

    Django starts a thread with each request, another to end it, and opens a database connection in it: 3 of the 8 ms of
    processor time of opening a conversation. At most `most_idle` threads wait for a request.
    """
    idle: list[_Thread] = []

    def keep(thread: _Thread) -> None:
        if len(idle) < most_idle:
            idle.append(thread)
        else:
            thread.shutdown(wait=False)

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        thread = idle.pop() if idle else _Thread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await application(scope, receive, send)
        finally:
            thread.when_free(lambda: keep(thread))

    return wrapped
