"""What the caller keeps and shows of a conversation of their own: files, and links (`chat.doors.page.views` shows
them).
"""

import uuid
from collections.abc import Callable
from urllib.parse import quote

from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chat.access.permissions import kept_conversation, owned_conversation
from chat.access.visitors import Reader
from chat.archive.export.documents import as_json, as_markdown, file_name
from chat.archive.sharing import revoke_link, share_branch, standing_links
from chat.doors.http.reading import CountedReading
from chat.doors.http.serializers import ErrorSerializer, SharedLinkListSerializer, SharedLinkSerializer
from chat.exceptions import InvalidMessageError
from chat.models import Conversation

#: By the name in `?format=`: the media type, and what writes it.
FORMATS: dict[str, tuple[str, Callable[[Conversation], bytes]]] = {
    "md": ("text/markdown; charset=utf-8", as_markdown),
    "json": ("application/json", as_json),
}


class ExportView(CountedReading):
    reads_what = "export"
    permission_classes = [AllowAny]

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Our own `?format=` names a document, not a renderer of the framework."""
        return JSONRenderer(), JSONRenderer.media_type

    @extend_schema(
        operation_id="conversation_export",
        parameters=[OpenApiParameter("format", enum=sorted(FORMATS))],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "text/markdown"): OpenApiTypes.STR,
            404: ErrorSerializer,
            422: ErrorSerializer,
        },
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponse:
        """The current branch as a file, with its sources."""
        conversation = kept_conversation(Reader.of(request), conversation_id)
        name = request.query_params.get("format", "md")
        if name not in FORMATS:
            message = _("« format » doit être « md » ou « json ».")
            raise InvalidMessageError("unknown export format", public_message=message)
        media_type, write = FORMATS[name]
        response = HttpResponse(write(conversation), content_type=media_type)
        shown = quote(file_name(conversation.title, name))
        response["Content-Disposition"] = f"attachment; filename*=UTF-8''{shown}"
        patch_cache_control(response, private=True, no_store=True)
        return response


class LinksView(CountedReading):
    permission_classes = [AllowAny]

    @extend_schema(operation_id="conversation_links", responses={200: SharedLinkListSerializer})
    def get(self, request: Request, conversation_id: uuid.UUID) -> Response:
        """The links of a conversation that still open, the newest first."""
        conversation = owned_conversation(Reader.of(request), conversation_id)
        links = SharedLinkSerializer(standing_links(conversation), many=True, context={"request": request})
        return Response({"results": links.data})

    @extend_schema(
        operation_id="conversation_share",
        request=None,
        responses={201: SharedLinkSerializer, 404: ErrorSerializer, 409: ErrorSerializer},
    )
    def post(self, request: Request, conversation_id: uuid.UUID) -> Response:
        """A link to the current branch as it is now."""
        conversation = owned_conversation(Reader.of(request), conversation_id)
        link = SharedLinkSerializer(share_branch(conversation), context={"request": request})
        return Response(link.data, status=status.HTTP_201_CREATED)


class LinkView(APIView):
    permission_classes = [AllowAny]

    @extend_schema(operation_id="conversation_unshare", responses={204: None, 404: ErrorSerializer})
    def delete(self, request: Request, conversation_id: uuid.UUID, token: str) -> Response:
        """Revoke a link: it opens for nobody from now on."""
        revoke_link(owned_conversation(Reader.of(request), conversation_id), token)
        return Response(status=status.HTTP_204_NO_CONTENT)
