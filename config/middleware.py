"""Middleware of the whole site: the headers that every answer carries beside Django's own, and the static files.

`SecurityHeaders` is the outermost, so that it sees what the others answer by themselves; a view that set its own policy
(the pages of the chat, the widget's frame) keeps it. Both stay on the event loop, so that streams are asynchronous.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase as Response
from django.urls import reverse
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

GetResponse = Callable[[HttpRequest], Response | Awaitable[Response]]


class SecurityHeaders:
    """Adds the headers that an answer lacks."""

    sync_capable = async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Response | Awaitable[Response]:
        response = self._get_response(request)
        if isinstance(response, Response):
            return secured(request, response)
        return self._secured_later(request, response)

    async def _secured_later(self, request: HttpRequest, response: Awaitable[Response]) -> Response:
        return secured(request, await response)


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # the package ships no types
    """WhiteNoise, which by itself would hold every stream in a thread."""

    sync_capable = async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Response | Awaitable[Response]:
        response: Response | Awaitable[Response] = super().__call__(request)
        if isinstance(response, Response) and iscoroutinefunction(self):
            return _ready(response)
        return response


async def _ready(response: Response) -> Response:
    return response


def secured(request: HttpRequest, response: Response) -> Response:
    """The answer with the headers that it lacks."""
    # Django's debug pages are styled from within; they exist with DEBUG alone, which is for nobody else to reach.
    is_debug_page = settings.DEBUG and response.status_code in (404, 500)
    if _POLICY not in response and not is_debug_page:
        response[_POLICY] = _policy_for(request, response)
    response.setdefault("Permissions-Policy", _PERMISSIONS)
    return response


def _policy_for(request: HttpRequest, response: Response) -> str:
    if not response.get("Content-Type", "").startswith("text/html"):
        return _NO_PAGE
    return _ADMIN_PAGE if request.path.startswith(reverse("admin:index")) else _PAGE
