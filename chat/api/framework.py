"""What REST framework and drf-spectacular load for their settings, and therefore apart from the views, which this file
may not import.
"""

import json
import logging
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.translation import gettext as _
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import ParseError, PermissionDenied
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from chat.protocol import read_json

logger = logging.getLogger(__name__)


def log_foreign_origin(origin: str, host: str) -> None:
    """Name what was compared, and the remedy where the proxy changed the host."""
    logger.warning(
        "refused a page of %r: the request came to %r. Have the proxy pass the Host header whole, with its port "
        "(nginx: proxy_set_header Host $http_host), or name the origin in CSRF_TRUSTED_ORIGINS.",
        origin,
        host,
    )


class CarriedSession(SessionAuthentication):
    """A session, with Django's cross-site check for visitors too: REST framework asks it of signed-in people only."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        hand_out_token(request._request)
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            self.enforce_csrf(request)
        return super().authenticate(request)

    def enforce_csrf(self, request: Any) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied:
            log_foreign_origin(request.headers.get("Origin", ""), request.headers.get("Host", ""))
            raise


def hand_out_token(request: HttpRequest) -> None:
    """Set the cookie of the token with the first answer, as the session's is: a program that keeps both may go on."""
    if settings.CSRF_COOKIE_NAME not in request.COOKIES:
        get_token(request)


class StrictJSONParser(JSONParser):
    """JSON as every other door reads it, whatever encoding its header names, and no more than Django reads of a form."""

    def parse(self, stream: Any, *_arguments: Any, **_options: Any) -> Any:
        # REST framework reads the stream, past Django's own look at its length.
        body = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        if len(body) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig
        try:
            return read_json(body)
        except ValueError as error:
            raise ParseError(_("Un objet JSON est attendu.")) from error


#: What is described here, by name; `batch` and `messages` are also what the batch endpoint checks.
SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
#: By operation.
EXAMPLES: dict[str, dict[str, Any]] = SCHEMAS["examples"]


def add_questions(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A hook of drf-spectacular: the views of `/api/rag`, with an example of each body. OpenAI describes `/v1`."""
    result["paths"] |= SCHEMAS["paths"]
    result["components"] |= SCHEMAS["components"]
    for path, operations in result["paths"].items():
        for operation in operations.values():
            if path.endswith("/messages/batch"):
                operation["parameters"] += SCHEMAS["batch_headers"]
            if "chat-sessions" in path:
                for status in {"200", "409"} & operation["responses"].keys():
                    operation["responses"][status]["headers"] = {"ETag": SCHEMAS["etag"]}
            if path.startswith("/api/"):
                operation["responses"] |= dict.fromkeys(("4XX", "503"), SCHEMAS["refused"])
            if operation["operationId"] in EXAMPLES:
                content = operation["requestBody"]["content"]["application/json"]
                content["example"] = EXAMPLES[operation["operationId"]]
    return result
