"""Servers with a service token: the thread of a session (a conversation), and batches of rounds that they append to it."""

import uuid
from typing import Any, cast

from django.http import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.effective import effective_config
from chat.access.permissions import served_conversation
from chat.doors.errors import session_error
from chat.doors.http.batch_serializers import (
    BatchErrorSerializer,
    BatchResponseSerializer,
    BatchSerializer,
    ConflictSerializer,
    SessionThreadSerializer,
)
from chat.doors.http.serializers import ErrorSerializer
from chat.doors.http.tokens import IsService, ServiceTokenAuthentication
from chat.exceptions import InvalidMessageError, MessageTooLargeError
from chat.logs import log_batch
from chat.models import Message, ServiceToken
from chat.thread.batches import Batch, append_batch
from chat.thread.branches import branch_turns, in_turn_order

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
    """The token that opened the door: the permission has seen that it is one."""
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
