"""Django's error handlers: a database in trouble (`handler500`), a form that is too long (`handler400`), an unknown
address of the API (`handler404`). Sessions and forms fail in the middleware, where no view can catch their errors.
"""

import math
import sys
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext
from django.views.defaults import bad_request, page_not_found, server_error

from agents.database import storage_error
from agents.errors import ApplicationError
from chat.api.errors import content_policy, error_response, logged
from chat.api.openai_forms import WireError, client_language
from chat.errors import MessageTooLargeError

#: All files of one form together.
MAX_UPLOAD_BYTES = 500 * 1024 * 1024


class _FilesTooLargeError(RequestDataTooBig):
    """All files of a form."""


class UploadsTogether(FileUploadHandler):
    """Refuses a form whose files together are larger than `MAX_UPLOAD_BYTES`; other handlers take the files."""

    def handle_raw_input(
        self, input_data: Any, META: Any, content_length: int, boundary: str, encoding: str | None = None
    ) -> None:
        if content_length > MAX_UPLOAD_BYTES:
            raise _FilesTooLargeError

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None


def failed(request: HttpRequest) -> HttpResponse:
    """Answer an overload: JSON for programs, a page that comes back by itself for a browser."""
    error = storage_error(sys.exc_info()[1])
    if error is None:
        return server_error(request)
    with translation.override(_language(request)):
        return logged(_said(request, error), error)


def refused(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses to read, as it says so itself, but for a text that is too long: whoever wrote it is told the
    way out."""
    if not isinstance(exception, (RequestDataTooBig, TooManyFieldsSent)):
        return bad_request(request, exception)
    with translation.override(_language(request)):
        if isinstance(exception, TooManyFieldsSent):
            message = gettext("Trop de lignes à la fois : au plus %(limit)d. Filtrez la liste, puis recommencez.")
            limit = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
            return _said(request, MessageTooLargeError("too many fields", public_message=message % {"limit": limit}))
        if isinstance(exception, _FilesTooLargeError):
            return _said(request, MessageTooLargeError.beyond(MAX_UPLOAD_BYTES))
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        message = gettext(
            "Ce texte dépasse %(limit)d Mo. Revenez à la page précédente, où votre saisie est encore, et donnez-le comme "
            "fichier là où le formulaire en prend un."
        ) % {"limit": limit // 1024**2}
        return _said(request, MessageTooLargeError("form too large", public_message=message))


class UnknownAddressError(ApplicationError):
    code = "not_found"
    status = 404


def unknown(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Programs read JSON; a browser gets the page of Django."""
    if not request.path_info.startswith("/api/"):
        return page_not_found(request, exception)
    message = gettext("Adresse inconnue : %(method)s %(path)s.") % {"method": request.method, "path": request.path}
    return error_response(UnknownAddressError("no such address", public_message=message))


def _language(request: HttpRequest) -> str:
    if request.path_info.startswith("/v1/"):
        return client_language(request)
    return translation.get_language_from_request(request)


def _said(request: HttpRequest, error: ApplicationError) -> HttpResponse:
    if request.path_info.startswith("/v1/"):
        return WireError.of(error).response()
    if "text/html" in request.headers.get("Accept", ""):
        return _page(request, error)
    return error_response(error)


def _page(request: HttpRequest, error: ApplicationError) -> HttpResponse:
    """Written without request and session: nothing on it may ask the database again."""
    context: dict[str, object] = {"message": error.public_message, "retryable": error.retryable}
    again = math.ceil(error.retry_after or 1)
    # What a form held is still in the page before: sent again without being asked, it might be done twice.
    context["again"] = again if error.retryable and request.method == "GET" else 0
    page = HttpResponse(render_to_string("unavailable.html", context), status=error.status)
    if error.retryable:
        page["Retry-After"] = str(again)
    page["Cache-Control"] = "no-store"
    is_framed = request.path_info.startswith("/widget/")
    page["Content-Security-Policy"] = content_policy(frame_ancestors="*" if is_framed else "'none'")
    page.xframe_options_exempt = is_framed
    return page
