"""The second key: do a stored question and an asked one ask for the same thing?

A cosine finds questions about the same subject; it does not tell « activer » from « désactiver » or 2023 from 2024.
This module vetoes: it compares numbers, dates, units, negations, opposites, names, the kind of the question, its
scope, who does what to whom, and finally every word that carries content. What it cannot explain counts as a
disagreement, because a refused answer costs a model call and a wrong one costs trust.

Pure and symmetric, no model, no database. Callers show `explain()` in a trace; they never serve on agreement alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from django.utils.translation import gettext as _

from faqs.lexicon import Kind, Lexicon, Marker, Modality
from faqs.question_reading import MAX_CHARACTERS, Item, Reading, read_pair


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One reason to refuse; `kind` is a stable code, `stored` and `asked` are the words that clash."""

    kind: str
    stored: str
    asked: str

    def __str__(self) -> str:
        return f"{self.stored or '∅'} ≠ {self.asked or '∅'}"


@dataclass(frozen=True, slots=True)
class Agreement:
    disagreements: tuple[Disagreement, ...]

    @property
    def agrees(self) -> bool:
        return not self.disagreements

    @property
    def is_open_to_verification(self) -> bool:
        """Nothing but plain words that the rules cannot explain: no typed clash, no name."""
        return bool(self.disagreements) and all(
            each.kind == "content" for each in self.disagreements
        )

    def reasons(self) -> tuple[str, ...]:
        return tuple(map(_in_words, self.disagreements))

    def explain(self) -> str:
        if self.agrees:
            return _("Les deux questions demandent la même chose.")
        return explain_differences(self.disagreements)


def explain_differences(disagreements: Iterable[Disagreement]) -> str:
    """The differences in the language of whoever reads them."""
    reasons = ", ".join(map(_in_words, disagreements))
    return _("Les deux questions diffèrent (%(reasons)s).") % {"reasons": reasons}


def _in_words(each: Disagreement) -> str:
    sides = (_side(each.kind, words) or "∅" for words in (each.stored, each.asked))
    return _("%(kind)s : %(sides)s") % {"kind": _label(each.kind), "sides": " ≠ ".join(sides)}


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
    }


def _label(kind: str) -> str:
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


def compare_questions(stored: str, asked: str) -> Agreement:
    """Every difference found between the two questions, the most telling kinds first.

    A text longer than `MAX_CHARACTERS` agrees with none but itself.
    """
    if max(len(stored), len(asked)) > MAX_CHARACTERS:
        return _compare_lengths(stored, asked)
    first, second = read_pair(stored, asked)
    if not first.items and not second.items and stored.split() != asked.split():
        return Agreement((Disagreement("content", stored.strip(), asked.strip()),))
    found = [
        *_negation(first, second),
        *_kind(first, second),
        *_span(first, second),
        *_tense(first, second),
    ]
    match = _Matching(first, second)
    found += match.disagreements()
    if not match.is_incomplete:
        found += _roles(first, second, match)
    return Agreement(tuple(found))


def _compare_lengths(stored: str, asked: str) -> Agreement:
    if stored == asked:
        return Agreement(())
    return Agreement((Disagreement("length", str(len(stored)), str(len(asked))),))


def _negation(first: Reading, second: Reading) -> Iterator[Disagreement]:
    # « Je ne peux pas payer » is not « je n'ai pas payé ».
    if (
        first.negations
        and second.negations
        and {first.modality, second.modality} == {None, Modality.PERMISSION}
    ):
        yield Disagreement("modality", str(first.modality or ""), str(second.modality or ""))
    words = " ".join(first.negations), " ".join(second.negations)
    if len(first.negations) != len(second.negations):
        yield Disagreement("negation", *words)
    elif len(first.negations) == len(second.negations) == 1 and first.negated != second.negated:
        yield Disagreement(
            "negation", f"{words[0]} {first.negated}", f"{words[1]} {second.negated}"
        )


_ALIKE = frozenset(
    frozenset(pair)
    for pair in (
        (Kind.NONE, Kind.HOW),
        (Kind.NONE, Kind.WHAT),
        (Kind.HOW_MUCH, Kind.HOW_MANY),
    )
)


