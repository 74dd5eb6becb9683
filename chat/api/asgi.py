"""The ASGI edge: which pages may open a socket, and the socket itself, with the rights that its reader may lose and the
frames of its events.

Browsers send cookies with a socket whatever page opens it: the rule of origins is that of `CsrfViewMiddleware`. A frame
never waits for a turn: a task of the socket follows it.
"""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable
from io import BytesIO
from typing import Any

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import translation

from agents.database import in_database, storage_error
from agents.errors import ApplicationError, StorageUnavailableError
from chat.access.permissions import Reader, owned_conversation, owned_turn
from chat.access.rate_limits import address_of, limit_asking
from chat.api.framework import log_foreign_origin
from chat.errors import RateLimitedError, ServerStoppingError, TurnNotFoundError
from chat.models import Conversation, Turn
from chat.protocol import Done, Event, Failure, parse_ask, parse_frame, valid_event_id, valid_tool_call_id, valid_uuid
from chat.rendering import render_answer
from chat.runs.runner import runner
from chat.telemetry import SOCKETS

logger = logging.getLogger(__name__)

#: Close code of a conversation that is absent, or not this reader's (any more).
CLOSE_NOT_FOUND = 4404
#: Close code of the protocol for "try again later": the page comes back by itself, as after a lost connection.
CLOSE_TRY_LATER = 1013
#: Close code of a service that starts again: the page asks again under the same id.
CLOSE_RESTART = 1012


def request_of(scope: dict[str, Any]) -> ASGIRequest:
    """The handshake of a socket as a request: whatever holds for HTTP holds for it."""
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    return ASGIRequest({**scope, "scheme": scheme, "method": "GET"}, BytesIO())


class OwnOriginOnly:
    """The ASGI application within, for sockets whose page may open one; a refused handshake (403) for others."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if is_allowed(scope):
            await self._application(scope, receive, send)
            return
        headers = request_of(scope).headers
        log_foreign_origin(headers.get("Origin", ""), headers.get("Host", ""))
        await WebsocketDenier()(scope, receive, send)


def is_allowed(scope: dict[str, Any]) -> bool:
    """Whether the page that opens this socket may; without an origin it is no page."""
    request = request_of(scope)
    return "HTTP_ORIGIN" in request.META and is_of_this_site(request)


def is_of_this_site(request: HttpRequest) -> bool:
    """Whether the request's origin is where it came to, or one that forms are accepted from, as Django compares them."""
    rule = CsrfViewMiddleware(lambda _request: HttpResponse())
    return bool(rule._origin_verified(request))  # type: ignore[attr-defined]  # Django's own, unknown to its stubs


