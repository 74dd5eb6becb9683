"""« À relire »: answers of the memory and of the FAQ that wait for a person, in one list with their decision."""

from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from agents.admin_base import admin_page, admin_url, signed_in
from agents.errors import ApplicationError
from agents.staff.scope import visible
from faqs.models import CachedResponse, LearnedResponse
from faqs.review import ToReview, decide, page_to_review

REVIEW_MAX_PAGES = 40

_MODELS = {"memory": CachedResponse, "faq": LearnedResponse}
_KINDS = {"": None, "stale": True, "other": False}


@require_http_methods(["GET", "POST"])
def review_answers(request: HttpRequest) -> HttpResponse:
    """The list, and the decision on what is ticked in it. `kind` narrows it: `stale` (overtaken by time) or `other`."""
    tables = _tables(request, "view")
    if not tables:
        raise PermissionDenied
    kind = request.GET.get("kind", "")
    if request.method == "POST":
        _decide(request)
        return HttpResponseRedirect(request.get_full_path())
    page = _page_number(request)
    shown, has_more = page_to_review(page, tables=tables, stale=_KINDS.get(kind), among=partial(visible, request))
    changeable = _tables(request, "change")
    return admin_page(
        request,
        "admin/faqs/learnedresponse/review.html",
        model=LearnedResponse,
        title=_("À relire"),
        rows=[_row(each, changeable) for each in shown],
        kinds=[
            ("", _("Toutes"), kind not in ("stale", "other")),
            ("stale", _("Périmées"), kind == "stale"),
            ("other", _("Apprises, signalées, brouillons"), kind == "other"),
        ],
        kind=kind,
        previous=page - 1,
        next=page + 1 if has_more and page < REVIEW_MAX_PAGES else 0,
    )


def _tables(request: HttpRequest, right: str) -> list[str]:
    return [name for name, model in _MODELS.items() if request.user.has_perm(f"faqs.{right}_{model._meta.model_name}")]


def _page_number(request: HttpRequest) -> int:
    wanted = request.GET.get("page", "1")
    number = int(wanted) if wanted.isdecimal() and len(wanted) < 5 else 1
    return min(max(number, 1), REVIEW_MAX_PAGES)


def _row(waiting: ToReview, changeable: list[str]) -> dict[str, Any]:
    table = "memory" if waiting.is_learned else "faq"
    return {
        "waiting": waiting,
        "owner": waiting.row.deployment if isinstance(waiting.row, CachedResponse) else waiting.row.agent,
        "url": admin_url(_MODELS[table], "change", waiting.row.pk),
        "may_decide": table in changeable,
    }


def _decide(request: HttpRequest) -> None:
    changeable = _tables(request, "change")
    chosen = request.POST.getlist("answer")[: settings.REVIEW_PAGE_ANSWERS]
    keys = {key for key in chosen if key.partition("-")[0] in changeable}
    if not keys:
        messages.warning(request, _("Cochez d’abord les réponses à valider ou à retirer."))
        return
    is_valid = request.POST.get("decision") != "withdraw"
    try:
        decided = decide(keys, is_valid=is_valid, by=signed_in(request), among=partial(visible, request))
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
        return
    if is_valid:
        text = ngettext("%(count)d réponse validée.", "%(count)d réponses validées.", decided.changed)
    else:
        text = ngettext("%(count)d réponse retirée.", "%(count)d réponses retirées.", decided.changed)
    messages.success(request, text % {"count": decided.changed})
    if decided.left:
        text = ngettext(
            "%(count)d réponse n’a pas changé : vide, de date de relecture passée, ou déjà décidée. Ouvrez-la.",
            "%(count)d réponses n’ont pas changé : vides, de date de relecture passée, ou déjà décidées. Ouvrez-les.",
            decided.left,
        )
        messages.warning(request, text % {"count": decided.left})