#: « Comment dois-je payer » asks what « comment puis-je payer » asks; « qui doit payer » is not « qui peut payer ».
_MODAL_KINDS = frozenset((Kind.YES_NO, Kind.WHO, Kind.WHAT, Kind.HOW_MUCH, Kind.HOW_MANY))


def _kind(first: Reading, second: Reading) -> Iterator[Disagreement]:
    if first.further or second.further:
        if _asked_kinds(first) != _asked_kinds(second):
            yield Disagreement("question_kind", _all_kinds(first), _all_kinds(second))
    elif first.kind is not second.kind and frozenset((first.kind, second.kind)) not in _ALIKE:
        yield Disagreement("question_kind", first.kind.value, second.kind.value)
    elif (
        first.kind in _MODAL_KINDS
        and first.modality is not second.modality
        and None not in (first.modality, second.modality)
    ):
        yield Disagreement("modality", str(first.modality), str(second.modality))


def _asked_kinds(reading: Reading) -> frozenset[Kind]:
    kinds = {reading.kind, *reading.further}
    # « Peut-on porter plainte et comment »: how to do it says that one can.
    if kinds == {Kind.YES_NO, Kind.HOW} and reading.modality is Modality.PERMISSION:
        kinds = {Kind.HOW}
    return frozenset(Kind.HOW_MUCH if kind is Kind.HOW_MANY else kind for kind in kinds)


def _all_kinds(reading: Reading) -> str:
    return " ".join((reading.kind, *sorted(reading.further)))


def _span(first: Reading, second: Reading) -> Iterator[Disagreement]:
    """« Combien de temps ai-je pour contester » is not « combien de temps faut-il pour contester »."""
    if {first.span, second.span} == {"deadline", "duration"}:
        yield Disagreement("question_kind", first.span, second.span)


def _tense(first: Reading, second: Reading) -> Iterator[Disagreement]:
    tenses = {first.tense, second.tense}
    clash = tenses in ({"past", "present"}, {"past", "future"}) or (
        "imperfect" in tenses and tenses.isdisjoint({"past"}) and len(tenses) > 1
    )
    # « Quand sera versée ma pension » is « quand est versée »; « est-il traité » is not « sera-t-il traité ».
    soon = tenses == {"present", "future"} and first.kind is second.kind is Kind.YES_NO
    if clash or (soon and first.lexicon.data.has_inversion):
        yield Disagreement("tense", first.tense, second.tense)


class _Matching:
    """Pairs the items of two questions; what is left over on either side is a disagreement."""

    def __init__(self, first: Reading, second: Reading) -> None:
        self.lexicon = first.lexicon
        self.left, self.right = first.items, second.items
        #: Position in `left` → position in `right`.
        self.pairs: dict[int, int] = {}
        self._pair(lambda a, b: a.concept == b.concept)
        self._pair(_same_quantity)
        self._pair(lambda a, b: _is_typing_error(a, b, self.lexicon))
        self._drop_repetitions()
        if first.kind is second.kind is not Kind.NONE:
            self._drop_weak()

    def _pair(self, same: Callable[[Item, Item], bool]) -> None:
        taken = set(self.pairs.values())
        for i, item in enumerate(self.left):
            if i in self.pairs:
                continue
            for j, other in enumerate(self.right):
                if j not in taken and same(item, other):
                    self.pairs[i] = j
                    taken.add(j)
                    break

    def _drop_repetitions(self) -> None:
        """A word said twice on one side says nothing more; a number said twice does."""
        seen = set(self.pairs), set(self.pairs.values())
        left = {self.left[i].concept for i in seen[0]}
        right = {self.right[j].concept for j in seen[1]}
        self.rest_left = [
            item
            for i, item in enumerate(self.left)
            if i not in seen[0] and (item.quantity or item.concept not in left)
        ]
        self.rest_right = [
            item
            for j, item in enumerate(self.right)
            if j not in seen[1] and (item.quantity or item.concept not in right)
        ]

    def _drop_weak(self) -> None:
        """Left-over words that say next to nothing, as long as something that does was found on both sides."""
        if any(self.left[i].concept not in self.lexicon.weak for i in self.pairs):
            weak = self.lexicon.weak
            self.rest_left = [item for item in self.rest_left if item.concept not in weak]
            self.rest_right = [item for item in self.rest_right if item.concept not in weak]

    @property
    def is_incomplete(self) -> bool:
        return bool(self.rest_left or self.rest_right)

    def disagreements(self) -> Iterator[Disagreement]:
        left, right = list(self.rest_left), list(self.rest_right)
        for judge in (self._quantity_kind, self._polarity, self._name):
            for item in list(left):
                for other in list(right):
                    kind = judge(item, other)
                    if kind and item in left and other in right:
                        left.remove(item)
                        right.remove(other)
                        yield Disagreement(kind, item.text, other.text)
        for index in range(max(len(left), len(right))):
            one = left[index] if index < len(left) else None
            two = right[index] if index < len(right) else None
            yield Disagreement(
                self._alone(one, two), one.text if one else "", two.text if two else ""
            )

    @staticmethod
    def _quantity_kind(item: Item, other: Item) -> str:
        if not item.quantity or not other.quantity:
            return ""
        if item.quantity.raw == other.quantity.raw and item.quantity.kind == other.quantity.kind:
            return "unit"
        return item.quantity.kind if item.quantity.kind == other.quantity.kind else "number"

    def _polarity(self, item: Item, other: Item) -> str:
        if item.quantity or other.quantity:
            return ""
        if frozenset((item.concept, other.concept)) in self.lexicon.opposites:
            return "polarity"
        return "polarity" if _is_negated_form(item.text, other.text, self.lexicon) else ""

    def _name(self, item: Item, other: Item) -> str:
        if {item.concept, other.concept} <= self.lexicon.temporal:
            return "date"
        return "name" if item.is_name and other.is_name else ""

    def _alone(self, *items: Item | None) -> str:
        present = [item for item in items if item is not None]
        for item in present:
            if item.quantity:
                return item.quantity.kind
        if any(item.concept in self.lexicon.temporal for item in present):
            return "date"
        if any(item.concept in self.lexicon.scope for item in present):
            return "scope"
        return "name" if any(item.is_name for item in present) else "content"


