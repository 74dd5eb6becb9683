"""Middleware of the whole site: the headers that every answer carries beside Django's own, and the static files.

`security_headers` is the outermost, so that it sees what the others answer by themselves; a view that set its own policy
(the pages of the chat, the widget's frame) keeps it. Both stay on the event loop, so that streams are asynchronous.
"""

from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase as Response
from django.urls import reverse
from django.utils.decorators import sync_and_async_middleware
from whitenoise.middleware import WhiteNoiseMiddleware

from chat.api.errors import content_policy

_POLICY = "Content-Security-Policy"
#: What is no page loads nothing, even where a browser is led to it directly: JSON, files, scripts, pictures.
_NO_PAGE = content_policy(script_src="'none'", style_src="'none'", connect_src="'none'", frame_ancestors="'none'")
_PAGE = content_policy(img_src="'self' data:", form_action="'self'", frame_ancestors="'none'")
#: The admin's theme runs on Alpine, which makes functions of attributes ('unsafe-eval'), and writes style attributes
#: ('unsafe-inline' for styles). No script within a page runs, there either.
_ADMIN_PAGE = content_policy(
    script_src="'self' 'unsafe-eval'",
    style_src="'self' 'unsafe-inline'",
    img_src="'self' data:",
    font_src="'self'",
    form_action="'self'",
    frame_ancestors="'none'",
)
#: Everything a page may ask of a device and this site never does.
_PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"


@sync_and_async_middleware
def security_headers(get_response: Any) -> Any:
    """Add the headers that an answer lacks."""

    async def asynchronous(request: HttpRequest) -> Response:
        return _secured(request, await get_response(request))

    def synchronous(request: HttpRequest) -> Response:
        return _secured(request, get_response(request))

    return asynchronous if iscoroutinefunction(get_response) else synchronous


@sync_and_async_middleware
def static_files(get_response: Any) -> Any:
    """WhiteNoise, which by itself would hold every stream in a thread."""
    synchronous = WhiteNoiseMiddleware(get_response)

    async def asynchronous(request: HttpRequest) -> Response:
        response = synchronous(request)
        return response if isinstance(response, Response) else await response

    return asynchronous if iscoroutinefunction(get_response) else synchronous


def _secured(request: HttpRequest, response: Response) -> Response:
    # Django's debug pages are styled from within; they exist with DEBUG alone, which is for nobody else to reach.
    is_debug_page = settings.DEBUG and response.status_code in (404, 500)
    if _POLICY not in response and not is_debug_page:
        policy = _NO_PAGE
        if response.get("Content-Type", "").startswith("text/html"):
            policy = _ADMIN_PAGE if request.path.startswith(reverse("admin:index")) else _PAGE
        response[_POLICY] = policy
    response.setdefault("Permissions-Policy", _PERMISSIONS)
    return response
