"""A place for a request that asks or opens a conversation, taken before anything is spent on it: no session, thread or
statement.

Refusing costs a request its headers and body here, and a fifth of an answer's processor time behind Django's middleware
(`benchmarks/load`), which a process that is asked far too much then lacks for the answers it has begun.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from chat.doors.bounds import refuse
from chat.doors.scopes import ROOM, cookies_of
from chat.exceptions import OverloadedError
from chat.runs.admission import admission

_OPENING, _ASKING = "/api/conversations/", "/api/rag/chat"


def with_places(application: Any, secured: Callable[[HttpResponse], HttpResponse]) -> Any:
    """The ASGI application; `secured` gives a refusal the headers of every answer."""

    async def admitted(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["method"] != "POST" or scope["path"] not in (_OPENING, _ASKING):
            await application(scope, receive, send)
            return
        async with AsyncExitStack() as held:
            request = _Request(scope, receive, held)
            try:
                await application(scope, request.receive, send)
            except OverloadedError as error:
                if error is not request.refusal:
                    raise
                await refuse(scope, secured, error, send)

    return admitted


class _Request:
    """Its body, of which the last part is handed on with a place: who sends slowly keeps nobody waiting."""

    def __init__(self, scope: dict[str, Any], receive: Any, held: AsyncExitStack) -> None:
        self._scope, self._receive, self._held = scope, receive, held
        self.refusal: OverloadedError | None = None

    async def receive(self) -> Any:
        """The application's `receive`."""
        message = await self._receive()
        is_last = message["type"] == "http.request" and not message.get("more_body", False)
        if is_last and ROOM not in self._scope:
            try:
                asks = self._scope["path"] == _ASKING
                place = admission.room(opens=not asks or self._is_new(), asks=asks)
                room = await self._held.enter_async_context(place)
            except OverloadedError as error:
                self.refusal = error
                raise
            self._scope[ROOM] = room
        return message

    def _is_new(self) -> bool:
        return settings.SESSION_COOKIE_NAME not in cookies_of(self._scope)
