"""Why this answer: the stored trace of a turn in plain words, for staff.

Pure. The trace is data that outlives the code which wrote it, so a step or an outcome that has no words here is shown
as it is stored, and a line that is not of the known form is skipped. Scores are cosines, shown as stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from faqs.learning import NOT_LEARNED

Words = str | Promise


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One line of the trace: what was done, what came out, and the figures that decided."""

    title: str
    outcome: str
    score: float | None
    threshold: float | None
    milliseconds: float | None
    detail: str


#: Every step of the path by its name in the trace, in the words of the admin.
STEPS: dict[str, Words] = {
    "receive": gettext_lazy("Question reçue"),
    "standalone": gettext_lazy("Question autonome ou suite"),
    "embedding": gettext_lazy("Mise en vecteur"),
    "memory_guard": gettext_lazy("Réponses en mémoire"),
    "search": gettext_lazy("Recherche dans les documents"),
    "direct_answer": gettext_lazy("Réponse directe"),
    "guard_rail": gettext_lazy("Garde-fou"),
    "extractive": gettext_lazy("Passages cités"),
    "prompt": gettext_lazy("Consigne au modèle"),
    "generation": gettext_lazy("Rédaction par le modèle"),
    "title": gettext_lazy("Titre de la conversation"),
    "error": gettext_lazy("Erreur"),
    "learn": gettext_lazy("Apprentissage"),
    "save": gettext_lazy("Enregistrement"),
}

#: What came out of a step. Steps that are absent name something (a model) as their outcome.
OUTCOMES: dict[str, dict[str, Words]] = {
    "receive": {"loaded": gettext_lazy("Réglages et échanges précédents chargés.")},
    "standalone": {
        "alone": gettext_lazy("La question se comprend seule."),
        "follow_up": gettext_lazy(
            "La question s’appuie sur l’échange précédent : elle est cherchée avec lui, et aucune réponse "
            "enregistrée ne peut répondre seule."
        ),
    },
    "memory_guard": {
        "respond_from_memory": gettext_lazy(
            "Une réponse validée à la même question est en mémoire : elle est redonnée, sans modèle de langage."
        ),
        "refused": gettext_lazy(
            "Des questions en mémoire sont assez proches, mais aucune de leurs réponses ne peut être donnée."
        ),
        "no_candidate": gettext_lazy("Aucune question en mémoire n’atteint le seuil."),
        "empty": gettext_lazy("Rien n’est encore en mémoire pour ce déploiement."),
        "follow_up": gettext_lazy("Écartée : la question est une suite."),
        "off": gettext_lazy(
            "Désactivée par un réglage, ou le modèle d’embedding n’a pas de seuil mesuré."
        ),
    },
    "search": {
        "found": gettext_lazy("Des passages ont été trouvés."),
        "nothing": gettext_lazy("Rien n’a été trouvé."),
    },
    "direct_answer": {
        "served": gettext_lazy(
            "Une question enregistrée est assez proche et demande la même chose : sa réponse est donnée telle quelle."
        ),
        "second_key_refused": gettext_lazy(
            "Des questions enregistrées sont assez proches, mais elles ne demandent pas la même chose."
        ),
        "no_candidate": gettext_lazy("Aucune question enregistrée n’atteint le seuil."),
        "follow_up": gettext_lazy("Écartée : la question est une suite."),
        "off": gettext_lazy(
            "Désactivée par un réglage, ou le modèle d’embedding n’a pas de seuil mesuré."
        ),
    },
    "guard_rail": {
        "passed": gettext_lazy("La question est dans le domaine."),
        "refused": gettext_lazy(
            "Le meilleur passage est sous le seuil : la question est refusée comme hors domaine."
        ),
    },
    "extractive": {
        "quoted": gettext_lazy(
            "Aucun modèle de langage n’est configuré : les meilleurs passages sont cités."
        )
    },
    "prompt": {
        "built": gettext_lazy("Consigne, échanges précédents, passages et question réunis.")
    },
    "title": {
        "written": gettext_lazy("Écrit par le modèle."),
        "kept": gettext_lazy("Le modèle n’en a pas donné : le début de la question est gardé."),
    },
    "learn": {
        "kept": gettext_lazy("La question et sa réponse sont proposées à la mémoire."),
        "not_kept": gettext_lazy("La réponse n’est pas retenue."),
    },
    "save": {
        "done": gettext_lazy("La réponse est enregistrée."),
        "interrupted": gettext_lazy("Arrêtée avant la fin : ce qui était écrit est gardé."),
        "failed": gettext_lazy("La réponse a échoué."),
    },
}

#: Why a question is taken for a follow-up (`chat.standalone`).
RULES: dict[str, Words] = {
    "connective": gettext_lazy("elle commence par un mot de liaison"),
    "ellipsis": gettext_lazy("il lui manque un verbe ou un sujet"),
    "demonstrative": gettext_lazy("elle renvoie à ce qui précède (« cela », « celui-ci »…)"),
    "pronoun": gettext_lazy("un pronom y remplace un nom donné avant"),
}


def explain_trace(trace: object) -> list[ExplainedStep]:
    """The steps of a stored trace, in their order."""
    lines: Iterable[Any] = trace if isinstance(trace, list) else ()
    return [_explain(line) for line in lines if isinstance(line, dict) and line.get("step")]


def _explain(line: dict[str, Any]) -> ExplainedStep:
    step, outcome = str(line["step"]), str(line.get("outcome") or "")
    return ExplainedStep(
        title=str(STEPS.get(step, step)),
        outcome=_outcome_text(step, outcome),
        score=_number(line.get("score")),
        threshold=_number(line.get("threshold")),
        milliseconds=_number(line.get("ms")),
        detail=_detail_text(step, str(line.get("detail") or "")),
    )


def _outcome_text(step: str, outcome: str) -> str:
    if step in ("embedding", "generation"):
        return _("Modèle : %(model)s") % {"model": outcome} if outcome else ""
    return str(OUTCOMES.get(step, {}).get(outcome, outcome))


def _detail_text(step: str, detail: str) -> str:
    if step == "standalone" and detail:
        return _("Raison : %(rule)s.") % {"rule": RULES.get(detail, detail)}
    if step == "learn" and detail:
        return _("Raison : %(rule)s.") % {"rule": NOT_LEARNED.get(detail, detail)}
    if step == "receive" and detail:
        return _("Échanges précédents : %(count)s") % {"count": detail}
    return detail


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
