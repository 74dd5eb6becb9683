"""The HTTP edge: conversations as JSON, the path of a question as server-sent events, and batches of other servers.

Every view answers for the caller's own conversations only; servers with a service token read and write the sessions
of their deployments. Errors of ours become `{"code", "message"}` with the status that fits; 404 never tells an absent
thing from somebody else's.
"""

import math
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import wraps
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.http.response import StreamingHttpResponse
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.authentication import CSRFCheck
from rest_framework.decorators import action
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from agents.bridges import in_database
from agents.effective import effective_config
from agents.exceptions import ApplicationError
from chat.access.permissions import (
    HeldRights,
    IsService,
    ServiceTokenAuthentication,
    named,
    open_deployment,
    owned_conversation,
    owned_conversations,
    owned_turn,
    served_conversation,
    session_turn,
    start_conversation,
    visitor_of,
)
from chat.access.rate_limits import address_of, limit_asking, limit_opening
from chat.archive.search import search_conversations
from chat.doors.http.serializers import (
    BatchErrorSerializer,
    BatchResponseSerializer,
    BatchSerializer,
    ConflictSerializer,
    ConversationSerializer,
    ErrorSerializer,
    MessageSerializer,
    NewConversationSerializer,
    SessionSerializer,
    SessionThreadSerializer,
    ShownVersionSerializer,
    StoredMessageSerializer,
    ThreadSerializer,
)
from chat.exceptions import (
    ConversationNotFoundError,
    DeploymentClosedError,
    DeploymentNotFoundError,
    InvalidMessageError,
    InvalidToolMessageError,
    LinkNotFoundError,
    MessageNotFoundError,
    MessageTooLargeError,
    RateLimitedError,
    ServiceForbiddenError,
    ServiceTokenError,
    SharingRefusedError,
    ThreadConflictError,
    TurnNotFoundError,
    TurnNotLastError,
    TurnRunningError,
    VisitorTokenError,
    WidgetClosedError,
)
from chat.logs import log_batch
from chat.models import Conversation, Message, ServiceToken, Turn, TurnStatus
from chat.protocol import (
    Failure,
    parse_json_object,
    server_sent_event,
    too_long,
    valid_client_message_id,
    valid_event_id,
    valid_question,
    valid_replaced,
    valid_scope,
    valid_uuid,
)
from chat.runs.runner import runner
from chat.thread.branches import branch_turns, in_turn_order, show_version
from chat.thread.messages import OPEN_STATUSES, BatchResult, append_batch, interrupt_stale_turns
from chat.thread.reading import read_branch

LIST_LIMIT = 200

_STATUS: dict[type[ApplicationError], int] = {
    InvalidMessageError: 422,
    MessageTooLargeError: 413,
    ConversationNotFoundError: 404,
    DeploymentNotFoundError: 404,
    TurnNotFoundError: 404,
    TurnRunningError: 409,
    TurnNotLastError: 409,
    InvalidToolMessageError: 422,
    ThreadConflictError: 409,
    ServiceTokenError: 401,
    ServiceForbiddenError: 403,
    DeploymentClosedError: 403,
    RateLimitedError: 429,
    VisitorTokenError: 401,
    WidgetClosedError: 403,
    MessageNotFoundError: 404,
    LinkNotFoundError: 404,
    SharingRefusedError: 409,
}


def error_response(error: ApplicationError) -> JsonResponse:
    code = _STATUS.get(type(error), 503 if error.retryable else 500)
    body = {"code": error.code, "message": str(error.public_message)}
    response = JsonResponse(body, status=code)
    if error.retry_after is not None:
        response["Retry-After"] = str(math.ceil(error.retry_after))
    return response


def framework_error(error: Exception, context: dict[str, Any]) -> HttpResponseBase | None:
    """What REST framework answers; a body too large to be read, which it does not know, as everywhere else here."""
    if isinstance(error, RequestDataTooBig):
        message = _("La demande dépasse %(limit)d octets.") % {
            "limit": settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        }
        return error_response(MessageTooLargeError("body too large", public_message=message))
    return exception_handler(error, context)


