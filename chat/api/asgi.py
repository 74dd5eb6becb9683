"""What is decided on an ASGI scope: its id, its language, and whether the page that opens a socket may.

Browsers send cookies with a socket whatever page opens it: the rule of origins is that of `CsrfViewMiddleware`.
"""

from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, parse_cookie
from django.utils import translation
from django.utils.http import is_same_domain

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
    """Whether the page that opens this socket may. Without one origin, and one that is an address, it is no page."""
    told = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    request = ASGIRequest({**scope, "scheme": scheme, "method": "GET"}, BytesIO())
    return len(told) == 1 and is_accepted(told[0], request)


def is_accepted(told: str, request: HttpRequest) -> bool:
    """Whether this origin is the one that the request came to, or one that forms are accepted from."""
    origin = _parts(told)
    if origin is None:
        return False
    try:
        own = f"{request.scheme}://{request.get_host()}"
    except DisallowedHost:
        return False
    return origin == _parts(own) or any(_is_named(origin, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS)


def _parts(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port, the scheme's usual one where none is written; nothing of what holds more than these."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    is_whole = origin.lower() == f"{parts.scheme}://{parts.netloc.lower()}"
    if not parts.hostname or usual is None or not is_whole:
        return None
    if "@" in parts.netloc or parts.netloc.endswith(":"):
        return None
    return parts.scheme, parts.hostname, port or usual


def _is_named(origin: tuple[str, str, int], trusted: str) -> bool:
    """Whether an entry of `CSRF_TRUSTED_ORIGINS` means this origin: itself, or `https://*.example.org` its subdomains."""
    named = _parts(trusted.replace("://*.", "://.", 1))
    if named is None or (origin[0], origin[2]) != (named[0], named[2]):
        return False
    return is_same_domain(origin[1], named[1])


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
