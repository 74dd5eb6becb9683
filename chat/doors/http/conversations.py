"""The caller's own conversations: listed, opened, named, deleted, read, and shown in another version."""

import uuid
from collections.abc import Iterable
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from chat.access.permissions import kept_conversations, named, open_deployment, owned_conversations, start_conversation
from chat.access.rate_limits import address_of, limit_opening
from chat.access.visitors import Reader
from chat.archive.search import excerpts, search_conversations
from chat.doors.http.reading import CountedReading
from chat.doors.http.serializers import (
    LIST_LIMIT,
    ChosenConversationsSerializer,
    ConversationListSerializer,
    ConversationSerializer,
    DeletedConversationsSerializer,
    FoundConversationSerializer,
    MessageSerializer,
    NewConversationSerializer,
    ShownVersionSerializer,
    ThreadSerializer,
)
from chat.models import OPEN_STATUSES, Conversation, Message
from chat.runs.runner import runner
from chat.runs.stale import interrupt_stale_turns
from chat.thread.branches import show_version
from chat.thread.reading import read_branch

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
        text = request.query_params.get("q", "")
        found = search_conversations(found, text).select_related("deployment")
        rows = found.order_by("-is_pinned", "-updated_at")[:LIST_LIMIT]
        context = {"excerpts": excerpts(rows, text)}
        shown = FoundConversationSerializer(rows, many=True, context=context)
        return Response({"results": shown.data})

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
