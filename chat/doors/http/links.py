"""Links by which the caller shares a conversation; what a link shows is a page (`chat.doors.page.views`)."""

import uuid
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chat.access.permissions import owned_conversation
from chat.access.visitors import Reader
from chat.archive.sharing import revoke_link, share_branch, standing_links
from chat.doors.http.serializers import ErrorSerializer, SharedLinkSerializer
from chat.models import SharedThread


class LinksView(APIView):
    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="conversation_links", responses={200: SharedLinkSerializer(many=True)}
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> Response:
        """The links of a conversation that still open, the newest first."""
        conversation = owned_conversation(Reader.of(request), conversation_id)
        links = [_link(request, shared) for shared in standing_links(conversation)]
        return Response({"results": links})

    @extend_schema(
        operation_id="conversation_share",
        request=None,
        responses={201: SharedLinkSerializer, 404: ErrorSerializer, 409: ErrorSerializer},
    )
    def post(self, request: Request, conversation_id: uuid.UUID) -> Response:
        """A link to the current branch as it is now."""
        conversation = owned_conversation(Reader.of(request), conversation_id)
        return Response(_link(request, share_branch(conversation)), status=status.HTTP_201_CREATED)


class LinkView(APIView):
    permission_classes = [AllowAny]

    @extend_schema(operation_id="conversation_unshare", responses={204: None, 404: ErrorSerializer})
    def delete(self, request: Request, conversation_id: uuid.UUID, token: str) -> Response:
        """Revoke a link: it opens for nobody from now on."""
        revoke_link(owned_conversation(Reader.of(request), conversation_id), token)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _link(request: Request, shared: SharedThread) -> dict[str, Any]:
    path = reverse("shared-thread", args=[shared.token])
    return SharedLinkSerializer(shared, context={"url": request.build_absolute_uri(path)}).data
