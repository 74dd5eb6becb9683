"""A question over HTTP, and its answer as server-sent events: the same for every door that a reader comes through.

A door says who calls (`Caller`). Here a body becomes a question, a question the turn of a conversation, and a turn
a stream of its events for as long as the caller has the right to them.
"""

import uuid
from collections.abc import AsyncIterator
from typing import Any, Protocol

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.response import StreamingHttpResponse

from agents.bridges import in_database
from agents.exceptions import ApplicationError
from chat.access.permissions import HeldRights
from chat.doors.frames import server_sent_event
from chat.exceptions import MessageTooLargeError
from chat.models import Conversation, Turn
from chat.protocol import (
    AskFrame,
    Failure,
    parse_ask,
    parse_json_object,
    too_long,
    valid_event_id,
)
from chat.runs.runner import runner


class Caller(Protocol):
    """Whoever sent a request, as its door knows them. What it finds, it reads from the database."""

    def language(self, body: dict[str, Any]) -> str: ...

    def conversation(self, body: dict[str, Any], client_message_id: str) -> Conversation:
        """The conversation that the body names or opens; counts the question against the limits."""
        ...

    def turn(self, turn_id: uuid.UUID) -> Turn:
        """A turn of this caller's own; raises where it is not, or is no longer."""
        ...


async def ask(request: HttpRequest, caller: Caller) -> StreamingHttpResponse:
    """One question, its answer as a stream."""
    body = read_object(request)
    asked = parse_ask(body)
    conversation = await in_database(caller.conversation, body, asked.client_message_id)
    turn_id = await start_turn(conversation, asked, language=caller.language(body))
    return stream_turn(turn_id, caller)


async def continue_turn(
    request: HttpRequest, turn_id: uuid.UUID, caller: Caller
) -> StreamingHttpResponse:
    """The events of a turn after `Last-Event-ID`."""
    await in_database(caller.turn, turn_id)
    after = valid_event_id(request.headers.get("Last-Event-ID", 0))
    return stream_turn(turn_id, caller, after=after)


async def start_turn(conversation: Conversation, asked: AskFrame, *, language: str) -> uuid.UUID:
    """The turn of a question in its conversation, whichever door it came through."""
    return await runner.start(
        conversation,
        question=asked.message,
        client_message_id=asked.client_message_id,
        language=language,
        replaces=asked.replaces,
    )


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
