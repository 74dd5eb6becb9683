"""The batch endpoint: messages that servers append to a thread, with a service token.

What is read is strict: an unknown field, or a value of another type than the one asked for, is an error that names it;
nothing is converted, and nothing is stored of a batch that is refused.
"""

import uuid
from collections.abc import Iterable
from datetime import UTC
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
from chat.api.serializers import ErrorSerializer
from chat.errors import InvalidMessageError, MessageTooLargeError, ServiceTokenError
from chat.models import Conversation, Message, Role, ServiceToken
from chat.telemetry import log_batch
from chat.thread.branches import branch_turns, in_turn_order
from chat.thread.messages import ThreadMessage
from chat.thread.rounds import Batch, append_batch

#: The largest `relance_index` that a column holds.
MAX_RELANCE_INDEX = 32_767

Schema = dict[str, Any]


def _text(most: int | None = None, *, least: int = 0, nullable: bool = False) -> Schema:
    bounds = {"minLength": least} | ({"maxLength": most} if most else {})
    return {"type": ["string", "null"] if nullable else "string", "pattern": "^[^\\u0000]*$", **bounds}


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_INDEX: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_RELANCE_INDEX}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_UUID: Schema = {"type": "string", "format": "uuid"}
_FLAG: Schema = {"type": "boolean"}
_CALL = _object(
    {"id": _text(100, least=1), "function": _object({"name": _text(64, least=1), "arguments": _text(least=1)})},
    {"type": {"const": "function"}},
)
_CALLS: Schema = {"type": "array", "items": _CALL}
#: A message by its role: the `assistant` message with its calls, or the `tool` message of one of them.
_MESSAGES = {
    "assistant": _object(
        {"role": {"const": "assistant"}, "tool_calls": _CALLS},
        {"content": _text(nullable=True), "timestamp": _MOMENT, "relance_index": _INDEX},
    ),
    "tool": _object(
        {
            "role": {"const": "tool"},
            "tool_call_id": _text(100, least=1),
            "name": _text(64, least=1),
            "content": _text(),
            "timestamp": _MOMENT,
            "relance_index": _INDEX,
        },
        {
            "success": _FLAG,
            "error": _text(5_000, nullable=True),
            "duration_ms": {"type": ["number", "null"], "minimum": 0, "maximum": 2**31 - 1},
        },
    ),
}
_BATCH = _object({"messages": {"type": "array", "minItems": 1}, "operation_id": _UUID, "relance_index": _INDEX})


def _checked(schema: Schema, value: Any) -> Any:
    """The value; raises a `ValidationError` with the rule that each wrong field breaks."""
    from jsonschema import Draft202012Validator  # 50 ms of each start

    errors: dict[str, list[str]] = {}
    for found in Draft202012Validator(schema).iter_errors(value):
        place = ".".join(map(str, found.absolute_path))
        if found.validator == "required":
            named, said = set(found.validator_value) - set(found.instance), _("Ce champ est obligatoire.")
        elif found.validator == "additionalProperties":
            named, said = set(found.instance) - set(found.schema["properties"]), _("Champ inconnu.")
        else:
            rule = f"{found.validator} {found.validator_value}"
            named, said = set(), _("Valeur refusée : la règle est « %(rule)s ».") % {"rule": rule}
        for name in named or {place or "message"}:
            errors[str(name)[:100]] = [said]
    if errors:
        raise ValidationError(errors)
    return value


def _read_batch(data: Schema, conversation_id: uuid.UUID) -> tuple[uuid.UUID, int, list[ThreadMessage]]:
    _checked(_BATCH, data)
    index = int(data["relance_index"])
    messages, errors = [], {}
    for position, message in enumerate(data["messages"]):
        role = message.get("role") if isinstance(message, dict) else None
        try:
            _checked(_MESSAGES.get(str(role), _object({"role": {"enum": list(_MESSAGES)}})), message)
            messages.append(_thread_message(message, conversation_id))
        except ValidationError as error:
            errors[str(position)] = error.detail
    if errors:
        raise ValidationError({"messages": errors})
    if any(message.get("relance_index", index) != index for message in data["messages"]):
        raise ValidationError({"relance_index": [_("Les messages portent une autre relance que le lot.")]})
    return serializers.UUIDField().run_validation(data["operation_id"]), index, messages


def _thread_message(message: Schema, conversation_id: uuid.UUID) -> ThreadMessage:
    timestamp, duration = message.get("timestamp"), message.get("duration_ms")
    return ThreadMessage(
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
        duration_ms=None if duration is None else round(duration),
        timestamp=None if timestamp is None else serializers.DateTimeField().run_validation(timestamp),
    )


def _thread(conversation: Conversation, messages: Iterable[Message]) -> Schema:
    """A thread as servers read it: each message with the session that it belongs to."""
    session = {name: getattr(conversation, name) for name in ("id", "title", "version", "created_at", "updated_at")}
    return {"session": session, "messages": [_stored(message) for message in messages]}


