"""What the log says of refused requests: one line each, with the remedy where the proxy is at fault."""

import logging


class RefusalsInOneLine(logging.Filter):
    """A refused request (4xx) is no fault of ours, and gets one line instead of a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
            record.msg, record.args = " ".join(record.getMessage().split()), ()
        return True


def log_foreign_origin(origin: str, host: str) -> None:
    """Name what was compared, and the remedy where the proxy changed the host."""
    logging.getLogger(__name__).warning(
        "refused a page of %r: the request came to %r. Have the proxy pass the Host header whole, with its port "
        "(nginx: proxy_set_header Host $http_host), or name the origin in CSRF_TRUSTED_ORIGINS.",
        origin,
        host,
    )
