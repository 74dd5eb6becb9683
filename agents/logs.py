"""Lines of the log, and the id of the request they name: a context variable, which a pool of threads does not keep."""

import logging
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
    """Empty outside of requests."""
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


def outgoing_headers() -> dict[str, str]:
    """What a call to a model server says of the request that it is made for."""
    found = _current.get()
    return {HEADER: found} if found else {}


class RefusalsInOneLine(logging.Filter):
    """A refused request (4xx) is no fault of ours, and gets one line instead of a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
            record.msg, record.args = " ".join(record.getMessage().split()), ()
        return True


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's name
        line = super().formatMessage(record)
        request_id = current_request()
        return f"{line} request_id={request_id}" if request_id else line


def log_foreign_origin(origin: str, host: str) -> None:
    """Name what was compared, and the remedy where the proxy changed the host."""
    logging.getLogger(__name__).warning(
        "refused a page of %r: the request came to %r. Have the proxy pass the Host header whole, with its port "
        "(nginx: proxy_set_header Host $http_host), or name the origin in CSRF_TRUSTED_ORIGINS.",
        origin,
        host,
    )
