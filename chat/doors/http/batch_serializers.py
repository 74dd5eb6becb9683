"""JSON of a session and of the batches that servers append to it, and the wire names they carry.

What is read is strict: an unknown field, or a value of another type than the one asked for, is an error that names it;
nothing is converted.
"""

import uuid
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from agents.llm.base import RequestedCall
from chat.doors.http.serializers import ErrorSerializer, StrictSerializer
from chat.models import Conversation, Message, Role
from chat.thread.blocks import ThreadMessage


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
    duration_ms = StrictDurationField(min_value=0, max_value=2**31 - 1, allow_null=True, required=False)

    _REQUIRED = {"assistant": {"tool_calls"}, "tool": {"tool_call_id", "name", "content", "timestamp", "relance_index"}}
    _OPTIONAL = {"assistant": {"content", "timestamp", "relance_index"}, "tool": {"success", "error", "duration_ms"}}

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
                    RequestedCall(call["id"], call["function"]["name"], call["function"]["arguments"])
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


class SessionThreadSerializer(serializers.Serializer[Any]):
    session = SessionSerializer()
    messages = StoredMessageSerializer(many=True)


class BatchDataSerializer(SessionThreadSerializer):
    operation_id = serializers.UUIDField()
    relance_index = serializers.IntegerField()


class BatchResponseSerializer(serializers.Serializer[Any]):
    success = serializers.BooleanField()
    applied = serializers.BooleanField(help_text="False: this operation had been applied before.")
    data = BatchDataSerializer()  # type: ignore[assignment]  # the seed's name for it


class BatchErrorSerializer(ErrorSerializer):
    errors = serializers.JSONField(  # type: ignore[assignment]  # where each error stands
        required=False, help_text="The errors of each field."
    )


class ConflictSerializer(ErrorSerializer):
    etag = serializers.CharField(help_text="The session's ETag now, as in the header.")
