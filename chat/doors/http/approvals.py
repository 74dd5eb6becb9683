"""The HTTP door to a person's approval of tools: which calls of a turn wait, and the decision on one.

What a page sends over its socket (`approve`, `deny`), any other client of the API posts here. Another decision on a
call that was decided is refused. The events of a turn that goes on are at `/api/rag/turns/{id}/events`, as every
turn's.
"""

import uuid
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils import translation
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chat.access.permissions import owned_turn
from chat.access.visitors import Reader
from chat.doors.http.serializers import ErrorSerializer, StrictSerializer
from chat.exceptions import ApprovalOverError
from chat.models import Approval, Turn, TurnStatus
from chat.runs.runner import runner
from chat.thread.blocks import MAX_CALL_ID
from chat.thread.rounds import approvals_of


class DecisionSerializer(StrictSerializer):
    toolCallId = serializers.CharField(max_length=MAX_CALL_ID, trim_whitespace=False)
    approved = serializers.BooleanField()


class ApprovalSerializer(serializers.Serializer[Any]):
    toolCallId = serializers.CharField(source="call.id")
    toolName = serializers.CharField(source="call.name")
    arguments = serializers.CharField(
        source="call.arguments", help_text="A JSON object, as text: it is what is approved."
    )
    approval = serializers.ChoiceField(choices=Approval.values)


class TurnApprovalsSerializer(serializers.Serializer[Any]):
    turnId = serializers.UUIDField()
    status = serializers.ChoiceField(choices=TurnStatus.values)
    approvals = ApprovalSerializer(many=True)


class ApprovalsView(APIView):
    """For whoever owns the turn's conversation, and nobody else."""

    permission_classes = [AllowAny]

    @extend_schema(operation_id="turn_approvals", responses={200: TurnApprovalsSerializer, 404: ErrorSerializer})
    def get(self, request: Request, turn_id: uuid.UUID) -> Response:
        """The calls of a turn that ask for approval, waiting or decided."""
        return _body(owned_turn(Reader.of(request), turn_id))

    @extend_schema(
        operation_id="turn_approvals_decide",
        request=DecisionSerializer,
        responses={200: TurnApprovalsSerializer, **dict.fromkeys((403, 404, 409), ErrorSerializer)},
    )
    def post(self, request: Request, turn_id: uuid.UUID) -> Response:
        """Approve or refuse one call; once all are decided, the turn goes on. The same decision again changes nothing."""
        turn = owned_turn(Reader.of(request), turn_id)
        form = DecisionSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        call_id, is_approved = form.validated_data["toolCallId"], form.validated_data["approved"]
        try:
            async_to_sync(runner.decide)(
                turn,
                tool_call_id=call_id,
                is_approved=is_approved,
                language=translation.get_language() or settings.LANGUAGE_CODE,
            )
        except ApprovalOverError:
            decided = {call.call.id: call.approval for call in approvals_of(turn.pk)}
            if decided.get(call_id) != (Approval.APPROVED if is_approved else Approval.DENIED):
                raise
        turn.refresh_from_db()
        return _body(turn)


def _body(turn: Turn) -> Response:
    body = {"turnId": turn.pk, "status": turn.status, "approvals": approvals_of(turn.pk)}
    return Response(TurnApprovalsSerializer(body).data)
