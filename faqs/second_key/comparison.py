"""Two readings side by side: which item of one is which item of the other, and whether roles and order agree. Pure.

The same words with another one in the role, another preposition between them, or in an order that is not that of a part
moved as a whole (« au guichet, puis-je payer »), ask something else.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from faqs.second_key.lexicon import Kind, Lexicon, Marker
from faqs.second_key.reading import Item, Reading


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One reason why two questions differ: `kind` is a stable code, `stored` and `asked` are the words that clash."""

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
    return _("%(kind)s : %(sides)s") % {"kind": _word(_LABELS, each.kind), "sides": " ≠ ".join(sides)}


def _side(kind: str, words: str) -> str:
    """What clashes is a word of the question, or for two kinds of difference a code of the lexicon."""
    if kind == "question_kind":
        return " + ".join(_word(_KINDS, word) for word in words.split())
    return _word(_MODALITIES, words) if kind == "modality" else words


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


class Comparison:
    def __init__(self, first: Reading, second: Reading) -> None:
        self.first, self.second = first, second
        self.lexicon = first.lexicon
        #: Position in `first.items` → position in `second.items`.
        self.pairs: dict[int, int] = {}
        self._pair(lambda one, two: one.concept == two.concept)
        self._pair(lambda one, two: bool(one.quantity and two.quantity and one.quantity.matches(two.quantity)))
        self._pair(lambda one, two: _is_typing_error(one, two, self.lexicon))
        #: What found no partner on either side.
        self.rest_first = self._rest(first, second, self.pairs)
        self.rest_second = self._rest(second, first, {j: i for i, j in self.pairs.items()})

    @property
    def is_complete(self) -> bool:
        return not self.rest_first and not self.rest_second

    def partners(self) -> Iterator[tuple[Item, Item]]:
        return ((self.first.items[i], self.second.items[j]) for i, j in self.pairs.items())

    def _pair(self, is_same: Callable[[Item, Item], bool]) -> None:
        taken = set(self.pairs.values())
        for i, one in enumerate(self.first.items):
            if i in self.pairs:
                continue
            for j, two in enumerate(self.second.items):
                if j not in taken and is_same(one, two):
                    self.pairs[i] = j
                    taken.add(j)
                    break

    def _rest(self, reading: Reading, other: Reading, pairs: dict[int, int]) -> list[Item]:
        """A word said twice on one side says nothing more; a number said twice does."""
        items = reading.items
        if len(pairs) == len(items):
            return []
        known = {items[i].concept for i in pairs}
        weak = self.lexicon.weak if self._ignores_weak_words() else frozenset()
        return [
            item
            for i, item in enumerate(items)
            if i not in pairs
            and (item.concept not in known or item.quantity)
            and (item.concept not in weak or _is_acted_for(i, reading, other, pairs))
        ]

    def _ignores_weak_words(self) -> bool:
        """Words that say next to nothing, as long as something that does was found on both sides."""
        if not self.first.kind is self.second.kind is not Kind.NONE:
            return False
        return any(self.first.items[i].concept not in self.lexicon.weak for i in self.pairs)


def _is_acted_for(i: int, reading: Reading, other: Reading, pairs: dict[int, int]) -> bool:
    """« Obtenir le remboursement » of what the other question is to « rembourser »: the act is somebody else's."""
    if i + 1 not in pairs or not reading.items[i + 1].is_noun:
        return False
    partner = other.items[pairs[i + 1]]
    undergone = " " in partner.text or partner.text in other.behind_being
    return not (partner.is_noun or undergone)


def is_negated_form(one: str, two: str, lexicon: Lexicon) -> bool:
    """« légal » and « illégal »."""
    short, long = sorted((one, two), key=len)
    if len(short) < 4 or not long.endswith(short[-3:]):
        return False
    stem = lexicon.stem
    return any(stem(long) == stem(prefix + short) for prefix in lexicon.negative_prefixes)


def _is_typing_error(item: Item, other: Item, lexicon: Lexicon) -> bool:
    """One slip of the finger inside a long word; endings carry meaning (« employer », « employeur »)."""
    one, two = item.text, other.text
    # Most pairs of words end here.
    if one[0] != two[0] or min(len(one), len(two)) < 4 or abs(len(one) - len(two)) > 1:
        return False
    is_day = lexicon.temporal & {item.concept, other.concept}
    if item.quantity or other.quantity or ((item.is_name or other.is_name) and not is_day):
        return False
    if not (one.isalpha() and two.isalpha()) or {one, two} <= lexicon.words.lookalikes:
        return False
    # Two words that the lexicon knows are two words (« salaire », « salarié »).
    if lexicon.knows(one) and lexicon.knows(two):
        return False
    return not is_negated_form(one, two, lexicon) and _is_one_slip(one, two)


