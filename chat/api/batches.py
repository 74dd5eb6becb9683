"""The batch endpoint: messages that servers append to a thread, with a service token.

What is read is strict: an unknown field, or a value of another type than the one asked for, is an error that names it;
nothing is converted, and nothing is stored of a batch that is refused.
"""

import uuid
from datetime import UTC, datetime
from typing import Any, cast

from django.contrib.auth.models import AnonymousUser
from django.http import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.authentication import SessionScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.effective import effective_config
from agents.llm.base import RequestedCall
from chat.access.permissions import served_conversation, service_token_of
from chat.api.errors import session_error
from chat.api.serializers import ErrorSerializer, StrictSerializer
from chat.errors import InvalidMessageError, MessageTooLargeError, ServiceTokenError
from chat.models import Conversation, Message, Role, ServiceToken
from chat.telemetry import log_batch
from chat.thread.branches import branch_turns, in_turn_order
from chat.thread.messages import ThreadMessage
from chat.thread.rounds import Batch, append_batch


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


class ServiceTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <service token>`; a session or an end user's token is no one here."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, ServiceToken]:
        try:
            return AnonymousUser(), service_token_of(request.headers.get("Authorization", ""))
        except ServiceTokenError as error:
            raise AuthenticationFailed(str(error.public_message), code=error.code) from error

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="batch"'


class IsService(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ServiceToken)


class ServiceTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = ServiceTokenAuthentication
    name = "serviceToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class CarriedSessionScheme(SessionScheme):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = "chat.api.framework.CarriedSession"


MAX_BATCH_BYTES = 1024 * 1024

#: The headers of the seed; what the body says too must be the same.
_BATCH_HEADERS = [
    OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER),
    OpenApiParameter("X-Operation-ID", uuid.UUID, OpenApiParameter.HEADER),
    OpenApiParameter("X-Relance-Index", int, OpenApiParameter.HEADER),
    OpenApiParameter(
        "If-Match",
        str,
        OpenApiParameter.HEADER,
        description="The ETag that the session was read at; without it, the batch is appended to whatever is there.",
    ),
]
_ETAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=[200, 409], description="The session's version."
)


class BatchTooLargeError(MessageTooLargeError):
    code = "too_large"


class SessionView(APIView):
    """What servers with a service token may do with a session (a conversation)."""

    authentication_classes = [ServiceTokenAuthentication]
    permission_classes = [IsService]

    def get_exception_handler(self) -> Any:
        return session_error


class SessionMessagesView(SessionView):
    @extend_schema(
        operation_id="chat_session_messages",
        parameters=[_ETAG],
        responses={200: SessionThreadSerializer, **dict.fromkeys((401, 403, 404), ErrorSerializer)},
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """The last messages of a session's current branch, tools included, and its ETag for `If-Match`."""
        conversation = served_conversation(_token(request), conversation_id)
        config = effective_config(conversation.deployment)
        turns = branch_turns(conversation.pk, conversation.leaf)
        stored = Message.objects.for_conversation(conversation.pk).on_branch(turns)
        newest = stored.order_by("-id")
        messages = in_turn_order(reversed(newest[: config.history_messages]))
        body = SessionThreadSerializer({"session": conversation, "messages": messages})
        return _with_etag(Response(body.data), conversation.version)


class BatchView(SessionView):
    @extend_schema(
        operation_id="chat_session_messages_batch",
        parameters=[*_BATCH_HEADERS, _ETAG],
        request=BatchSerializer,
        responses={200: BatchResponseSerializer, 409: ConflictSerializer, 422: BatchErrorSerializer}
        | dict.fromkeys((401, 403, 404, 413), ErrorSerializer),
    )
    def post(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """Append one round of tools, whole or not at all; the same operation again changes nothing."""
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BATCH_BYTES:
            raise BatchTooLargeError.beyond(MAX_BATCH_BYTES)
        conversation = served_conversation(_token(request), conversation_id)
        body = BatchSerializer(data=_agreeing(request))
        body.is_valid(raise_exception=True)
        operation_id = body.validated_data["operation_id"]
        round_index = body.validated_data["relance_index"]
        config = effective_config(conversation.deployment)
        if round_index >= config.max_rounds:
            message = _("Au plus %(limit)d relances.") % {"limit": config.max_rounds}
            raise ValidationError({"relance_index": [message]})
        batch = Batch(
            conversation.pk,
            body.thread_messages(conversation.pk),
            operation_id=operation_id,
            round_index=round_index,
            idempotency_key=request.headers.get("Idempotency-Key", "")[:100],
        )
        result = append_batch(batch, max_tool_calls=config.max_tool_calls, expected_version=_expected_version(request))
        log_batch("appended", turn_id=None, operation_id=operation_id, round_index=round_index, applied=result.applied)
        conversation.refresh_from_db()
        answer = {
            "success": True,
            "applied": result.applied,
            "data": {
                "session": conversation,
                "messages": result.messages,
                "operation_id": operation_id,
                "relance_index": round_index,
            },
        }
        return _with_etag(Response(BatchResponseSerializer(answer).data), result.version)


def _token(request: Request) -> ServiceToken:
    """The request's service token; the permission has checked its type."""
    return cast("ServiceToken", request.auth)


def _agreeing(request: Request) -> dict[str, Any]:
    """The body, completed by the headers; where both say something, it must be the same."""
    if not isinstance(request.data, dict):
        raise InvalidMessageError("not an object", public_message=_("Un objet JSON est attendu."))
    data = dict(request.data)
    for header, field in (("X-Operation-ID", "operation_id"), ("X-Relance-Index", "relance_index")):
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


def _with_etag(response: Response, version: int) -> Response:
    response["ETag"] = f'"{version}"'
    return response
