"""The HTTP edge: conversations as JSON, and the path of a question as server-sent events.

Every view answers for the caller's own conversations only. Errors of ours become `{"code", "message"}` with the
status that fits; 404 never tells an absent thing from somebody else's.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.http.response import StreamingHttpResponse
from django.utils import translation
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.authentication import CSRFCheck
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from agents.bridges import in_database
from agents.exceptions import ApplicationError
from chat.exceptions import (
    ConversationNotFoundError,
    DeploymentNotFoundError,
    InvalidMessageError,
    MessageTooLargeError,
    TurnNotFoundError,
    TurnRunningError,
)
from chat.models import Conversation, Message
from chat.permissions import (
    open_deployment,
    owned_conversation,
    owned_conversations,
    owned_turn,
    start_conversation,
)
from chat.protocol import (
    parse_json_object,
    server_sent_event,
    too_long,
    valid_client_message_id,
    valid_event_id,
    valid_question,
    valid_uuid,
)
from chat.runner import runner
from chat.serializers import (
    ConversationSerializer,
    MessageSerializer,
    NewConversationSerializer,
    ThreadSerializer,
)
from chat.thread import interrupt_stale_turns

LIST_LIMIT = 200

_STATUS: dict[type[ApplicationError], int] = {
    InvalidMessageError: 422,
    MessageTooLargeError: 413,
    ConversationNotFoundError: 404,
    DeploymentNotFoundError: 404,
    TurnNotFoundError: 404,
    TurnRunningError: 409,
}


def error_response(error: ApplicationError) -> JsonResponse:
    code = _STATUS.get(type(error), 503 if error.retryable else 500)
    body = {"code": error.code, "message": str(error.public_message)}
    return JsonResponse(body, status=code)


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
        found = self.get_queryset().exclude(title="")
        if deployment := request.query_params.get("deployment"):
            found = found.filter(deployment__slug=deployment)
        if words := request.query_params.get("q"):
            matching = Message.objects.filter(content__icontains=words[:200])
            found = found.filter(title__icontains=words[:200]) | found.filter(
                pk__in=matching.values("conversation_id")
            )
        rows = found.order_by("-updated_at")[:LIST_LIMIT]
        return Response({"results": self.get_serializer(rows, many=True).data})

    @extend_schema(request=NewConversationSerializer, responses={201: ConversationSerializer})
    def create(self, request: Request) -> Response:
        form = NewConversationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        deployment = open_deployment(request.user, form.validated_data["deployment"])
        conversation = start_conversation(request.user, request.session, deployment)
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
        conversation = self.get_object()
        interrupt_stale_turns(conversation.pk)
        messages = Message.objects.for_conversation(conversation.pk).select_related("turn")
        running = runner.running_turn(conversation.pk)
        return Response(
            {
                "messages": MessageSerializer(messages, many=True).data,
                "runningTurn": {"id": str(running)} if running else None,
            }
        )


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
    data = parse_json_object(_bounded_body(request))
    question = valid_question(data.get("message"))
    client_message_id = valid_client_message_id(data.get("clientMessageId"))
    conversation = await in_database(_conversation, request, data, client_message_id)
    turn_id = await runner.start(
        conversation,
        question=question,
        client_message_id=client_message_id,
        language=translation.get_language() or settings.LANGUAGE_CODE,
    )
    return _stream(turn_id, after=0)


def _bounded_body(request: HttpRequest) -> bytes:
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
    if data.get("conversationId"):
        conversation_id = valid_uuid("conversationId", data["conversationId"])
        return owned_conversation(user, request.session, conversation_id)
    deployment = open_deployment(user, str(data.get("deployment") or ""))
    # The same message sent again finds the conversation that it opened the first time.
    return start_conversation(
        user, request.session, deployment, client_message_id=client_message_id
    )


@require_GET
@_edge
async def turn_events(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Continue a turn after `Last-Event-ID`."""
    await in_database(_require_turn, request, turn_id)
    return _stream(turn_id, after=valid_event_id(request.headers.get("Last-Event-ID", 0)))


def _require_turn(request: HttpRequest, turn_id: uuid.UUID) -> None:
    owned_turn(request.user, request.session, turn_id)


def _stream(turn_id: uuid.UUID, *, after: int) -> StreamingHttpResponse:
    async def events() -> AsyncIterator[bytes]:
        async for event_id, event in runner.follow(turn_id, after):
            yield server_sent_event(event_id, event)

    response = StreamingHttpResponse(events(), content_type="text/event-stream")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response