def below_base_path(application: ASGI3Application) -> ASGI3Application:
    """The application, whose addresses begin with `BASE_PATH`, whether a proxy left it there or took it off."""
    base = settings.BASE_PATH

    async def wrapped(scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        address = scope.get("path")
        if address is not None and not f"{address}/".startswith(f"{base}/"):
            scope = {**scope, "path": f"{base}{address}"}
        await application(scope, receive, send)

    return wrapped if base else application


class HeldRights:
    """Rights that a reader may lose before a connection ends; `check` raises where they are gone."""

    def __init__(self, check: Callable[[], Any]) -> None:
        self._check = check
        self._checked_at = time.monotonic()

    async def check_again(self) -> None:
        """Raises what `check` raises; between two looks, `RIGHTS_CHECK_SECONDS` apart, it costs a reading of the clock."""
        if time.monotonic() - self._checked_at >= settings.RIGHTS_CHECK_SECONDS:
            await in_database(self._check)
            self._checked_at = time.monotonic()


def websocket_frame(event_id: int, event: Event) -> str:
    return json.dumps({"type": event.name, "id": event_id, **event_fields(event)}, ensure_ascii=False)


def event_fields(event: Event) -> dict[str, Any]:
    """What a page is told of an event; an answer has its HTML from here on."""
    if not isinstance(event, Done):
        return event.as_json()
    html = render_answer(event.content, turn_id=event.turn_id, source_numbers=event.source_numbers)
    return {**event.as_json(), "html": html}


class ChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels ships no types
    """One socket on one conversation."""

    conversation: Conversation
    _following: asyncio.Task[None] | None = None
    _is_admitted = False

    async def __call__(self, *connection: Any) -> None:
        """However it ends: `disconnect` is not called where something else failed."""
        SOCKETS.inc()
        try:
            await super().__call__(*connection)
        finally:
            SOCKETS.dec()
            self._unfollow()

    async def connect(self) -> None:
        request = request_of(self.scope)
        self._address = address_of(request)
        self._language = translation.get_language_from_request(request)
        conversation_id: uuid.UUID = self.scope["url_route"]["kwargs"]["conversation_id"]
        try:
            await in_database(self._load, conversation_id)
        except StorageUnavailableError:
            raise  # `later_without_storage`
        except ApplicationError:
            await self.accept()
            await self.close(code=CLOSE_NOT_FOUND)
            return
        self._rights = HeldRights(lambda: self._load(conversation_id))
        self._is_admitted = True
        await self.accept()

    def _load(self, conversation_id: uuid.UUID) -> None:
        """Load the conversation for whoever the session belongs to now; raises where it is not theirs."""
        self.conversation = owned_conversation(Reader.now(self.scope["session"]), conversation_id)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_kwargs: Any) -> None:
        if not self._is_admitted:
            return
        with translation.override(self._language):
            try:
                await self._handle(text_data or "")
            except ServerStoppingError:
                await self.close(code=CLOSE_RESTART)
            except ApplicationError as error:
                if isinstance(error, StorageUnavailableError):
                    _log_trouble(error)
                await self.send(websocket_frame(0, Failure.of(error)))

    async def _handle(self, text: str) -> None:
        frame = parse_frame(text)
        match frame["type"]:
            case "ask":
                asked = parse_ask(frame)
                await self._rights.check_again()
                async with runner.place() as place:
                    await self._limit(asked.client_message_id)
                    turn_id = await runner.start(self.conversation, asked, language=self._language, place=place)
                self._follow(turn_id, after=0)
            case "stop":
                await self._rights.check_again()
                await runner.stop_anywhere(self.conversation.pk)
            case "resume":
                turn_id, after = valid_uuid("turnId", frame.get("turnId")), valid_event_id(frame.get("lastEventId", 0))
                await self._turn(turn_id)
                self._follow(turn_id, after=after)
            case "retry":
                turn = await self._turn(valid_uuid("turnId", frame.get("turnId")))
                await self._limit()
                await runner.retry(turn, language=self._language)
                self._follow(turn.pk, after=0)
            case "approve" | "deny" as said:
                turn_id, call = valid_uuid("turnId", frame.get("turnId")), valid_tool_call_id(frame.get("toolCallId"))
                turn = await self._turn(turn_id)
                if await runner.decide(turn, tool_call_id=call, is_approved=said == "approve", language=self._language):
                    self._follow(turn_id, after=0)

    async def _turn(self, turn_id: uuid.UUID) -> Turn:
        """A turn of this socket's conversation, whose rights are looked at again while it is followed."""
        session = self.scope["session"]
        turn = await in_database(lambda: owned_turn(Reader.now(session), turn_id))
        if turn.conversation_id != self.conversation.pk:
            raise TurnNotFoundError(f"{turn_id} is a turn of another conversation")
        return turn

    async def _limit(self, client_message_id: str = "") -> None:
        """Raises `RateLimitedError`, unless it is a message that has its turn already and comes again."""
        person = self.conversation.user_id or self.conversation.visitor
        try:
            await in_database(limit_asking, person, self._address)
        except RateLimitedError:
            sent = Turn.objects.filter(conversation=self.conversation.pk, client_message_id=client_message_id)
            if not client_message_id or not await in_database(sent.exists):
                raise

    def _follow(self, turn_id: uuid.UUID, *, after: int) -> None:
        self._unfollow()
        self._following = asyncio.create_task(self._relay(turn_id, after))

    def _unfollow(self) -> None:
        if self._following is not None:
            self._following.cancel()

    async def _relay(self, turn_id: uuid.UUID, after: int) -> None:
        try:
            async for event_id, event in runner.follow(turn_id, after):
                await self._rights.check_again()
                await self.send(websocket_frame(event_id, event))
        except StorageUnavailableError as error:
            _log_trouble(error)
            await self.close(code=CLOSE_TRY_LATER)
        except ApplicationError:
            await self.close(code=CLOSE_NOT_FOUND)
        except OSError:
            # The reader went away while it was told something; the turn goes on, and so does the next reader.
            logger.debug("reader went away round_id=%s", turn_id)
        except Exception:  # the edge of a socket: nothing awaits this task
            logger.exception("relay failed round_id=%s", turn_id)
            await self.close(code=1011)


def later_without_storage(application: Any) -> Any:
    """Where whoever connects cannot be looked up, the socket is closed for now, which is no failure of ours."""

    async def admitted(scope: dict[str, Any], receive: Any, send: Any) -> None:
        sent: list[str] = []

        async def noted(message: dict[str, Any]) -> None:
            if not sent:
                sent.append(message["type"])
            await send(message)

        try:
            await application(scope, receive, noted)
        except (DatabaseError, InterfaceError) as error:
            if (trouble := storage_error(error)) is None:
                raise
            _log_trouble(trouble)
            # Only a socket that was opened can be closed with a code.
            if not sent:
                await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": CLOSE_TRY_LATER})

    return admitted


def _log_trouble(error: StorageUnavailableError) -> None:
    logger.warning("storage unavailable at a socket detail=%s", error)