def _same_quantity(item: Item, other: Item) -> bool:
    return bool(item.quantity and other.quantity and item.quantity.matches(other.quantity))


def _is_negated_form(one: str, two: str, lexicon: Lexicon) -> bool:
    short, long = sorted((one, two), key=len)
    if len(short) < 4 or not long.endswith(short[-3:]):
        return False
    return any(
        lexicon.stem(long) == lexicon.stem(prefix + short)
        for prefix in lexicon.data.negative_prefixes
    )


def _is_typing_error(item: Item, other: Item, lexicon: Lexicon) -> bool:
    """One slip of the finger inside a long word; endings carry meaning (« employer », « employeur »)."""
    named = item.is_name or other.is_name
    is_day = lexicon.temporal & {item.concept, other.concept}
    if item.quantity or other.quantity or (named and not is_day):
        return False
    one, two = item.text, other.text
    if " " in one or " " in two or one[0] != two[0] or min(len(one), len(two)) < 4:
        return False
    if not (one.isalpha() and two.isalpha()):
        return False
    if one in lexicon.data.lookalikes and two in lexicon.data.lookalikes:
        return False
    # Two words that the lexicon knows are two words (« salaire », « salarié »).
    if lexicon.knows(one) and lexicon.knows(two):
        return False
    if _is_negated_form(one, two, lexicon):
        return False
    return _is_one_slip(one, two)


def _is_one_slip(one: str, two: str) -> bool:
    short, long = sorted((one, two), key=len)
    if len(long) - len(short) > 1:
        return False
    head = next(
        (i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short)
    )
    if len(short) == len(long):
        swapped = short[:head] + short[head : head + 2][::-1] + short[head + 2 :]
        if swapped == long and len(short) >= 5:
            return True
        return len(short) >= 8 and head < len(short) - 2 and short[head + 1 :] == long[head + 1 :]
    if long[:head] + long[head + 1 :] != short:
        return False
    doubled = head > 0 and long[head] == long[head - 1]
    return doubled or (len(long) >= 7 and head < len(long) - 2)


