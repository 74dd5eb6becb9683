"""What nobody caught (`handler500`): a database in trouble is answered by its name, at whatever place it was met.

A session that cannot be read or written fails in the middleware, outside of every view and its own error handling.
"""

import math
import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import translation
from django.views.defaults import server_error

from agents.database import storage_error
from agents.exceptions import StorageUnavailableError
from chat.doors.errors import error_response, logged
from chat.doors.openai.wire import WireError
from chat.doors.page.framing import content_policy


def failed(request: HttpRequest) -> HttpResponse:
    """Programs read JSON, as at the door that they came through; a browser gets a page that comes back by itself.

    Other errors are answered as Django answers them.
    """
    error = storage_error(sys.exc_info()[1])
    if error is None:
        return server_error(request)
    with translation.override(translation.get_language_from_request(request)):
        return logged(_said(request, error), error)


def _said(request: HttpRequest, error: StorageUnavailableError) -> HttpResponse:
    if request.path.startswith("/v1/"):
        return WireError.of(error).response()
    if "text/html" in request.headers.get("Accept", ""):
        return _page(request, error)
    return error_response(error)


def _page(request: HttpRequest, error: StorageUnavailableError) -> HttpResponse:
    """Written without request and session: nothing on it may ask the database again."""
    again = math.ceil(error.retry_after or 1)
    # What a form held is still in the page before: sent again without being asked, it might be done twice.
    context = {"message": error.public_message, "again": again if request.method == "GET" else 0}
    page = HttpResponse(render_to_string("unavailable.html", context), status=error.status)
    page["Retry-After"] = str(again)
    page["Cache-Control"] = "no-store"
    is_framed = request.path.startswith("/widget/")
    page["Content-Security-Policy"] = content_policy(frame_ancestors="*" if is_framed else "'none'")
    page.xframe_options_exempt = is_framed
    return page
