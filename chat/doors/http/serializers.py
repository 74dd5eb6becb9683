"""JSON of conversations and messages, and the wire names they carry.

What the batch endpoint reads is strict: an unknown field, or a value of another type than the one asked for, is an
error that names it; nothing is converted.
"""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.llm.base import RequestedCall
from chat.models import (
    SCOPE_CHARACTERS,
    Conversation,
    Feedback,
    FeedbackReason,
    Message,
    Role,
    SharedThread,
    Verdict,
)
from chat.rendering import render_answer
from chat.thread.blocks import ThreadMessage
from chat.thread.reading import ShownThread


class ConversationSerializer(serializers.ModelSerializer[Conversation]):
    deployment = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    temporary = serializers.BooleanField(source="is_temporary", read_only=True)

    class Meta:
        model = Conversation
        fields = (
            "id",
            "title",
            "deployment",
            "temporary",
            "phase",
            "project",
            "created_at",
            "updated_at",
        )
        read_only_fields = ("id", "deployment", "phase", "project", "created_at", "updated_at")
        extra_kwargs = {"title": {"required": True, "allow_blank": False, "max_length": 200}}


class NewConversationSerializer(serializers.Serializer[Any]):
    deployment = serializers.SlugField(required=False, allow_blank=True, default="")
    temporary = serializers.BooleanField(required=False, default=False)
    phase = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=SCOPE_CHARACTERS
    )
    project = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=SCOPE_CHARACTERS
    )


class ShownVersionSerializer(serializers.Serializer[Any]):
    turnId = serializers.UUIDField()


class TurnSummarySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    status = serializers.CharField()
    answerSource = serializers.CharField(source="answer_source")
    model = serializers.CharField()
    agent = serializers.CharField(source="answered_by")
    errorCode = serializers.CharField(source="error_code")


class ToolLineSerializer(serializers.Serializer[Any]):
    toolCallId = serializers.CharField()
    name = serializers.CharField()
    status = serializers.CharField()
    relanceIndex = serializers.IntegerField()
    durationMs = serializers.IntegerField(allow_null=True)
    arguments = serializers.CharField()


class VersionsSerializer(serializers.Serializer[Any]):
    """The turns that stand at the place of this one, itself included, the oldest first."""

    position = serializers.IntegerField(help_text="Which of them is shown, from 1.")
    turnIds = serializers.ListField(child=serializers.UUIDField(), source="turn_ids")


class GivenFeedbackSerializer(serializers.ModelSerializer[Feedback]):
    class Meta:
        model = Feedback
        fields = ("verdict", "reason", "comment")


class VerdictSerializer(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=Verdict.choices)
    reason = serializers.ChoiceField(
        choices=FeedbackReason.choices, required=False, allow_blank=True, default=""
    )
    comment = serializers.CharField(required=False, allow_blank=True, default="")

    def validate_comment(self, comment: str) -> str:
        limit = settings.FEEDBACK_MAX_CHARACTERS
        if len(comment) > limit:
            message = _("Au plus %(limit)d caractères.") % {"limit": limit}
            raise serializers.ValidationError(message)
        return comment


class SharedLinkSerializer(serializers.ModelSerializer[SharedThread]):
    """A link as its owner sees it; the context holds its whole address."""

    url = serializers.SerializerMethodField()

    class Meta:
        model = SharedThread
        fields = ("token", "url", "title", "created_at", "expires_at")

    def get_url(self, shared: SharedThread) -> str:
        return str(self.context["url"])