def _roles(first: Reading, second: Reading, match: _Matching) -> Iterator[Disagreement]:
    """The same words, but another one acts or owns, or the direction is reversed."""
    asks_who = first.kind is second.kind is Kind.WHO
    if {first.person, second.person} == {"subject", "object"} and (
        len(first.items) > 1 or asks_who
    ):
        yield Disagreement("role", first.person, second.person)
        return
    if {first.person, second.person} == {"subject", "other"}:
        yield Disagreement("role", first.person, second.person)
        return
    if (first.act and second.act and first.act != second.act) or _is_done_by_asker(first, second):
        yield Disagreement("role", first.act, second.act)
        return
    if _is_the_same_act(first, second, match) and not any(_choice_clashes(first, second, match)):
        return
    clash = _undergoing_clash(first, second, match)
    clash = clash or next(_bound_clashes(first, second, match), None)
    clash = clash or next(_choice_clashes(first, second, match), None)
    clash = clash or next(_relation_clashes(first, second, match), None)
    clash = clash or next(_owner_clashes(first, second, match), None)
    clash = clash or next(_direction_clashes(first, second, match), None)
    if clash:
        yield clash
    elif not _same_order(first, second, match):
        yield Disagreement(
            "role",
            " ".join(item.text for item in first.items),
            " ".join(item.text for item in second.items),
        )


def _is_done_by_asker(first: Reading, second: Reading) -> bool:
    """« Comment mon fils peut-il m'héberger » is not « comment héberger mon fils », where the asker acts unnamed."""
    if not first.kind is second.kind is Kind.HOW:
        return False
    if not first.lexicon.data.has_inversion:
        return {first.person, second.person} == {"object", ""}
    # « Me » may be the asker's own (« comment m'inscrire », « comment s'inscrire ») unless somebody else acts.
    undergone, bare = (first, second) if first.act else (second, first)
    return undergone.act == "it>me" and not bare.act and bare.person in ("", "subject")


def _is_the_same_act(first: Reading, second: Reading, match: _Matching) -> bool:
    """« Un colis peut-il être retiré par un proche » and « un proche peut-il retirer un colis »."""
    active, passive, pairs = first, second, {j: i for i, j in match.pairs.items()}
    if _agent(first) is not None:
        active, passive, pairs = second, first, match.pairs
    by, size = _agent(passive), len(active.items)
    if by is None or _agent(active) is not None or not len(passive.items) == len(pairs) == size:
        return False
    order = [pairs[position] for position in range(size)]
    return any(
        order == _passive_order(by, verb, agent, size)
        and _says_the_same_actively(active, passive, pairs, by, agent)
        for verb in range(1, min(by, 3))
        for agent in range(1, size - by + 1)
    )


def _agent(reading: Reading) -> int | None:
    """Where the one stands by whom it is done, in the passive; or what it is included in."""
    items = reading.items
    places = [
        i
        for i, item in enumerate(items)
        if item.marker is Marker.BY
        or (item.relation in _INSIDE and i and items[i - 1].concept in _INCLUDING)
    ]
    return places[0] if reading.is_passive and len(places) == 1 and places[0] > 1 else None


def _passive_order(by: int, verb: int, agent: int, size: int) -> list[int]:
    """Who does it, the verb, what it is done to, the rest: where the words of the passive stand in the active."""
    done_to = range(agent + verb, agent + by)
    return [*done_to, *range(agent, agent + verb), *range(agent), *range(agent + by, size)]


def _says_the_same_actively(
    active: Reading, passive: Reading, pairs: dict[int, int], by: int, agent: int
) -> bool:
    if active.items[0].marker not in (None, Marker.CLAUSE) or active.items[agent].is_noun:
        return False
    # The first word of each side stands behind the question word, whatever it is.
    if passive.items[0].relation != active.items[0].relation:
        return False
    if active.items[agent].relation != "none" or active.items[pairs[0]].relation != "none":
        return False
    return all(
        item.relation == active.items[pairs[place]].relation or place in (0, by)
        for place, item in enumerate(passive.items)
    ) and all(
        item.owner == active.items[pairs[place]].owner for place, item in enumerate(passive.items)
    )


