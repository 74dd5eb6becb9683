"""The batch endpoint: messages that servers append to a thread, with a service token.

Strict: an unknown field or a wrong type is an error that names it, and nothing of a refused batch is stored.
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
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, ValidationError
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.effective import effective_config
from chat.access.permissions import served_conversation, service_token_of
from chat.api.errors import session_error
from chat.api.framework import SCHEMAS
from chat.api.serializers import ErrorSerializer
from chat.errors import InvalidMessageError, MessageTooLargeError, ServiceTokenError
from chat.models import ApiKey, Conversation, Message
from chat.telemetry import log_batch
from chat.thread.messages import branch_turns, in_turn_order
from chat.thread.rounds import append_batch

Schema = dict[str, Any]
#: A message by its role: the `assistant` message with its calls, or the `tool` message of one of them.
_MESSAGES = SCHEMAS["messages"]
_ROLE = {"type": "object", "properties": {"role": {"enum": list(_MESSAGES)}}, "required": ["role"]}


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


def _read_batch(data: Schema, conversation_id: uuid.UUID) -> tuple[uuid.UUID, int, list[Message]]:
    _checked(SCHEMAS["batch"], data)
    index = int(data["relance_index"])
    messages, errors = [], {}
    for position, message in enumerate(data["messages"]):
        role = message.get("role") if isinstance(message, dict) else None
        try:
            _checked(_MESSAGES.get(str(role), _ROLE), message)
            messages.append(_thread_message(message, conversation_id))
        except ValidationError as error:
            errors[str(position)] = error.detail
    if errors:
        raise ValidationError({"messages": errors})
    if any(message.get("relance_index", index) != index for message in data["messages"]):
        raise ValidationError({"relance_index": [_("Les messages portent une autre relance que le lot.")]})
    operation_id = serializers.UUIDField().run_validation(data["operation_id"])
    for read in messages:
        read.operation_id, read.relance_index = operation_id, index
    return operation_id, index, messages


def _thread_message(message: Schema, conversation_id: uuid.UUID) -> Message:
    timestamp, duration = message.get("timestamp"), message.get("duration_ms")
    read = Message(
        conversation_id=conversation_id,
        role=message["role"],
        content=message.get("content") or "",
        tool_calls=message.get("tool_calls", []),
        tool_call_id=message.get("tool_call_id", ""),
        name=message.get("name", ""),
        success=message.get("success"),
        error=message.get("error") or "",
        duration_ms=None if duration is None else round(duration),
        timestamp=None if timestamp is None else serializers.DateTimeField().run_validation(timestamp),
    )
    read.tool_calls = [call.as_json() for call in read.calls]
    return read


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


class ServiceTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <service token>`; a session or an end user's token is no one here."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, ApiKey]:
        try:
            return AnonymousUser(), service_token_of(request.headers.get("Authorization", ""))
        except ServiceTokenError as error:
            raise AuthenticationFailed(str(error.public_message), code=error.code) from error

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="batch"'


class ServiceTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = ServiceTokenAuthentication
    name = "serviceToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class CarriedSessionScheme(SessionScheme):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = "chat.api.framework.CarriedSession"


MAX_BATCH_BYTES = 1024 * 1024

#: The headers that seed 002 requires; what the body says too must be the same.
_HEADERS = [header["name"] for header in SCHEMAS["batch_headers"]]


class BatchTooLargeError(MessageTooLargeError):
    code = "too_large"


class SessionView(APIView):
    """What servers with a service token may do with a session (a conversation)."""

    authentication_classes = [ServiceTokenAuthentication]
    permission_classes = [AllowAny]

    def get_exception_handler(self) -> Any:
        return session_error


class SessionMessagesView(SessionView):
    @extend_schema(
        operation_id="chat_session_messages",
        responses={(200, "application/json"): SCHEMAS["thread"], **dict.fromkeys((401, 403, 404), ErrorSerializer)},
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
        request={"application/json": SCHEMAS["asked"]},
        responses={
            (200, "application/json"): SCHEMAS["applied"],
            (409, "application/json"): SCHEMAS["conflict"],
            (422, "application/json"): SCHEMAS["invalid"],
            **dict.fromkeys((401, 403, 404, 413), ErrorSerializer),
        },
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
        messages[0].idempotency_key = request.headers["Idempotency-Key"][:100]
        expected = _expected_version(request)
        result = append_batch(messages, max_tool_calls=config.max_tool_calls, expected_version=expected)
        log_batch("appended", turn_id=None, operation_id=operation_id, round_index=round_index, applied=result.applied)
        conversation.refresh_from_db()
        data = _thread(conversation, result.messages) | {"operation_id": operation_id, "relance_index": round_index}
        return _with_etag(Response({"success": True, "applied": result.applied, "data": data}), result.version)


def _token(request: Request) -> ApiKey:
    """The request's service token; the authentication lets nothing else through."""
    return cast("ApiKey", request.auth)


def _agreeing(request: Request) -> dict[str, Any]:
    """The body, with operation and round from their headers, which must agree; every header of a batch is required."""
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
