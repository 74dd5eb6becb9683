"""How well a tool is described, as a score of 0 to 100 that explains itself (seed 003, "Audit Sémantique")."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from knowledge.language.words import fold, word_class
from tools_registry.ranking import spoken_name, words_of
from tools_registry.tool import ToolSpec

_SHORT, _BRIEF, _LONG = 40, 80, 1_200
_FEW_WORDS = 5
_ENOUGH_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    text: str
    points: int


@dataclass(frozen=True, slots=True)
class QualityReport:
    score: int
    findings: tuple[Finding, ...]


def assess_tool(spec: ToolSpec) -> QualityReport:
    """The score of a tool's effective texts."""
    findings = [*_of_description(spec), *_of_parameters(spec), *_of_examples(spec)]
    lost = sum(finding.points for finding in findings)
    return QualityReport(score=max(0, 100 - lost), findings=tuple(findings))


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
    properties = spec.parameters.get("properties")
    if not isinstance(properties, dict) or not properties:
        return []
    bare = [
        name
        for name, inner in properties.items()
        if not (isinstance(inner, dict) and str(inner.get("description", "")).strip())
    ]
    if not bare:
        return []
    return [
        Finding(
            _("Paramètres sans description : %(names)s.") % {"names": ", ".join(bare)},
            max(5, round(25 * len(bare) / len(properties))),
        )
    ]


def _of_examples(spec: ToolSpec) -> list[Finding]:
    if not spec.examples:
        return [Finding(_("Aucune formulation d’exemple : c’est ce qui améliore le plus le choix."), 15)]
    if len(spec.examples) < _ENOUGH_EXAMPLES:
        return [Finding(_("Peu de formulations d’exemple ; cinq suffisent."), 5)]
    return []
