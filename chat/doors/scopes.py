"""What an ASGI scope says before Django has made a request of it: a header, the cookies, the language."""

from typing import Any

from django.http import HttpRequest, parse_cookie
from django.utils import translation


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
