"""The edge of `/v1`: keys in, completions out. Sessions and cookies count for nothing here, so no cross-site check is needed."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.translation import gettext as _

from agents.database import in_database
from agents.exceptions import ApplicationError
from chat.access.keys import api_key_of, keyed_deployment, keyed_deployments
from chat.access.rate_limits import limit_key
from chat.doors.errors import AsyncView, answering_errors
from chat.doors.openai.requests import parse_request
from chat.doors.openai.turns import (
    InterruptedTurnError,
    OpenedRequest,
    ending_of,
    follow_turn,
    open_request,
)
from chat.doors.openai.wire import (
    CompletionWriter,
    WireError,
    error_event,
    model_json,
    source_lines,
)
from chat.doors.questions import HeldRights, bounded_body, event_stream, start_turn
from chat.exceptions import MessageTooLargeError
from chat.models import ApiKey
from chat.protocol import AskFrame, Delta, Done, Event, Failure, Sources
from chat.runs.runner import runner

_answering_errors = answering_errors(present=lambda error: WireError.of(error).response())


def _edge(method: str) -> Callable[[AsyncView], AsyncView]:
    """One method, and every error of ours as OpenAI's error object."""

    def decorated(view: AsyncView) -> AsyncView:
        @_answering_errors
        @wraps(view)
        async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method != method:
                return _wrong_method(method)
            return await view(request, *args, **kwargs)

        return wrapped

    return decorated


def _wrong_method(method: str) -> JsonResponse:
    message = _("Méthode refusée : employez %(method)s.") % {"method": method}
    response = WireError(405, message, "invalid_request_error", "method_not_allowed").response()
    response["Allow"] = method
    return response


async def _key(request: HttpRequest) -> ApiKey:
    return await in_database(api_key_of, request.headers.get("Authorization", ""))


def _admitted(authorization: str) -> ApiKey:
    key = api_key_of(authorization)
    limit_key(key.pk)
    return key


@_edge("GET")
async def models(request: HttpRequest) -> HttpResponseBase:
    """The deployments of the key."""
    key = await _key(request)
    found = await in_database(lambda: [model_json(found) for found in keyed_deployments(key)])
    return JsonResponse({"object": "list", "data": found})


@_edge("GET")
async def model(request: HttpRequest, slug: str) -> HttpResponseBase:
    key = await _key(request)
    return JsonResponse(model_json(await in_database(keyed_deployment, key, slug)))


@_edge("POST")
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """One question with the client's thread before it; the answer whole, or streamed."""
    authorization = request.headers.get("Authorization", "")
    key = await in_database(_admitted, authorization)
    limit = settings.API_MAX_BODY_BYTES
    asked = parse_request(bounded_body(request, limit, MessageTooLargeError.beyond(limit)))
    idempotency_key = request.headers.get("Idempotency-Key", "").strip()
    opened = await in_database(open_request, key, asked, idempotency_key=idempotency_key)
    language = translation.get_language() or settings.LANGUAGE_CODE
    question = AskFrame(asked.question, opened.client_message_id)
    turn_id = await start_turn(opened.conversation, question, language=language)
    writer = CompletionWriter(turn_id, asked.model, includes_usage=asked.includes_usage)
    rights = HeldRights(lambda: keyed_deployment(api_key_of(authorization), asked.model))
    events = _stopping(follow_turn(turn_id, language=language), opened, rights)
    answer = _streamed if asked.is_streamed else _whole
    response = await answer(events, writer, opened)
    response["X-Request-Id"] = str(turn_id)
    return response


async def _stopping(
    events: AsyncGenerator[Event, None], opened: OpenedRequest, rights: HeldRights
) -> AsyncGenerator[Event, None]:
    """The same events; a client that leaves before the last one, or loses its rights, stops the turn, unless it can
    come back for it.
    """
    is_over = False
    try:
        async for event in events:
            try:
                await rights.check_again()
            except ApplicationError as error:
                yield Failure.of(error)
                return
            is_over = isinstance(event, Done | Failure)
            yield event
    finally:
        if not is_over and not opened.is_kept:
            runner.stop(opened.conversation.pk)


async def _whole(
    events: AsyncGenerator[Event, None], writer: CompletionWriter, opened: OpenedRequest
) -> HttpResponseBase:
    sources: list[Any] = []
    async with aclosing(events) as following:
        async for event in following:
            if isinstance(event, Sources):
                sources = list(event.sources)
            elif isinstance(event, Failure):
                return WireError.told(event).response()
            elif isinstance(event, Done):
                if event.status != "done":
                    raise InterruptedTurnError
                text = event.content
                if opened.writes_source_lines:
                    text += source_lines(text, sources)
                ending = await ending_of(writer.turn_id, event, sources)
                return JsonResponse(writer.whole(text, ending))
    raise InterruptedTurnError


async def _streamed(
    events: AsyncGenerator[Event, None], writer: CompletionWriter, opened: OpenedRequest
) -> HttpResponseBase:
    """Headers wait for the first text, so that what fails before it has a status of its own."""
    chunks = _chunks(events, writer, opened)
    first = await anext(chunks, b"")
    if isinstance(first, WireError):
        await chunks.aclose()
        return first.response()
    return event_stream(_sent(writer.opening() + first, chunks))


async def _sent(
    first: bytes, chunks: AsyncGenerator[bytes | WireError, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield error_event(chunk) if isinstance(chunk, WireError) else chunk


async def _chunks(
    events: AsyncGenerator[Event, None], writer: CompletionWriter, opened: OpenedRequest
) -> AsyncGenerator[bytes | WireError, None]:
    """What a client reads of these events; an error where the turn failed."""
    sources: list[Any] = []
    said: list[str] = []
    async with aclosing(events) as following:
        async for event in following:
            if isinstance(event, Sources):
                sources = list(event.sources)
            elif isinstance(event, Delta):
                said.append(event.text)
                yield writer.text(event.text)
            elif isinstance(event, Failure):
                yield WireError.told(event)
            elif isinstance(event, Done):
                if event.status != "done":
                    yield error_event(WireError.of(InterruptedTurnError()))
                    return
                lines = source_lines("".join(said), sources) if opened.writes_source_lines else ""
                if lines:
                    yield writer.text(lines)
                yield writer.closing(await ending_of(writer.turn_id, event, sources))