def _undergoing_clash(first: Reading, second: Reading, match: _Matching) -> Disagreement | None:
    """ "When do students pay" is not "when are students paid": the same subject, once acting and once not."""
    # « Qui rembourse » and « qui est remboursé »: the question word is the subject.
    asks_who = first.kind is second.kind is Kind.WHO
    acts = asks_who or first.person == second.person == "subject"
    french = match.lexicon.data.has_inversion
    told = first.behind_being ^ second.behind_being
    for place, (one, two) in enumerate(zip(first.items, second.items, strict=False)):
        if match.pairs.get(place) != place:
            return None
        is_subject = one.is_noun or two.is_noun or (place == 0 and not acts and not french)
        if is_subject:
            continue
        if place == 0 and not acts:
            return None
        is_told = french or one.text != two.text or (asks_who and one.text in told)
        forms = {_form(one, first), _form(two, second)}
        if is_told and one.text[0] == two.text[0] and forms == {"done", "does"}:
            return Disagreement("role", one.text, two.text)
        if french:
            return None
    return None


def _form(item: Item, reading: Reading) -> str:
    """Whether a verb is done to its subject or does something; a noun or an adjective neither."""
    if item.relation not in ("none", "when") or item.concept in _STATES:
        return ""
    if not reading.lexicon.data.has_inversion:
        done = reading.behind_being and _ENGLISH_PARTICIPLE.search(item.text)
        return "done" if done else "" if _ENGLISH_NOUN.search(item.text) else "does"
    if item.text in reading.behind_being:
        return "done" if _FRENCH_DONE.search(item.text) else ""
    return "" if _FRENCH_NOUN.search(item.text) else "does"


#: « Ouvert » and « fermé » say what « ouvre » and « ferme » say.
_STATES = frozenset(("ouvrir", "fermer", "open", "close"))
_FRENCH_NOUN = re.compile(r"(?:tions?|ments?|[ae]nces?|ages?)$")
_FRENCH_DONE = re.compile(r"(?:(?:[eiu]|it|is|ert)e?s?|er|ir|re|oir)$")
_ENGLISH_NOUN = re.compile(r"(?:tions?|ments?|als?|[ae]nces?|ages?)$")
_ENGLISH_PARTICIPLE = re.compile(r"(?:ed|en|wn|ght|aid|old|ept|ade|ilt|eft|elt|ost|ent|ung|und)$")


def _bound_clashes(first: Reading, second: Reading, match: _Matching) -> Iterator[Disagreement]:
    """« Au-dessus de 10 kg » is another quantity than « au-dessous de 10 kg »."""
    for i, j in match.pairs.items():
        one, two = first.items[i], second.items[j]
        if one.bound != two.bound:
            yield Disagreement(
                "number", f"{one.bound} {one.text}".strip(), f"{two.bound} {two.text}".strip()
            )


def _choice_clashes(first: Reading, second: Reading, match: _Matching) -> Iterator[Disagreement]:
    """« La carte et le permis » is not « la carte ou le permis »."""
    for i, j in match.pairs.items():
        one, two = first.items[i], second.items[j]
        if {one.joined, two.joined} == {"and", "or"}:
            yield Disagreement("scope", f"{one.joined} {one.text}", f"{two.joined} {two.text}")
    chosen = [
        next((item for item in reading.items if item.joined == "or"), None)
        for reading in (first, second)
    ]
    if (chosen[0] is None) != (chosen[1] is None):
        yield Disagreement(
            "scope", *(f"{item.joined} {item.text}" if item else "" for item in chosen)
        )


def _relation_clashes(first: Reading, second: Reading, match: _Matching) -> Iterator[Disagreement]:
    """« Vendre à un mineur » is not « vendre un mineur »: prepositions that no paraphrase exchanges."""
    for i, j in match.pairs.items():
        one, two = first.items[i], second.items[j]
        if one.relation == two.relation or one.bound:
            continue
        if not _are_relations_alike(first, second, i, j, match):
            yield Disagreement("role", f"{one.relation} {one.text}", f"{two.relation} {two.text}")


