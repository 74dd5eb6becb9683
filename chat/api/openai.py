"""The views of `/v1`: keys in, completions out; sessions and cookies count for nothing.

Each request has a conversation of its own, marked as the API's and nobody's on the pages: the client keeps its thread
and may send any other the next time. A turn whose client goes away is stopped, since nobody could ask for it again.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial, wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt

from agents.database import in_database, single_write
from agents.effective import current_config
from agents.errors import ApplicationError, LLMResponseError
from chat.access.permissions import api_key_of, keyed_deployment, keyed_deployments
from chat.access.rate_limits import limit_key
from chat.api.asgi import HeldRights
from chat.api.errors import AsyncView, answering_errors
from chat.api.openai_forms import (
    FINISH_REASONS,
    CompletionRequest,
    CompletionWriter,
    Ending,
    WireError,
    client_language,
    model_json,
    parse_request,
    source_lines,
    url_citations,
)
from chat.api.questions import COMMENT, bounded_body, event_stream
from chat.errors import ApprovalOverError, MessageTooLargeError
from chat.models import ApiKey, Channel, Conversation, Turn
from chat.protocol import AskFrame, Beat, Delta, Done, Event, Failure, Meta, Restart, Sources, Tool
from chat.runs.runner import runner
from chat.thread.rounds import BY_NOBODY

#: How much of the thread that a client of `/v1` sends reaches the prompt, in characters.
API_MAX_HISTORY_CHARACTERS = 40_000


def open_conversation(key: ApiKey, asked: CompletionRequest) -> tuple[Conversation, bool]:
    """A conversation for this request, and whether the titles of the sources end its answer."""
    deployment = keyed_deployment(key, asked.model)
    config = current_config(deployment.pk)
    before = asked.before.last(config.context_exchanges, characters=API_MAX_HISTORY_CHARACTERS)
    with single_write():
        conversation = Conversation.objects.create(
            deployment=deployment, channel=Channel.API, api_key=key, client_thread=before.as_json()
        )
    return conversation, config.api_source_lines


async def follow_turn(turn_id: uuid.UUID, *, language: str) -> AsyncGenerator[Event, None]:
    """A turn's events to its end. A tool that asks for a person's approval is denied: there is nobody to ask."""
    while True:
        awaiting: list[str] = []
        told, to_skip = 0, 0
        async for _event_id, event in runner.follow(turn_id):
            if isinstance(event, Meta):
                # The process that ran the turn died, and the text is told from its start: what was passed on stays.
                to_skip = told
            elif isinstance(event, Delta):
                text, to_skip = event.text[to_skip:], max(0, to_skip - len(event.text))
                told += len(text)
                if text:
                    yield Delta(text)
                continue
            if isinstance(event, Restart):
                # What a client has it keeps: what replaces it stands below.
                event, told = Delta("\n\n" if told else ""), told + 2
            if isinstance(event, Tool) and event.status == "awaiting":
                awaiting.append(event.tool_call_id)
            if isinstance(event, Done) and event.status == "awaiting_approval":
                break
            yield event
        else:
            return
        await _deny(turn_id, awaiting, language)


async def _deny(turn_id: uuid.UUID, tool_call_ids: list[str], language: str) -> None:
    turn = await in_database(Turn.objects.get, pk=turn_id)
    for tool_call_id in tool_call_ids:
        try:
            await runner.decide(
                turn, tool_call_id=tool_call_id, is_approved=False, language=language, why_denied=BY_NOBODY
            )
        except ApprovalOverError:
            continue  # another reader of the same turn was faster


async def ending_of(turn_id: uuid.UUID, done: Done, sources: list[Any], annotations: list[dict[str, Any]]) -> Ending:
    tokens = Turn.objects.values_list("prompt_tokens", "completion_tokens")
    read, written = await in_database(tokens.get, pk=turn_id)
    return Ending(
        sources,
        done.answer_source,
        prompt_tokens=read,
        completion_tokens=written,
        annotations=annotations,
        finish_reason=FINISH_REASONS.get(done.cut, "stop"),
    )


class InterruptedTurnError(ApplicationError):
    """The turn was stopped by the server (it shuts down, or its process died): asking again gives the whole answer."""

    code = "interrupted"
    status = 503
    retryable = True
    default_message = gettext_lazy("La réponse a été interrompue avant la fin. Réessayez.")


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
    authorization = request.headers.get("Authorization", "")
    async with runner.place() as place:
        key = await in_database(_admitted, authorization)
        limit = API_MAX_BODY_BYTES
        asked = parse_request(bounded_body(request, limit, MessageTooLargeError.beyond(limit)))
        if asked.is_task:
            await in_database(keyed_deployment, key, asked.model)
            return _nothing(asked, CompletionWriter(uuid.uuid4(), asked.model))
        language = getattr(request, "LANGUAGE_CODE", settings.LANGUAGE_CODE)
        conversation, has_lines = await in_database(open_conversation, key, asked)
        question = AskFrame(asked.question, str(uuid.uuid4()))
        turn_id = await runner.start(conversation, question, language=language, place=place)
    writer = CompletionWriter(turn_id, asked.model, asked.includes_usage)
    cite = partial(url_citations, request, turn_id)
    rights = HeldRights(lambda: keyed_deployment(api_key_of(authorization), asked.model))
    events = _stopping(follow_turn(turn_id, language=language), conversation, rights)
    if asked.is_streamed:
        return event_stream(_chunks(events, writer, has_lines, cite))
    return await _whole(events, writer, has_lines, cite)


def _nothing(asked: CompletionRequest, writer: CompletionWriter) -> HttpResponseBase:
    """A program's own housekeeping: no conversation, no turn."""
    ending = Ending([], "", prompt_tokens=0, completion_tokens=0)
    if not asked.is_streamed:
        return JsonResponse(writer.whole("", ending))

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield writer.opening() + writer.closing(ending)

    return event_stream(chunks())


