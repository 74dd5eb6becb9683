"""The versions of a validated answer on its page: who changed what, word by word, and the way back."""

from dataclasses import dataclass
from itertools import zip_longest

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils import formats
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from agents.admin_base import admin_page, admin_url, require, signed_in
from agents.errors import ApplicationError
from agents.staff.scope import visible
from faqs.answers.differences import Change, compare_fields
from faqs.answers.restoring import restore_version
from faqs.models import AnswerVersion, LearnedResponse


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A version and what it changed; `since` is the number of the version before it that is kept, none for the first."""

    version: AnswerVersion
    changes: list[Change]
    since: int | None
    is_current: bool


def shown_versions(response: LearnedResponse) -> list[ShownVersion]:
    """The latest first."""
    versions = list(response.versions.select_related("made_by").order_by("-number"))
    # Read anew: a form that was refused has left its texts in the row.
    now = _texts(LearnedResponse.objects.get(pk=response.pk))
    return [
        ShownVersion(
            version,
            compare_fields(_texts(before) if before else {}, _texts(version)),
            before.number if before else None,
            is_current=_texts(version) == now,
        )
        for version, before in zip_longest(versions, versions[1:])
    ]


@require_http_methods(["GET", "POST"])
def restore_answer(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Show what putting a version back would change; once confirmed, do it."""
    require(request, "faqs.change_learnedresponse")
    version = get_object_or_404(
        visible(request, AnswerVersion.objects.select_related("response", "made_by")), response=pk, number=number
    )
    response = version.response
    if request.method == "POST":
        if request.POST.get("revision") == str(response.revision):
            _restore(request, version)
            return HttpResponseRedirect(admin_url(LearnedResponse, "change", pk))
        messages.warning(request, gettext("La réponse a changé entre-temps : relisez avant de confirmer."))
    return admin_page(
        request,
        "admin/faqs/learnedresponse/restore.html",
        model=LearnedResponse,
        title=gettext("Restaurer la version %(number)d") % {"number": number},
        version=version,
        response=response,
        changes=compare_fields(_texts(response), _texts(version)),
    )


def _restore(request: HttpRequest, version: AnswerVersion) -> None:
    by = signed_in(request)
    try:
        restore_version(version, by=by)
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
    else:
        text = gettext("La version %(number)d est restaurée.")
        messages.success(request, text % {"number": version.number})


def _texts(state: LearnedResponse | AnswerVersion) -> dict[str, str]:
    if isinstance(state, LearnedResponse):
        phrasings = [phrasing.text for phrasing in state.phrasings.all()]
    else:
        phrasings = state.phrasings
    review = formats.date_format(state.review_date) if state.review_date else ""
    return {
        gettext("Question"): state.question,
        gettext("Autres formulations"): "\n".join(phrasings),
        gettext("Réponse"): state.answer,
        gettext("Catégorie"): state.category,
        gettext("Validité"): str(state.get_status_display()),
        gettext("Raison"): state.status_reason,
        gettext("À revoir le"): review,
    }
