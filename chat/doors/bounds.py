"""What a request may send, and how long it may take to: looked at outside of Django, which reads a body to its end, and
to disk, before anything of the project sees it.

Each door has a bound. A body that says it is longer is refused before a byte of it is read, one that does not say is
counted. Doors that take less say so themselves, in their own words. Files come through the admin: a body beyond what a
door of anybody takes is read there for people of the staff alone. Any ASGI server is held to these; the time for the
headers and the number of connections are the server's own (`chat.server.connections`).
"""

import time
from asyncio import timeout
from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import translation

from agents.database import in_database
from agents.errors import ApplicationError, StorageUnavailableError
from chat.access.visitors import Reader
from chat.doors.errors import error_response
from chat.doors.openai.wire import WireError
from chat.doors.scopes import cookies_of, header_of, language_of
from chat.exceptions import MessageTooLargeError, SlowRequestError

#: The body of a request must come within so long, and a second more for each so many bytes that have come: a slow phone
#: sends its photo, and a connection that drips is closed.
REQUEST_BODY_SECONDS = 20.0
REQUEST_BODY_BYTES_PER_SECOND = 16 * 1024
#: What staff may send in one form beyond the files in it.
FORM_BYTES = 2 * 1024 * 1024

_SessionStore = import_module(settings.SESSION_ENGINE).SessionStore
_STAFF = "/admin/"


def bound_of(path: str) -> int:
    """How many bytes anybody may send to this address."""
    if path.startswith("/v1/"):
        return settings.API_MAX_BODY_BYTES
    if path.startswith("/api/ui/"):
        return settings.MAX_BATCH_BYTES
    if path.startswith(("/api/", "/widget/", _STAFF)):
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return settings.MAX_FRAME_BYTES


def staff_bound() -> int:
    """How many bytes staff may send to the admin: as many of the largest files as one form takes, and its fields."""
    return int(settings.MAX_UPLOAD_BYTES + FORM_BYTES)


def bounded(application: Any, secured: Callable[[HttpResponse], HttpResponse]) -> Any:
    """The ASGI application, for requests within their bounds; `secured` gives a refusal the headers of every answer."""

    async def within(scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = _Body(scope, receive)
        try:
            await body.admit(body.announced())
            await application(scope, body.receive, send)
        except (MessageTooLargeError, SlowRequestError, StorageUnavailableError) as error:
            if error is not body.refusal:
                raise
            await refuse(scope, secured, error, send)

    return within


class _Body:
    """The body of one request as it comes in, counted and timed."""

    def __init__(self, scope: dict[str, Any], receive: Any) -> None:
        self._scope = scope
        self._receive = receive
        self._bound = bound_of(scope["path"])
        self._count = 0
        self._began = time.monotonic()
        self._is_whole = False
        #: Why it was not taken.
        self.refusal: ApplicationError | None = None

    def announced(self) -> int:
        """What `Content-Length` says; zero where it says nothing that a server would have let pass."""
        said = header_of(self._scope, b"content-length")
        return int(said) if said.isdecimal() else 0

    async def admit(self, count: int) -> None:
        """Raises `MessageTooLargeError` where this many bytes are too many for whoever sends them."""
        if count > self._bound and await self._is_from_staff():
            self._bound = staff_bound()
        if count > self._bound:
            with translation.override(language_of(self._scope)):
                self.refusal = MessageTooLargeError.beyond(self._bound)
            raise self.refusal

    async def receive(self) -> Any:
        """The application's `receive`."""
        if self._is_whole:
            return await self._receive()
        left = REQUEST_BODY_SECONDS - (time.monotonic() - self._began)
        try:
            async with timeout(left + self._count / REQUEST_BODY_BYTES_PER_SECOND):
                message = await self._receive()
        except TimeoutError:
            self.refusal = SlowRequestError(f"{self._count} bytes came")
            raise self.refusal from None
        self._count += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        await self.admit(self._count)
        return message

    async def _is_from_staff(self) -> bool:
        if not self._scope["path"].startswith(_STAFF):
            return False
        session_key = cookies_of(self._scope).get(settings.SESSION_COOKIE_NAME)
        try:
            return session_key is not None and await in_database(_is_staff, session_key)
        except StorageUnavailableError as error:
            self.refusal = error
            raise


def _is_staff(session_key: str) -> bool:
    user = Reader.now(_SessionStore(session_key)).user
    return user.is_authenticated and bool(getattr(user, "is_staff", False))


async def refuse(
    scope: dict[str, Any], secured: Callable[[HttpResponse], HttpResponse], error: ApplicationError, send: Any
) -> None:
    """In the form of its door; then the connection ends, with whatever of the body is still on its way."""
    with translation.override(language_of(scope)):
        response = secured(_response(scope["path"], error))
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    headers += [(b"content-length", str(len(response.content)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


def _response(path: str, error: ApplicationError) -> HttpResponse:
    return WireError.of(error).response() if path.startswith("/v1/") else error_response(error)
