"""A search as a turn would do it, shown with its scores; nothing is answered or stored."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from agents.admin_base import admin_page, require
from agents.effective import effective_config
from agents.exceptions import ApplicationError
from agents.models import Deployment
from knowledge.embeddings.base import embedder
from knowledge.models import Chunk
from knowledge.search import Passage, search_as, thresholds_for


class SearchTrialForm(forms.Form):
    deployment = forms.ModelChoiceField(
        label=_("Déploiement"),
        queryset=Deployment.objects.select_related("agent").order_by("name"),
        widget=UnfoldAdminSelectWidget,
    )
    question = forms.CharField(
        label=_("Question"), max_length=2_000, widget=UnfoldAdminTextInputWidget
    )
    limit = forms.IntegerField(
        label=_("Nombre de passages"),
        required=False,
        min_value=1,
        max_value=50,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Vide : le réglage du déploiement."),
    )


@require_safe
def try_search(request: HttpRequest) -> HttpResponse:
    require(request, "knowledge.view_chunk")
    form = SearchTrialForm(request.GET if "question" in request.GET else None)
    if "deployment" in request.GET and not form.is_bound:
        form.initial["deployment"] = request.GET["deployment"]
    trial: SearchTrial | None = None
    if form.is_bound and form.is_valid():
        try:
            trial = _tried(form.cleaned_data)
        except ApplicationError as error:
            messages.error(request, str(error.public_message))
    return admin_page(
        request,
        "admin/knowledge/chunk/search.html",
        model=Chunk,
        title=gettext("Tester la recherche"),
        form=form,
        trial=trial,
    )


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """Each passage with what is held to the guard rail, its threshold, and whether it passes."""

    rows: list[tuple[Passage, float, float | None, bool]]
    direct_threshold: float | None
    is_out_of_domain: bool


def _tried(wanted: dict[str, Any]) -> SearchTrial:
    config = effective_config(wanted["deployment"])
    limit = wanted["limit"] or config.match_count
    confirmed = search_as(config, wanted["question"], limit=limit)
    thresholds = thresholds_for(config, model=embedder().recipe.model)
    return SearchTrial(
        rows=[
            (
                passage,
                confirmed.nearness(passage),
                thresholds.guard_rail_for(passage),
                confirmed.lets_in(passage, thresholds),
            )
            for passage in confirmed.passages(limit)
        ],
        direct_threshold=thresholds.direct_answer,
        is_out_of_domain=confirmed.is_out_of_domain(thresholds),
    )
