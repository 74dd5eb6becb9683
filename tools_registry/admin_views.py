"""Pages of the tools' admin that are no form of one row: the simulator, and recall on labelled questions.

Both run the production code and write nothing. Each checks the right of its user first.
"""

import json
from typing import Any

import numpy as np
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from agents.admin_base import admin_url
from agents.effective import effective_config
from agents.exceptions import ApplicationError
from agents.models import RuntimeSettings
from knowledge.embeddings.base import embedder
from tools_registry.catalog import all_tools, user_tags
from tools_registry.evaluation import (
    CUTS,
    LabelledQuery,
    SelectionReport,
    evaluate_ranking,
)
from tools_registry.forms import SimulatorForm
from tools_registry.index import indexed_vectors
from tools_registry.models import LabelledQuestion, ToolOverride, ToolSource
from tools_registry.ranking import Ranking
from tools_registry.selection.base import SelectionReason, SelectionSettings
from tools_registry.simulator import Simulation, simulate_selection
from tools_registry.sources.refresh import refresh_source

#: Pairs of tools shown as described alike, and the questions that one page of recall ranks.
_PAIRS = 10
_MOST_QUESTIONS = 1_000

REASONS = {
    SelectionReason.RESIDENT.value: gettext_lazy("résident"),
    SelectionReason.SIMILAR.value: gettext_lazy("proche de la question"),
    SelectionReason.RECENT.value: gettext_lazy("utilisé récemment"),
    SelectionReason.ALL.value: gettext_lazy("tous les outils permis"),
    "": gettext_lazy("non proposé"),
}


@require_safe
def simulator(request: HttpRequest) -> HttpResponse:
    """A question in, scored tools out, with the threshold drawn and what would be sent to the model."""
    _require(request, "tools_registry.view_tooloverride")
    form = SimulatorForm(request.GET if "question" in request.GET else None)
    context: dict[str, Any] = {"form": form}
    if form.is_bound and form.is_valid():
        try:
            found = _simulate(request, form)
        except ApplicationError as error:
            messages.error(request, str(error.public_message))
        else:
            if found is not None:
                context.update(simulation=found, rows=_rows(found), mark=_percent(found.threshold))
    return _page(request, "simulator.html", title=_("Simulateur d’outils"), **context)


@require_safe
def recall(request: HttpRequest) -> HttpResponse:
    """Recall at K on the labelled questions, and the pairs of tools that are confused or described alike."""
    _require(request, "tools_registry.view_labelledquestion")
    rows = LabelledQuestion.objects.prefetch_related("expected")[:_MOST_QUESTIONS]
    queries = [
        LabelledQuery(row.text, tuple(tool.tool_name for tool in row.expected.all()))
        for row in rows
    ]
    queries = [query for query in queries if query.tools]
    report = SelectionReport()
    pairs: list[tuple[str, str, float]] = []
    try:
        ranking = _ranking()
        report = evaluate_ranking(ranking, queries, embedder())
        pairs = alike_pairs(ranking)
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
    return _page(
        request,
        "recall.html",
        title=_("Qualité du choix des outils"),
        report=report,
        cuts=[(cut, report.recall.get(cut), report.complete.get(cut)) for cut in CUTS],
        pairs=pairs,
    )


def refresh_and_report(request: HttpRequest, source: ToolSource) -> None:
    """Read the source's list and say what came of it."""
    try:
        report = refresh_source(source)
    except ApplicationError as error:
        messages.error(request, f"{source} : {error.public_message} ({error})")
        return
    messages.success(
        request,
        _(
            "%(source)s : %(added)d outils nouveaux, %(changed)d changés, %(gone)d disparus. "
            "Les outils nouveaux et changés attendent d’être permis."
        )
        % {
            "source": source,
            "added": len(report.added),
            "changed": len(report.changed),
            "gone": len(report.gone),
        },
    )
    for name, reason in report.refused[:10]:
        messages.warning(
            request, _("%(name)s est écarté : %(reason)s") % {"name": name, "reason": reason}
        )


def nearest_tool(name: str) -> tuple[str, float] | None:
    """The tool described most like this one, with the cosine; None where the index has not both."""
    ranking = _ranking()
    if name not in ranking.position or len(ranking.names) < 2:
        return None
    scores = ranking.matrix @ ranking.vector(name)
    scores[ranking.position[name]] = -1.0
    best = int(np.argmax(scores))
    return ranking.names[best], float(scores[best])


def alike_pairs(ranking: Ranking) -> list[tuple[str, str, float]]:
    """The pairs of tools whose vectors are nearest, nearest first."""
    best: dict[tuple[str, str], float] = {}
    matrix = ranking.matrix
    for position, name in enumerate(ranking.names):
        scores = matrix[position + 1 :] @ matrix[position]
        if len(scores):
            other = int(np.argmax(scores))
            best[name, ranking.names[position + 1 + other]] = float(scores[other])
    ranked = sorted(best.items(), key=lambda item: -item[1])[:_PAIRS]
    return [(one, other, score) for (one, other), score in ranked]


def tool_url(tool: ToolOverride) -> str:
    return admin_url(ToolOverride, "change", tool.pk)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _ranking() -> Ranking:
    """Every indexed tool."""
    tools, recipe = all_tools(), embedder().recipe
    vectors, _outdated = indexed_vectors(tools, recipe)
    indexed = [spec for spec in tools if spec.name in vectors]
    matrix = np.zeros((len(indexed), recipe.dimensions), dtype=np.float32)
    for position, spec in enumerate(indexed):
        matrix[position] = vectors[spec.name]
    return Ranking(indexed, matrix)


def _simulate(request: HttpRequest, form: SimulatorForm) -> Simulation | None:
    deployment = form.cleaned_data["deployment"]
    config: Any = effective_config(deployment) if deployment else RuntimeSettings.load()
    user = None
    if username := form.cleaned_data["user"]:
        _require(request, "auth.view_user")
        model = get_user_model()
        user = model.objects.filter(**{model.USERNAME_FIELD: username}).first()
        if user is None:
            form.add_error("user", _("Il n’y a pas d’utilisateur de ce nom."))
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
    urls = {tool.tool_name: tool_url(tool) for tool in ToolOverride.objects.all()}
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


def _require(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied


def _page(request: HttpRequest, template: str, **context: object) -> TemplateResponse:
    return TemplateResponse(
        request,
        f"admin/tools_registry/{template}",
        {**admin.site.each_context(request), "opts": ToolOverride._meta, **context},
    )
