"""What is decided on an ASGI scope: its id, its language, and whether the page that opens a socket may.

Browsers send cookies with a socket whatever page opens it: the rule of origins is that of `CsrfViewMiddleware`.
"""

from io import BytesIO
from typing import Any

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, parse_cookie
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import translation

from agents.logs import HEADER, accepted_id, log_foreign_origin, working_for


def header_of(scope: dict[str, Any], name: bytes) -> str:
    # A proxy may add a line of its own below those that it was sent.
    return b",".join(value for key, value in scope["headers"] if key == name).decode("latin-1")


def cookies_of(scope: dict[str, Any]) -> dict[str, str]:
    return dict(parse_cookie(header_of(scope, b"cookie")))


def language_of(scope: dict[str, Any]) -> str:
    """As for HTTP: the language cookie, then `Accept-Language`, then the site's."""
    request = HttpRequest()
    request.COOKIES = cookies_of(scope)
    request.META["HTTP_ACCEPT_LANGUAGE"] = header_of(scope, b"accept-language")
    return translation.get_language_from_request(request)


class OwnOriginOnly:
    """The ASGI application within, for sockets whose page may open one; a refused handshake (403) for others."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if is_allowed(scope):
            await self._application(scope, receive, send)
            return
        log_foreign_origin(header_of(scope, b"origin"), header_of(scope, b"host"))
        await WebsocketDenier()(scope, receive, send)


def is_allowed(scope: dict[str, Any]) -> bool:
    """Whether the page that opens this socket may; without an origin it is no page."""
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    request = ASGIRequest({**scope, "scheme": scheme, "method": "GET"}, BytesIO())
    return "HTTP_ORIGIN" in request.META and is_of_this_site(request)


def is_of_this_site(request: HttpRequest) -> bool:
    """Whether the request's origin is where it came to, or one that forms are accepted from, as Django compares them."""
    rule = CsrfViewMiddleware(lambda _request: HttpResponse())
    return bool(rule._origin_verified(request))  # type: ignore[attr-defined]  # Django's own, unknown to its stubs


_NAME = HEADER.lower().encode()


def with_request_id(application: ASGI3Application) -> ASGI3Application:
    async def wrapped(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        headers: Any = scope.get("headers", ())
        given = next((value for name, value in headers if name == _NAME), b"")
        request_id = accepted_id(given.decode("latin-1"))

        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                sent = [*message.get("headers", ()), (_NAME, request_id.encode())]
                message = {**message, "headers": sent}
            await send(message)

        with working_for(request_id):
            await application(scope, receive, named if scope["type"] == "http" else send)

    return wrapped


def below_base_path(application: ASGI3Application) -> ASGI3Application:
    """The application, whose addresses begin with `BASE_PATH`, whether a proxy left it there or took it off."""
    base = settings.BASE_PATH

    async def wrapped(scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        address = scope.get("path")
        if address is not None and not f"{address}/".startswith(f"{base}/"):
            scope = {**scope, "path": f"{base}{address}"}
        await application(scope, receive, send)

    return wrapped if base else application
