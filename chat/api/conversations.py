"""Conversations over HTTP: listed, searched, renamed, deleted, exported, and what readers say of answers."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chat.access.permissions import (
    kept_conversation,
    kept_conversations,
    named,
    open_deployment,
    owned_answer,
    owned_conversations,
    start_conversation,
)
from chat.access.rate_limits import address_of, limit_opening, limit_reading
from chat.access.visitors import Reader, WidgetVisitor
from chat.api.serializers import (
    LIST_LIMIT,
    ChosenConversationsSerializer,
    ConversationListSerializer,
    ConversationSerializer,
    DeletedConversationsSerializer,
    ErrorSerializer,
    GivenFeedbackSerializer,
    MessageSerializer,
    NewConversationSerializer,
    ShownVersionSerializer,
    ThreadSerializer,
    VerdictSerializer,
)
from chat.archive import as_json, as_markdown, file_name, search_conversations
from chat.errors import InvalidMessageError
from chat.models import OPEN_STATUSES, Conversation, Message, Verdict
from chat.runs.runner import runner
from chat.thread.messages import read_branch, show_version
from chat.thread.turns import interrupt_stale_turns
from chat.thread.verdicts import give_feedback, withdraw_feedback


class CountedReading(APIView):
    """A view whose reading is counted for its caller; beyond the limit it answers 429 (`rate_limited`)."""

    #: What is counted: exports cost a hundred times a list, and have a limit of their own.
    reads_what = "read"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in SAFE_METHODS:
            limit_reading(self.reads_what, Reader.of(request).person, address_of(request))


#: What anybody may do with what they said, also where its deployment is closed to them by now.
_OF_THEIR_OWN = ("list", "retrieve", "destroy", "delete_several", "messages")


class ConversationViewSet(
    CountedReading, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[Conversation]
):
    """The caller's own conversations."""

    permission_classes = [AllowAny]
    serializer_class = ConversationSerializer
    queryset = Conversation.objects.none()

    def get_queryset(self) -> Any:
        if getattr(self, "swagger_fake_view", False):
            return Conversation.objects.none()
        own = kept_conversations if self.action in _OF_THEIR_OWN else owned_conversations
        return own(Reader.of(self.request)).select_related("deployment")

    @extend_schema(
        parameters=[OpenApiParameter("deployment"), OpenApiParameter("q")], responses=ConversationListSerializer
    )
    def list(self, request: Request) -> Response:
        found = self.get_queryset().filter(is_temporary=False).exclude(title="")
        if deployment := request.query_params.get("deployment"):
            found = found.filter(deployment__slug=named(deployment))
        found = search_conversations(found, request.query_params.get("q", "")).select_related("deployment")
        rows = found.order_by("-is_pinned", "-updated_at")[:LIST_LIMIT]
        return Response({"results": self.get_serializer(rows, many=True).data})

    @extend_schema(request=NewConversationSerializer, responses={201: ConversationSerializer})
    def create(self, request: Request) -> Response:
        form = NewConversationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        reader = Reader.of(request)
        limit_opening(reader.person, address_of(request))
        deployment = open_deployment(reader.user, form.validated_data["deployment"])
        conversation = start_conversation(
            reader,
            deployment,
            is_temporary=form.validated_data["temporary"],
            phase=form.validated_data["phase"],
            project=form.validated_data["project"],
        )
        return Response(self.get_serializer(conversation).data, status=status.HTTP_201_CREATED)

    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        conversation = self.get_object()
        form = self.get_serializer(conversation, data=request.data, partial=True)
        form.is_valid(raise_exception=True)
        Conversation.objects.filter(pk=conversation.pk).update(**form.validated_data)
        conversation.refresh_from_db()
        return Response(self.get_serializer(conversation).data)

    def perform_destroy(self, instance: Conversation) -> None:
        runner.stop(instance.pk)
        instance.delete()

    @extend_schema(
        operation_id="conversations_delete_several",
        request=ChosenConversationsSerializer,
        responses=DeletedConversationsSerializer,
    )
    @action(detail=False, methods=["post"], url_path="delete")
    def delete_several(self, request: Request) -> Response:
        """Those of the caller's own among these are deleted; how many."""
        form = ChosenConversationsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        found = list(self.get_queryset().filter(pk__in=form.validated_data["ids"]).order_by())
        for conversation in found:
            self.perform_destroy(conversation)
        return Response({"deleted": len(found)})

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


def _open_turn(messages: Iterable[Message]) -> uuid.UUID | None:
    """The turn that another process runs, or that waits for an approval: to a page it runs, and is followed."""
    return next((m.turn_id for m in messages if m.turn and m.turn.status in OPEN_STATUSES), None)


#: By the name in `?format=`: the media type, and what writes it.
FORMATS: dict[str, tuple[str, Callable[[Conversation], bytes]]] = {
    "md": ("text/markdown; charset=utf-8", as_markdown),
    "json": ("application/json", as_json),
}


class ExportView(CountedReading):
    reads_what = "export"
    permission_classes = [AllowAny]

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Our own `?format=` names a document, not a renderer of the framework."""
        return JSONRenderer(), JSONRenderer.media_type

    @extend_schema(
        operation_id="conversation_export",
        parameters=[OpenApiParameter("format", enum=sorted(FORMATS))],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "text/markdown"): OpenApiTypes.STR,
            404: ErrorSerializer,
            422: ErrorSerializer,
        },
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponse:
        """The current branch as a file, with its sources."""
        conversation = kept_conversation(Reader.of(request), conversation_id)
        name = request.query_params.get("format", "md")
        if name not in FORMATS:
            message = _("« format » doit être « md » ou « json ».")
            raise InvalidMessageError("unknown export format", public_message=message)
        media_type, write = FORMATS[name]
        response = HttpResponse(write(conversation), content_type=media_type)
        shown = quote(file_name(conversation.title, name))
        response["Content-Disposition"] = f"attachment; filename*=UTF-8''{shown}"
        patch_cache_control(response, private=True, no_store=True)
        return response


class FeedbackView(APIView):
    permission_classes = [AllowAny]

    def reader(self, request: Request) -> Reader | WidgetVisitor:
        return Reader.of(request)

    @extend_schema(
        operation_id="message_feedback",
        request=VerdictSerializer,
        responses={200: GivenFeedbackSerializer, 404: ErrorSerializer},
    )
    def post(self, request: Request, message_id: int) -> Response:
        """Say what an answer is worth; a second verdict replaces the first."""
        turn = owned_answer(self.reader(request), message_id)
        form = VerdictSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        feedback = give_feedback(
            turn,
            Verdict(form.validated_data["verdict"]),
            reason=form.validated_data["reason"],
            comment=form.validated_data["comment"],
        )
        return Response(GivenFeedbackSerializer(feedback).data)

    @extend_schema(operation_id="message_feedback_withdraw", responses={204: None, 404: ErrorSerializer})
    def delete(self, request: Request, message_id: int) -> Response:
        """Take a verdict back."""
        withdraw_feedback(owned_answer(self.reader(request), message_id))
        return Response(status=status.HTTP_204_NO_CONTENT)
