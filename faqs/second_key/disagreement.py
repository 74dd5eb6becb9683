"""One reason to refuse, and how it is told to whoever reads a trace."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

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
        return " + ".join(_word(_KINDS, word) for word in words.split())
    return _word(_MODALITIES, words) if kind == "modality" else words


def label(kind: str) -> str:
    return _word(_LABELS, kind)


def _word(table: Mapping[str, str], code: str) -> str:
    return _(table[code]) if code in table else code


_MODALITIES = {
    "permission": gettext_noop("autorisation"),
    "obligation": gettext_noop("obligation"),
    "advice": gettext_noop("conseil"),
}
_KINDS: Mapping[str, str] = {
    Kind.NONE: gettext_noop("sans mot interrogatif"),
    Kind.WHO: gettext_noop("qui"),
    Kind.WHEN: gettext_noop("quand"),
    Kind.WHERE: gettext_noop("où"),
    Kind.WHY: gettext_noop("pourquoi"),
    Kind.HOW: gettext_noop("comment"),
    Kind.WHAT: gettext_noop("quoi, quel"),
    Kind.HOW_MUCH: gettext_noop("combien (prix, quantité)"),
    Kind.HOW_MANY: gettext_noop("combien (nombre)"),
    Kind.HOW_LONG: gettext_noop("combien de temps"),
    Kind.HOW_OFTEN: gettext_noop("à quelle fréquence"),
    Kind.YES_NO: gettext_noop("oui ou non"),
    "deadline": gettext_noop("délai pour agir"),
    "duration": gettext_noop("durée"),
    "lasting": gettext_noop("durée"),
    "waiting": gettext_noop("délai d’attente"),
    "received": gettext_noop("somme reçue"),
    "cost": gettext_noop("prix"),
}
_LABELS = {
    "number": gettext_noop("nombre"),
    "date": gettext_noop("date"),
    "unit": gettext_noop("unité"),
    "negation": gettext_noop("négation"),
    "polarity": gettext_noop("sens contraire"),
    "name": gettext_noop("nom"),
    "question_kind": gettext_noop("type de question"),
    "modality": gettext_noop("droit ou obligation"),
    "scope": gettext_noop("portée"),
    "role": gettext_noop("rôle"),
    "tense": gettext_noop("temps"),
    "length": gettext_noop("longueur"),
    "content": gettext_noop("mot"),
}
