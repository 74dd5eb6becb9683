"""The chat page: one template for the home page, a deployment and a conversation.

A deployment or conversation that is absent or not for this person is a 404 that still shows a page with a way on; the
owner of a conversation whose deployment has closed to them reads it on a page of its own. Each runs under a policy
without inline script or style: keep it so.
"""

import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from agents.effective import effective_config
from agents.face import style_source
from agents.llm.base import language_model
from agents.models import Deployment, Logo
from chat.access.permissions import kept_conversation, kept_conversations, named, open_deployments
from chat.access.visitors import Reader, visitor_of
from chat.archive.cited_passages import CitedPassage, cited_passage, pages_of
from chat.archive.export.documents import exported_exchanges
from chat.archive.sharing import shared_thread
from chat.doors.page.framing import content_policy, feedback_config, suggestions
from chat.doors.page.rendered import rendered_exchanges, rendered_source, rendered_texts, text_of
from chat.doors.page.strings import page_strings, reader_strings
from chat.exceptions import ConversationNotFoundError, LinkNotFoundError
from chat.models import Conversation, SharedThread
from chat.protocol import MAX_MESSAGE_CHARACTERS

#: More suggestions than these would push the question field off a phone's screen.
MAX_SUGGESTIONS = 6
#: Conversations named on the page of a closed deployment; the others are in the list over HTTP.
LIST_LIMIT = 50
#: Its address changes with the picture.
LOGO_SECONDS = 365 * 86_400
#: Scripts that the page's own import at once, step by step: named in the page, the browser asks for all of them at
#: once.
IMPORTED_SCRIPTS = tuple(
    f"chat/{path.name}"
    for path in sorted((Path(__file__).parents[2] / "static" / "chat").glob("*.js"))
    if path.name not in ("chrome.js", "code.js", "kept.js", "page.js", "read.js", "theme.js")
)


