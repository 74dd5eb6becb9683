"""The headers that every answer carries, set in one place: pages, JSON, streams, static files, refusals and errors.

The outermost middleware, so that it sees what the others answer by themselves. A view that set a policy of its own (the
pages of the chat, the widget's frame) keeps it. Django's own middlewares add `nosniff`, `Referrer-Policy` and the
opener policy.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from chat.api.errors import content_policy

_POLICY = "Content-Security-Policy"
#: What is no page loads nothing, even where a browser is led to it directly: JSON, files, scripts, pictures.
_NO_PAGE = content_policy(script_src="'none'", style_src="'none'", connect_src="'none'", frame_ancestors="'none'")
_PAGE = content_policy(img_src="'self' data:", form_action="'self'", frame_ancestors="'none'")
#: The admin's theme runs on Alpine, which makes functions of the attributes of its templates ('unsafe-eval'), and
#: writes widths and colours as style attributes ('unsafe-inline' for styles). No script within a page runs, there
#: either.
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

Response = HttpResponseBase
GetResponse = Callable[[HttpRequest], Response | Awaitable[Response]]


class SecurityHeaders:
    """The middleware; on the event loop where the others are, so that streams stay asynchronous."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Response | Awaitable[Response]:
        response = self._get_response(request)
        if isinstance(response, HttpResponseBase):
            return secured(request, response)
        return self._secured_later(request, response)

    async def _secured_later(self, request: HttpRequest, response: Awaitable[Response]) -> Response:
        return secured(request, await response)


def secured(request: HttpRequest, response: Response) -> Response:
    """The answer with the headers that it lacks."""
    # Django's debug pages are styled from within; they exist with DEBUG alone, which is for nobody else to reach.
    is_debug_page = settings.DEBUG and response.status_code in (404, 500)
    if _POLICY not in response and not is_debug_page:
        response[_POLICY] = _policy_for(request, response)
    response.setdefault("X-Content-Type-Options", "nosniff")
    response.setdefault("Referrer-Policy", "same-origin")
    response.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    response.setdefault("Permissions-Policy", _PERMISSIONS)
    return response


def _policy_for(request: HttpRequest, response: Response) -> str:
    if not response.get("Content-Type", "").startswith("text/html"):
        return _NO_PAGE
    return _ADMIN_PAGE if request.path.startswith(reverse("admin:index")) else _PAGE
