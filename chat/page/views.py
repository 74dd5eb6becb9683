"""The pages that readers see: the chat page, cited passages and their pages.

A cited page is pictures, never the file. Absent and refused are told alike.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import linebreaks
from django.utils.translation import get_language
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import conditional_page, require_safe

from agents.branding import style_source
from agents.effective import effective_config
from agents.llm.base import language_model
from agents.models import Deployment, Logo
from chat.access.permissions import open_deployments, owned_conversation, owned_turn
from chat.access.rate_limits import address_of, limit_reading
from chat.access.visitors import Reader, visitor_of
from chat.api.errors import content_policy
from chat.archive import CitedPassage, cited_passage, pages_of, passage_token
from chat.errors import ConversationNotFoundError, LinkNotFoundError, RateLimitedError, TurnNotFoundError
from chat.models import FEEDBACK_MAX_CHARACTERS, FeedbackReason
from chat.page.strings import page_strings, reader_strings
from chat.protocol import MAX_MESSAGE_CHARACTERS
from chat.rendering import escape_citations, render_answer, tied
from faqs.recall import starter_questions
from knowledge.errors import PagePictureError
from knowledge.page_viewer import CitedPages, page_picture


def feedback_config() -> dict[str, Any]:
    """What the script of an answer's thumbs is told."""
    return {
        "maxComment": FEEDBACK_MAX_CHARACTERS,
        "feedbackReasons": [[reason.value, str(reason.label)] for reason in FeedbackReason],
    }


def suggestions(deployment: Deployment, most: int) -> list[tuple[str, str]]:
    """Each question as it is asked, and as it is shown."""
    return [(each, tied(each)) for each in starter_questions(deployment, most)]


#: Past this, the text of a passage is shown as it stands.
MAX_RENDERED_CHARACTERS = 200_000


def rendered_source(source: Mapping[str, Any]) -> dict[str, Any]:
    """A source as the chat page shows it: called by its question, and then with its `place`, else by where it stands."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    path = [] if source.get("learned_id") else title.split(" > ")
    if question and path[-1:] == [question]:
        path.pop()
    place = " › ".join(path)
    text = str(source.get("text") or "")
    if len(text) > MAX_RENDERED_CHARACTERS:
        html = linebreaks(text, autoescape=True)
    else:
        html = render_answer(escape_citations(text), turn_id="", source_numbers=(), heading=2)
    return {**source, "title": question or place, "place": place if question else "", "html": html}


#: More suggestions than these would push the question field off a phone's screen.
MAX_SUGGESTIONS = 6
#: Its address changes with the picture.
LOGO_SECONDS = 365 * 86_400


@gzip_page  # Of a length that differs each time, and its token masked (Django): what is sent tells nothing (BREACH).
@never_cache
@require_safe
def chat_page(request: HttpRequest, slug: str | None = None, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    deployments = list(open_deployments(request.user))
    deployment = next((d for d in deployments if slug is None or d.slug == slug), None)
    if deployment is not None:
        # Before the page's own requests, which come several at once and would each draw another.
        visitor_of(request.session)
    is_mine = conversation_id is None or _owns(request, slug, conversation_id)
    context = {
        "deployment": deployment,
        "face": deployment,
        "deployments": deployments,
        "suggestions": suggestions(deployment, MAX_SUGGESTIONS) if deployment else (),
        "has_model": language_model() is not None,
        "is_missing": bool(slug) and deployment is None,
        "login_url": reverse(settings.LOGIN_URL),
        "config": _config(request, deployment, conversation_id if is_mine else None, is_mine),
    }
    found = is_mine and not context["is_missing"]
    response = render(request, "chat/page.html", context, status=200 if found else 404)
    response["Content-Security-Policy"] = _policy(request.get_host(), deployment)
    return response


@never_cache
@require_safe
def passage_page(request: HttpRequest, token: str) -> HttpResponse:
    """A cited passage, where a program that shows an answer of `/v1` leads its reader."""
    try:
        passage: CitedPassage | None = cited_passage(request.user, token)
    except LinkNotFoundError:
        passage = None
    face = passage.deployment if passage else None
    context = {
        "face": face,
        "passage": passage,
        "source": rendered_source(passage.source) if passage else None,
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
    """A deployment's logo, for whoever knows its hash: it stands on pages and foreign sites."""
    png = get_object_or_404(Logo, pk=digest).png
    return HttpResponse(bytes(png), content_type="image/png")


