"""Turns errors into HTTP responses, for all of `chat.api`: the error's own status, its `code` and its message.
`session_error` serves the batch endpoint: a 422 names the wrong fields, a 409 carries the current `ETag`.
"""

import logging
import math
import os
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from agents.database import storage_error
from agents.errors import ApplicationError, StorageUnavailableError
from chat.errors import (
    InvalidMessageError,
    InvalidToolMessageError,
    MessageTooLargeError,
    ThreadConflictError,
    UnreadableTextError,
)
from chat.protocol import require_utf8_form
from chat.thread.messages import gone_error, still_there

logger = logging.getLogger(__name__)

AsyncView = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def content_policy(**directives: str) -> str:
    """Nothing but what comes from this site; `directives` are added (`img_src`), or take the place of these."""
    allowed = {
        "default_src": "'none'",
        "script_src": "'self'",
        "style_src": "'self'",
        "connect_src": "'self'",
        "form_action": "'none'",
        "base_uri": "'none'",
        **directives,
    }
    return "; ".join(f"{name.replace('_', '-')} {value}" for name, value in allowed.items())


def error_response(error: ApplicationError, **more: Any) -> JsonResponse:
    body = {"code": error.code, "message": str(error.public_message), **more}
    response = JsonResponse(body, status=error.status)
    if error.retry_after is not None:
        response["Retry-After"] = str(math.ceil(error.retry_after))
    return response


def answering_errors(
    check: Callable[[HttpRequest], None] | None = None,
    present: Callable[[ApplicationError], HttpResponse] = error_response,
) -> Callable[[AsyncView], AsyncView]:
    """A plain view without Django's own cross-site check: `check` admits its requests, `present` answers our errors."""

    def decorated(view: AsyncView) -> AsyncView:
        @csrf_exempt
        @wraps(view)
        async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                if check is not None:
                    check(request)
                with still_there():
                    return await view(request, *args, **kwargs)
            except (ApplicationError, DatabaseError, InterfaceError) as error:
                if (told := storage_error(error)) is not None:
                    return logged(present(told), told)
                if isinstance(error, ApplicationError):
                    return present(error)
                raise

        return wrapped

    return decorated


def _tell_length(request: HttpRequest) -> None:
    """A body that came in chunks is on the disk by now: bounds hold for its length as for one that was announced."""
    if "HTTP_TRANSFER_ENCODING" in request.META:
        body = request._stream
        request.META["CONTENT_LENGTH"] = str(body.seek(0, os.SEEK_END))
        body.seek(0)


@sync_and_async_middleware
def utf8_forms_only(get_response: Any) -> Any:
    """Ahead of whatever reads a form, Django's cross-site check first."""

    def refused(request: HttpRequest) -> HttpResponse | None:
        _tell_length(request)
        try:
            require_utf8_form(request)
        except UnreadableTextError as error:
            return error_response(error)
        return None

    async def asynchronous(request: HttpRequest) -> HttpResponseBase:
        return refused(request) or await get_response(request)

    def synchronous(request: HttpRequest) -> HttpResponseBase:
        return refused(request) or get_response(request)

    return asynchronous if iscoroutinefunction(get_response) else synchronous


def rest_error(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Ours as everywhere, also a body too large to be read; the others as REST framework answers them."""
    if isinstance(error, RequestDataTooBig):
        error = MessageTooLargeError.beyond(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if (told := storage_error(error)) is not None:
        return logged(error_response(told), told)
    error = gone_error(error) or error
    if isinstance(error, ApplicationError):
        return error_response(error)
    return exception_handler(error, context)


def logged(response: HttpResponse, error: StorageUnavailableError) -> HttpResponse:
    """Log one line for a request that met a database in trouble, in place of Django's traceback."""
    logger.warning("storage unavailable status=%d detail=%s", response.status_code, error)
    response._has_been_logged = True  # type: ignore[attr-defined]  # Django's own mark
    return response


def session_error(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """What servers are answered: always a `code`; which fields are wrong, or the version that they have missed."""
    if isinstance(error, ValidationError):
        return error_response(InvalidToolMessageError(), errors=error.detail)
    if isinstance(error, ThreadConflictError):
        etag = f'"{error.version}"'
        conflict = error_response(error, etag=etag)
        conflict["ETag"] = etag
        return conflict
    if isinstance(error, ParseError):
        error = InvalidMessageError("not JSON", public_message=_("Un objet JSON est attendu."))
    if isinstance(error, UnreadableTextError):
        # Servers are promised a 422 for whatever is wrong with a body.
        error = InvalidMessageError(str(error), public_message=error.public_message)
    response = rest_error(error, context)
    if isinstance(response, Response) and "detail" in response.data:
        detail = response.data["detail"]
        response.data = {"code": getattr(detail, "code", "error"), "message": str(detail)}
    return response
