"""Why this answer: the stored trace of a turn in plain words, for staff.

The trace outlives the code that wrote it: a step without words here is shown as stored, an unknown line is skipped.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from faqs.learning import NOT_LEARNED
from faqs.models import StatusReason
from faqs.recall import refusal_text

Words = str | Promise

#: A similarity and a share of words.
_FIGURES = re.compile(r"-?\d\.\d+ \d\.\d+")


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
    "receive": _("Question reçue"),
    "courtesy": _("Formule de politesse"),
    "reading": _("Lecture de la question"),
    "standalone": _("Question autonome ou suite"),
    "rewriting": _("Reformulation de la suite"),
    "embedding": _("Mise en vecteur"),
    "memory_guard": _("Réponses en mémoire"),
    "dispatch": _("Choix de l’agent"),
    "search": _("Recherche dans les documents"),
    "learned": _("Réponses validées"),
    "direct_answer": _("Réponse directe"),
    "clarification": _("Demande de précision"),
    "tools": _("Choix des outils"),
    "guard_rail": _("Garde-fou"),
    "extractive": _("Passages cités"),
    "prompt": _("Consigne au modèle"),
    "tool_loop": _("Boucle d’outils"),
    "check": _("Vérification de la réponse"),
    "generation": _("Rédaction par le modèle"),
    "reasoning": _("Raisonnement du modèle"),
    "error": _("Erreur"),
    "learn": _("Apprentissage"),
    "save": _("Enregistrement"),
    "summary": _("Résumé des échanges"),
}

#: What came out of a step. Steps that are absent name something (a model) as their outcome.
OUTCOMES: dict[str, dict[str, Words]] = {
    "receive": {
        "loaded": _("Réglages et échanges précédents chargés."),
        "resumed": _("Reprise après l’accord ou le refus de la personne."),
    },
    "courtesy": {
        "staff": _("La réponse que l’équipe a écrite pour ces mots."),
        **dict.fromkeys(("greeting", "thanks", "farewell", "well_being"), _("Une politesse : réponse toute prête.")),
        "presentation": _("La personne demande à qui elle parle : réponse toute prête."),
        "unclear": _("Aucun mot, ou une lettre : une précision est demandée."),
    },
    "reading": {
        "as_typed": _("La question est lue telle qu’elle a été tapée."),
        "read": _("Lue sans ce qui l’entoure ni ses fautes de frappe : c’est cette lecture qui est cherchée."),
    },
    "standalone": {
        "alone": _("La question se comprend seule."),
        "none_of_these": _("Aucune des questions proposées : la question d’avant suit son chemin."),
        "follow_up": _("Elle s’appuie sur l’échange précédent : cherchée avec lui, sans réponse enregistrée seule."),
    },
    "rewriting": {
        "rewritten": _("Reformulée par le modèle pour se comprendre seule : c’est elle qui est cherchée."),
        "rejected": _("La reformulation du modèle n’est pas fidèle : la question est cherchée avec la précédente."),
        "failed": _("Le modèle n’a pas répondu à temps : la question est cherchée avec la précédente."),
        "no_model": _("Aucun modèle de langage n’est configuré : la question est cherchée avec la précédente."),
        "off": _("Désactivée par un réglage : la question est cherchée avec la précédente."),
    },
    "memory_guard": {
        "respond_from_memory": _(
            "Une réponse validée à la même question est en mémoire : redonnée, sans modèle de langage."
        ),
        "yielded": _("Elle ne répond que par un synonyme ; une question enregistrée dit les mots mêmes de celle-ci."),
        "refused": _("Des questions en mémoire sont assez proches, mais aucune de leurs réponses ne peut être donnée."),
        "no_candidate": _("Aucune question en mémoire n’atteint le seuil."),
        "empty": _("Rien en mémoire ne peut répondre dans ce guichet."),
        "follow_up": _("Écartée : la question est une suite."),
        "off": _("Désactivée par un réglage, ou le modèle d’embedding n’a pas de seuil mesuré."),
    },
    "dispatch": {
        "index": _("Les documents d’un agent répondent nettement mieux à la question."),
        "description": _("La description d’un agent est nettement plus proche ; les documents ne départagent pas."),
        "default": _("Rien ne départage les agents : l’agent par défaut répond."),
    },
    "search": {
        "found": _("Des passages ont été trouvés."),
        "boost": _("Des passages ont été trouvés ; ceux de la catégorie probable sont favorisés."),
        "filter": _("Des passages ont été trouvés ; seuls ceux de la catégorie probable sont gardés."),
        "nothing": _("Rien n’a été trouvé."),
    },
    "learned": {
        "found": _("Des réponses validées sont parmi les passages ; elles passent devant à score égal."),
        "nothing": _("Aucune réponse validée n’est proche."),
        "courtesy": _("La question est une formule de politesse qui a sa réponse."),
    },
    "direct_answer": {
        "served": _("Une question enregistrée est assez proche et demande la même chose : sa réponse est donnée."),
        "verified": _("Une question enregistrée est assez proche, et le modèle la confirme : sa réponse est donnée."),
        "second_key_refused": _("Des questions enregistrées sont assez proches, mais demandent autre chose."),
        "contradicted": _("La même question est enregistrée avec des réponses différentes : aucune n’est donnée."),
        "no_candidate": _("Aucune question enregistrée n’atteint le seuil."),
        "follow_up": _("Écartée : la question est une suite."),
        "off": _("Désactivée par un réglage, ou le modèle d’embedding n’a pas de seuil mesuré."),
    },
    "clarification": {
        "asked": _("Plusieurs questions enregistrées sont proches : elles sont proposées, à côté des passages."),
        "asked_before": _("La même question est posée après la demande de précision : elle suit son chemin."),
        "not_ambiguous": _("Il n’y a pas deux questions enregistrées à proposer."),
    },
    "tools": {
        "chosen": _("Des outils sont proposés au modèle."),
        "limited": _("Plus d’outils sont permis que le modèle n’en accepte : les plus proches lui sont proposés."),
        "refused": _("Le modèle a refusé des outils : la question lui est reposée sans eux."),
        "from_text": _("Le modèle a écrit un appel d’outil dans son texte : il est fait."),
        "not_in_text": _(
            "Le modèle a écrit dans son texte un appel impossible : la question lui est reposée sans outils."
        ),
        "none": _("Aucun outil permis ne convient."),
        "dry_run": _("Aucun outil n’est proposé dans un essai à blanc."),
    },
    "guard_rail": {
        "passed_by_tool": _("Aucun passage n’atteint le seuil, mais un outil convient à la question."),
        "passed": _("Un passage est assez proche de la question."),
        "refused": _("Aucun passage n’est assez proche de la question : rien n’est trouvé."),
    },
    "extractive": {
        "quoted": _("Aucun modèle de langage n’est configuré : les meilleurs passages sont cités."),
        "instead": _("Les meilleurs passages sont cités à la place de la réponse du modèle."),
    },
    "prompt": {
        "built": _("Consigne, échanges précédents, passages et question réunis."),
        "summarised": _("Consigne, résumé des échanges précédents, passages et question réunis."),
        "shortened": _("Raccourcis pour tenir dans ce que lit le modèle."),
    },
    "tool_loop": {
        "answered": _("Le modèle a répondu sans demander d’autre outil."),
        "round_limit": _("La limite de relances est atteinte."),
        "saturated": _("Les outils n’apportaient plus rien de nouveau."),
        "awaiting_approval": _("Un outil attend l’accord de la personne."),
    },
    "check": {
        "sound": _("Rien à redire."),
        "unsupported": _("Un nombre n’est pas dans le passage cité : la réponse le signale, et n’est pas retenue."),
        "other_subject": _("Les passages cités ne nomment pas ce qui est demandé : la réponse n’est pas retenue."),
        "by_tool": _("La réponse vient d’un outil et ne cite aucun passage : aucun n’est montré."),
        "failed": _("Le modèle n’a pas répondu."),
        "empty": _("Le modèle n’a rien écrit."),
        "only_number": _("Le modèle n’a écrit qu’un nombre, ou qu’une citation."),
        "only_header": _("Le modèle n’a écrit que l’en-tête d’un passage."),
        "echo": _("Le modèle a répété la question."),
        "unvouched": _(
            "Les passages cités ne disent pas ce que le modèle a écrit, ou aucun ne nomme ce qui est demandé."
        ),
        "repeated": _("Le modèle a répété sa réponse précédente."),
        "language": _("Le modèle a répondu dans une autre langue."),
        "loop": _("Le modèle tourne en rond."),
        "call_as_text": _("Le modèle a écrit un appel d’outil au lieu d’une réponse."),
        "cut": _("La réponse s’arrête avant la fin de sa première phrase."),
    },
    "summary": {
        "written": _("Après la réponse, le modèle a résumé les échanges pour la question suivante."),
        "failed": _("Le modèle n’a pas donné de résumé à temps : la question suivante aura les échanges mêmes."),
    },
    "learn": {
        "planned": _("La réponse est proposée à la mémoire, qui décide une fois le tour enregistré."),
        "stored": _("La réponse est gardée en mémoire."),
        "to_review": _("La réponse est gardée en mémoire, à relire avant d’être donnée."),
        "known": _("La mémoire répond déjà à cette question."),
        "not_kept": _("La réponse n’est pas retenue."),
    },
    "save": {
        "done": _("La réponse est enregistrée."),
        "interrupted": _("Arrêtée avant la fin : ce qui était écrit est gardé."),
        "failed": _("La réponse a échoué."),
        "awaiting_approval": _("Un outil attend l’accord de la personne : la réponse continue après."),
    },
}

#: Why a question is taken for a follow-up (`chat.turn.standalone`).
RULES: dict[str, Words] = {
    "connective": _("elle commence par un mot de liaison"),
    "ellipsis": _("il lui manque un verbe ou un sujet"),
    "demonstrative": _("elle renvoie à ce qui précède (« cela », « celui-ci »…)"),
    "pronoun": _("un pronom y remplace un nom donné avant"),
    "generic": _("elle conviendrait à n’importe quel sujet"),
    "assent": _("elle accepte ou refuse ce qui vient d’être dit"),
    "choice": _("elle choisit parmi ce qui vient d’être dit"),
    "reply": _("elle répond à ce qui vient d’être demandé"),
    "existence": _("elle demande si une chose existe sans dire de quoi elle fait partie"),
    "definite": _("elle ne nomme qu’une partie de ce dont on parlait"),
    "comparison": _("elle compare à ce qui a été dit avant"),
}

#: Why a rewriting is not taken (`chat.turn.standalone`).
REJECTIONS: dict[str, Words] = {
    "not_one_line": _("elle ne tient pas sur une ligne, ou elle est trop longue"),
    "not_one_question": _("elle n’est pas une seule question"),
    "still_follow_up": _("elle s’appuie encore sur l’échange précédent"),
    "new_number": _("elle ajoute un nombre"),
    "new_name": _("elle ajoute un nom"),
    "new_word": _("elle ajoute un mot que l’échange ne contient pas"),
    "negation": _("elle ajoute ou perd une négation"),
    "lost_word": _("elle perd un mot de la question"),
}

#: What an efficiency is worth (seed 002, section IX): the least of each grade, and its word.
GRADES: tuple[tuple[float, Words], ...] = (
    (90.0, _("Excellent")),
    (70.0, _("Bon")),
    (50.0, _("Moyen")),
    (0.0, _("Critique")),
)


def efficiency_grade(efficiency: float) -> str:
    return str(next(word for least, word in GRADES if efficiency >= least))


def explain_trace(trace: object) -> list[ExplainedStep]:
    """The steps of a stored trace, in their order."""
    lines: Iterable[Any] = trace if isinstance(trace, list) else ()
    return [_explain(line) for line in lines if isinstance(line, dict) and line.get("step")]


def _explain(line: dict[str, Any]) -> ExplainedStep:
    step, outcome, detail = (str(line.get(key) or "") for key in ("step", "outcome", "detail"))
    # Why the stored answers that came near were not given, a line each.
    refusals = (refusal_text(each) for each in line.get("refused") or ())
    return ExplainedStep(
        title=str(STEPS.get(step, step)),
        outcome=_outcome_text(step, outcome),
        score=_number(line.get("score")),
        threshold=_number(line.get("threshold")),
        milliseconds=_number(line.get("ms")),
        detail="\n".join(filter(None, [_detail_text(step, detail), *refusals])),
    )


def _outcome_text(step: str, outcome: str) -> str:
    if step in ("embedding", "generation", "reasoning"):
        return gettext("Modèle : %(model)s") % {"model": outcome} if outcome else ""
    return str(OUTCOMES.get(step, {}).get(outcome, outcome))


def _detail_text(step: str, detail: str) -> str:
    match step:
        case _ if not detail:
            return ""
        case "reading":
            text, *others = detail.split("\n")
            lines = [gettext("Lue comme : « %(text)s »") % {"text": text}]
            lines += [gettext("Cherchée aussi comme : « %(text)s »") % {"text": o} for o in others]
            return "\n".join(lines)
        case "standalone":
            return gettext("Raison : %(rule)s.") % {"rule": RULES.get(detail, detail)}
        case "rewriting":
            return str(REJECTIONS.get(detail, f"« {detail} »"))
        case "dispatch":
            name, _space, lead = detail.rpartition(" ")
            return gettext("Agent : %(name)s ; avance : %(lead)s") % {"name": name, "lead": lead}
        case "learn":
            known = {**NOT_LEARNED, **dict(StatusReason.choices)}
            return gettext("Raison : %(rule)s.") % {"rule": known.get(detail, detail)}
        case "tool_loop" if detail.count("/") == 2:
            rounds, results, figure = map(str.strip, detail.split("/"))
            text = gettext("Relances : %(rounds)s, résultats : %(results)s, efficacité : %(figure)s")
            return text % {"rounds": rounds, "results": results, "figure": figure}
        case "receive":
            return gettext("Échanges précédents : %(count)s") % {"count": detail}
        case "search":
            return gettext("Catégorie probable : %(name)s.") % {"name": detail}
        case "guard_rail" if _FIGURES.fullmatch(detail):
            similarity, words = (number_format(each, 2) for each in detail.split())
            return gettext(
                "Proximité faite d’une similarité de %(similarity)s et de la part %(words)s des mots de la question."
            ) % {"similarity": similarity, "words": words}
        case "guard_rail" if detail:
            hits = re.sub(r"\d\.\d+", lambda found: number_format(found[0], 2), " ; ".join(detail.splitlines()))
            return gettext("Le plus proche : %(hits)s") % {"hits": hits}
        case "learned" if detail == "0":
            return ""
        case "learned":
            return gettext("Réponses validées trouvées : %(count)s") % {"count": detail}
    return detail


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
