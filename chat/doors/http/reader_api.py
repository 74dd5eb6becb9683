"""The HTTP edge of what a reader does with a thread besides asking: verdicts, exports, links to be shared.

Every view answers for the caller's own conversations; what a link shows is a page (`chat.doors.page.views`).
"""

import uuid
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.exceptions import ApplicationError
from chat.access.permissions import owned_answer, owned_conversation
from chat.archive.export.documents import as_json, as_markdown, file_name
from chat.archive.sharing import revoke_link, share_branch, standing_links
from chat.doors.http.api import error_response
from chat.doors.http.serializers import (
    ErrorSerializer,
    GivenFeedbackSerializer,
    SharedLinkSerializer,
    VerdictSerializer,
)
from chat.exceptions import InvalidMessageError
from chat.models import Conversation, SharedThread, Verdict
from chat.thread.verdicts import give_feedback, withdraw_feedback


def _as_pdf(conversation: Conversation) -> bytes:
    # Loaded at the first PDF: its library and fonts take 45 MB.
    from chat.archive.export.pdf import as_pdf

    return as_pdf(conversation)


#: By the name in `?format=`: the media type, and what writes it.
FORMATS: dict[str, tuple[str, Callable[[Conversation], bytes]]] = {
    "md": ("text/markdown; charset=utf-8", as_markdown),
    "json": ("application/json", as_json),
    "pdf": ("application/pdf", _as_pdf),
}


class OneFormat(BaseContentNegotiation):
    """Our own `?format=` names a document, not a renderer of the framework."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return next(iter(renderers)), JSONRenderer.media_type


class ReaderView(APIView):
    permission_classes = [AllowAny]

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, ApplicationError):
            return error_response(exc)
        return super().handle_exception(exc)


class FeedbackView(ReaderView):
    @extend_schema(
        operation_id="message_feedback",
        request=VerdictSerializer,
        responses={200: GivenFeedbackSerializer, 404: ErrorSerializer},
    )
    def post(self, request: Request, message_id: int) -> HttpResponseBase:
        """Say what an answer is worth; a second verdict replaces the first."""
        turn = owned_answer(request.user, request.session, message_id)
        form = VerdictSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        feedback = give_feedback(
            turn,
            Verdict(form.validated_data["verdict"]),
            reason=form.validated_data["reason"],
            comment=form.validated_data["comment"],
        )
        return Response(GivenFeedbackSerializer(feedback).data)

    @extend_schema(
        operation_id="message_feedback_withdraw", responses={204: None, 404: ErrorSerializer}
    )
    def delete(self, request: Request, message_id: int) -> HttpResponseBase:
        """Take a verdict back."""
        withdraw_feedback(owned_answer(request.user, request.session, message_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ExportView(ReaderView):
    content_negotiation_class = OneFormat

    @extend_schema(
        operation_id="conversation_export",
        parameters=[OpenApiParameter("format", enum=sorted(FORMATS))],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "text/markdown"): OpenApiTypes.STR,
            (200, "application/pdf"): OpenApiTypes.BINARY,
            404: ErrorSerializer,
            422: ErrorSerializer,
        },
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """The current branch as a file, with its sources."""
        conversation = owned_conversation(request.user, request.session, conversation_id)
        name = request.query_params.get("format", "md")
        if name not in FORMATS:
            message = _("« format » doit être « md », « json » ou « pdf ».")
            raise InvalidMessageError("unknown export format", public_message=message)
        media_type, write = FORMATS[name]
        response = HttpResponse(write(conversation), content_type=media_type)
        shown = quote(file_name(conversation.title, name))
        response["Content-Disposition"] = f"attachment; filename*=UTF-8''{shown}"
        patch_cache_control(response, private=True, no_store=True)
        return response


class LinksView(ReaderView):
    @extend_schema(
        operation_id="conversation_links", responses={200: SharedLinkSerializer(many=True)}
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """The links of a conversation that still open, the newest first."""
        conversation = owned_conversation(request.user, request.session, conversation_id)
        links = [_link(request, shared) for shared in standing_links(conversation)]
        return Response({"results": links})

    @extend_schema(
        operation_id="conversation_share",
        request=None,
        responses={201: SharedLinkSerializer, 404: ErrorSerializer, 409: ErrorSerializer},
    )
    def post(self, request: Request, conversation_id: uuid.UUID) -> HttpResponseBase:
        """A link to the current branch as it is now."""
        conversation = owned_conversation(request.user, request.session, conversation_id)
        return Response(_link(request, share_branch(conversation)), status=status.HTTP_201_CREATED)


class LinkView(ReaderView):
    @extend_schema(operation_id="conversation_unshare", responses={204: None, 404: ErrorSerializer})
    def delete(self, request: Request, conversation_id: uuid.UUID, token: str) -> HttpResponseBase:
        """Revoke a link: it opens for nobody from now on."""
        revoke_link(owned_conversation(request.user, request.session, conversation_id), token)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _link(request: Request, shared: SharedThread) -> dict[str, Any]:
    path = reverse("shared-thread", args=[shared.token])
    return SharedLinkSerializer(shared, context={"url": request.build_absolute_uri(path)}).data
