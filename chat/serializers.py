"""JSON of conversations and messages, and the wire names they carry."""

from typing import Any

from rest_framework import serializers

from chat.models import Conversation, Message, Role
from chat.rendering import render_answer


class ConversationSerializer(serializers.ModelSerializer[Conversation]):
    deployment = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)

    class Meta:
        model = Conversation
        fields = ("id", "title", "deployment", "created_at", "updated_at")
        read_only_fields = ("id", "deployment", "created_at", "updated_at")
        extra_kwargs = {"title": {"required": True, "allow_blank": False, "max_length": 200}}


class NewConversationSerializer(serializers.Serializer[Any]):
    deployment = serializers.SlugField(required=False, allow_blank=True, default="")


class TurnSummarySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    status = serializers.CharField()
    answerSource = serializers.CharField(source="answer_source")
    model = serializers.CharField()
    errorCode = serializers.CharField(source="error_code")


class MessageSerializer(serializers.ModelSerializer[Message]):
    html = serializers.SerializerMethodField()
    turn = TurnSummarySerializer(read_only=True)
    type = serializers.CharField(read_only=True)

    class Meta:
        model = Message
        fields = ("id", "role", "type", "content", "html", "sources", "turn", "created_at")

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
    messages = MessageSerializer(many=True)
    runningTurn = RunningTurnSerializer(allow_null=True)
