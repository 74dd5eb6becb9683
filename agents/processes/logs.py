"""How a line of the log looks: as text, or as one JSON object (`LOG_FORMAT=json`). Both name the request.

A caller's `extra={"facts": {…}}` are keys of the object; in a line of text they stand in its message already.
"""

import json
import logging
from datetime import UTC, datetime

from agents.processes.requests import current_request


class RefusalsInOneLine(logging.Filter):
    """A request that was refused (4xx) is no fault of ours: Django would print where, and what was asked over many
    lines.
    """

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


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := current_request():
            row["request_id"] = request_id
        row |= getattr(record, "facts", {})
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False, default=str)