def _stored(message: Message) -> Schema:
    names = "id role content tool_calls tool_call_id name operation_id relance_index success duration_ms"
    return {
        **{name: getattr(message, name) for name in names.split()},
        "session_id": message.conversation_id,
        "error": message.error or None,
        "timestamp": (message.timestamp or message.created_at).astimezone(UTC),
    }


_STORED = {"id": {"type": "integer"}, "session_id": _UUID, "role": _text(), "content": _text(), "tool_calls": _CALLS}
_THREAD: Schema = {
    "session": {"type": "object", "properties": {"id": _UUID, "title": _text(), "version": {"type": "integer"}}},
    "messages": {"type": "array", "items": {"type": "object", "properties": _STORED}},
}
_APPLIED = _object(
    {"success": _FLAG, "applied": _FLAG, "data": _object({**_THREAD, "operation_id": _UUID, "relance_index": _INDEX})}
)
_ASKED = _object({**_BATCH["properties"], "messages": {"type": "array", "items": {"anyOf": list(_MESSAGES.values())}}})


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

#: The headers that seed 002 requires; what the body says too must be the same.
_HEADERS = {
    "Idempotency-Key": (str, "One for each operation."),
    "X-Operation-ID": (uuid.UUID, "As in the body."),
    "X-Relance-Index": (int, "As in the body."),
    "If-Match": (str, "The ETag that the session was read at; `*` appends to whatever is there."),
}
_BATCH_HEADERS = [
    OpenApiParameter(name, kind, OpenApiParameter.HEADER, required=True, description=said)
    for name, (kind, said) in _HEADERS.items()
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
        responses={(200, "application/json"): _object(_THREAD), **dict.fromkeys((401, 403, 404), ErrorSerializer)},
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """The last messages of a session's current branch, tools included, and its ETag for `If-Match`."""
        conversation = served_conversation(_token(request), conversation_id)
        config = effective_config(conversation.deployment)
        turns = branch_turns(conversation.pk, conversation.leaf)
        stored = Message.objects.for_conversation(conversation.pk).on_branch(turns)
        newest = stored.order_by("-id")
        messages = in_turn_order(reversed(newest[: config.history_messages]))
        return _with_etag(Response(_thread(conversation, messages)), conversation.version)


class BatchView(SessionView):
    @extend_schema(
        operation_id="chat_session_messages_batch",
        parameters=[*_BATCH_HEADERS, _ETAG],
        request={"application/json": _ASKED},
        responses={(200, "application/json"): _APPLIED, 409: ConflictSerializer, 422: BatchErrorSerializer}
        | dict.fromkeys((401, 403, 404, 413), ErrorSerializer),
    )
    def post(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """Append one round of tools, whole or not at all; the same operation again changes nothing."""
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BATCH_BYTES:
            raise BatchTooLargeError.beyond(MAX_BATCH_BYTES)
        conversation = served_conversation(_token(request), conversation_id)
        operation_id, round_index, messages = _read_batch(_agreeing(request), conversation.pk)
        config = effective_config(conversation.deployment)
        if round_index >= config.max_rounds:
            message = _("Au plus %(limit)d relances.") % {"limit": config.max_rounds}
            raise ValidationError({"relance_index": [message]})
        batch = Batch(
            conversation.pk,
            messages,
            operation_id=operation_id,
            round_index=round_index,
            idempotency_key=request.headers["Idempotency-Key"][:100],
        )
        result = append_batch(batch, max_tool_calls=config.max_tool_calls, expected_version=_expected_version(request))
        log_batch("appended", turn_id=None, operation_id=operation_id, round_index=round_index, applied=result.applied)
        conversation.refresh_from_db()
        data = _thread(conversation, result.messages) | {"operation_id": operation_id, "relance_index": round_index}
        return _with_etag(Response({"success": True, "applied": result.applied, "data": data}), result.version)


def _token(request: Request) -> ServiceToken:
    """The request's service token; the permission has checked its type."""
    return cast("ServiceToken", request.auth)


def _agreeing(request: Request) -> dict[str, Any]:
    """The body, completed by the headers, which are all required; where both say something, it must be the same."""
    if missing := [name for name in _HEADERS if not request.headers.get(name, "").strip()]:
        raise ValidationError({name: [_("Cet en-tête est obligatoire.")] for name in missing})
    if not isinstance(request.data, dict):
        raise InvalidMessageError("not an object", public_message=_("Un objet JSON est attendu."))
    data = dict(request.data)
    for header, field in (("X-Operation-ID", "operation_id"), ("X-Relance-Index", "relance_index")):
        said = request.headers[header].strip()
        if field not in data:
            data[field] = int(said) if said.isascii() and said.isdigit() else said
        elif str(data[field]).lower() != said.lower():
            message = _("« %(header)s » ne dit pas la même chose que le corps.")
            raise ValidationError({field: [message % {"header": header}]})
    return data


def _expected_version(request: Request) -> int | None:
    """The version that `If-Match` names; one that is not ours is stale by definition."""
    said = request.headers["If-Match"].strip()
    if said == "*":
        return None
    number = said.removeprefix("W/").strip('"')
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1


def _with_etag(response: Response, version: int) -> Response:
    response["ETag"] = f'"{version}"'
    return response
