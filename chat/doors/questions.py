"""A question comes in and its turn's events go out, to whoever has the right to them: what the doors have in common."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar, Protocol

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.response import StreamingHttpResponse

from agents.database import in_database
from agents.errors import ApplicationError
from chat.exceptions import MessageTooLargeError
from chat.models import Conversation, Turn
from chat.protocol import Done, Event, Failure, parse_ask, parse_json_object, too_long, valid_event_id
from chat.rendering import render_answer
from chat.runs.runner import runner


class HeldRights:
    """Rights that a reader was given when a connection began, and may lose before it ends.

    `check` loads what they are about, and raises where they are gone.
    """

    def __init__(self, check: Callable[[], Any]) -> None:
        self._check = check
        self._checked_at = time.monotonic()

    async def check_again(self) -> None:
        """Raises what `check` raises; between two looks, `RIGHTS_CHECK_SECONDS` apart, it costs a reading of the clock."""
        if time.monotonic() - self._checked_at >= settings.RIGHTS_CHECK_SECONDS:
            await in_database(self._check)
            self._checked_at = time.monotonic()


def websocket_frame(event_id: int, event: Event) -> str:
    return json.dumps({"type": event.name, "id": event_id, **_fields(event)}, ensure_ascii=False)


def server_sent_event(event_id: int, event: Event) -> bytes:
    data = json.dumps(_fields(event), ensure_ascii=False)
    return f"id: {event_id}\nevent: {event.name}\ndata: {data}\n\n".encode()


def _fields(event: Event) -> dict[str, Any]:
    """What a page is told of an event; an answer has its HTML from here on."""
    if not isinstance(event, Done):
        return event.as_json()
    html = render_answer(event.content, turn_id=event.turn_id, source_numbers=event.source_numbers)
    return {**event.as_json(), "html": html}


class Caller(Protocol):
    """Whoever sent a request, as its door knows them. What it finds, it reads from the database."""

    #: Whether its page offers other versions of a question (`replaces`).
    has_versions: ClassVar[bool]

    def language(self, body: dict[str, Any]) -> str: ...

    def conversation(self, body: dict[str, Any], client_message_id: str) -> Conversation:
        """The conversation that the body names or opens; counts the question against the limits."""
        ...

    def turn(self, turn_id: uuid.UUID) -> Turn:
        """A turn of this caller's own; raises where it is not, or is no longer."""
        ...


async def ask(request: HttpRequest, caller: Caller) -> StreamingHttpResponse:
    """One question, its answer as a stream."""
    return stream_turn(await begin(request, read_object(request), caller), caller)


async def begin(request: HttpRequest, body: dict[str, Any], caller: Caller) -> uuid.UUID:
    """The turn of a question, in the conversation that the body names or opens."""
    if not caller.has_versions:
        body.pop("replaces", None)
    asked = parse_ask(body)
    conversation = await in_database(caller.conversation, body, asked.client_message_id)
    return await runner.start(conversation, asked, language=caller.language(body))


async def continue_turn(request: HttpRequest, turn_id: uuid.UUID, caller: Caller) -> StreamingHttpResponse:
    """The events of a turn after `Last-Event-ID`."""
    await in_database(caller.turn, turn_id)
    after = valid_event_id(request.headers.get("Last-Event-ID", 0))
    return stream_turn(turn_id, caller, after=after)


def stream_turn(turn_id: uuid.UUID, caller: Caller, *, after: int = 0) -> StreamingHttpResponse:
    rights = HeldRights(lambda: caller.turn(turn_id))

    async def events() -> AsyncIterator[bytes]:
        try:
            async for event_id, event in runner.follow(turn_id, after):
                await rights.check_again()
                yield server_sent_event(event_id, event)
        except ApplicationError as error:
            yield server_sent_event(0, Failure.of(error))

    return event_stream(events())


def event_stream(events: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Server-sent events, which nothing on the way keeps or collects."""
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response


def read_object(request: HttpRequest) -> dict[str, Any]:
    """The JSON object that a reader sends."""
    refusal = MessageTooLargeError("body too large", public_message=too_long())
    return parse_json_object(bounded_body(request, settings.MAX_FRAME_BYTES, refusal))


def bounded_body(request: HttpRequest, limit: int, refusal: MessageTooLargeError) -> bytes:
    """The body of a request; raises the refusal where it is longer than the limit, or than what Django reads at all."""
    try:
        body = request.body
    except RequestDataTooBig as error:
        raise refusal from error
    if len(body) > limit:
        raise refusal
    return body
