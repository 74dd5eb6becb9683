"""The chat page: one template for the home page, a deployment and a conversation.

A deployment or conversation that is absent or not for this person is a 404 that still shows a page with a way on. The page
runs under a policy without inline script or style: keep it so.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import linebreaks
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.llm.base import language_model
from agents.models import Deployment
from chat.access.permissions import open_deployments, owned_conversation
from chat.access.visitors import Reader, visitor_of
from chat.archive.sharing import shared_thread
from chat.citations import escape_citations
from chat.doors.page.framing import content_policy, suggestions
from chat.doors.page.strings import page_strings
from chat.exceptions import ConversationNotFoundError, LinkNotFoundError
from chat.models import FeedbackReason, SharedThread
from chat.rendering import render_answer

#: More suggestions than these would push the question field off a phone's screen.
MAX_SUGGESTIONS = 6
#: A shared page is opened by anybody and as often as they like: all that its passages may cost is about a second.
MAX_RENDERED_CHARACTERS = 200_000


@never_cache
@require_safe
def chat_page(
    request: HttpRequest, slug: str | None = None, conversation_id: uuid.UUID | None = None
) -> HttpResponse:
    visitor_of(request.session)
    deployments = list(open_deployments(request.user))
    deployment = next((d for d in deployments if slug is None or d.slug == slug), None)
    is_mine = conversation_id is None or _is_mine(request, deployment, conversation_id)
    context = {
        "deployment": deployment,
        "deployments": deployments,
        "suggestions": suggestions(deployment, MAX_SUGGESTIONS),
        "has_model": language_model() is not None,
        "is_missing": bool(slug) and deployment is None,
        "login_url": reverse(settings.LOGIN_URL),
        "max_characters": settings.MAX_MESSAGE_CHARACTERS,
        "config": _config(request, deployment, conversation_id if is_mine else None, is_mine),
    }
    found = is_mine and not context["is_missing"]
    response = render(request, "chat/page.html", context, status=200 if found else 404)
    response["Content-Security-Policy"] = _policy(request.get_host())
    return response


@never_cache
@require_safe
def shared_page(request: HttpRequest, token: str) -> HttpResponse:
    """A shared conversation, to be read only: no search engine keeps it, and its address is told to no other site."""
    try:
        shared: SharedThread | None = shared_thread(request.user, token)
    except LinkNotFoundError:
        shared = None
    context = {
        "shared": shared,
        "exchanges": _rendered(shared) if shared else [],
        "login_url": reverse(settings.LOGIN_URL),
    }
    response = render(request, "chat/shared.html", context, status=200 if shared else 404)
    response["Content-Security-Policy"] = _policy(request.get_host())
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _rendered(shared: SharedThread) -> list[dict[str, Any]]:
    """The copied exchanges with their answers as sanitised HTML; `place` numbers them, as citations do."""
    passages = _rendered_passages(shared)
    return [
        {
            **exchange,
            "place": place,
            "html": render_answer(
                exchange["answer"],
                turn_id=str(place),
                source_numbers={source["n"] for source in exchange["sources"] if "n" in source},
            ),
            "sources": [_rendered_source(source, passages) for source in exchange["sources"]],
        }
        for place, exchange in enumerate(shared.exchanges, start=1)
    ]


def _rendered_passages(shared: SharedThread) -> dict[str, str]:
    """The HTML of each text that is a source; of those past `MAX_RENDERED_CHARACTERS`, their lines as they stand."""
    html: dict[str, str] = {}
    left = MAX_RENDERED_CHARACTERS
    for exchange in shared.exchanges:
        for text in map(_text_of, exchange["sources"]):
            if text in html:
                continue
            left -= len(text)
            html[text] = (
                render_answer(escape_citations(text), turn_id="", source_numbers=())
                if left >= 0
                else linebreaks(text, autoescape=True)
            )
    return html


def _rendered_source(source: dict[str, Any], passages: Mapping[str, str]) -> dict[str, Any]:
    """A source as the chat page shows it. `repeats`: its question is already the end of its title."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    return {
        **source,
        "title": title.replace(" > ", " › "),
        "repeats": title.split(" > ")[-1] == question,
        "html": passages[_text_of(source)],
    }


def _text_of(source: dict[str, Any]) -> str:
    return str(source.get("text") or "")


def _is_mine(
    request: HttpRequest, deployment: Deployment | None, conversation_id: uuid.UUID
) -> bool:
    try:
        conversation = owned_conversation(Reader.of(request), conversation_id)
    except ConversationNotFoundError:
        return False
    return deployment is not None and conversation.deployment_id == deployment.pk


def _policy(host: str) -> str:
    return content_policy(
        img_src="'self' data:",
        # Some browsers do not count a socket to the page's own host as 'self'.
        connect_src=f"'self' ws://{host} wss://{host}",
        form_action="'self'",
        frame_ancestors="'none'",
    )


def _config(
    request: HttpRequest,
    deployment: Deployment | None,
    conversation_id: uuid.UUID | None,
    is_mine: bool,
) -> dict[str, Any]:
    """What the page's script is told: addresses, limits, words."""
    user = request.user
    admin = reverse("admin:index") if user.is_authenticated and user.is_staff else ""
    return {
        "deployment": deployment.slug if deployment else None,
        "deploymentName": deployment.name if deployment else "",
        "conversation": str(conversation_id) if conversation_id else None,
        "conversationMissing": not is_mine,
        "language": get_language(),
        "csrfToken": get_token(request),
        "csrfCookie": settings.CSRF_COOKIE_NAME,
        "maxCharacters": settings.MAX_MESSAGE_CHARACTERS,
        "maxComment": settings.FEEDBACK_MAX_CHARACTERS,
        "temporaryHours": settings.TEMPORARY_CHAT_HOURS,
        "feedbackReasons": [[reason.value, str(reason.label)] for reason in FeedbackReason],
        "urls": {
            "conversations": reverse("conversation-list"),
            "messages": "/api/messages/",
            "socket": "/ws/chat/{id}/",
            "page": reverse("chat-deployment", args=[deployment.slug]) if deployment else "/",
            "turnAdmin": f"{admin}chat/turn/{{id}}/change/" if admin else "",
        },
        "strings": page_strings(),
    }
