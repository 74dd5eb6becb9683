"""The pages that readers see: the chat page, cited passages and their pages, and the page that tells of an error.

A cited page is pictures, never the file. Absent and refused are told alike.
"""

import math
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation.trans_real import DjangoTranslation
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import conditional_page, require_safe
from django.views.defaults import bad_request, page_not_found, server_error
from django.views.i18n import JavaScriptCatalog

from agents.branding import style_source
from agents.database import storage_error
from agents.effective import effective_config
from agents.errors import ApplicationError
from agents.llm.base import language_model
from agents.models import Deployment, Logo
from chat.access.permissions import (
    CitedPassage,
    Reader,
    cited_passage,
    open_deployments,
    owned_conversation,
    owned_turn,
    passage_token,
    visitor_of,
)
from chat.access.rate_limits import address_of, limit_reading
from chat.api.errors import content_policy, error_response, logged
from chat.api.openai_forms import WireError, client_language
from chat.errors import (
    ConversationNotFoundError,
    LinkNotFoundError,
    MessageTooLargeError,
    RateLimitedError,
    TurnNotFoundError,
)
from chat.models import FEEDBACK_MAX_CHARACTERS, FeedbackReason
from chat.protocol import MAX_MESSAGE_CHARACTERS
from chat.rendering import escape_citations, render_answer, tied
from faqs.neighbours import starter_questions
from knowledge.errors import PagePictureError
from knowledge.page_viewer import CitedPages, cited_pages, page_picture


def script_texts() -> dict[str, Any]:
    """The translations of texts that the scripts show, by the French text that stands there."""
    catalog = JavaScriptCatalog()
    catalog.translation = DjangoTranslation(
        get_language(), domain="djangojs", localedirs=list(map(str, settings.LOCALE_PATHS))
    )
    return catalog.get_catalog()


def script_config(deployment: Deployment | None, account: str | None = None) -> dict[str, Any]:
    """What the scripts of page and widget are told: words, limits, and the address of the `account`, if any."""
    config = effective_config(deployment) if deployment else None
    hours = _(config.person_hours) if config and config.person_hours else ""
    return {
        "texts": script_texts(),
        # Who an answer that a model wrote is said to be by.
        "author": (deployment.organisation or deployment.shown_name) if deployment else "",
        "maxCharacters": MAX_MESSAGE_CHARACTERS,
        "maxComment": FEEDBACK_MAX_CHARACTERS,
        "feedbackReasons": [[reason.value, str(reason.label)] for reason in FeedbackReason],
        # Whether a person may be asked, and how the answer comes.
        "help": {"hours": hours, "mail": settings.HAS_MAIL, "account": account}
        if config and config.ask_a_person
        else None,
    }


def suggestions(deployment: Deployment, most: int) -> list[tuple[str, str]]:
    """Each question as it is asked, and as it is shown."""
    return [(each, tied(each)) for each in starter_questions(deployment, most)]


def shown_source(source: Mapping[str, Any]) -> dict[str, Any]:
    """A source as the chat page shows it: called by its question, and then with its `place`, else by where it stands."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    path = [] if source.get("learned_id") else title.split(" > ")
    if question and path[-1:] == [question]:
        path.pop()
    place = " › ".join(path)
    text = escape_citations(str(source.get("text") or ""))
    html = render_answer(text, turn_id="", source_numbers=(), heading=2)
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
    """A cited passage, marked on pictures of the pages that it stands on where these are shown."""
    passage, pages = _found(request, token)
    if passage is None:
        return _to_read(request, None)
    return _to_read(request, passage.deployment, source=shown_source(passage.source), pages=pages, token=token)


@cache_control(public=True, max_age=LOGO_SECONDS, immutable=True)
@require_safe
def logo(request: HttpRequest, digest: str) -> HttpResponse:
    """A deployment's logo, for whoever knows its hash: it stands on pages and foreign sites."""
    png = get_object_or_404(Logo, pk=digest).png
    return HttpResponse(bytes(png), content_type="image/png")


def _to_read(request: HttpRequest, face: Deployment | None, **context: Any) -> HttpResponse:
    """The page of a passage, or that its link is closed. No search engine keeps it, no other site is told of it."""
    context |= {"face": face, "config": {"texts": script_texts()}, "login_url": reverse(settings.LOGIN_URL)}
    response = render(request, "chat/passage.html", context, status=200 if face else 404)
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
        **script_config(deployment, user.email if user.is_authenticated else None),
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
    if deployment is None or not all(each.show_cited_pages for each in effective_config(deployment).of_each_agent):
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
        return _to_read(request, None)
    return redirect(reverse("cited-passage", args=[passage_token(turn.pk, number)]) + "#passage")


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
    configs = effective_config(passage.deployment).of_each_agent
    showing = [config.agent.pk for config in configs if config.show_cited_pages]
    return passage, cited_pages(passage.source.get("chunk_id"), agent_ids=showing)


def failed(request: HttpRequest) -> HttpResponse:
    """Answer an overload: JSON for programs, a page that comes back by itself for a browser."""
    error = storage_error(sys.exc_info()[1])
    if error is None:
        return server_error(request)
    with translation.override(_language(request)):
        return logged(_said(request, error), error)


def refused(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses to read, as it says so itself, but for a text that is too long: whoever wrote it is told the
    way out."""
    if not isinstance(exception, (RequestDataTooBig, TooManyFieldsSent)):
        return bad_request(request, exception)
    with translation.override(_language(request)):
        if isinstance(exception, TooManyFieldsSent):
            message = _("Trop de lignes à la fois : au plus %(limit)d. Filtrez la liste, puis recommencez.")
            limit = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
            return _said(request, MessageTooLargeError("too many fields", public_message=message % {"limit": limit}))
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        message = _(
            "Ce texte dépasse %(limit)d Mo. Revenez à la page précédente, où votre saisie est encore, et donnez-le comme "
            "fichier là où le formulaire en prend un."
        ) % {"limit": limit // 1024**2}
        return _said(request, MessageTooLargeError("form too large", public_message=message))


class UnknownAddressError(ApplicationError):
    code = "not_found"
    status = 404


def unknown(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Programs read JSON; a browser gets the page of Django."""
    if not request.path_info.startswith("/api/"):
        return page_not_found(request, exception)
    message = _("Adresse inconnue : %(method)s %(path)s.") % {"method": request.method, "path": request.path}
    return error_response(UnknownAddressError("no such address", public_message=message))


def _language(request: HttpRequest) -> str:
    if request.path_info.startswith("/v1/"):
        return client_language(request)
    return translation.get_language_from_request(request)


def _said(request: HttpRequest, error: ApplicationError) -> HttpResponse:
    if request.path_info.startswith("/v1/"):
        return WireError.of(error).response()
    if "text/html" in request.headers.get("Accept", ""):
        return _page(request, error)
    return error_response(error)


def _page(request: HttpRequest, error: ApplicationError) -> HttpResponse:
    """Written without request and session: nothing on it may ask the database again."""
    context: dict[str, object] = {"message": error.public_message, "retryable": error.retryable}
    again = math.ceil(error.retry_after or 1)
    # What a form held is still in the page before: sent again without being asked, it might be done twice.
    context["again"] = again if error.retryable and request.method == "GET" else 0
    page = HttpResponse(render_to_string("unavailable.html", context), status=error.status)
    if error.retryable:
        page["Retry-After"] = str(again)
    page["Cache-Control"] = "no-store"
    is_framed = request.path_info.startswith("/widget/")
    page["Content-Security-Policy"] = content_policy(frame_ancestors="*" if is_framed else "'none'")
    page.xframe_options_exempt = is_framed
    return page