async def _stopping(
    events: AsyncGenerator[Event, None], conversation: Conversation, rights: HeldRights
) -> AsyncGenerator[Event, None]:
    """The same events; a client that leaves before the last one, or loses its rights, stops the turn."""
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
        if not is_over:
            runner.stop(conversation.pk)


def _whole_text(done: Done) -> str:
    if done.status != "done":
        raise InterruptedTurnError
    if not done.content.strip():
        raise LLMResponseError("The answer is empty.")
    return done.content


async def _whole(
    events: AsyncGenerator[Event, None], writer: CompletionWriter, has_lines: bool, cite: Citing
) -> HttpResponseBase:
    sources: list[Any] = []
    async with aclosing(events) as following:
        async for event in following:
            if isinstance(event, Sources):
                sources = list(event.sources)
            elif isinstance(event, Failure):
                return WireError.told(event).response()
            elif isinstance(event, Done):
                text = _whole_text(event)
                if has_lines:
                    text += source_lines(text, sources)
                ending = await ending_of(writer.turn_id, event, sources, cite(event.content, sources))
                return JsonResponse(writer.whole(text, ending))
    raise InterruptedTurnError


async def _chunks(
    events: AsyncGenerator[Event, None], writer: CompletionWriter, has_lines: bool, cite: Citing
) -> AsyncGenerator[bytes, None]:
    """What a client reads of these events; where the turn failed, the error is the last."""
    sources: list[Any] = []
    said: list[str] = []
    async with aclosing(events) as following:
        yield writer.opening()
        async for event in following:
            if isinstance(event, Sources):
                sources = list(event.sources)
            elif isinstance(event, Delta):
                said.append(event.text)
                yield writer.text(event.text)
            elif isinstance(event, Beat):
                yield COMMENT
            elif isinstance(event, Failure):
                yield writer.failure(WireError.told(event))
            elif isinstance(event, Done):
                try:
                    _whole_text(event)
                except ApplicationError as error:
                    yield writer.failure(WireError.of(error))
                    return
                text = "".join(said)
                lines = source_lines(text, sources) if has_lines else ""
                if lines:
                    yield writer.text(lines)
                yield writer.closing(await ending_of(writer.turn_id, event, sources, cite(text, sources)))