class MessageSerializer(serializers.ModelSerializer[Message]):
    """A question or an answer. The context may hold `thread`, the `ShownThread` that the messages are of."""

    html = serializers.SerializerMethodField()
    turn = TurnSummarySerializer(read_only=True)
    type = serializers.CharField(read_only=True)
    versions = serializers.SerializerMethodField()
    tools = serializers.SerializerMethodField()
    feedback = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields = (
            "id",
            "role",
            "type",
            "content",
            "html",
            "sources",
            "turn",
            "versions",
            "tools",
            "feedback",
            "created_at",
        )

    @extend_schema_field(VersionsSerializer(allow_null=True))
    def get_versions(self, message: Message) -> Any:
        """Only a question has versions, and only where there are several."""
        thread: ShownThread | None = self.context.get("thread")
        if thread is None or message.role != Role.USER or message.turn_id not in thread.versions:
            return None
        return VersionsSerializer(thread.versions[message.turn_id]).data

    @extend_schema_field(ToolLineSerializer(many=True))
    def get_tools(self, message: Message) -> Any:
        """The tools that ran for this question; they stand with it, since a turn may end without an answer."""
        thread: ShownThread | None = self.context.get("thread")
        if thread is None or message.role != Role.USER or message.turn_id is None:
            return []
        return [tool.as_json() for tool in thread.tools.get(message.turn_id, ())]

    @extend_schema_field(GivenFeedbackSerializer(allow_null=True))
    def get_feedback(self, message: Message) -> Any:
        """What the reader said of this answer, unless it was taken back."""
        given = getattr(message.turn, "feedback", None) if message.role != Role.USER else None
        if given is None or given.withdrawn_at is not None:
            return None
        return GivenFeedbackSerializer(given).data

    def get_html(self, message: Message) -> str:
        """The answer as sanitised HTML; a question is plain text and has none."""
        if message.role != Role.ASSISTANT:
            return ""
        return render_answer(
            message.content,
            turn_id=str(message.turn_id),
            source_numbers={source["n"] for source in message.sources},
        )


class RunningTurnSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()


class ThreadSerializer(serializers.Serializer[Any]):
    title = serializers.CharField()
    temporary = serializers.BooleanField()
    messages = MessageSerializer(many=True)
    runningTurn = RunningTurnSerializer(allow_null=True)


class StrictSerializer(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := sorted(set(data) - set(self.fields))):
            refused = {str(name)[:100]: [_("Champ inconnu.")] for name in unknown}
            raise serializers.ValidationError(refused)
        return super().to_internal_value(data)