class ConversationViewSet(
    mixins.RetrieveModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet[Conversation],
):
    """The caller's own conversations."""

    permission_classes = [AllowAny]
    serializer_class = ConversationSerializer
    queryset = Conversation.objects.none()

    def get_queryset(self) -> Any:
        if getattr(self, "swagger_fake_view", False):
            return Conversation.objects.none()
        return owned_conversations(self.request.user, self.request.session).select_related(
            "deployment"
        )

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, ApplicationError):
            return error_response(exc)
        return super().handle_exception(exc)

    @extend_schema(parameters=[OpenApiParameter("deployment"), OpenApiParameter("q")])
    def list(self, request: Request) -> Response:
        found = self.get_queryset().filter(is_temporary=False).exclude(title="")
        if deployment := request.query_params.get("deployment"):
            found = found.filter(deployment__slug=named(deployment))
        found = search_conversations(found, request.query_params.get("q", ""))
        found = found.select_related("deployment")
        rows = found.order_by("-updated_at")[:LIST_LIMIT]
        return Response({"results": self.get_serializer(rows, many=True).data})

    @extend_schema(request=NewConversationSerializer, responses={201: ConversationSerializer})
    def create(self, request: Request) -> Response:
        form = NewConversationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        limit_opening(_asker(request), address_of(request))
        deployment = open_deployment(request.user, form.validated_data["deployment"])
        conversation = start_conversation(
            request.user,
            request.session,
            deployment,
            is_temporary=form.validated_data["temporary"],
            phase=form.validated_data["phase"],
            project=form.validated_data["project"],
        )
        return Response(self.get_serializer(conversation).data, status=status.HTTP_201_CREATED)

    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        conversation = self.get_object()
        form = self.get_serializer(conversation, data=request.data)
        form.is_valid(raise_exception=True)
        Conversation.objects.filter(pk=conversation.pk).update(
            title=form.validated_data["title"].strip()
        )
        conversation.refresh_from_db()
        return Response(self.get_serializer(conversation).data)

    def perform_destroy(self, instance: Conversation) -> None:
        runner.stop(instance.pk)
        instance.delete()

    @extend_schema(responses=ThreadSerializer)
    @action(detail=True, url_path="messages")
    def messages(self, request: Request, pk: str | None = None) -> Response:
        return Response(shown_thread(self.get_object()))

    @extend_schema(request=ShownVersionSerializer, responses=ThreadSerializer)
    @action(detail=True, methods=["post"], url_path="branch")
    def branch(self, request: Request, pk: str | None = None) -> Response:
        """Show the branch of another version of a question, and go on there; the thread as it stands then."""
        conversation = self.get_object()
        form = ShownVersionSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        interrupt_stale_turns(conversation.pk)
        show_version(conversation.pk, form.validated_data["turnId"])
        conversation.refresh_from_db()
        return Response(shown_thread(conversation))


def shown_thread(conversation: Conversation) -> dict[str, Any]:
    """The current branch for its reader, and the turn that still runs or waits for an approval."""
    interrupt_stale_turns(conversation.pk)
    thread = read_branch(conversation)
    running = runner.running_turn(conversation.pk) or _open_turn(thread.messages)
    context = {"thread": thread}
    return {
        "title": conversation.title,
        "temporary": conversation.is_temporary,
        "messages": MessageSerializer(thread.messages, many=True, context=context).data,
        "runningTurn": {"id": str(running)} if running else None,
    }


