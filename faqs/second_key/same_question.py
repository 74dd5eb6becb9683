"""The second key: do a stored question and an asked one ask for the same thing?

A cosine does not tell « activer » from « désactiver » or 2023 from 2024; the vetoes do. What they cannot explain counts
as a disagreement: a refused answer costs a model call, a wrong one costs trust. `compare_questions` is pure and
symmetric; `would_serve` turns both keys, and is what `check_pairs` measures and `calibrate_thresholds` sets.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from faqs.second_key import comparison
from faqs.second_key.comparison import Comparison, Disagreement, explain_differences, in_words, is_negated_form
from faqs.second_key.lexicon import Kind, Lexicon, Modality, lexicon_of
from faqs.second_key.reading import MAX_CHARACTERS, Item, Reading, read_pair
from knowledge.acronyms import NO_FORMS, Forms
from knowledge.language.words import LANGUAGES, fold, same_writing, words

#: A reason to refuse that is found in two readings as a whole.
Veto = Callable[[Comparison], Disagreement | None]


def disagreements_of(c: Comparison) -> Iterator[Disagreement]:
    yield from _found(c, OF_THE_QUESTION)
    yield from _unpaired_words(c)
    if not c.is_complete:
        return
    first = next(_found(c, OF_ACTORS), None)
    is_merely_in_the_passive = comparison.is_the_same_act(c) and comparison.another_choice(c) is None
    if first is None and not is_merely_in_the_passive:
        first = next(_found(c, OF_PLACES), None)
    if first:
        yield first


def _found(c: Comparison, vetoes: Iterable[Veto]) -> Iterator[Disagreement]:
    return (each for veto in vetoes if (each := veto(c)) is not None)


def _unpaired_words(c: Comparison) -> Iterator[Disagreement]:
    left, right = list(c.rest_first), list(c.rest_second)
    for between in BETWEEN_WORDS:
        for one in list(left):
            for two in list(right):
                kind = between(one, two, c.lexicon)
                if kind and one in left and two in right:
                    left.remove(one)
                    right.remove(two)
                    yield Disagreement(kind, one.text, two.text)
    for place in range(max(len(left), len(right))):
        sides = left[place : place + 1], right[place : place + 1]
        kinds = (judge(item, c.lexicon) for judge in OF_A_WORD for side in sides for item in side)
        yield Disagreement(next(filter(None, kinds), "content"), *(side[0].text if side else "" for side in sides))


def _negated_permission(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    modalities = {first.modality, second.modality}
    if first.negations and second.negations and modalities == {None, Modality.PERMISSION}:
        return Disagreement("modality", str(first.modality or ""), str(second.modality or ""))
    return None


def _negation(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    words = " ".join(first.negations), " ".join(second.negations)
    if len(first.negations) != len(second.negations):
        return Disagreement("negation", *words)
    if len(first.negations) == 1 and first.negated != second.negated:
        return Disagreement("negation", f"{words[0]} {first.negated}", f"{words[1]} {second.negated}")
    return None


_COUNTS = {Kind.HOW_MUCH, Kind.HOW_MANY}
_ALIKE = ({Kind.NONE, Kind.HOW}, {Kind.NONE, Kind.WHAT}, _COUNTS)


def _question_kind(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    if first.further or second.further:
        clash = _asked_kinds(first) != _asked_kinds(second)
    else:
        clash = first.kind is not second.kind and not _are_kinds_alike(first, second)
    return Disagreement("question_kind", _all_kinds(first), _all_kinds(second)) if clash else None


def _are_kinds_alike(first: Reading, second: Reading) -> bool:
    """« Combien coûtent les places » is not « combien de places »."""
    kinds = {first.kind, second.kind}
    return kinds in _ALIKE and not (kinds == _COUNTS and (first.asks_price or second.asks_price))


def _asked_kinds(reading: Reading) -> frozenset[Kind]:
    kinds = {reading.kind, *reading.further}
    # « Peut-on porter plainte et comment »: how to do it says that one can.
    if kinds == {Kind.YES_NO, Kind.HOW} and reading.modality is Modality.PERMISSION:
        kinds = {Kind.HOW}
    return frozenset(Kind.HOW_MUCH if kind is Kind.HOW_MANY else kind for kind in kinds)


def _all_kinds(reading: Reading) -> str:
    return " ".join((reading.kind, *sorted(reading.further)))


#: « Comment dois-je payer » asks what « comment puis-je payer » asks; « qui doit payer » is not « qui peut payer ».
_MODAL_KINDS = frozenset((Kind.YES_NO, Kind.WHO, Kind.WHAT, Kind.HOW_MUCH, Kind.HOW_MANY))


def _modality(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    if first.further or second.further or first.kind not in _MODAL_KINDS:
        return None
    is_same_kind = first.kind is second.kind or {first.kind, second.kind} in _ALIKE
    modalities = {first.modality, second.modality}
    if is_same_kind and None not in modalities and len(modalities) == 2:
        return Disagreement("modality", str(first.modality), str(second.modality))
    return None


#: Times, and amounts, that no one answer gives both of: « le délai pour obtenir la carte », « la carte dure trois ans
#: ».
_APART = ({"deadline", "duration"}, {"deadline", "lasting"}, {"waiting", "lasting"}, {"received", "cost"})


def _span(c: Comparison) -> Disagreement | None:
    if {c.first.span, c.second.span} in _APART:
        return Disagreement("question_kind", c.first.span, c.second.span)
    return None


def _tense(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    tenses = {first.tense, second.tense}
    clash = tenses in ({"past", "present"}, {"past", "future"}) or (
        "imperfect" in tenses and "past" not in tenses and len(tenses) > 1
    )
    # « Quand sera versée ma pension » is « quand est versée »; « est-il traité » is not « sera-t-il traité ».
    soon = tenses == {"present", "future"} and first.kind is second.kind is Kind.YES_NO
    # « Combien ont été perdus » is not « combien puis-je perdre ».
    if tenses == {"past", ""}:
        clash = all((each.tense == "") is bool(each.modality) for each in (c.first, c.second))
    if clash or (soon and c.lexicon.has_inversion):
        return Disagreement("tense", first.tense, second.tense)
    return None


def _other_quantity(one: Item, two: Item, lexicon: Lexicon) -> str:
    if not one.quantity or not two.quantity:
        return ""
    if one.quantity.kind != two.quantity.kind:
        return "number"
    return "unit" if one.quantity.raw == two.quantity.raw else one.quantity.kind


def _opposite(one: Item, two: Item, lexicon: Lexicon) -> str:
    if one.quantity or two.quantity:
        return ""
    opposed = frozenset((one.concept, two.concept)) in lexicon.opposites
    return "polarity" if opposed or is_negated_form(one.text, two.text, lexicon) else ""


def _other_name(one: Item, two: Item, lexicon: Lexicon) -> str:
    if {one.concept, two.concept} <= lexicon.temporal:
        return "date"
    return "name" if one.is_name and two.is_name else ""


#: Words that found no partner, two of them against each other: « 12 mois » is not « 6 mois », « activer » not
#: « désactiver », « Lyon » not « Paris ».
BETWEEN_WORDS: tuple[Callable[[Item, Item, Lexicon], str], ...] = (_other_quantity, _opposite, _other_name)
#: The same, each that is still alone: a number, a time (« ouvert le dimanche »), an extent (« tous les salariés »), a name
#: (« la carte Navigo »). Any other word may be what the question is about.
OF_A_WORD: tuple[Callable[[Item, Lexicon], str], ...] = (
    lambda item, lexicon: item.quantity.kind if item.quantity else "",
    lambda item, lexicon: "date" if item.concept in lexicon.temporal else "",
    lambda item, lexicon: "scope" if item.concept in lexicon.scope else "",
    lambda item, lexicon: "name" if item.is_name else "",
)
#: Whatever the words are; each of these speaks.
OF_THE_QUESTION: tuple[Veto, ...] = (
    _negated_permission,  # « je ne peux pas payer », « je n'ai pas payé »
    _negation,  # « avec un contrat », « sans contrat »
    _question_kind,  # « quand payer », « comment payer »
    _modality,  # « qui doit payer », « qui peut payer »
    _span,  # « combien de temps ai-je », « combien de temps faut-il »
    _tense,  # « quand ouvre », « quand ouvrait »
)
#: All words have partners: the first of these that speaks is enough.
OF_ACTORS: tuple[Veto, ...] = (
    comparison.asker_undergoes,  # « quand je rembourse », « quand on me rembourse »
    comparison.someone_else_acts,  # « puis-je signer », « peut-elle signer »
    comparison.acts_on_another,  # « je vous dois », « vous me devez »
)
#: The same, unless one question is the other in the passive.
OF_PLACES: tuple[Veto, ...] = (
    comparison.undergoes_instead,  # « qui rembourse », « qui est remboursé »
    comparison.another_bound,  # « plus de 10 kg », « moins de 10 kg »
    comparison.another_choice,  # « carte et permis », « carte ou permis »
    comparison.another_relation,  # « vendre à un mineur », « vendre un mineur »
    comparison.owned_by_another,  # « mon compte », « votre compte »
    comparison.another_direction,  # « un train de Lyon », « un train pour Lyon »
    comparison.another_order,  # « le chien mord l'homme », « l'homme mord le chien »
)


@dataclass(frozen=True, slots=True)
class Agreement:
    disagreements: tuple[Disagreement, ...]

    @property
    def agrees(self) -> bool:
        return not self.disagreements

    @property
    def is_open_to_verification(self) -> bool:
        """Nothing but plain words that the rules cannot explain: no typed clash, no name."""
        return bool(self.disagreements) and all(each.kind == "content" for each in self.disagreements)

    def explain(self) -> str:
        return "" if self.agrees else explain_differences(self.disagreements)


AGREED = Agreement(())


def compare_questions(stored: str, asked: str) -> Agreement:
    """Differences of two questions, the most telling first; beyond `MAX_CHARACTERS` a text agrees with itself alone."""
    if max(len(stored), len(asked)) > MAX_CHARACTERS:
        lengths = Disagreement("length", str(len(stored)), str(len(asked)))
        return Agreement(() if stored == asked else (lengths,))
    first, second = read_pair(stored, asked)
    if not first.items and not second.items and stored.split() != asked.split():
        return Agreement((Disagreement("content", stored.strip(), asked.strip()),))
    return Agreement(tuple(disagreements_of(Comparison(first, second))))


def ask_the_same(stored: str, asked: str, forms: Forms = NO_FORMS) -> bool:
    """The second key turned: the same writing, or no difference found, once both stand in one writing of the forms."""
    one, other = forms.one_writing(stored), forms.one_writing(asked)
    return same_writing(one, other) or compare_questions(one, other).agrees


def are_opposites(first: str, second: str) -> bool:
    """Whether two words or phrases are known as opposites, in any language that has a lexicon."""
    pair = words(fold(first)), words(fold(second))
    lexicons = [lexicon_of(language) for language in LANGUAGES]
    return any(frozenset(lexicon.concept(tuple(form)) for form in pair) in lexicon.opposites for lexicon in lexicons)


class Outcome(StrEnum):
    """Names that stand in traces and in the output of `check_pairs`."""

    SERVED = "served"
    OFF = "off"
    FOLLOW_UP = "follow_up"
    BELOW_THRESHOLD = "below_threshold"
    SECOND_KEY_REFUSED = "second_key_refused"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a stored answer may be served to the asked question; the reasons are worded only where somebody reads them."""

    outcome: Outcome
    score: float
    #: What was refused before the second key was turned.
    refused: str = ""
    agreement: Agreement = AGREED

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not, « nombre : 2023 ≠ 2024 »; empty when served."""
        return (self.refused,) if self.refused else tuple(map(in_words, self.disagreements))

    @property
    def explanation(self) -> str:
        return self.agreement.explain()

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        return self.agreement.disagreements

    @property
    def served(self) -> bool:
        return self.outcome is Outcome.SERVED


def would_serve(
    *, stored: str, asked: str, score: float, threshold: float | None, is_follow_up: bool = False
) -> Decision:
    """Both keys, cheapest first. `threshold` None is switched off; equal to the threshold is enough."""
    if threshold is None:
        return Decision(Outcome.OFF, score, "off")
    if is_follow_up:
        return Decision(Outcome.FOLLOW_UP, score, "follow_up")
    if score < threshold:
        return Decision(Outcome.BELOW_THRESHOLD, score, f"{score:.3f} < {threshold:.3f}")
    agreement = compare_questions(stored, asked)
    if agreement.agrees:
        return Decision(Outcome.SERVED, score)
    return Decision(Outcome.SECOND_KEY_REFUSED, score, agreement=agreement)
