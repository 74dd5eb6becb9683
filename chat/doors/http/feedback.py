"""What the caller says an answer of their own is worth."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chat.access.permissions import owned_answer
from chat.access.visitors import Reader, WidgetVisitor
from chat.doors.http.serializers import ErrorSerializer, GivenFeedbackSerializer, VerdictSerializer
from chat.models import Verdict
from chat.thread.verdicts import give_feedback, withdraw_feedback


class FeedbackView(APIView):
    permission_classes = [AllowAny]

    def reader(self, request: Request) -> Reader | WidgetVisitor:
        return Reader.of(request)

    @extend_schema(
        operation_id="message_feedback",
        request=VerdictSerializer,
        responses={200: GivenFeedbackSerializer, 404: ErrorSerializer},
    )
    def post(self, request: Request, message_id: int) -> Response:
        """Say what an answer is worth; a second verdict replaces the first."""
        turn = owned_answer(self.reader(request), message_id)
        form = VerdictSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        feedback = give_feedback(
            turn,
            Verdict(form.validated_data["verdict"]),
            reason=form.validated_data["reason"],
            comment=form.validated_data["comment"],
        )
        return Response(GivenFeedbackSerializer(feedback).data)

    @extend_schema(operation_id="message_feedback_withdraw", responses={204: None, 404: ErrorSerializer})
    def delete(self, request: Request, message_id: int) -> Response:
        """Take a verdict back."""
        withdraw_feedback(owned_answer(self.reader(request), message_id))
        return Response(status=status.HTTP_204_NO_CONTENT)