#: The headers of the seed; what the body says too must be the same.
_BATCH_HEADERS = [
    OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, required=False),
    OpenApiParameter("X-Operation-ID", uuid.UUID, OpenApiParameter.HEADER, required=False),
    OpenApiParameter("X-Relance-Index", int, OpenApiParameter.HEADER, required=False),
    OpenApiParameter(
        "If-Match",
        str,
        OpenApiParameter.HEADER,
        required=False,
        description="The ETag that the session was read at; without it, the batch is appended to whatever is there.",
    ),
]
_ETAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=[200, 409], description="The session's version."
)


class SessionView(APIView):
    """What servers with a service token may do with a session (a conversation)."""

    authentication_classes = [ServiceTokenAuthentication]
    permission_classes = [IsService]

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, ValidationError):
            return _invalid_batch(exc)
        if isinstance(exc, ParseError):
            exc = InvalidMessageError("not JSON", public_message=_("Un objet JSON est attendu."))
        if isinstance(exc, ApplicationError):
            if isinstance(exc, ThreadConflictError):
                return _with_etag(_conflict(exc), exc.version)
            return error_response(exc)
        response = super().handle_exception(exc)
        if isinstance(response.data, dict) and "detail" in response.data:
            detail = response.data["detail"]
            response.data = {"code": getattr(detail, "code", "error"), "message": str(detail)}
        return response


