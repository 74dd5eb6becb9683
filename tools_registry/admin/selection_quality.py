"""How well selection finds the tools that questions need: the labelled questions, and the page that measures on them.

The page runs the production code and writes nothing.
"""

import numpy as np
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from agents.admin_base import StaffAdmin, admin_page, change_link, require
from agents.errors import ApplicationError
from knowledge.embeddings.base import embedder
from tools_registry.catalog import all_tools
from tools_registry.evaluation.measures import CUTS, LabelledQuery, SelectionReport, evaluate_ranking
from tools_registry.index import indexed_vectors
from tools_registry.models import LabelledQuestion, ToolOverride
from tools_registry.ranking import Ranking

#: Pairs of tools shown as described alike, and the questions that one page of recall ranks.
_PAIRS = 10

_MOST_QUESTIONS = 1_000


@admin.register(LabelledQuestion)
class LabelledQuestionAdmin(StaffAdmin):
    purpose = _("Des questions avec les outils qu’il leur faut : elles mesurent le choix des outils.")
    list_display = ("text", "tools")
    list_filter = ("expected",)
    list_select_related = False
    search_fields = ("text",)
    ordering = ("text",)
    autocomplete_fields = ("expected",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[LabelledQuestion]:
        questions: QuerySet[LabelledQuestion] = super().get_queryset(request)
        return questions.prefetch_related("expected")

    @admin.display(description=_("outils attendus"))
    def tools(self, question: LabelledQuestion) -> SafeString:
        links = [(change_link(tool),) for tool in question.expected.all()]
        return format_html_join(", ", "{}", links)


@require_safe
def recall(request: HttpRequest) -> HttpResponse:
    """Recall at K on the labelled questions, and the pairs of tools that are confused or described alike."""
    require(request, "tools_registry.view_labelledquestion")
    rows = LabelledQuestion.objects.prefetch_related("expected")[:_MOST_QUESTIONS]
    queries = [LabelledQuery(row.text, tuple(tool.tool_name for tool in row.expected.all())) for row in rows]
    queries = [query for query in queries if query.tools]
    report = SelectionReport()
    pairs: list[tuple[str, str, float]] = []
    try:
        ranking = _indexed_ranking()
        report = evaluate_ranking(ranking, queries, embedder())
        pairs = alike_pairs(ranking)
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
    return admin_page(
        request,
        "admin/tools_registry/recall.html",
        model=ToolOverride,
        title=gettext("Qualité du choix des outils"),
        report=report,
        cuts=[(cut, report.recall.get(cut), report.complete.get(cut)) for cut in CUTS],
        pairs=pairs,
    )


def nearest_tool(name: str) -> tuple[str, float] | None:
    """The tool described most like this one, with the cosine; None where the index has not both."""
    ranking = _indexed_ranking()
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


def _indexed_ranking() -> Ranking:
    """Every indexed tool."""
    tools, recipe = all_tools(), embedder().recipe
    vectors, _outdated = indexed_vectors(tools, recipe)
    indexed = [spec for spec in tools if spec.name in vectors]
    matrix = np.zeros((len(indexed), recipe.dimensions), dtype=np.float32)
    for position, spec in enumerate(indexed):
        matrix[position] = vectors[spec.name]
    return Ranking(indexed, matrix)