@gzip_page  # Of a length that differs each time, and its token masked (Django): what is sent tells nothing (BREACH).
@never_cache
@require_safe
def chat_page(request: HttpRequest, slug: str | None = None, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    deployments = list(open_deployments(request.user))
    deployment = next((d for d in deployments if slug is None or d.slug == slug), None)
    if deployment is not None:
        # Before the page's own requests, which come several at once and would each draw another.
        visitor_of(request.session)
    mine = _kept(request, slug, conversation_id) if conversation_id else None
    if mine is not None and deployment is None:
        return _kept_page(request, mine)
    is_mine = conversation_id is None or mine is not None
    context = {
        "deployment": deployment,
        "face": deployment,
        "deployments": deployments,
        "suggestions": suggestions(deployment, MAX_SUGGESTIONS) if deployment else (),
        "has_model": language_model() is not None,
        "imported_scripts": IMPORTED_SCRIPTS if deployment else (),
        "is_missing": bool(slug) and deployment is None,
        "kept": [] if deployment else _kept_elsewhere(request, slug),
        "login_url": reverse(settings.LOGIN_URL),
        "max_characters": MAX_MESSAGE_CHARACTERS,
        "client_message_id": uuid.uuid4(),
        "config": _config(request, deployment, conversation_id if is_mine else None, is_mine),
    }
    found = is_mine and not context["is_missing"]
    response = render(request, "chat/page.html", context, status=200 if found else 404)
    response["Content-Security-Policy"] = _policy(request.get_host(), deployment)
    return response


@never_cache
@require_safe
def shared_page(request: HttpRequest, token: str) -> HttpResponse:
    """A shared conversation."""
    try:
        shared: SharedThread | None = shared_thread(request.user, token)
    except LinkNotFoundError:
        shared = None
    face = shared.conversation.deployment if shared else None
    context = {
        "shared": shared,
        "face": face,
        "exchanges": rendered_exchanges(shared.exchanges) if shared else [],
        "config": {"strings": reader_strings()},
        "login_url": reverse(settings.LOGIN_URL),
    }
    page = render(request, "chat/shared.html", context, status=200 if shared else 404)
    return not_kept(request, page, face)


@never_cache
@require_safe
def passage_page(request: HttpRequest, token: str) -> HttpResponse:
    """A cited passage, where a program that shows an answer of `/v1` leads its reader."""
    try:
        passage: CitedPassage | None = cited_passage(request.user, token)
    except LinkNotFoundError:
        passage = None
    text = text_of(passage.source) if passage else ""
    face = passage.deployment if passage else None
    context = {
        "face": face,
        "passage": passage,
        "source": rendered_source(passage.source, rendered_texts([text], heading=2)) if passage else None,
        "pages": pages_of(passage) if passage else None,
        "token": token,
        "config": {"strings": reader_strings()},
        "login_url": reverse(settings.LOGIN_URL),
    }
    page = render(request, "chat/passage.html", context, status=200 if passage else 404)
    return not_kept(request, page, face)


@cache_control(public=True, max_age=LOGO_SECONDS, immutable=True)
@require_safe
def logo(request: HttpRequest, digest: str) -> HttpResponse:
    """A deployment's logo, for whoever knows its hash: it stands on pages, shared links and foreign sites."""
    png = get_object_or_404(Logo, pk=digest).png
    return HttpResponse(bytes(png), content_type="image/png")


def not_kept(request: HttpRequest, response: HttpResponse, face: Deployment | None = None) -> HttpResponse:
    """To be read only: no search engine keeps it, and its address is told to no other site."""
    response["Content-Security-Policy"] = _policy(request.get_host(), face)
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _kept(request: HttpRequest, slug: str | None, conversation_id: uuid.UUID) -> Conversation | None:
    """The reader's own conversation of that id in the deployment of that slug, open to them or not."""
    if _is_new(request):
        return None
    try:
        conversation = kept_conversation(Reader.of(request), conversation_id)
    except ConversationNotFoundError:
        return None
    return conversation if conversation.deployment.slug == slug else None


def _is_new(request: HttpRequest) -> bool:
    """Nobody that said anything here yet: to look for what they said would draw a visitor, and write a session for it."""
    return not request.user.is_authenticated and "visitor" not in request.session


def _kept_page(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """What somebody said in a deployment that is closed to them: to be read, taken and deleted."""
    exchanges = [
        {"question": each.question, "answer": each.answer, "sources": each.sources}
        for each in exported_exchanges(conversation)
    ]
    context = {
        "conversation": conversation,
        "face": conversation.deployment,
        "exchanges": rendered_exchanges(exchanges),
        "config": {
            **_shared_config(request),
            "conversation": str(conversation.pk),
            "urls": {"conversations": reverse("conversation-list"), "home": reverse("chat-home")},
        },
    }
    return not_kept(request, render(request, "chat/kept.html", context), conversation.deployment)


def _kept_elsewhere(request: HttpRequest, slug: str | None) -> list[Conversation]:
    """What the reader said in a deployment that they cannot open, the latest first."""
    if not slug or _is_new(request):
        return []
    kept = kept_conversations(Reader.of(request)).filter(deployment__slug=named(slug))
    return list(kept.order_by("-updated_at")[:LIST_LIMIT])


def _policy(host: str, deployment: Deployment | None = None) -> str:
    return content_policy(
        style_src=style_source(deployment.style if deployment else ""),
        img_src="'self' data:",
        # Some browsers do not count a socket to the page's own host as 'self'.
        connect_src=f"'self' ws://{host} wss://{host}",
        form_action="'self'",
        manifest_src="'self'",
        frame_ancestors="'none'",
    )


def _config(
    request: HttpRequest, deployment: Deployment | None, conversation_id: uuid.UUID | None, is_mine: bool
) -> dict[str, Any]:
    """What the page's script is told: addresses, limits, words."""
    user = request.user
    admin = reverse("admin:index") if user.is_authenticated and user.is_staff else ""
    return {
        "deployment": deployment.slug if deployment else None,
        "deploymentName": deployment.shown_name if deployment else "",
        "conversation": str(conversation_id) if conversation_id else None,
        "conversationMissing": not is_mine,
        **_shared_config(request, deployment),
        "maxCharacters": MAX_MESSAGE_CHARACTERS,
        **feedback_config(),
        "temporaryHours": settings.TEMPORARY_CHAT_HOURS,
        "urls": {
            "conversations": reverse("conversation-list"),
            "messages": "/api/messages/",
            "socket": "/ws/chat/{id}/",
            "page": reverse("chat-deployment", args=[deployment.slug]) if deployment else "/",
            "citedPage": _cited_page(deployment),
            "turnAdmin": f"{admin}chat/turn/{{id}}/change/" if admin else "",
        },
    }


def _cited_page(deployment: Deployment | None) -> str:
    """Where the page of a source is shown, with `{turn}` and `{n}` to be filled in; empty where one of its agents shows
    none.
    """
    if deployment is None:
        return ""
    if not all(each.show_cited_pages for each in effective_config(deployment).of_each_agent):
        return ""
    return "/api/rag/turns/{turn}/sources/{n}/page"


def _shared_config(request: HttpRequest, deployment: Deployment | None = None) -> dict[str, Any]:
    return {
        "language": get_language(),
        "csrfToken": get_token(request),
        "csrfCookie": settings.CSRF_COOKIE_NAME,
        "strings": page_strings(deployment.organisation if deployment else ""),
    }
