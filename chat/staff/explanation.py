"""Why this answer: the stored trace of a turn in plain words, for staff.

Pure. The trace is data that outlives the code which wrote it, so a step or an outcome that has no words here is shown
as it is stored, and a line that is not of the known form is skipped. Scores are shown as stored: cosines,
and for the guard rail the relevance, a cosine to which the question's words that were found add their part.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from faqs.learning import NOT_LEARNED
from faqs.recall import refusal_text

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
    "rewriting": gettext_lazy("Reformulation de la suite"),
    "embedding": gettext_lazy("Mise en vecteur"),
    "memory_guard": gettext_lazy("Réponses en mémoire"),
    "dispatch": gettext_lazy("Choix de l’agent"),
    "search": gettext_lazy("Recherche dans les documents"),
    "learned": gettext_lazy("Réponses validées"),
    "direct_answer": gettext_lazy("Réponse directe"),
    "clarification": gettext_lazy("Demande de précision"),
    "tools": gettext_lazy("Choix des outils"),
    "guard_rail": gettext_lazy("Garde-fou"),
    "extractive": gettext_lazy("Passages cités"),
    "prompt": gettext_lazy("Consigne au modèle"),
    "tool_loop": gettext_lazy("Boucle d’outils"),
    "generation": gettext_lazy("Rédaction par le modèle"),
    # No turn writes this step any more; traces that are kept have it.
    "title": gettext_lazy("Titre de la conversation"),
    "error": gettext_lazy("Erreur"),
    "learn": gettext_lazy("Apprentissage"),
    "save": gettext_lazy("Enregistrement"),
    "summary": gettext_lazy("Résumé des échanges"),
}

#: What came out of a step. Steps that are absent name something (a model) as their outcome.
OUTCOMES: dict[str, dict[str, Words]] = {
    "receive": {
        "loaded": gettext_lazy("Réglages et échanges précédents chargés."),
        "resumed": gettext_lazy("Reprise après l’accord ou le refus de la personne."),
    },
    "standalone": {
        "alone": gettext_lazy("La question se comprend seule."),
        "follow_up": gettext_lazy(
            "La question s’appuie sur l’échange précédent : elle est cherchée avec lui, et aucune réponse "
            "enregistrée ne peut répondre seule."
        ),
    },
    "rewriting": {
        "rewritten": gettext_lazy(
            "Le modèle a reformulé la question pour qu’elle se comprenne seule : c’est elle qui est cherchée."
        ),
        "rejected": gettext_lazy(
            "La reformulation du modèle n’est pas fidèle : la question est cherchée avec la précédente."
        ),
        "failed": gettext_lazy(
            "Le modèle n’a pas répondu à temps : la question est cherchée avec la précédente."
        ),
        "no_model": gettext_lazy(
            "Aucun modèle de langage n’est configuré : la question est cherchée avec la précédente."
        ),
        "off": gettext_lazy(
            "Désactivée par un réglage : la question est cherchée avec la précédente."
        ),
    },
    "memory_guard": {
        "respond_from_memory": gettext_lazy(
            "Une réponse validée à la même question est en mémoire : elle est redonnée, sans modèle de langage."
        ),
        "shadow": gettext_lazy(
            "Mode d’observation : cette réponse en mémoire aurait été redonnée. La question suit son chemin."
        ),
        "refused": gettext_lazy(
            "Des questions en mémoire sont assez proches, mais aucune de leurs réponses ne peut être donnée."
        ),
        "no_candidate": gettext_lazy("Aucune question en mémoire n’atteint le seuil."),
        "empty": gettext_lazy("Rien en mémoire ne peut répondre dans ce déploiement."),
        "follow_up": gettext_lazy("Écartée : la question est une suite."),
        "off": gettext_lazy(
            "Désactivée par un réglage, ou le modèle d’embedding n’a pas de seuil mesuré."
        ),
    },
    "dispatch": {
        "index": gettext_lazy("Les documents d’un agent répondent nettement mieux à la question."),
        "description": gettext_lazy(
            "Les documents ne départagent pas les agents ; la description de l’un est nettement plus proche."
        ),
        "default": gettext_lazy("Rien ne départage les agents : l’agent par défaut répond."),
    },
    "search": {
        "found": gettext_lazy("Des passages ont été trouvés."),
        "nothing": gettext_lazy("Rien n’a été trouvé."),
    },
    "learned": {
        "found": gettext_lazy(
            "Des réponses validées sont parmi les passages ; elles passent devant à score égal."
        ),
        "nothing": gettext_lazy("Aucune réponse validée n’est proche."),
        "courtesy": gettext_lazy("La question est une formule de politesse qui a sa réponse."),
    },
    "direct_answer": {
        "served": gettext_lazy(
            "Une question enregistrée est assez proche et demande la même chose : sa réponse est donnée telle quelle."
        ),
        "verified": gettext_lazy(
            "Une question enregistrée est assez proche, et le modèle confirme qu’elle demande la même chose : sa réponse "
            "est donnée telle quelle."
        ),
        "shadow": gettext_lazy(
            "Mode d’observation : cette réponse enregistrée aurait été donnée, et ne l’est pas."
        ),
        "second_key_refused": gettext_lazy(
            "Des questions enregistrées sont assez proches, mais elles ne demandent pas la même chose."
        ),
        "contradicted": gettext_lazy(
            "La même question est enregistrée avec des réponses différentes : aucune n’est donnée telle quelle."
        ),
        "no_candidate": gettext_lazy("Aucune question enregistrée n’atteint le seuil."),
        "follow_up": gettext_lazy("Écartée : la question est une suite."),
        "off": gettext_lazy(
            "Désactivée par un réglage, ou le modèle d’embedding n’a pas de seuil mesuré."
        ),
    },
    "clarification": {
        "asked": gettext_lazy(
            "Plusieurs questions enregistrées sont proches et proches entre elles : la personne choisit."
        ),
        "shadow": gettext_lazy("Mode d’observation : une précision aurait été demandée."),
        "asked_before": gettext_lazy(
            "La même question est posée après la demande de précision : elle suit son chemin."
        ),
        "not_ambiguous": gettext_lazy("Il n’y a pas deux questions enregistrées à proposer."),
    },
    "tools": {
        "chosen": gettext_lazy("Des outils sont proposés au modèle."),
        "none": gettext_lazy("Aucun outil permis ne convient."),
        "dry_run": gettext_lazy("Aucun outil n’est proposé dans un essai à blanc."),
    },
    "guard_rail": {
        "passed_by_tool": gettext_lazy(
            "Aucun passage n’atteint le seuil, mais un outil convient à la question."
        ),
        "passed": gettext_lazy("La question est dans le domaine."),
        "refused": gettext_lazy(
            "La pertinence du meilleur passage est sous le seuil : la question est refusée comme hors domaine."
        ),
    },
    "extractive": {
        "quoted": gettext_lazy(
            "Aucun modèle de langage n’est configuré : les meilleurs passages sont cités."
        )
    },
    "prompt": {
        "built": gettext_lazy("Consigne, échanges précédents, passages et question réunis."),
        "summarised": gettext_lazy(
            "Consigne, résumé des échanges précédents, passages et question réunis."
        ),
    },
    "tool_loop": {
        "answered": gettext_lazy("Le modèle a répondu sans demander d’autre outil."),
        "round_limit": gettext_lazy("La limite de relances est atteinte."),
        "saturated": gettext_lazy("Les outils n’apportaient plus rien de nouveau."),
        "awaiting_approval": gettext_lazy("Un outil attend l’accord de la personne."),
    },
    "title": {
        "written": gettext_lazy("Écrit par le modèle."),
        "kept": gettext_lazy("Le modèle n’en a pas donné : le début de la question est gardé."),
    },
    "summary": {
        "written": gettext_lazy(
            "Après la réponse, le modèle a résumé les échanges pour la question suivante."
        ),
        "failed": gettext_lazy(
            "Le modèle n’a pas donné de résumé à temps : la question suivante aura les échanges mêmes."
        ),
    },
    "learn": {
        "kept": gettext_lazy("La question et sa réponse sont proposées à la mémoire."),
        "not_kept": gettext_lazy("La réponse n’est pas retenue."),
    },
    "save": {
        "done": gettext_lazy("La réponse est enregistrée."),
        "interrupted": gettext_lazy("Arrêtée avant la fin : ce qui était écrit est gardé."),
        "failed": gettext_lazy("La réponse a échoué."),
        "awaiting_approval": gettext_lazy(
            "Un outil attend l’accord de la personne : la réponse continue après."
        ),
    },
}

#: Why a question is taken for a follow-up (`chat.turn.follow_ups`).
RULES: dict[str, Words] = {
    "connective": gettext_lazy("elle commence par un mot de liaison"),
    "ellipsis": gettext_lazy("il lui manque un verbe ou un sujet"),
    "demonstrative": gettext_lazy("elle renvoie à ce qui précède (« cela », « celui-ci »…)"),
    "pronoun": gettext_lazy("un pronom y remplace un nom donné avant"),
    "generic": gettext_lazy("elle conviendrait à n’importe quel sujet"),
}

#: Why a rewriting is not taken (`chat.turn.rewriting`).
REJECTIONS: dict[str, Words] = {
    "not_one_line": gettext_lazy("elle ne tient pas sur une ligne, ou elle est trop longue"),
    "not_one_question": gettext_lazy("elle n’est pas une seule question"),
    "still_follow_up": gettext_lazy("elle s’appuie encore sur l’échange précédent"),
    "new_number": gettext_lazy("elle ajoute un nombre"),
    "new_name": gettext_lazy("elle ajoute un nom"),
    "new_word": gettext_lazy("elle ajoute un mot que l’échange ne contient pas"),
    "negation": gettext_lazy("elle ajoute ou perd une négation"),
    "lost_word": gettext_lazy("elle perd un mot de la question"),
}


#: What an efficiency is worth (seed 002, section IX): the least of each grade, and its word.
GRADES: tuple[tuple[float, Words], ...] = (
    (90.0, gettext_lazy("Excellent")),
    (70.0, gettext_lazy("Bon")),
    (50.0, gettext_lazy("Moyen")),
    (0.0, gettext_lazy("Critique")),
)


def efficiency_grade(efficiency: float) -> str:
    """The grade of an efficiency, in a word."""
    return str(next(word for least, word in GRADES if efficiency >= least))


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
        detail="\n".join(_details(step, line)),
    )


def _details(step: str, line: dict[str, Any]) -> list[str]:
    detail = _detail_text(step, str(line.get("detail") or ""))
    return [*([detail] if detail else []), *refusal_lines(line)]


def refusal_lines(line: dict[str, Any]) -> list[str]:
    """Why the stored answers that came near were not given, a line each."""
    return [refusal_text(each) for each in line.get("refused") or ()]


def _outcome_text(step: str, outcome: str) -> str:
    if step in ("embedding", "generation"):
        return _("Modèle : %(model)s") % {"model": outcome} if outcome else ""
    return str(OUTCOMES.get(step, {}).get(outcome, outcome))


def _detail_text(step: str, detail: str) -> str:
    if step == "standalone" and detail:
        return _("Raison : %(rule)s.") % {"rule": RULES.get(detail, detail)}
    if step == "rewriting" and detail:
        return str(REJECTIONS.get(detail, f"« {detail} »"))
    if step == "dispatch" and detail:
        name, _space, lead = detail.rpartition(" ")
        return _("Agent : %(name)s ; avance : %(lead)s") % {"name": name, "lead": lead}
    if step == "learn" and detail:
        return _("Raison : %(rule)s.") % {"rule": NOT_LEARNED.get(detail, detail)}
    if step == "tool_loop" and detail.count("/") == 2:
        rounds, results, figure = detail.split("/")
        return _("Relances : %(rounds)s, résultats : %(results)s, efficacité : %(figure)s") % {
            "rounds": rounds.strip(),
            "results": results.strip(),
            "figure": figure.strip(),
        }
    if step == "receive" and detail:
        return _("Échanges précédents : %(count)s") % {"count": detail}
    if step == "search" and detail:
        return _("Catégorie probable : %(name)s.") % {"name": detail}
    if step == "guard_rail" and len(parts := detail.split()) == 2:
        return _(
            "Pertinence faite d’une similarité de %(similarity)s et de la part %(words)s des mots de la question, "
            "les mots rares comptant plus."
        ) % {"similarity": parts[0], "words": parts[1]}
    if step == "learned":
        if detail in ("", "0"):
            return ""
        return _("Réponses validées trouvées : %(count)s") % {"count": detail}
    return detail


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
