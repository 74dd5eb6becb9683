"""The simulator: a question in, scored tools out, by the code that serves; nothing is written."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.admin_base import admin_page, admin_url, require
from agents.effective import effective_config
from agents.exceptions import ApplicationError
from agents.models import Deployment, RuntimeSettings, ToolMode
from tools_registry.catalog import user_tags
from tools_registry.models import ToolOverride
from tools_registry.selection.base import SelectionReason, SelectionSettings
from tools_registry.selection.simulation import Simulation, simulate_selection

REASONS = {
    SelectionReason.RESIDENT.value: _("résident"),
    SelectionReason.SIMILAR.value: _("proche de la question"),
    SelectionReason.RECENT.value: _("utilisé récemment"),
    SelectionReason.ALL.value: _("tous les outils permis"),
    "": _("non proposé"),
}


class SimulatorForm(forms.Form):
    """A question, for whom, and under which settings."""

    question = forms.CharField(
        label=_("Question"),
        max_length=2_000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
    )
    user = forms.CharField(
        label=_("Utilisateur"),
        required=False,
        max_length=150,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Son nom d’utilisateur. Vide : un visiteur."),
    )
    deployment = forms.ModelChoiceField(
        label=_("Déploiement"),
        queryset=Deployment.objects.select_related("agent"),
        required=False,
        empty_label=_("Réglages du site"),
        widget=UnfoldAdminSelectWidget,
    )
    mode = forms.ChoiceField(
        label=_("Choix des outils"),
        required=False,
        choices=[("", _("Celui des réglages")), *ToolMode.choices],
        widget=UnfoldAdminSelectWidget,
    )


@require_safe
def simulator(request: HttpRequest) -> HttpResponse:
    """A question in, scored tools out, with the threshold drawn and what would be sent to the model."""
    require(request, "tools_registry.view_tooloverride")
    form = SimulatorForm(request.GET if "question" in request.GET else None)
    context: dict[str, Any] = {"title": gettext("Simulateur d’outils"), "form": form}
    if form.is_bound and form.is_valid():
        try:
            found = _simulate(request, form)
        except ApplicationError as error:
            messages.error(request, str(error.public_message))
        else:
            if found is not None:
                context.update(simulation=found, rows=_rows(found), mark=_percent(found.threshold))
    return admin_page(request, "admin/tools_registry/simulator.html", model=ToolOverride, **context)


def _simulate(request: HttpRequest, form: SimulatorForm) -> Simulation | None:
    deployment = form.cleaned_data["deployment"]
    config: Any = effective_config(deployment) if deployment else RuntimeSettings.load()
    user = None
    if username := form.cleaned_data["user"]:
        require(request, "auth.view_user")
        model = get_user_model()
        user = model.objects.filter(**{model.USERNAME_FIELD: username}).first()
        if user is None:
            form.add_error("user", gettext("Il n’y a pas d’utilisateur de ce nom."))
            return None
    return simulate_selection(
        form.cleaned_data["question"],
        tags=user_tags(user),
        agent_id=deployment.agent_id if deployment else None,
        config=SelectionSettings(
            tool_mode=form.cleaned_data["mode"] or config.tool_mode,
            tool_top_k=config.tool_top_k,
            tool_threshold=config.tool_threshold,
            tools_enabled=config.tools_enabled,
        ),
    )


def _rows(found: Simulation) -> list[dict[str, Any]]:
    keys = ToolOverride.objects.values_list("tool_name", "pk")
    urls = {name: admin_url(ToolOverride, "change", key) for name, key in keys}
    return [
        {
            "name": tool.spec.name,
            "url": urls.get(tool.spec.name, ""),
            "description": tool.spec.description,
            "score": tool.score,
            "percent": _percent(tool.score),
            "reason": REASONS[tool.reason],
            "offered": bool(tool.reason),
        }
        for tool in found.scored
    ]


def _percent(score: float | None) -> int | None:
    return None if score is None else max(0, min(100, round(100 * score)))