def _are_relations_alike(first: Reading, second: Reading, i: int, j: int, match: _Matching) -> bool:
    lexicon = first.lexicon
    one, two = first.items[i], second.items[j]
    relations = frozenset((one.relation, two.relation))
    governed = i > 0 and j > 0 and match.pairs.get(i - 1) == j - 1
    after_verb = governed and not (first.items[i - 1].is_noun or second.items[j - 1].is_noun)
    if one.quantity or one.concept in lexicon.temporal:
        # « Payer en deux fois », « payer deux fois »; « augmenter de 5 % », « augmenter à 5 % ».
        counted = one.quantity and not one.quantity.unit and one.quantity.kind == "number"
        if (counted and relations == {"none", "in"}) or (after_verb and relations == {"of", "at"}):
            return False
        return relations in lexicon.alike_before_numbers
    # « La voiture de mon frère », « la voiture pour mon frère ».
    if relations == {"of", "for"} and one.owner and two.owner:
        return False
    if relations not in lexicon.alike:
        keywords = Kind.NONE in (first.kind, second.kind)
        return keywords and relations == {"none", "at"} and not (one.is_noun and two.is_noun)
    if not after_verb:
        return True
    # "Does breakfast include coffee", "is breakfast included in coffee".
    included = (
        first.items[i - 1].concept in _INCLUDING and first.is_passive is not second.is_passive
    )
    if included and not lexicon.data.has_inversion:
        return relations != {"none", "in"}
    # After a verb the preposition makes the meaning (« arriver de », « arriver en »; "leave for").
    if lexicon.data.has_inversion:
        if relations == {"none", "on"}:
            return not (one.is_noun and two.is_noun)
        return "none" in relations or "of" not in relations
    return not (one.is_noun and two.is_noun and relations & _GOALS)


_GOALS = frozenset(("to", "for"))
_INCLUDING = frozenset(("include", "inclure"))
_INSIDE = frozenset(("in", "into"))


def _owner_clashes(first: Reading, second: Reading, match: _Matching) -> Iterator[Disagreement]:
    addressed = first.addresses or second.addresses
    for i, j in match.pairs.items():
        one, two = first.items[i], second.items[j]
        owners = {one.owner, two.owner}
        clash = owners == {"mine", "yours"} and not addressed
        # « Mon employeur peut-il lire son courrier »: with someone to own it, « son » is not « mon ».
        if "others" in owners and "mine" in owners:
            clash = True
        if "theirs" in owners and owners & {"mine", "yours"}:
            clash = _has_owner(first, i) and _has_owner(second, j)
        if clash:
            yield Disagreement("role", f"{one.owner} {one.text}", f"{two.owner} {two.text}")
    yield from _possession_clashes(first, second)


def _has_owner(reading: Reading, position: int) -> bool:
    return any(item.is_noun and item.relation == "none" for item in reading.items[:position])


def _possession_clashes(first: Reading, second: Reading) -> Iterator[Disagreement]:
    """« Mon employeur peut-il lire mes courriels » is not « puis-je lire les courriels de mon employeur »."""
    if (first.person == "subject") is (second.person == "subject"):
        return
    asker, other = (first, second) if first.person == "subject" else (second, first)
    mine = [
        frozenset(item.concept for item in reading.items if item.owner == "mine")
        for reading in (asker, other)
    ]
    acts = other.items[0].owner == "mine" and other.items[0].relation == "none"
    if acts and mine[0] and mine[0] != mine[1]:
        yield Disagreement("role", *(" ".join(sorted(row)) for row in mine))


_SOURCES = frozenset((Marker.FROM, Marker.OF))
_TARGETS = frozenset((Marker.TO, Marker.AT, Marker.FOR))
_STRONG = frozenset((Marker.FROM, Marker.TO))


def _direction_clashes(first: Reading, second: Reading, match: _Matching) -> Iterator[Disagreement]:
    directional = any(item.concept in first.lexicon.directional for item in first.items)
    for i, j in match.pairs.items():
        one, two = first.items[i].marker, second.items[j].marker
        opposed = (one in _SOURCES and two in _TARGETS) or (one in _TARGETS and two in _SOURCES)
        strong = directional or (one in _STRONG and two in _STRONG)
        agent = (one is Marker.BY) != (two is Marker.BY) and not (
            {one, two} & {Marker.WITH, Marker.PLACE, Marker.CLAUSE, Marker.AT}
        )
        nouns = first.items[i].is_noun and second.items[j].is_noun
        # "Are parents paid by teachers" is not "do parents pay teachers".
        passive = not first.lexicon.data.has_inversion and first.is_passive != second.is_passive
        if (opposed and strong) or (agent and (nouns or passive)):
            yield Disagreement(
                "role",
                f"{one or ''} {first.items[i].text}".strip(),
                f"{two or ''} {second.items[j].text}".strip(),
            )