class StrictTextField(serializers.CharField):
    """Text as it is: not trimmed, and nothing else converted to it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictBooleanField(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class StrictCountField(serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(data)


class StrictDurationField(StrictCountField):
    """Milliseconds; a fraction is rounded."""

    def to_internal_value(self, data: Any) -> int:
        return super().to_internal_value(round(data) if isinstance(data, float) else data)


class CallFunctionSerializer(StrictSerializer):
    name = StrictTextField(max_length=64)
    arguments = StrictTextField(help_text="The arguments: a JSON object, as text.")


class ToolCallSerializer(StrictSerializer):
    id = StrictTextField(max_length=100)
    type = serializers.ChoiceField(choices=["function"], required=False, default="function")
    function = CallFunctionSerializer()


#: The largest `relance_index` that a column holds.
MAX_RELANCE_INDEX = 32_767


class BatchMessageSerializer(StrictSerializer):
    """One message of a batch: the `assistant` message with its calls, or the `tool` message of one of them."""

    role = serializers.ChoiceField(choices=["assistant", "tool"])
    content = StrictTextField(allow_blank=True, allow_null=True, required=False)
    tool_calls = ToolCallSerializer(many=True, required=False)
    tool_call_id = StrictTextField(max_length=100, required=False)
    name = StrictTextField(max_length=64, required=False)
    timestamp = serializers.DateTimeField(required=False)
    relance_index = StrictCountField(min_value=0, max_value=MAX_RELANCE_INDEX, required=False)
    success = StrictBooleanField(required=False)
    error = StrictTextField(allow_blank=True, allow_null=True, max_length=5_000, required=False)
    duration_ms = StrictDurationField(
        min_value=0, max_value=2**31 - 1, allow_null=True, required=False
    )

    _REQUIRED = {
        "assistant": {"tool_calls"},
        "tool": {"tool_call_id", "name", "content", "timestamp", "relance_index"},
    }
    _OPTIONAL = {
        "assistant": {"content", "timestamp", "relance_index"},
        "tool": {"success", "error", "duration_ms"},
    }

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        role = attrs["role"]
        given = set(attrs) - {"role"}
        if role == "tool" and attrs.get("content") is None:
            given.discard("content")
        errors = {name: [_("Ce champ est obligatoire.")] for name in self._REQUIRED[role] - given}
        for name in given - self._REQUIRED[role] - self._OPTIONAL[role]:
            errors[name] = [_("Ce champ n’a pas sa place dans un message « %s ».") % role]
        if errors:
            raise serializers.ValidationError(errors)
        return attrs


class BatchSerializer(StrictSerializer):
    messages = BatchMessageSerializer(many=True, allow_empty=False)
    operation_id = serializers.UUIDField()
    relance_index = StrictCountField(min_value=0, max_value=MAX_RELANCE_INDEX)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        index = attrs["relance_index"]
        if any(message.get("relance_index", index) != index for message in attrs["messages"]):
            raise serializers.ValidationError(
                {"relance_index": [_("Les messages portent une autre relance que le lot.")]}
            )
        return attrs

    def thread_messages(self, conversation_id: uuid.UUID) -> list[ThreadMessage]:
        return [
            ThreadMessage(
                conversation_id=conversation_id,
                role=Role(message["role"]),
                content=message.get("content") or "",
                tool_calls=tuple(
                    RequestedCall(
                        call["id"], call["function"]["name"], call["function"]["arguments"]
                    )
                    for call in message.get("tool_calls", ())
                ),
                tool_call_id=message.get("tool_call_id", ""),
                name=message.get("name", ""),
                success=message.get("success"),
                error=message.get("error") or "",
                duration_ms=message.get("duration_ms"),
                timestamp=message.get("timestamp"),
            )
            for message in self.validated_data["messages"]
        ]


class SessionSerializer(serializers.ModelSerializer[Conversation]):
    class Meta:
        model = Conversation
        fields = ("id", "title", "version", "created_at", "updated_at")


class StoredMessageSerializer(serializers.ModelSerializer[Message]):
    """A message of a thread as servers read it, each with the session that it belongs to."""

    session_id = serializers.UUIDField(source="conversation_id")
    content = serializers.CharField()
    tool_calls = ToolCallSerializer(many=True)
    timestamp = serializers.SerializerMethodField()
    error = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields = (
            "id",
            "session_id",
            "role",
            "content",
            "tool_calls",
            "tool_call_id",
            "name",
            "operation_id",
            "relance_index",
            "success",
            "error",
            "duration_ms",
            "timestamp",
        )

    def get_timestamp(self, message: Message) -> datetime:
        return (message.timestamp or message.created_at).astimezone(UTC)

    def get_error(self, message: Message) -> str | None:
        return message.error or None


class BatchDataSerializer(serializers.Serializer[Any]):
    session = SessionSerializer()
    messages = StoredMessageSerializer(many=True)
    operation_id = serializers.UUIDField()
    relance_index = serializers.IntegerField()


class BatchResponseSerializer(serializers.Serializer[Any]):
    success = serializers.BooleanField()
    applied = serializers.BooleanField(help_text="False: this operation had been applied before.")
    data = BatchDataSerializer()  # type: ignore[assignment]  # the seed's name for it


class SessionThreadSerializer(serializers.Serializer[Any]):
    session = SessionSerializer()
    messages = StoredMessageSerializer(many=True)


class ErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class BatchErrorSerializer(ErrorSerializer):
    errors = serializers.JSONField(  # type: ignore[assignment]  # where each error stands
        required=False, help_text="The errors of each field."
    )


class ConflictSerializer(ErrorSerializer):
    etag = serializers.CharField(help_text="The session's ETag now, as in the header.")
