"""JSON of conversations and messages, and the wire names they carry."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from chat.models import (
    FEEDBACK_MAX_CHARACTERS,
    SCOPE_CHARACTERS,
    Conversation,
    Feedback,
    FeedbackReason,
    HelpRequest,
    Message,
    MessageType,
    Role,
    Turn,
    Verdict,
)
from chat.protocol import message_of, offered_questions
from chat.rendering import escape_citations, render_answer
from chat.thread.messages import ShownThread, exchange_of
from chat.turn.values import shown_reading


class ConversationSerializer(serializers.ModelSerializer[Conversation]):
    deployment = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    pinned = serializers.BooleanField(source="is_pinned", required=False)

    class Meta:
        model = Conversation
        fields = ("id", "title", "deployment", "pinned", "phase", "project", "created_at", "updated_at")
        read_only_fields = ("id", "deployment", "phase", "project", "created_at", "updated_at")
        extra_kwargs = {"title": {"required": True, "allow_blank": False, "max_length": 200}}

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            raise serializers.ValidationError({"title": [_("Ce champ est obligatoire.")]})
        return attrs


@extend_schema_serializer(many=False)
class ConversationListSerializer(serializers.Serializer[Any]):
    results = ConversationSerializer(many=True)


class NewConversationSerializer(serializers.Serializer[Any]):
    deployment = serializers.SlugField(allow_blank=True, default="")
    phase = serializers.CharField(allow_blank=True, default="", max_length=SCOPE_CHARACTERS)
    project = serializers.CharField(allow_blank=True, default="", max_length=SCOPE_CHARACTERS)
    #: A program of 0.1.0 that asks for a conversation that is not kept is refused: there is none any more.
    temporary = serializers.ChoiceField([False], default=False)


class ShownVersionSerializer(serializers.Serializer[Any]):
    turnId = serializers.UUIDField()


class TurnSummarySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    status = serializers.CharField()
    answerSource = serializers.CharField(source="answer_source")
    model = serializers.CharField()
    agent = serializers.CharField(source="answered_by")
    score = serializers.FloatField(
        allow_null=True, help_text="How near the question of the stored answer that was given is."
    )
    errorCode = serializers.CharField(source="error_code")
    notice = serializers.SerializerMethodField(
        help_text="Why the turn failed, or its answer stops before its end; empty for a whole answer."
    )

    readAs = serializers.SerializerMethodField(help_text="How the question was read, where otherwise than typed.")

    def get_notice(self, turn: Turn) -> str:
        return message_of(turn.error_code)

    def get_readAs(self, turn: Turn) -> str:  # the name of its field
        return shown_reading(turn.trace)


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
    reason = serializers.ChoiceField(choices=FeedbackReason.choices, allow_blank=True, default="")
    comment = serializers.CharField(allow_blank=True, default="", max_length=FEEDBACK_MAX_CHARACTERS)


class NewHelpSerializer(serializers.Serializer[Any]):
    address = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=254,
        help_text="Where a visitor is mailed; ignored of who is signed in.",
    )
    consent = serializers.BooleanField(help_text="That the staff read the conversation.")


class HelpRequestSerializer(serializers.ModelSerializer[HelpRequest]):
    """A request to a person about the answer of a turn, which may be on another branch."""

    question = serializers.SerializerMethodField()
    statusText = serializers.CharField(source="get_status_display")
    html = serializers.SerializerMethodField(help_text="The person's answer.")

    class Meta:
        model = HelpRequest
        fields = tuple("turn question address status statusText answer html created_at answered_at".split())

    def get_question(self, request: HelpRequest) -> str:
        asked, _answered = exchange_of(request.turn)
        return asked.content if asked else ""

    def get_html(self, request: HelpRequest) -> str:
        return render_answer(escape_citations(request.answer), turn_id="", source_numbers=())


class MessageSerializer(serializers.ModelSerializer[Message]):
    """A question or an answer. The context holds `thread`, the `ShownThread` that the messages are of."""

    html = serializers.SerializerMethodField()
    turn = TurnSummarySerializer(read_only=True)
    type = serializers.ChoiceField(choices=MessageType.choices, read_only=True)
    versions = serializers.SerializerMethodField()
    tools = serializers.SerializerMethodField()
    feedback = serializers.SerializerMethodField()
    suggestions = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields = (
            *("id", "role", "type", "content", "html", "sources", "turn"),
            *("versions", "tools", "feedback", "suggestions", "created_at"),
        )

    @extend_schema_field(VersionsSerializer(allow_null=True))
    def get_versions(self, message: Message) -> Any:
        """Only a question has versions, and only where there are several."""
        thread: ShownThread = self.context["thread"]
        if message.role != Role.USER or message.turn_id not in thread.versions:
            return None
        return VersionsSerializer(thread.versions[message.turn_id]).data

    @extend_schema_field(ToolLineSerializer(many=True))
    def get_tools(self, message: Message) -> Any:
        """The tools that ran for this question; they stand with it, since a turn may end without an answer."""
        thread: ShownThread = self.context["thread"]
        if message.role != Role.USER or message.turn_id is None:
            return []
        return [tool.as_json() for tool in thread.tools.get(message.turn_id, ())]

    @extend_schema_field(GivenFeedbackSerializer(allow_null=True))
    def get_feedback(self, message: Message) -> Any:
        """What the reader said of this answer, unless it was taken back."""
        given = getattr(message.turn, "feedback", None) if message.role != Role.USER else None
        if given is None or given.withdrawn_at is not None:
            return None
        return GivenFeedbackSerializer(given).data

    def get_suggestions(self, message: Message) -> list[str]:
        """The questions that a refusal offers, as they stand in its text."""
        if message.role != Role.ASSISTANT or message.turn is None:
            return []
        return offered_questions(message.turn.answer_source, message.content)

    def get_html(self, message: Message) -> str:
        """The answer as sanitised HTML; a question is plain text and has none."""
        if message.role != Role.ASSISTANT:
            return ""
        return render_answer(
            message.content, turn_id=str(message.turn_id), source_numbers={source["n"] for source in message.sources}
        )


class RunningTurnSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()


class ThreadSerializer(serializers.Serializer[Any]):
    title = serializers.CharField()
    messages = MessageSerializer(many=True)
    runningTurn = RunningTurnSerializer(allow_null=True)
    requests = HelpRequestSerializer(many=True)


class ErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