def _is_one_slip(one: str, two: str) -> bool:
    short, long = sorted((one, two), key=len)
    same = (i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b)
    head = next(same, len(short))
    inside = head < len(short) - 2
    if len(short) == len(long):
        swapped = short[:head] + short[head : head + 2][::-1] + short[head + 2 :]
        if swapped == long and len(short) >= 5:
            return True
        return len(short) >= 8 and inside and short[head + 1 :] == long[head + 1 :]
    if long[:head] + long[head + 1 :] != short:
        return False
    doubled = head > 0 and long[head] == long[head - 1]
    return doubled or (len(long) >= 7 and head < len(long) - 2)


INCLUDING = frozenset(("include", "inclure"))
#: « Ouvert » and « fermé » say what « ouvre » and « ferme » say.
STATES = frozenset(("ouvrir", "fermer", "open", "close"))
_INSIDE = frozenset(("in", "into"))
#: Nouns of action, and adjectives that look like verbs (« minimale »).
_FRENCH_NOUN = re.compile(r"(?:tions?|ments?|[ae]nces?|ages?|(?<!sign)ales?|ees?)$")
_FRENCH_ADJECTIVE = re.compile(r"(?:(?<!sign)ales?|al|aux)$")
_FRENCH_DONE = re.compile(r"(?:(?:[eiu]|it|is|ert)e?s?|er|ir|re|oir)$")
_ENGLISH_NOUN = re.compile(r"(?:tions?|ments?|als?|[ae]nces?|ages?)$")
_ENGLISH_PARTICIPLE = re.compile(r"(?:ed|en|wn|ght|aid|old|ept|ade|ilt|eft|elt|ost|ent|ung|und)$")
_GOALS = frozenset(("to", "for"))
#: What is done in a place is not done to it (« nettoyer dans le bus », « nettoyer le bus »).
_PLACED = frozenset(("in", "into", "on"))
_SOURCES = frozenset((Marker.FROM, Marker.OF))
_TARGETS = frozenset((Marker.TO, Marker.AT, Marker.FOR))
_STRONG = frozenset((Marker.FROM, Marker.TO))
_BESIDE_AGENTS = frozenset((Marker.WITH, Marker.PLACE, Marker.CLAUSE, Marker.AT))