class SessionMessagesView(SessionView):
    @extend_schema(
        operation_id="chat_session_messages",
        parameters=[_ETAG],
        responses={200: SessionThreadSerializer, 401: ErrorSerializer, 403: ErrorSerializer}
        | {404: ErrorSerializer},
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """The last messages of a session's current branch, tools included, and its ETag for `If-Match`."""
        conversation = served_conversation(_token(request), conversation_id)
        config = effective_config(conversation.deployment)
        turns = branch_turns(conversation.pk, conversation.leaf)
        stored = Message.objects.for_conversation(conversation.pk).on_branch(turns)
        newest = stored.order_by("-id")
        messages = in_turn_order(reversed(newest[: config.history_messages]))
        body = {
            "session": SessionSerializer(conversation).data,
            "messages": StoredMessageSerializer(messages, many=True).data,
        }
        return _with_etag(Response(body), conversation.version)


class BatchView(SessionView):
    @extend_schema(
        operation_id="chat_session_messages_batch",
        parameters=[*_BATCH_HEADERS, _ETAG],
        request=BatchSerializer,
        responses={
            200: BatchResponseSerializer,
            401: ErrorSerializer,
            403: ErrorSerializer,
            404: ErrorSerializer,
            409: ConflictSerializer,
            413: ErrorSerializer,
            422: BatchErrorSerializer,
        },
    )
    def post(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """Append one round of tools, whole or not at all; the same operation again changes nothing."""
        if int(request.META.get("CONTENT_LENGTH") or 0) > settings.MAX_BATCH_BYTES:
            message = _("La demande dépasse %(limit)d octets.") % {
                "limit": settings.MAX_BATCH_BYTES
            }
            return Response({"code": "too_large", "message": message}, status=413)
        conversation = served_conversation(_token(request), conversation_id)
        body = BatchSerializer(data=_agreeing(request))
        body.is_valid(raise_exception=True)
        operation_id = body.validated_data["operation_id"]
        round_index = body.validated_data["relance_index"]
        config = effective_config(conversation.deployment)
        if round_index >= config.max_rounds:
            message = _("Au plus %(limit)d relances.") % {"limit": config.max_rounds}
            raise ValidationError({"relance_index": [message]})
        result = append_batch(
            conversation.pk,
            body.thread_messages(conversation.pk),
            operation_id=operation_id,
            round_index=round_index,
            expected_version=_expected_version(request),
            max_tool_calls=config.max_tool_calls,
            idempotency_key=request.headers.get("Idempotency-Key", "")[:100],
        )
        log_batch(
            "appended",
            turn_id=None,
            operation_id=operation_id,
            round_index=round_index,
            applied=result.applied,
        )
        conversation.refresh_from_db()
        return _with_etag(Response(_batch_body(conversation, result, body)), result.version)


def _token(request: Request) -> ServiceToken:
    """The token that opened the door: the permission has seen that it is one."""
    return cast("ServiceToken", request.auth)


def _agreeing(request: Request) -> dict[str, Any]:
    """The body, completed by the headers; where both say something, it must be the same."""
    if not isinstance(request.data, dict):
        raise InvalidMessageError("not an object", public_message=_("Un objet JSON est attendu."))
    data = dict(request.data)
    for header, field in (
        ("X-Operation-ID", "operation_id"),
        ("X-Relance-Index", "relance_index"),
    ):
        said = request.headers.get(header)
        if said is None:
            continue
        if field not in data:
            data[field] = int(said) if said.isascii() and said.isdigit() else said
        elif str(data[field]).lower() != said.strip().lower():
            message = _("« %(header)s » ne dit pas la même chose que le corps.")
            raise ValidationError({field: [message % {"header": header}]})
    if "operation_id" not in data and (key := request.headers.get("Idempotency-Key")):
        data["operation_id"] = key
    return data


def _expected_version(request: Request) -> int | None:
    """The version that `If-Match` names; one that is not ours is stale by definition."""
    said = request.headers.get("If-Match")
    if said is None or said.strip() == "*":
        return None
    number = said.strip().removeprefix("W/").strip('"')
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1


def _batch_body(
    conversation: Conversation, result: BatchResult, body: BatchSerializer
) -> dict[str, Any]:
    return {
        "success": True,
        "applied": result.applied,
        "data": {
            "session": SessionSerializer(conversation).data,
            "messages": StoredMessageSerializer(result.messages, many=True).data,
            "operation_id": str(body.validated_data["operation_id"]),
            "relance_index": body.validated_data["relance_index"],
        },
    }


def _conflict(error: ThreadConflictError) -> Response:
    body = {"code": error.code, "message": str(error.public_message), "etag": f'"{error.version}"'}
    return Response(body, status=409)


def _invalid_batch(error: ValidationError) -> Response:
    message = str(InvalidToolMessageError.default_message)
    body = {"code": InvalidToolMessageError.code, "message": message, "errors": error.detail}
    return Response(body, status=422)


def _with_etag(response: Response, version: int) -> Response:
    response["ETag"] = f'"{version}"'
    return response


def _open_turn(messages: Iterable[Message]) -> uuid.UUID | None:
    """The turn that another process runs, or that waits for an approval: to a page it runs, and is followed."""
    return next((m.turn_id for m in messages if m.turn and m.turn.status in OPEN_STATUSES), None)


AsyncView = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def _edge(view: AsyncView) -> AsyncView:
    """Cross-site protection for callers that carry a session, and our errors as JSON."""

    @csrf_exempt
    @wraps(view)
    async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            reason = _csrf_failure(request)
            if reason:
                return JsonResponse({"code": "csrf", "message": reason}, status=403)
        try:
            return await view(request, *args, **kwargs)
        except ApplicationError as error:
            return error_response(error)

    return wrapped


def _csrf_failure(request: HttpRequest) -> str | None:
    check = CSRFCheck(_protected_view)
    check.process_request(request)
    # Rest framework's check returns its reason where Django's returns a response.
    return cast("str | None", check.process_view(request, _protected_view, (), {}))


def _protected_view(_request: HttpRequest) -> HttpResponse:
    """Stands for the view, which is exempt from Django's own check."""
    return HttpResponse()


@require_POST
@_edge
async def rag_chat(request: HttpRequest) -> HttpResponseBase:
    """One question, its answer as server-sent events; opens a conversation where none is named."""
    data = parse_json_object(bounded_body(request))
    question = valid_question(data.get("message"))
    client_message_id = valid_client_message_id(data.get("clientMessageId"))
    replaces = valid_replaced(data.get("replaces"))
    conversation = await in_database(_conversation, request, data, client_message_id)
    turn_id = await runner.start(
        conversation,
        question=question,
        client_message_id=client_message_id,
        language=translation.get_language() or settings.LANGUAGE_CODE,
        replaces=replaces,
    )
    return stream_turn(turn_id, after=0, rights=_reading_rights(request, turn_id))


def bounded_body(request: HttpRequest) -> bytes:
    try:
        body = request.body
    except RequestDataTooBig as error:
        raise MessageTooLargeError("body too large", public_message=too_long()) from error
    if len(body) > settings.MAX_FRAME_BYTES:
        raise MessageTooLargeError("body too large", public_message=too_long())
    return body


def _conversation(
    request: HttpRequest, data: dict[str, Any], client_message_id: str
) -> Conversation:
    user = request.user
    _limit(request)
    scope = {name: valid_scope(name, data.get(name)) for name in ("phase", "project")}
    if data.get("conversationId"):
        conversation_id = valid_uuid("conversationId", data["conversationId"])
        found = owned_conversation(user, request.session, conversation_id)
        if any(said and said != getattr(found, name) for name, said in scope.items()):
            raise InvalidMessageError("the conversation has another phase or project")
        return found
    deployment = open_deployment(user, str(data.get("deployment") or ""))
    # The same message sent again finds the conversation that it opened the first time.
    return start_conversation(
        user,
        request.session,
        deployment,
        client_message_id=client_message_id,
        phase=scope["phase"],
        project=scope["project"],
    )


@require_GET
@_edge
async def turn_events(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Continue a turn after `Last-Event-ID`."""
    await in_database(_require_turn, request, turn_id)
    after = valid_event_id(request.headers.get("Last-Event-ID", 0))
    return stream_turn(turn_id, after=after, rights=_reading_rights(request, turn_id))


@require_POST
@_edge
async def retry_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Run an interrupted or failed turn again; its events from the first."""
    turn = await in_database(_limited_turn, request, turn_id)
    language = translation.get_language() or settings.LANGUAGE_CODE
    await runner.retry(turn, language=language)
    return stream_turn(turn_id, after=0, rights=_reading_rights(request, turn_id))


@require_POST
@_edge
async def stop_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Stop a running turn, whichever process runs it; its readers get the end. `stopped` is false where it had ended."""
    turn = await in_database(owned_turn, request.user, request.session, turn_id)
    is_running = turn.status == TurnStatus.RUNNING
    stopped = is_running and await runner.stop_anywhere(turn.conversation_id)
    return JsonResponse({"stopped": stopped}, status=202)


def _limited_turn(request: HttpRequest, turn_id: uuid.UUID) -> Turn:
    """A turn to be run again, which costs as much as a question."""
    _limit(request)
    return owned_turn(request.user, request.session, turn_id)


def _limit(request: HttpRequest) -> None:
    limit_asking(_asker(request), address_of(request))


def _asker(request: HttpRequest | Request) -> Any:
    """The id of the user, or of this browser's visitor."""
    return request.user.pk if request.user.is_authenticated else visitor_of(request.session)


def _require_turn(request: HttpRequest, turn_id: uuid.UUID) -> None:
    owned_turn(request.user, request.session, turn_id)


def _reading_rights(request: HttpRequest, turn_id: uuid.UUID) -> HeldRights:
    return HeldRights(lambda: session_turn(request.session, turn_id))


def stream_turn(turn_id: uuid.UUID, *, after: int, rights: HeldRights) -> StreamingHttpResponse:
    """A turn's events for as long as its reader has the right to them, from their first to their last."""

    async def events() -> AsyncIterator[bytes]:
        try:
            async for event_id, event in runner.follow(turn_id, after):
                await rights.check_again()
                yield server_sent_event(event_id, event)
        except ApplicationError as error:
            yield server_sent_event(0, Failure.of(error))

    response = StreamingHttpResponse(events(), content_type="text/event-stream")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response
