"""The widget: one script tag on another site, a frame from here, and what the frame asks for.

Three walls: the frame's page is refused for any other site, `frame-ancestors` binds it to that site, and the visitor's
token names it, looked up again at every request. No cookie is read or set; requests come from this very origin.
"""

import uuid
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import translation
from django.utils.translation import get_supported_language_variant
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET, require_POST
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from agents.branding import style_source
from agents.database import in_database
from agents.llm.base import language_model
from agents.models import valid_origin
from chat.access.permissions import (
    WidgetVisitor,
    new_widget_visitor,
    owned_conversation,
    owned_turn,
    start_conversation,
    widget_visitor,
)
from chat.access.rate_limits import address_of, limit_asking
from chat.api import questions
from chat.api.asgi import is_of_this_site
from chat.api.conversations import FeedbackView, HelpView, shown_thread
from chat.api.errors import answering_errors, content_policy
from chat.errors import WidgetClosedError
from chat.models import Conversation, Turn
from chat.page.views import script_config, suggestions
from chat.protocol import valid_uuid
from chat.runs.runner import runner

_LOADER = Path(__file__).parents[1] / "static" / "widget" / "widget.js"
MAX_SUGGESTIONS = 3
#: What the tag may ask for (`data-theme`); without it, as the visitor's system is.
THEMES = ("light", "dark")


@require_GET
@cache_control(public=True, max_age=3600)
def script(_request: HttpRequest) -> HttpResponse:
    """The loader. Its address is in the pages of others, so it never changes."""
    response = HttpResponse(_LOADER.read_bytes(), content_type="text/javascript; charset=utf-8")
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@xframe_options_exempt
@gzip_page  # As the chat page; whatever is secret in it is new each time.
@never_cache
@require_GET
def frame(request: HttpRequest, public_key: str) -> HttpResponse:
    """The page in the frame, for the site that `origin` names; a page that says no for any other."""
    language = _language(request.GET.get("lang"))
    theme = request.GET.get("theme")
    with translation.override(language):
        try:
            origin = _framing_origin(request)
            visitor = new_widget_visitor(public_key, origin)
        except WidgetClosedError as error:
            page = render(request, "widget/closed.html", {"message": error.public_message}, status=403)
            # The sentence is for whoever sets the site up: it may be read there, and holds nothing else.
            page["Content-Security-Policy"] = content_policy(frame_ancestors="*")
            return page
        deployment = visitor.deployment
        context = {
            "deployment": deployment,
            "face": deployment,
            "suggestions": suggestions(deployment, MAX_SUGGESTIONS),
            "has_model": language_model() is not None,
            "theme": theme if theme in THEMES else "",
            "config": {
                "visitor": visitor.token(),
                "store": f"repondant:{public_key}:{origin}",
                "origin": origin,
                "language": language,
                **script_config(deployment),
                "urls": {
                    "ask": reverse("widget-ask"),
                    "stop": reverse("widget-stop"),
                    "thread": f"{settings.BASE_PATH}/widget/messages/{{id}}",
                    "messages": f"{settings.BASE_PATH}/widget/answers/",
                    "events": f"{settings.BASE_PATH}/widget/turns/{{id}}/events",
                },
            },
        }
        page = render(request, "widget/frame.html", context)
    page["Content-Security-Policy"] = content_policy(
        style_src=style_source(deployment.style), img_src="'self'", frame_ancestors=origin
    )
    page["Content-Language"] = language
    return page


def _framing_origin(request: HttpRequest) -> str:
    """The site that asks for the frame, as its script says and, where the browser tells, as the browser does."""
    try:
        origin = valid_origin(request.GET.get("origin", ""))
        referrer = request.headers.get("Referer")
        told = valid_origin("{0.scheme}://{0.netloc}".format(urlsplit(referrer))) if referrer else ""
    except (ValidationError, ValueError) as error:
        raise WidgetClosedError("no origin") from error
    if told and told != origin:
        raise WidgetClosedError("another site than the one it says")
    return origin


def _language(wanted: Any) -> str:
    try:
        return get_supported_language_variant(str(wanted or ""))
    except LookupError:
        return translation.get_language() or settings.LANGUAGE_CODE


def _check_origin(request: HttpRequest | Request) -> None:
    """Requests of our own frame alone. Without cookies there is nothing to forge."""
    plain = request._request if isinstance(request, Request) else request
    if "Origin" in plain.headers and not is_of_this_site(plain):
        raise WidgetClosedError("a request of another site")


class FrameCaller:
    """Whoever bears the visitor's token, which is looked at anew at each turn."""

    has_versions: ClassVar[bool] = False

    def __init__(self, request: HttpRequest | Request) -> None:
        self._request = request

    def language(self, body: dict[str, Any]) -> str:
        return _language(body.get("language"))

    def conversation(self, body: dict[str, Any], client_message_id: str) -> Conversation:
        visitor = self.visitor()
        limit_asking(visitor.visitor, address_of(self._request))
        if body.get("conversationId"):
            wanted = valid_uuid("conversationId", body["conversationId"])
            return owned_conversation(visitor, wanted)
        return start_conversation(visitor, visitor.deployment, client_message_id=client_message_id)

    def named(self, conversation_id: uuid.UUID) -> Conversation:
        return owned_conversation(self.visitor(), conversation_id)

    def turn(self, turn_id: uuid.UUID) -> Turn:
        return owned_turn(self.visitor(), turn_id)

    def visitor(self) -> WidgetVisitor:
        scheme, _space, token = self._request.headers.get("Authorization", "").partition(" ")
        return widget_visitor(token.strip() if scheme.lower() == "visitor" else "")


_edge = answering_errors(_check_origin)


@require_POST
@_edge
async def ask(request: HttpRequest) -> HttpResponseBase:
    """One question, its answer as server-sent events (`chat.protocol`)."""
    return await questions.ask(request, FrameCaller(request))


@require_GET
@_edge
async def turn_events(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Continue a turn after `Last-Event-ID`."""
    return await questions.continue_turn(request, turn_id, FrameCaller(request))


@require_POST
@_edge
async def stop(request: HttpRequest) -> HttpResponseBase:
    wanted = valid_uuid("conversationId", questions.read_object(request).get("conversationId"))
    conversation = await in_database(FrameCaller(request).named, wanted)
    await runner.stop_anywhere(conversation.pk)
    return HttpResponse(status=204)


@require_GET
@_edge
async def messages(request: HttpRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """A visitor's thread, for a frame that was loaded again, and the turn that still runs in it."""
    caller = FrameCaller(request)
    return JsonResponse(await in_database(lambda: shown_thread(caller.named(conversation_id))))


@extend_schema(exclude=True)
class VisitorFeedbackView(FeedbackView):
    """What a visitor says of an answer of their own conversation. Their token says who asks: no session is looked at."""

    authentication_classes = []

    def reader(self, request: Request) -> WidgetVisitor:
        _check_origin(request)
        return FrameCaller(request).visitor()


@extend_schema(exclude=True)
class VisitorHelpView(HelpView):
    authentication_classes = []
    reader = VisitorFeedbackView.reader