def asker_undergoes(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    asks_who = first.kind is second.kind is Kind.WHO
    tells = len(first.items) > 1 or asks_who
    if tells and {first.person, second.person} == {"subject", "object"}:
        return Disagreement("role", first.person, second.person)
    return None


def someone_else_acts(c: Comparison) -> Disagreement | None:
    if {c.first.person, c.second.person} == {"subject", "other"}:
        return Disagreement("role", c.first.person, c.second.person)
    return None


def acts_on_another(c: Comparison) -> Disagreement | None:
    one, two = c.first.act, c.second.act
    if (one and two and one != two) or _is_done_by_asker(c.first, c.second):
        return Disagreement("role", one, two)
    return None


def _is_done_by_asker(first: Reading, second: Reading) -> bool:
    """« Comment mon fils peut-il m'héberger » is not « comment héberger mon fils », where the asker acts unnamed."""
    if not first.kind is second.kind is Kind.HOW:
        return False
    if not first.lexicon.has_inversion:
        return {first.person, second.person} == {"object", ""}
    # « Me » may be the asker's own (« comment m'inscrire », « comment s'inscrire ») unless somebody else acts.
    undergone, bare = (first, second) if first.act else (second, first)
    return undergone.act == "it>me" and not bare.act and bare.person in ("", "subject")


def is_the_same_act(c: Comparison) -> bool:
    """« Un colis peut-il être retiré par un proche » and « un proche peut-il retirer un colis »."""
    active, passive, pairs = c.first, c.second, {j: i for i, j in c.pairs.items()}
    if agent(c.first) is not None:
        active, passive, pairs = c.second, c.first, c.pairs
    by, size = agent(passive), len(active.items)
    if by is None or agent(active) is not None or not len(passive.items) == len(pairs) == size:
        return False
    order = [pairs[position] for position in range(size)]
    return any(
        order == _passive_order(by, verb, place, size) and _says_the_same_actively(active, passive, order, (by, place))
        for verb in range(1, min(by, 3))
        for place in range(1, size - by + 1)
    )


def agent(reading: Reading) -> int | None:
    """Where the one stands by whom it is done, in the passive; or what it is included in."""
    items = reading.items
    places = [
        i
        for i, item in enumerate(items)
        if item.marker is Marker.BY or (item.relation in _INSIDE and i and items[i - 1].concept in INCLUDING)
    ]
    return places[0] if reading.is_passive and len(places) == 1 and places[0] > 1 else None


def _passive_order(by: int, verb: int, acting: int, size: int) -> list[int]:
    """Who does it, the verb, what it is done to, the rest: where the words of the passive stand in the active."""
    done_to = range(acting + verb, acting + by)
    return [*done_to, *range(acting, acting + verb), *range(acting), *range(acting + by, size)]


def _says_the_same_actively(active: Reading, passive: Reading, order: list[int], places: tuple[int, int]) -> bool:
    by, acting = places
    if active.items[0].marker not in (None, Marker.CLAUSE) or active.items[acting].is_noun:
        return False
    # The first word of each side stands behind the question word, whatever it is.
    if passive.items[0].relation != active.items[0].relation:
        return False
    if active.items[acting].relation != "none" or active.items[order[0]].relation != "none":
        return False
    partners = [(item, active.items[order[place]]) for place, item in enumerate(passive.items)]
    return all(
        one.owner == two.owner and (one.relation == two.relation or place in (0, by))
        for place, (one, two) in enumerate(partners)
    )


def undergoes_instead(c: Comparison) -> Disagreement | None:
    """ "When do students pay" is not "when are students paid": the same subject, once acting and once not."""
    first, second = c.first, c.second
    # « Qui rembourse » and « qui est remboursé »: the question word is the subject.
    asks_who = first.kind is second.kind is Kind.WHO
    acts = asks_who or first.person == second.person == "subject"
    french = c.lexicon.has_inversion
    told = first.behind_being ^ second.behind_being
    for place, (one, two) in enumerate(zip(first.items, second.items, strict=False)):
        if c.pairs.get(place) != place:
            return None
        if one.is_noun or two.is_noun or (place == 0 and not acts and not french):
            # The subject.
            continue
        if place == 0 and not acts:
            return None
        is_told = one.text != two.text or (one.text in told and (french or asks_who))
        forms = {_form(one, first), _form(two, second)}
        if is_told and one.text[0] == two.text[0] and forms == {"done", "does"}:
            return Disagreement("role", one.text, two.text)
        if french:
            return None
    return None


def _form(item: Item, reading: Reading) -> str:
    """Whether a verb is done to its subject or does something; a noun or an adjective neither."""
    if item.relation not in ("none", "when") or item.concept in STATES:
        return ""
    if not reading.lexicon.has_inversion:
        done = reading.behind_being and _ENGLISH_PARTICIPLE.search(item.text)
        return "done" if done else "" if _ENGLISH_NOUN.search(item.text) else "does"
    if item.text in reading.behind_being:
        return "done" if _FRENCH_DONE.search(item.text) else ""
    return "" if _FRENCH_NOUN.search(item.text) else "does"


def owned_by_another(c: Comparison) -> Disagreement | None:
    addressed = c.first.addresses or c.second.addresses
    for i, j in c.pairs.items():
        one, two = c.first.items[i], c.second.items[j]
        owners = {one.owner, two.owner}
        # « Mon employeur peut-il lire son courrier »: with someone to own it, « son » is not « mon ».
        if "theirs" in owners and owners & {"mine", "yours"}:
            clash = _has_owner(c.first, i) and _has_owner(c.second, j)
        else:
            clash = owners == {"mine", "others"} or (owners == {"mine", "yours"} and not addressed)
        if clash:
            return Disagreement("role", f"{one.owner} {one.text}", f"{two.owner} {two.text}")
    return None


def _has_owner(reading: Reading, position: int) -> bool:
    return any(item.is_noun and item.relation == "none" for item in reading.items[:position])


def another_bound(c: Comparison) -> Disagreement | None:
    """« Au-dessus de 10 kg » is another quantity than « au-dessous de 10 kg »."""
    for one, two in c.partners():
        if one.bound != two.bound:
            return Disagreement("number", f"{one.bound} {one.text}".strip(), f"{two.bound} {two.text}".strip())
    return None


def another_choice(c: Comparison) -> Disagreement | None:
    """« La carte et le permis » is not « la carte ou le permis »."""
    for one, two in c.partners():
        if {one.joined, two.joined} == {"and", "or"}:
            return Disagreement("scope", f"{one.joined} {one.text}", f"{two.joined} {two.text}")
    chosen = [
        next((f"or {item.text}" for item in reading.items if item.joined == "or"), "")
        for reading in (c.first, c.second)
    ]
    return Disagreement("scope", *chosen) if bool(chosen[0]) != bool(chosen[1]) else None


def another_relation(c: Comparison) -> Disagreement | None:
    """« Vendre à un mineur » is not « vendre un mineur »: prepositions that no paraphrase exchanges."""
    for i, j in c.pairs.items():
        one, two = c.first.items[i], c.second.items[j]
        if one.relation != two.relation and not one.bound and not _are_relations_alike(c, i, j):
            return Disagreement("role", f"{one.relation} {one.text}", f"{two.relation} {two.text}")
    return None


def _are_relations_alike(c: Comparison, i: int, j: int) -> bool:
    lexicon = c.lexicon
    one, two = c.first.items[i], c.second.items[j]
    relations = frozenset((one.relation, two.relation))
    both_nouns = one.is_noun and two.is_noun
    governed = i > 0 and j > 0 and c.pairs.get(i - 1) == j - 1
    after_verb = governed and not (c.first.items[i - 1].is_noun or c.second.items[j - 1].is_noun)
    if one.quantity or one.concept in lexicon.temporal:
        # « Payer en deux fois », « payer deux fois »; « augmenter de 5 % », « augmenter à 5 % ».
        counted = one.quantity and not one.quantity.unit and one.quantity.kind == "number"
        if (counted and relations == {"none", "in"}) or (after_verb and relations == {"of", "at"}):
            return False
        return relations in lexicon.alike_before_numbers
    # « La voiture de mon frère », « la voiture pour mon frère ».
    if relations == {"of", "for"} and one.owner and two.owner:
        return False
    # « La hauteur minimale à un arrêt », « … pour un arrêt »: behind an adjective both say of what.
    if relations == {"at", "for"} and after_verb and lexicon.has_inversion:
        directed = any(item.concept in lexicon.directional for item in c.first.items[:i])
        return not directed and bool(_FRENCH_ADJECTIVE.search(c.first.items[i - 1].text))
    if relations not in lexicon.alike:
        keywords = Kind.NONE in (c.first.kind, c.second.kind)
        return keywords and relations == {"none", "at"} and not both_nouns
    if not after_verb:
        return True
    # After a verb the preposition makes the meaning (« arriver de », « arriver en »; "leave for").
    if lexicon.has_inversion:
        if "none" in relations and relations & _PLACED:
            return not both_nouns
        return "none" in relations or "of" not in relations
    # "Does breakfast include coffee", "is breakfast included in coffee".
    including = c.first.items[i - 1].concept in INCLUDING
    if including and c.first.is_passive is not c.second.is_passive:
        return relations != {"none", "in"}
    return not (both_nouns and relations & (_GOALS | _PLACED))


def another_direction(c: Comparison) -> Disagreement | None:
    directional = any(item.concept in c.lexicon.directional for item in c.first.items)
    # "Are parents paid by teachers" is not "do parents pay teachers".
    passive = not c.lexicon.has_inversion and c.first.is_passive != c.second.is_passive
    for one, two in c.partners():
        markers = {one.marker, two.marker}
        opposed = bool(markers & _SOURCES and markers & _TARGETS)
        strong = directional or markers <= _STRONG
        by_one = (one.marker is Marker.BY) != (two.marker is Marker.BY)
        agent = by_one and not markers & _BESIDE_AGENTS
        if (opposed and strong) or (agent and ((one.is_noun and two.is_noun) or passive)):
            return Disagreement(
                "role", f"{one.marker or ''} {one.text}".strip(), f"{two.marker or ''} {two.text}".strip()
            )
    return None


_ACT_KINDS = frozenset((Kind.HOW, Kind.HOW_LONG, Kind.HOW_OFTEN, Kind.WHEN, Kind.WHERE))
#: « à mes parents » that comes back as « mes parents » has become who acts.
_TIED = frozenset((Marker.AT, Marker.TO, Marker.FROM, Marker.OF))


def another_order(c: Comparison) -> Disagreement | None:
    if _is_same_order(c):
        return None
    first, second = (" ".join(item.text for item in reading.items) for reading in (c.first, c.second))
    return Disagreement("role", first, second)


class _Verb(Enum):
    """« Comment la prime est-elle calculée » lets a French verb move; « qui a nommé le préfet » does not."""

    IS_FREE = auto()
    STAYS = auto()
    IS_THE_MEANING = auto()


@dataclass(frozen=True, slots=True)
class _Side:
    """The paired items of one question, in their order, and their concepts in the words of the first question."""

    reading: Reading
    items: list[Item]
    concepts: list[str]


def _is_same_order(c: Comparison) -> bool:
    first, second = _sides(c)
    if first.concepts == second.concepts:
        return True
    if sum(item.quantity is not None for item in first.items) > 1:
        return False
    if c.first.is_sequence or c.second.is_sequence:
        return False
    if _is_verb_and_object(first, second):
        return True
    return (
        (_is_one_part_moved(first, second, _verb_freedom(c)) and not _lost_its_place(first, second))
        or _is_topic_first(first, second)
        or _is_topic_first(second, first)
    )


def _sides(c: Comparison) -> tuple[_Side, _Side]:
    renamed = {j: c.first.items[i].concept for i, j in c.pairs.items()}
    left = [c.first.items[i] for i in sorted(c.pairs)]
    return (
        _Side(c.first, left, [item.concept for item in left]),
        _Side(c.second, [c.second.items[j] for j in sorted(renamed)], [renamed[j] for j in sorted(renamed)]),
    )


def _active_and_passive(first: _Side, second: _Side) -> tuple[_Side, _Side] | None:
    if first.reading.is_passive is second.reading.is_passive:
        return None
    return (second, first) if first.reading.is_passive else (first, second)


def _is_topic_first(first: _Side, second: _Side) -> bool:
    """« Tests à l'école : comment informer les parents » and « comment informer les parents des tests à l'école »."""
    cuts = [place for place in range(1, len(first.items)) if first.items[place].starts_clause]
    if len(cuts) != 1:
        return False
    return first.concepts[cuts[0] :] + first.concepts[: cuts[0]] == second.concepts


def _lost_its_place(first: _Side, second: _Side) -> bool:
    marked = {concept: item.marker for item, concept in zip(second.items, second.concepts, strict=True)}
    return any(
        (item.marker in _TIED) != (marked[item.concept] in _TIED)
        for item in first.items
        if item.is_noun and item.concept in marked
    )


def _is_verb_and_object(first: _Side, second: _Side) -> bool:
    """ "How do I boil pasta" and "how should pasta be boiled": two words have no one to exchange places with."""
    kind, items = first.reading.kind, (*first.items, *second.items)
    if kind is not second.reading.kind:
        return False
    two_words = len(first.items) == 2
    names_or_numbers = any(item.is_name or item.quantity for item in items)
    # "What are the opening hours of the museum", "when is the museum open".
    if kind is Kind.WHEN and two_words and any(item.concept in STATES for item in first.items):
        return not names_or_numbers
    if names_or_numbers or any(item.marker for item in items):
        return False
    if two_words:
        return kind in _ACT_KINDS or _is_done_by_speaker(first, second)
    return _is_done_by_speaker(first, second) and _is_verb_moved(first, second)


def _is_verb_moved(first: _Side, second: _Side) -> bool:
    """ "Do you accept credit cards" and "are credit cards accepted": what is accepted stays in its order."""
    active, passive = (second, first) if first.reading.is_passive else (first, second)
    stems = [item.concept for item in active.items]
    return stems[1:] + stems[:1] == [item.concept for item in passive.items]


def _is_done_by_speaker(first: _Side, second: _Side) -> bool:
    """ "Is my data encrypted" and "do you encrypt my data": the one who acts is one of the two who speak."""
    voices = _active_and_passive(first, second)
    if voices is None:
        return False
    active, passive = (side.reading for side in voices)
    if passive.addresses or passive.person:
        return False
    # "Can I return shoes" and "can shoes be returned"; "do I pay tax" is not "is tax paid".
    return active.addresses or (active.person == "subject" and active.modality is not None)


def _verb_freedom(c: Comparison) -> _Verb:
    if not c.lexicon.has_inversion:
        return _Verb.STAYS
    asks_for_a_noun = {c.first.kind, c.second.kind} & {Kind.WHO, Kind.WHAT}
    return _Verb.IS_THE_MEANING if asks_for_a_noun else _Verb.IS_FREE


def _is_movable(item: Item, freedom: _Verb) -> bool:
    if freedom is _Verb.IS_THE_MEANING:
        return item.starts_clause
    return item.opens or (freedom is _Verb.IS_FREE and not item.is_noun and not item.quantity)


def _is_one_part_moved(first: _Side, second: _Side, freedom: _Verb) -> bool:
    """One part went from one end to the other, cut where a preposition or a comma allows it."""
    one, two = first.concepts, second.concepts
    ahead = [_is_movable(item, freedom) for item in first.items]
    behind = [_is_movable(item, freedom) for item in second.items]
    for cut in range(1, len(one)):
        if one[cut:] + one[:cut] != two or not (ahead[cut] or behind[len(one) - cut]):
            continue
        if not any(ahead[1:cut]) or not any(ahead[cut + 1 :]):
            return True
    return False
