"""The edge of `/v1`: keys in, completions out. Sessions and cookies count for nothing here, so no cross-site check is
needed.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt

from agents.database import in_database
from agents.errors import ApplicationError
from chat.access.permissions import api_key_of, keyed_deployment, keyed_deployments
from chat.access.rate_limits import limit_key
from chat.doors.errors import AsyncView, answering_errors
from chat.doors.openai.annotations import url_citations
from chat.doors.openai.requests import CompletionRequest, parse_request, parse_text_request
from chat.doors.openai.responses import ResponseWriter, parse_response_request, thread_to
from chat.doors.openai.turns import InterruptedTurnError, OpenedRequest, ending_of, follow_turn, open_request
from chat.doors.openai.wire import Ending, WireError, client_language, model_json, source_lines
from chat.doors.openai.writers import CompletionWriter, TextWriter, Writer
from chat.doors.questions import HeldRights, bounded_body, event_stream
from chat.exceptions import MessageTooLargeError
from chat.models import ApiKey
from chat.protocol import AskFrame, Delta, Done, Event, Failure, Sources
from chat.runs.runner import runner

#: What `/v1` and the batch endpoint read of a request.
API_MAX_BODY_BYTES = 1024 * 1024

Citing = Callable[[str, Sequence[Any]], list[dict[str, Any]]]

_answering_errors = answering_errors(present=lambda error: WireError.of(error).response())


def _edge(method: str | None = None) -> Callable[[AsyncView], AsyncView]:
    """One method (or any), and every error of ours as OpenAI's error object, in the client's language."""

    def decorated(view: AsyncView) -> AsyncView:
        @csrf_exempt
        @wraps(view)
        async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            with translation.override(client_language(request)):
                return await answering(request, *args, **kwargs)

        @_answering_errors
        async def answering(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if method is not None and request.method != method:
                return _wrong_method(method)
            return await view(request, *args, **kwargs)

        return wrapped

    return decorated


def _wrong_method(method: str) -> JsonResponse:
    message = _("Méthode refusée : employez %(method)s.") % {"method": method}
    response = WireError(405, message, "invalid_request_error", "method_not_allowed").response()
    response["Allow"] = method
    return response


@_edge()
async def unknown(request: HttpRequest) -> HttpResponseBase:
    """Whatever else is asked for below `/v1`."""
    message = _("Adresse inconnue : %(method)s %(path)s.") % {"method": request.method, "path": request.path}
    return WireError(404, message, "invalid_request_error", "unknown_url").response()


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
    return await _answer(request, parse_request, CompletionWriter)


@_edge("POST")
async def completions(request: HttpRequest) -> HttpResponseBase:
    """One question without a thread, as older programs ask."""
    return await _answer(request, parse_text_request, TextWriter)


@_edge("POST")
async def responses(request: HttpRequest) -> HttpResponseBase:
    """As chat completions, or with the thread that the desk kept."""
    return await _answer(request, parse_response_request, ResponseWriter)


def _body(request: HttpRequest) -> bytes:
    limit = API_MAX_BODY_BYTES
    return bounded_body(request, limit, MessageTooLargeError.beyond(limit))


async def _answer(
    request: HttpRequest, parse: Callable[..., CompletionRequest], written: Callable[[uuid.UUID, str, bool], Writer]
) -> HttpResponseBase:
    authorization = request.headers.get("Authorization", "")
    key = await in_database(_admitted, authorization)
    asked = parse(_body(request), is_strict=key.is_strict)
    if asked.is_task:
        await in_database(keyed_deployment, key, asked.model)
        return _nothing(asked, written(uuid.uuid4(), asked.model, False))
    idempotency_key = request.headers.get("Idempotency-Key", "").strip()
    language = getattr(request, "LANGUAGE_CODE", settings.LANGUAGE_CODE)
    if asked.follows is not None:
        before = await in_database(thread_to, key, asked.model, asked.follows)
        asked = replace(asked, before=before)
    opened = await in_database(open_request, key, asked, idempotency_key=idempotency_key)
    question = AskFrame(asked.question, opened.client_message_id)
    turn_id = await runner.start(opened.conversation, question, language=language)
    writer = written(turn_id, asked.model, asked.includes_usage)
    cite = partial(url_citations, request, turn_id)
    rights = HeldRights(lambda: keyed_deployment(api_key_of(authorization), asked.model))
    events = _stopping(follow_turn(turn_id, language=language), opened, rights)
    events = _failing_in(client_language(request), events)
    return await (_streamed if asked.is_streamed else _whole)(events, writer, opened, cite)


def _nothing(asked: CompletionRequest, writer: Writer) -> HttpResponseBase:
    """A program's own housekeeping: no conversation, no turn."""
    ending = Ending([], "", prompt_tokens=0, completion_tokens=0)
    if not asked.is_streamed:
        return JsonResponse(writer.whole("", ending))

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield writer.opening() + writer.closing(ending)

    return event_stream(chunks())


async def _failing_in(language: str, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The same events; an answer is in the language of the desk, an error in that of the client."""
    async with aclosing(events) as following:
        async for event in following:
            yield event.said_in(language) if isinstance(event, Failure) else event


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
    events: AsyncGenerator[Event, None], writer: Writer, opened: OpenedRequest, cite: Citing
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
                ending = replace(ending, annotations=cite(event.content, sources))
                return JsonResponse(writer.whole(text, ending))
    raise InterruptedTurnError


async def _streamed(
    events: AsyncGenerator[Event, None], writer: Writer, opened: OpenedRequest, cite: Citing
) -> HttpResponseBase:
    """Headers wait for the first text, so that what fails before it has a status of its own."""
    chunks = _chunks(events, writer, opened, cite)
    opening = writer.opening()
    first = await anext(chunks, b"")
    if isinstance(first, WireError):
        await chunks.aclose()
        return first.response()
    return event_stream(_sent(opening + first, chunks, writer))


async def _sent(
    first: bytes, chunks: AsyncGenerator[bytes | WireError, None], writer: Writer
) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield writer.failure(chunk) if isinstance(chunk, WireError) else chunk


async def _chunks(
    events: AsyncGenerator[Event, None], writer: Writer, opened: OpenedRequest, cite: Citing
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
                    yield WireError.of(InterruptedTurnError())
                    return
                text = "".join(said)
                lines = source_lines(text, sources) if opened.writes_source_lines else ""
                if lines:
                    yield writer.text(lines)
                ending = await ending_of(writer.turn_id, event, sources)
                yield writer.closing(replace(ending, annotations=cite(text, sources)))
