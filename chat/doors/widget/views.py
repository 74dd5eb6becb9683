"""The widget: one script tag on another site, a frame from here, and what the frame asks for.

A site may show it when it is in the deployment's list. Three walls: the frame's page is refused for any other site;
its policy (`frame-ancestors`) makes the browser show it on no site but the one it was asked for; and the visitor's token names
that site, which is looked up again at every request. No cookie is read or set here: browsers keep none for foreign
frames, and a session of this site must never speak through another one. Requests come from the frame, so from this
very origin; any other is refused.
"""

import uuid
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import translation
from django.utils.translation import get_supported_language_variant
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from agents.bridges import in_database
from agents.exceptions import ApplicationError
from agents.models import valid_origin
from chat.access.permissions import (
    HeldRights,
    WidgetVisitor,
    new_widget_visitor,
    start_widget_conversation,
    widget_conversation,
    widget_turn,
    widget_visitor,
)
from chat.access.rate_limits import address_of, limit_asking
from chat.doors.http.api import bounded_body, error_response, shown_thread, stream_turn
from chat.exceptions import WidgetClosedError
from chat.models import Conversation, Turn
from chat.protocol import (
    parse_json_object,
    valid_client_message_id,
    valid_event_id,
    valid_question,
    valid_uuid,
)
from chat.runs.runner import runner

_LOADER = Path(__file__).parents[2] / "static" / "widget" / "widget.js"
MAX_SUGGESTIONS = 3
AsyncView = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


@require_GET
@cache_control(public=True, max_age=3600)
def script(_request: HttpRequest) -> HttpResponse:
    """The loader. Its address is in the pages of others, so it never changes."""
    response = HttpResponse(_LOADER.read_bytes(), content_type="text/javascript; charset=utf-8")
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@xframe_options_exempt
@never_cache
@require_GET
def frame(request: HttpRequest, public_key: str) -> HttpResponse:
    """The page in the frame, for the site that `origin` names; a page that says no for any other."""
    language = _language(request.GET.get("lang"))
    with translation.override(language):
        try:
            origin = _framing_origin(request)
            visitor = new_widget_visitor(public_key, origin)
        except WidgetClosedError as error:
            page = render(
                request, "widget/closed.html", {"message": error.public_message}, status=403
            )
            # The sentence is for whoever sets the site up: it may be read there, and holds nothing else.
            page["Content-Security-Policy"] = _policy("*")
            return page
        deployment = visitor.deployment
        lines = [line.strip() for line in deployment.suggestions.splitlines()]
        context = {
            "deployment": deployment,
            "suggestions": [line for line in lines if line][:MAX_SUGGESTIONS],
            "max_characters": settings.MAX_MESSAGE_CHARACTERS,
            "config": {
                "visitor": visitor.token(),
                "store": f"repondant:{public_key}:{origin}",
                "origin": origin,
                "language": language,
                "urls": {
                    "ask": reverse("widget-ask"),
                    "stop": reverse("widget-stop"),
                    "messages": "/widget/messages/{id}",
                    "events": "/widget/turns/{id}/events",
                },
                "strings": _strings(),
            },
        }
        page = render(request, "widget/frame.html", context)
    page["Content-Security-Policy"] = _policy(origin)
    page["Content-Language"] = language
    return page


def _framing_origin(request: HttpRequest) -> str:
    """The site that asks for the frame, as its script says and, where the browser tells, as the browser does."""
    try:
        origin = valid_origin(request.GET.get("origin", ""))
        referrer = request.headers.get("Referer")
        told = (
            valid_origin("{0.scheme}://{0.netloc}".format(urlsplit(referrer))) if referrer else ""
        )
    except (ValidationError, ValueError) as error:
        raise WidgetClosedError("no origin") from error
    if told and told != origin:
        raise WidgetClosedError("another site than the one it says")
    return origin


