"""The id of the request that this code works for: from the web server through a worker's task to the call of a model.

A context variable, so that tasks of the event loop and steps in threads keep it by themselves; a pool of threads does
not (`contextvars.copy_context`). It names no person and is nobody's secret.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: How the id travels: from a proxy, to the client, to a model server.
HEADER = "X-Request-ID"
#: Of what a proxy sends, only what can stand in a log line and in a header as it is.
_SAFE = re.compile(r"[A-Za-z0-9._-]{8,64}")

_current: ContextVar[str] = ContextVar("request_id", default="")


def current_request() -> str:
    """Empty outside of requests and tasks."""
    return _current.get()


def accepted_id(given: str) -> str:
    """The id that was given where its shape is safe, else a new one."""
    return given if _SAFE.fullmatch(given) else uuid.uuid4().hex


@contextmanager
def working_for(request_id: str) -> Iterator[None]:
    token = _current.set(request_id)
    try:
        yield
    finally:
        _current.reset(token)


def work_for(request_id: str) -> None:
    """For a worker's process, which does one task after the other; empty at the end of each."""
    _current.set(request_id)


def outgoing_headers() -> dict[str, str]:
    """What a call to a model server says of the request that it is made for."""
    found = _current.get()
    return {HEADER: found} if found else {}
