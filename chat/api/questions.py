"""Questions over HTTP: asked, followed, run again, stopped, and tools approved; events go out to whoever has the right.

Every entry point asks by one type, `chat.protocol.AskFrame`. `ask`, `begin` and `stream_turn` serve the pages and the
widget, too; `Caller` is what they know of who asks.
"""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Protocol

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.http.response import StreamingHttpResponse
from django.utils import translation
from django.views.decorators.http import require_GET, require_POST
from rest_framework.exceptions import PermissionDenied

from agents.database import in_database
from agents.errors import ApplicationError
from chat.access.permissions import Reader, open_deployment, owned_conversation, owned_turn, start_conversation
from chat.access.rate_limits import address_of, limit_asking
from chat.api.asgi import HeldRights, event_fields
from chat.api.errors import answering_errors
from chat.api.framework import CarriedSession, hand_out_token
from chat.errors import ApprovalOverError, InvalidMessageError, MessageTooLargeError
from chat.models import Approval, Conversation, ToolExecution, Turn, TurnStatus
from chat.protocol import (
    Beat,
    Event,
    Failure,
    parse_ask,
    parse_json_object,
    too_long,
    valid_event_id,
    valid_scope,
    valid_tool_call_id,
    valid_uuid,
)
from chat.runs.runner import runner

#: What is sent in silence: clients pass over a comment.
COMMENT = b": waiting\n\n"


def server_sent_event(event_id: int, event: Event) -> bytes:
    if isinstance(event, Beat):
        return COMMENT
    data = json.dumps(event_fields(event), ensure_ascii=False)
    return f"id: {event_id}\nevent: {event.name}\ndata: {data}\n\n".encode()


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
    async with runner.place() as place:
        conversation = await in_database(caller.conversation, body, asked.client_message_id)
        return await runner.start(conversation, asked, language=caller.language(body), place=place)


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


class ForgedRequestError(ApplicationError):
    """A session came along with a request that no page of this site made."""

    code = "csrf"
    status = 403


class SessionCaller:
    """Whoever the session of this site belongs to."""

    has_versions: ClassVar[bool] = True

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def language(self, body: dict[str, Any] | None = None) -> str:
        return translation.get_language() or settings.LANGUAGE_CODE

    def conversation(self, body: dict[str, Any], client_message_id: str) -> Conversation:
        self._limit()
        reader = Reader.of(self._request)
        scope = {name: valid_scope(name, body.get(name)) for name in ("phase", "project")}
        if body.get("conversationId"):
            conversation_id = valid_uuid("conversationId", body["conversationId"])
            found = owned_conversation(reader, conversation_id)
            if any(said and said != getattr(found, name) for name, said in scope.items()):
                raise InvalidMessageError("the conversation has another phase or project")
            return found
        deployment = open_deployment(reader.user, str(body.get("deployment") or ""))
        # The same message sent again finds the conversation that it opened the first time.
        return start_conversation(
            reader, deployment, client_message_id=client_message_id, phase=scope["phase"], project=scope["project"]
        )

    def turn(self, turn_id: uuid.UUID) -> Turn:
        return owned_turn(Reader.now(self._request.session), turn_id)

    def limited_turn(self, turn_id: uuid.UUID) -> Turn:
        """A turn to be run again, which costs as much as a question."""
        self._limit()
        return self.turn(turn_id)

    def _limit(self) -> None:
        limit_asking(Reader.of(self._request).person, address_of(self._request))


def _check_forgery(request: HttpRequest) -> None:
    """Cross-site protection for callers that carry a session."""
    hand_out_token(request)
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return
    try:
        CarriedSession().enforce_csrf(request)
    except PermissionDenied as error:
        raise ForgedRequestError(public_message=str(error.detail)) from error


_edge = answering_errors(_check_forgery)


@require_POST
@_edge
async def rag_chat(request: HttpRequest) -> HttpResponseBase:
    """One question, its answer as server-sent events; opens a conversation where none is named."""
    return await ask(request, SessionCaller(request))


@require_GET
@_edge
async def turn_events(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Continue a turn after `Last-Event-ID`."""
    return await continue_turn(request, turn_id, SessionCaller(request))


@require_POST
@_edge
async def retry_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Run an interrupted or failed turn again; its events from the first."""
    caller = SessionCaller(request)
    turn = await in_database(caller.limited_turn, turn_id)
    await runner.retry(turn, language=caller.language())
    return stream_turn(turn_id, caller)


@require_POST
@_edge
async def stop_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Stop a running turn, whichever process runs it; its readers get the end. `stopped` is false where it had ended."""
    turn = await in_database(SessionCaller(request).turn, turn_id)
    is_running = turn.status == TurnStatus.RUNNING
    stopped = is_running and await runner.stop_anywhere(turn.conversation_id)
    return JsonResponse({"stopped": stopped}, status=202)


@require_POST
@_edge
async def decide_call(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Approve or refuse one call; once all are decided, the turn goes on. The same decision again changes nothing."""
    caller, body = SessionCaller(request), read_object(request)
    turn = await in_database(caller.turn, turn_id)
    call_id, is_approved = valid_tool_call_id(body.get("toolCallId")), body.get("approved")
    if not isinstance(is_approved, bool):
        raise InvalidMessageError("`approved` is true or false")
    try:
        await runner.decide(turn, tool_call_id=call_id, is_approved=is_approved, language=caller.language())
    except ApprovalOverError:
        said = Approval.APPROVED if is_approved else Approval.DENIED
        # Servers may number the calls of each round anew: the last one is meant.
        decided = ToolExecution.objects.filter(round__turn=turn, tool_call_id=call_id).exclude(approval="")
        latest = decided.order_by("-round__round_index").values_list("approval", flat=True)
        if await in_database(latest.first) != said:
            raise
    await in_database(turn.refresh_from_db)
    return JsonResponse({"turnId": str(turn.pk), "status": turn.status})
