"""One reason to refuse, and how it is told to whoever reads a trace."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from faqs.second_key.lexicon import Kind


@dataclass(frozen=True, slots=True)
class Disagreement:
    """`kind` is a stable code, `stored` and `asked` are the words that clash."""

    kind: str
    stored: str
    asked: str

    def __str__(self) -> str:
        return f"{self.stored or '∅'} ≠ {self.asked or '∅'}"


def explain_differences(disagreements: Iterable[Disagreement]) -> str:
    """The differences in the language of whoever reads them."""
    reasons = ", ".join(map(in_words, disagreements))
    return _("Les deux questions diffèrent (%(reasons)s).") % {"reasons": reasons}


def in_words(each: Disagreement) -> str:
    sides = (_side(each.kind, words) or "∅" for words in (each.stored, each.asked))
    return _("%(kind)s : %(sides)s") % {"kind": label(each.kind), "sides": " ≠ ".join(sides)}


def _side(kind: str, words: str) -> str:
    """What clashes is a word of the question, or for two kinds of difference a code of the lexicon."""
    if kind == "question_kind":
        kinds = _kind_words()
        return " + ".join(kinds.get(word, word) for word in words.split())
    if kind == "modality":
        return {
            "permission": _("autorisation"),
            "obligation": _("obligation"),
            "advice": _("conseil"),
        }.get(words, words)
    return words


def _kind_words() -> dict[str, str]:
    return {
        Kind.NONE: _("sans mot interrogatif"),
        Kind.WHO: _("qui"),
        Kind.WHEN: _("quand"),
        Kind.WHERE: _("où"),
        Kind.WHY: _("pourquoi"),
        Kind.HOW: _("comment"),
        Kind.WHAT: _("quoi, quel"),
        Kind.HOW_MUCH: _("combien (prix, quantité)"),
        Kind.HOW_MANY: _("combien (nombre)"),
        Kind.HOW_LONG: _("combien de temps"),
        Kind.HOW_OFTEN: _("à quelle fréquence"),
        Kind.YES_NO: _("oui ou non"),
        "deadline": _("délai pour agir"),
        "duration": _("durée"),
        "lasting": _("durée"),
        "waiting": _("délai d’attente"),
        "received": _("somme reçue"),
        "cost": _("prix"),
    }


def label(kind: str) -> str:
    labels = {
        "number": _("nombre"),
        "date": _("date"),
        "unit": _("unité"),
        "negation": _("négation"),
        "polarity": _("sens contraire"),
        "name": _("nom"),
        "question_kind": _("type de question"),
        "modality": _("droit ou obligation"),
        "scope": _("portée"),
        "role": _("rôle"),
        "tense": _("temps"),
        "length": _("longueur"),
        "content": _("mot"),
    }
    return labels.get(kind, kind)
