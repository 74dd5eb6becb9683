"""The language of a WebSocket: the language cookie, then `Accept-Language`, then the site's, as for HTTP."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class LanguageMiddleware:
    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        await self._application({**scope, "language": language_of(scope)}, receive, send)


def language_of(scope: Scope) -> str:
    cookie = scope.get("cookies", {}).get(settings.LANGUAGE_COOKIE_NAME)
    header = dict(scope.get("headers", [])).get(b"accept-language", b"").decode("latin-1")
    wanted = ([cookie] if cookie else []) + [code for code, _ in parse_accept_lang_header(header)]
    for code in wanted:
        try:
            return get_supported_language_variant(code)
        except LookupError:
            continue
    return settings.LANGUAGE_CODE
