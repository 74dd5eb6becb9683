"""How well selection finds the tools that questions need (recall at K, by the ranking of mode `local` alone), and how
well a tool is described.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from knowledge.embeddings.base import Embedder, Purpose
from knowledge.language.words import fold, word_class
from knowledge.management.terminal import json_rows
from tools_registry.index import spoken_name, texts_of, tool_vectors
from tools_registry.selection import Ranking, best_positions, words_of
from tools_registry.tool import Arguments, ToolContext, ToolSpec

CUTS = (1, 3, 5, 10)


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    text: str
    tools: tuple[str, ...]


@dataclass(slots=True)
class SelectionReport:
    """`recall`: the share of the tools needed that stand in the first K; `complete`: of questions with all of them."""

    queries: int = 0
    recall: dict[int, float] = field(default_factory=dict)
    complete: dict[int, float] = field(default_factory=dict)


def described_tool(row: Mapping[str, object]) -> ToolSpec:
    """A tool from its description alone: `name`, and perhaps `description`, `parameters`, `keywords`, `examples`."""
    parameters, description = row.get("parameters"), row.get("description")
    return ToolSpec(
        name=str(row["name"]),
        description=description if isinstance(description, str) else "",
        parameters=parameters if isinstance(parameters, dict) else {"type": "object"},
        invoke=_not_installed,
        keywords=_texts(row.get("keywords")),
        examples=_texts(row.get("examples")),
    )


def ranking_of(specs: Sequence[ToolSpec], model: Embedder) -> Ranking:
    """A ranking of tools that are in no index."""
    return Ranking(specs, tool_vectors([texts_of(spec) for spec in specs], model))


def evaluate_ranking(ranking: Ranking, queries: Sequence[LabelledQuery], model: Embedder) -> SelectionReport:
    """Rank the tools for each query, and count. A tool that is not in the ranking is never found."""
    if not queries:
        return SelectionReport()
    vectors = model.embed([query.text for query in queries], purpose=Purpose.QUERY)
    found: dict[int, list[float]] = {cut: [] for cut in CUTS}
    for query, vector in zip(queries, vectors, strict=True):
        best = best_positions(ranking.scores(vector, query.text), max(CUTS))
        names = [ranking.names[position] for position in best]
        for cut in CUTS:
            found[cut].append(sum(name in names[:cut] for name in query.tools) / len(query.tools))
    return SelectionReport(
        queries=len(queries),
        recall={cut: _mean(shares) for cut, shares in found.items()},
        complete={cut: _mean([share == 1 for share in found[cut]]) for cut in CUTS},
    )


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 4)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _not_installed(_arguments: Arguments, _context: ToolContext) -> object:
    raise NotImplementedError("This tool is only a description.")


def read_tools(path: Path) -> list[ToolSpec]:
    """The tools of a file, each with the examples of all its lines. Raises `ValueError` with the line that is wrong."""
    found: dict[str, dict[str, Any]] = {}
    for where, row in json_rows(path):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{where}: a tool without a name.")
        known = found.setdefault(name, row)
        if known is not row:
            known["examples"] = [*_texts(known.get("examples")), *_texts(row.get("examples"))]
    if not found:
        raise ValueError(f"{path} holds no tool.")
    return [described_tool(row) for row in found.values()]


def read_queries(path: Path) -> list[LabelledQuery]:
    """The questions of a file: `query`, and the name or names needed together (`tool`, `tools`)."""
    queries = []
    for where, row in json_rows(path):
        text = row.get("query", row.get("question"))
        names = tuple(dict.fromkeys([*_texts(row.get("tool")), *_texts(row.get("tools"))]))
        if not isinstance(text, str) or not text.strip() or not names:
            raise ValueError(f"{where}: 'query' and 'tool' are needed.")
        queries.append(LabelledQuery(text, names))
    if not queries:
        raise ValueError(f"{path} holds no query.")
    return queries


_SHORT, _BRIEF, _LONG = 40, 80, 1_200
_FEW_WORDS = 5
_ENOUGH_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    text: str
    points: int


def assess_tool(spec: ToolSpec) -> tuple[int, list[Finding]]:
    """How well a tool is described: 0 to 100, and what each lost point is for (seed 003, "Audit Sémantique")."""
    findings = [*_of_description(spec), *_of_parameters(spec), *_of_examples(spec)]
    return max(0, 100 - sum(finding.points for finding in findings)), findings


def _of_description(spec: ToolSpec) -> list[Finding]:
    text, found = spec.description.strip(), []
    words = set(words_of(text))
    if len(text) < _SHORT:
        found.append(Finding(_("La description tient en quelques mots."), 30))
    elif len(text) < _BRIEF:
        found.append(Finding(_("La description est courte."), 10))
    elif len(text) > _LONG:
        found.append(Finding(_("La description est longue : elle pèse sur chaque question."), 10))
    if words and words <= set(words_of(spoken_name(spec.name))):
        found.append(Finding(_("La description ne fait que répéter le nom."), 20))
    elif len(words) < _FEW_WORDS:
        found.append(Finding(_("La description a peu de mots qui disent de quoi il s’agit."), 15))
    if word_class("telling_when").isdisjoint(word[:5] for word in fold(text).split()):
        found.append(Finding(_("La description ne dit pas quand utiliser l’outil."), 10))
    return found


def _of_parameters(spec: ToolSpec) -> list[Finding]:
    bare = [
        name
        for name, inner in spec.properties.items()
        if not (isinstance(inner, dict) and str(inner.get("description", "")).strip())
    ]
    if not bare:
        return []
    return [
        Finding(
            _("Paramètres sans description : %(names)s.") % {"names": ", ".join(bare)},
            max(5, round(25 * len(bare) / len(spec.properties))),
        )
    ]


def _of_examples(spec: ToolSpec) -> list[Finding]:
    if not spec.examples:
        return [Finding(_("Aucune formulation d’exemple : c’est ce qui améliore le plus le choix."), 15)]
    if len(spec.examples) < _ENOUGH_EXAMPLES:
        return [Finding(_("Peu de formulations d’exemple ; cinq suffisent."), 5)]
    return []