def _same_order(first: Reading, second: Reading, match: _Matching) -> bool:
    """Same sequence, or one part of it moved to the other end (« au guichet, puis-je payer »)."""
    renamed = {j: first.items[i].concept for i, j in match.pairs.items()}
    left = [first.items[i] for i in sorted(match.pairs)]
    right = [(second.items[j], renamed[j]) for j in sorted(renamed)]
    one = [item.concept for item in left]
    two = [concept for _item, concept in right]
    if one == two:
        return True
    if sum(item.quantity is not None for item in left) > 1:
        return False
    if first.is_sequence or second.is_sequence:
        return False
    if _is_verb_and_object(first, second, left, [item for item, _c in right]):
        return True
    if _is_best_of(first, second) and set(one) == set(two) and len(one) == len(two) <= 4:
        return True
    freedom = _verb_freedom(first, second)
    if _is_done_by_anyone(first, second, left, [item for item, _c in right]):
        return one[:2] == two[1::-1] and one[2:] == two[2:]
    if freedom is _Verb.IS_FREE and _is_time_moved(first, second, left, right):
        return True
    moved = _is_one_part_moved(
        one,
        two,
        [_is_movable(item, freedom) for item in left],
        [_is_movable(item, freedom) for item, _c in right],
    )
    return (
        (moved and not _lost_its_place(left, right))
        or _is_aside_moved(left, right)
        or _is_topic_first(left, two)
        or _is_topic_first([item for item, _c in right], one, [concept for _item, concept in right])
    )


def _is_done_by_anyone(
    first: Reading, second: Reading, left: list[Item], right: list[Item]
) -> bool:
    """« Quand la prime est-elle versée aux salariés » and « quand verse-t-on la prime aux salariés »."""
    if first.is_passive is second.is_passive or len(left) < 2 or first.kind is Kind.WHO:
        return False
    active, passive = (second, first) if first.is_passive else (first, second)
    heads = (*left[:2], *right[:2])
    return (
        active.is_impersonal
        and not passive.is_impersonal
        and _agent(passive) is None
        and not any(item.quantity for item in heads)
        and all(item.marker in (None, Marker.CLAUSE) for item in heads)
        and left[1].relation == right[1].relation == "none"
    )


def _is_time_moved(
    first: Reading, second: Reading, left: list[Item], right: list[tuple[Item, str]]
) -> bool:
    """« Le samedi, à quelle heure ferme le parc » and « à quelle heure le parc ferme-t-il le samedi »."""
    temporal = first.lexicon.temporal
    one, two = [item.concept for item in left], [concept for _item, concept in right]
    others = [item for item, _c in right]
    if sum(concept in temporal for concept in one) != 1:
        return False
    return _is_time_ahead(left, one, others, two) or _is_time_ahead(others, two, left, one)


def _is_time_ahead(
    ahead: list[Item], concepts: list[str], behind: list[Item], others: list[str]
) -> bool:
    if len(ahead) != 3 or not ahead[1].starts_clause or concepts[0] != others[-1]:
        return False
    plain = ahead[0].relation == behind[-1].relation == "none"
    return plain and others[:-1] == concepts[:0:-1]


def _is_topic_first(items: list[Item], other: list[str], concepts: list[str] | None = None) -> bool:
    """« Tests à l'école : comment informer les parents » and « comment informer les parents des tests à l'école »."""
    concepts = concepts or [item.concept for item in items]
    cuts = [place for place in range(1, len(items)) if items[place].starts_clause]
    return len(cuts) == 1 and concepts[cuts[0] :] + concepts[: cuts[0]] == other


#: « à mes parents » that comes back as « mes parents » has become who acts.
_TIED = frozenset((Marker.AT, Marker.TO, Marker.FROM, Marker.OF))


def _lost_its_place(left: list[Item], right: list[tuple[Item, str]]) -> bool:
    marked = {concept: item.marker for item, concept in right}
    return any(
        (item.marker in _TIED) != (marked[item.concept] in _TIED)
        for item in left
        if item.is_noun and item.concept in marked
    )


_ASIDES = frozenset((Marker.PLACE, Marker.WITH, Marker.CLAUSE))


