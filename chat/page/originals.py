"""The page of a document that a citation leads to, with its passage marked.

It is a page of pictures, or in a document without pages the passage between its neighbours: the file itself is never
given, nor a page that the passage does not stand on. Who may see it is asked anew for each: the deployment open to
them, its setting, the passage still there. Absent and refused are not told apart.
"""

import uuid

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import quote_etag
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from chat.access.permissions import owned_turn
from chat.access.rate_limits import address_of, limit_reading
from chat.access.visitors import Reader
from chat.archive import CitedPassage, cited_passage, pages_of, passage_token, place_of
from chat.errors import LinkNotFoundError, RateLimitedError, TurnNotFoundError
from chat.page.views import not_kept, rendered_texts
from knowledge.errors import PagePictureError
from knowledge.page_viewer import CitedPages, page_picture

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
        return _cited_place(request, token, passage)
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


def _cited_place(request: HttpRequest, token: str, passage: CitedPassage) -> HttpResponse:
    """A passage of a document without pages, marked between what stands around it."""
    place = place_of(passage)
    if place is None:
        return _closed(request)
    html = rendered_texts(text for _path, text, _is_passage in place.pieces)
    context = {
        "passage": passage,
        "face": passage.deployment,
        "document": place.document,
        "token": token,
        "pieces": [
            {"heading": path.replace(" > ", " › "), "html": html[text], "is_passage": is_passage}
            for path, text, is_passage in place.pieces
        ],
    }
    return not_kept(request, render(request, "chat/cited_place.html", context), passage.deployment)


@require_safe
def page_image(request: HttpRequest, token: str, page: int) -> HttpResponse:
    """A page of a passage as PNG, kept by this reader's browser alone."""
    _passage, pages = _found(request, token)
    if pages is None or page not in pages.boxes:
        return HttpResponse(status=404)
    etag = quote_etag(f"{pages.document.file_hash[:32]}-{page}")
    if request.headers.get("If-None-Match") == etag:
        return _cached(HttpResponseNotModified(), etag)
    try:
        limit_reading("read", request.user.pk, address_of(request))
        picture = page_picture(pages.document, page)
    except RateLimitedError as error:
        return HttpResponse(status=error.status)
    except PagePictureError as error:
        return HttpResponse(status=error.status, headers={"Retry-After": "5"})
    return _cached(HttpResponse(picture, content_type="image/png"), etag)


def _cached(response: HttpResponse, etag: str) -> HttpResponse:
    response["ETag"] = etag
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