def not_kept(request: HttpRequest, response: HttpResponse, face: Deployment | None = None) -> HttpResponse:
    """To be read only: no search engine keeps it, and its address is told to no other site."""
    response["Content-Security-Policy"] = _policy(request.get_host(), face)
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _owns(request: HttpRequest, slug: str | None, conversation_id: uuid.UUID) -> bool:
    """Whether it is the reader's own conversation, in the deployment of that slug."""
    if not request.user.is_authenticated and "visitor" not in request.session:
        # Nobody that said anything here yet: to look for it would draw a visitor, and write a session for it.
        return False
    try:
        return owned_conversation(Reader.of(request), conversation_id).deployment.slug == slug
    except ConversationNotFoundError:
        return False


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
        "language": get_language(),
        "csrfToken": get_token(request),
        "csrfCookie": settings.CSRF_COOKIE_NAME,
        "strings": page_strings(deployment),
        "maxCharacters": MAX_MESSAGE_CHARACTERS,
        **feedback_config(),
        "temporaryHours": settings.TEMPORARY_CHAT_HOURS,
        "urls": {
            "conversations": reverse("conversation-list"),
            "messages": f"{settings.BASE_PATH}/api/messages/",
            "questions": f"{settings.BASE_PATH}/api/rag/",
            "socket": f"{settings.BASE_PATH}/ws/chat/{{id}}/",
            "page": reverse("chat-deployment", args=[deployment.slug]) if deployment else reverse("chat-home"),
            "citedPage": _cited_page(deployment),
            "turnAdmin": f"{admin}chat/turn/{{id}}/change/" if admin else "",
        },
    }


def _cited_page(deployment: Deployment | None) -> str:
    """Where a source's page is shown (`{turn}`, `{n}`); empty where one of the agents shows none."""
    if deployment is None:
        return ""
    if not all(each.show_cited_pages for each in effective_config(deployment).of_each_agent):
        return ""
    return f"{settings.BASE_PATH}/api/rag/turns/{{turn}}/sources/{{n}}/page"


PAGE_PICTURE_CACHE_SECONDS = 3_600


@never_cache
@require_safe
def own_page(request: HttpRequest, turn_id: uuid.UUID, number: int) -> HttpResponse:
    """From a source of one's own answer to the page that it comes from."""
    try:
        turn = owned_turn(Reader.now(request.session), turn_id)
    except TurnNotFoundError:
        return _closed(request)
    return redirect(reverse("cited-page", args=[passage_token(turn.pk, number)]) + "#passage")


@never_cache
@require_safe
def cited_page(request: HttpRequest, token: str) -> HttpResponse:
    """The pages of a passage, as pictures with the passage marked."""
    passage, pages = _found(request, token)
    if passage is None:
        return _closed(request)
    if pages is None:
        return redirect("cited-passage", token)
    context = {
        "passage": passage,
        "face": passage.deployment,
        "document": pages.document,
        "text": passage.source.get("text"),
        "token": token,
        "passage_on": pages.opens_on,
        "pages": [
            {"number": number, "boxes": boxes, "image": reverse("cited-page-image", args=[token, number])}
            for number, boxes in pages.boxes.items()
        ],
    }
    return not_kept(request, render(request, "chat/cited_page.html", context), passage.deployment)


@conditional_page
@require_safe
def page_image(request: HttpRequest, token: str, page: int) -> HttpResponse:
    """A page of a passage as PNG, kept by this reader's browser alone."""
    _passage, pages = _found(request, token)
    if pages is None or page not in pages.boxes:
        return HttpResponse(status=404)
    try:
        limit_reading("read", request.user.pk, address_of(request))
        picture = page_picture(pages.document, page)
    except RateLimitedError as error:
        return HttpResponse(status=error.status)
    except PagePictureError as error:
        return HttpResponse(status=error.status, headers={"Retry-After": "5"})
    response = HttpResponse(picture, content_type="image/png")
    response["Cache-Control"] = f"private, max-age={PAGE_PICTURE_CACHE_SECONDS}"
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return response


def _found(request: HttpRequest, token: str) -> tuple[CitedPassage | None, CitedPages | None]:
    try:
        passage = cited_passage(request.user, token)
    except LinkNotFoundError:
        return None, None
    return passage, pages_of(passage)


def _closed(request: HttpRequest) -> HttpResponse:
    context = {"login_url": reverse(settings.LOGIN_URL)}
    return not_kept(request, render(request, "chat/cited_page.html", context, status=404))