def _is_aside_moved(left: list[Item], right: list[tuple[Item, str]]) -> bool:
    """One circumstance (« pendant un arrêt maladie ») said elsewhere, everything else in the same order."""
    one = [item.concept for item in left]
    two = [concept for _item, concept in right]
    size = len(one)
    for start in range(size):
        if left[start].marker not in _ASIDES:
            continue
        for end in range(start + 1, min(size, start + 3) + 1):
            block, rest = one[start:end], one[:start] + one[end:]
            for place in range(size - len(block) + 1):
                if right[place][0].marker is left[start].marker and two == (
                    rest[:place] + block + rest[place:]
                ):
                    return True
    return False


def _is_verb_and_object(
    first: Reading, second: Reading, left: list[Item], right: list[Item]
) -> bool:
    """ "How do I boil pasta" and "how should pasta be boiled": two words have no one to exchange places with."""
    if first.kind is not second.kind:
        return False
    # "What are the opening hours of the museum", "when is the museum open".
    if first.kind is Kind.WHEN and len(left) == 2 and any(item.concept in _STATES for item in left):
        return not any(item.is_name or item.quantity for item in (*left, *right))
    if any(item.marker or item.is_name or item.quantity for item in (*left, *right)):
        return False
    if len(left) == 2:
        return first.kind in _ACT_KINDS or _is_done_by_speaker(first, second)
    return _is_done_by_speaker(first, second) and _is_verb_moved(first, left, right)


def _is_verb_moved(first: Reading, left: list[Item], right: list[Item]) -> bool:
    """ "Do you accept credit cards" and "are credit cards accepted": what is accepted stays in its order."""
    active, passive = (right, left) if first.is_passive else (left, right)
    stems = [item.concept for item in active]
    return stems[1:] + stems[:1] == [item.concept for item in passive]


def _is_done_by_speaker(first: Reading, second: Reading) -> bool:
    """ "Is my data encrypted" and "do you encrypt my data": the one who acts is one of the two who speak."""
    if first.is_passive is second.is_passive:
        return False
    active, passive = (second, first) if first.is_passive else (first, second)
    if passive.addresses or passive.person:
        return False
    # "Can I return shoes" and "can shoes be returned"; "do I pay tax" is not "is tax paid".
    return active.addresses or (active.person == "subject" and active.modality is not None)


_ACT_KINDS = frozenset((Kind.HOW, Kind.HOW_LONG, Kind.HOW_OFTEN, Kind.WHEN, Kind.WHERE))
_SUPERLATIVE = re.compile(r"\w{2,}est|most|least|best|worst")


def _is_best_of(first: Reading, second: Reading) -> bool:
    """ "What is the fastest animal" and "which animal is the fastest"."""
    return all(
        reading.lexicon.data.language == "en"
        and reading.kind is Kind.WHAT
        and any(_SUPERLATIVE.fullmatch(item.text) for item in reading.items)
        and not any(item.marker in (Marker.FROM, Marker.TO) for item in reading.items)
        for reading in (first, second)
    )


class _Verb(Enum):
    """« Comment la prime est-elle calculée » lets a French verb move; « qui a nommé le préfet » does not."""

    IS_FREE = auto()
    STAYS = auto()
    IS_THE_MEANING = auto()


def _verb_freedom(first: Reading, second: Reading) -> _Verb:
    if not first.lexicon.data.has_inversion:
        return _Verb.STAYS
    asks_for_a_noun = {first.kind, second.kind} & {Kind.WHO, Kind.WHAT}
    return _Verb.IS_THE_MEANING if asks_for_a_noun else _Verb.IS_FREE


def _is_movable(item: Item, freedom: _Verb) -> bool:
    if freedom is _Verb.IS_THE_MEANING:
        return item.starts_clause
    return item.opens or (freedom is _Verb.IS_FREE and not item.is_noun and not item.quantity)


def _is_one_part_moved(
    one: list[str], two: list[str], movable_one: list[bool], movable_two: list[bool]
) -> bool:
    """One part went from one end to the other, cut where a preposition or a comma allows it.

    The part is one block: with more than one, what belongs to which could have been exchanged.
    """
    size = len(one)
    for cut in range(1, size):
        if one[cut:] + one[:cut] != two or not (movable_one[cut] or movable_two[size - cut]):
            continue
        if not any(movable_one[1:cut]) or not any(movable_one[cut + 1 :]):
            return True
    return False