def _policy(ancestors: str) -> str:
    directives = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": ancestors,
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def _language(wanted: Any) -> str:
    try:
        return get_supported_language_variant(str(wanted or ""))
    except LookupError:
        return translation.get_language() or settings.LANGUAGE_CODE


def _edge(view: AsyncView) -> AsyncView:
    """Requests of our own frame alone, and our errors as JSON. Without cookies there is nothing to forge."""

    @csrf_exempt
    @wraps(view)
    async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if not _is_from_here(request):
                raise WidgetClosedError("a request of another site")
            return await view(request, *args, **kwargs)
        except ApplicationError as error:
            return error_response(error)

    return wrapped


def _is_from_here(request: HttpRequest) -> bool:
    origin = request.headers.get("Origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc == request.get_host()
    except ValueError:
        return False


def _visitor(request: HttpRequest) -> WidgetVisitor:
    scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
    return widget_visitor(token.strip() if scheme.lower() == "visitor" else "")


@require_POST
@_edge
async def ask(request: HttpRequest) -> HttpResponseBase:
    """One question, its answer as server-sent events (`chat.protocol`)."""
    data = parse_json_object(bounded_body(request))
    question = valid_question(data.get("message"))
    message_id = valid_client_message_id(data.get("clientMessageId"))
    conversation = await in_database(_conversation, request, data, message_id)
    turn_id = await runner.start(
        conversation,
        question=question,
        client_message_id=message_id,
        language=_language(data.get("language")),
    )
    return stream_turn(turn_id, after=0, rights=_reading_rights(request, turn_id))


def _conversation(request: HttpRequest, data: dict[str, Any], message_id: str) -> Conversation:
    visitor = _visitor(request)
    limit_asking(visitor.visitor, address_of(request))
    if data.get("conversationId"):
        return widget_conversation(visitor, valid_uuid("conversationId", data["conversationId"]))
    return start_widget_conversation(visitor, message_id)


@require_GET
@_edge
async def turn_events(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Continue a turn after `Last-Event-ID`."""
    await in_database(_turn, request, turn_id)
    after = valid_event_id(request.headers.get("Last-Event-ID", 0))
    return stream_turn(turn_id, after=after, rights=_reading_rights(request, turn_id))


def _turn(request: HttpRequest, turn_id: uuid.UUID) -> Turn:
    return widget_turn(_visitor(request), turn_id)


def _reading_rights(request: HttpRequest, turn_id: uuid.UUID) -> HeldRights:
    return HeldRights(lambda: _turn(request, turn_id))


@require_POST
@_edge
async def stop(request: HttpRequest) -> HttpResponseBase:
    data = parse_json_object(bounded_body(request))
    wanted = valid_uuid("conversationId", data.get("conversationId"))
    conversation = await in_database(lambda: widget_conversation(_visitor(request), wanted))
    await runner.stop_anywhere(conversation.pk)
    return HttpResponse(status=204)


@require_GET
@_edge
async def messages(request: HttpRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """A visitor's thread, for a frame that was loaded again, and the turn that still runs in it."""
    return JsonResponse(await in_database(_messages, request, conversation_id))


def _messages(request: HttpRequest, conversation_id: uuid.UUID) -> Any:
    return shown_thread(widget_conversation(_visitor(request), conversation_id))


def _strings() -> dict[str, str]:
    """The words that the frame's script writes."""
    return {
        "you": _("Vous"),
        "searching": _("Recherche dans les documents…"),
        "sources": _("Sources"),
        "untitled": _("Document sans titre"),
        "interrupted": _("Réponse interrompue"),
        "failed": _("La réponse n’a pas pu être donnée. Réessayez."),
        "approval": _("Cette réponse demande un accord, qui ne peut pas être donné ici."),
        "offline": _("Le serveur ne répond pas. Vérifiez votre connexion, puis réessayez."),
        "send": _("Envoyer"),
        "stop": _("Arrêter"),
    }
