"""The same words in another order: is it the same sentence turned round, or another one? Pure.

A part may move as a whole (« au guichet, puis-je payer »); what cannot be seen as such a move is another question.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from faqs.second_key.comparison import Comparison
from faqs.second_key.disagreement import Disagreement
from faqs.second_key.items import Item
from faqs.second_key.lexicon import Kind, Marker
from faqs.second_key.reading import Reading
from faqs.second_key.roles import STATES, agent

_ACT_KINDS = frozenset((Kind.HOW, Kind.HOW_LONG, Kind.HOW_OFTEN, Kind.WHEN, Kind.WHERE))
_SUPERLATIVE = re.compile(r"\w{2,}est|most|least|best|worst")
#: « à mes parents » that comes back as « mes parents » has become who acts.
_TIED = frozenset((Marker.AT, Marker.TO, Marker.FROM, Marker.OF))
_ASIDES = frozenset((Marker.PLACE, Marker.WITH, Marker.CLAUSE))


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
    if _is_verb_and_object(first, second) or _is_best_of(first, second):
        return True
    if _is_done_by_anyone(first, second):
        one, two = first.concepts, second.concepts
        return one[:2] == two[1::-1] and one[2:] == two[2:]
    freedom = _verb_freedom(c)
    if freedom is _Verb.IS_FREE and _is_time_moved(c, first, second):
        return True
    return (
        (_is_one_part_moved(first, second, freedom) and not _lost_its_place(first, second))
        or _is_aside_moved(first, second)
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


def _is_done_by_anyone(first: _Side, second: _Side) -> bool:
    """« Quand la prime est-elle versée aux salariés » and « quand verse-t-on la prime aux salariés »."""
    voices = _active_and_passive(first, second)
    if voices is None or len(first.items) < 2 or first.reading.kind is Kind.WHO:
        return False
    active, passive = (side.reading for side in voices)
    heads = (*first.items[:2], *second.items[:2])
    return (
        active.is_impersonal
        and not passive.is_impersonal
        and agent(passive) is None
        and not any(item.quantity for item in heads)
        and all(item.marker in (None, Marker.CLAUSE) for item in heads)
        and first.items[1].relation == second.items[1].relation == "none"
    )


def _is_time_moved(c: Comparison, first: _Side, second: _Side) -> bool:
    """« Le samedi, à quelle heure ferme le parc » and « à quelle heure le parc ferme-t-il le samedi »."""
    if sum(concept in c.lexicon.temporal for concept in first.concepts) != 1:
        return False
    return _is_time_ahead(first, second) or _is_time_ahead(second, first)


def _is_time_ahead(ahead: _Side, behind: _Side) -> bool:
    if len(ahead.items) != 3 or not ahead.items[1].starts_clause:
        return False
    plain = ahead.items[0].relation == behind.items[-1].relation == "none"
    time, *others = ahead.concepts
    return plain and behind.concepts == [*reversed(others), time]


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


def _is_aside_moved(first: _Side, second: _Side) -> bool:
    """One circumstance (« pendant un arrêt maladie ») said elsewhere, everything else in the same order."""
    one, two = first.concepts, second.concepts
    for start, item in enumerate(first.items):
        if item.marker not in _ASIDES:
            continue
        for end in range(start + 1, min(len(one), start + 3) + 1):
            block, rest = one[start:end], one[:start] + one[end:]
            for place in range(len(rest) + 1):
                moved = rest[:place] + block + rest[place:]
                if moved == two and second.items[place].marker is item.marker:
                    return True
    return False


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


def _is_best_of(first: _Side, second: _Side) -> bool:
    """ "What is the fastest animal" and "which animal is the fastest"."""
    if set(first.concepts) != set(second.concepts):
        return False
    return len(first.items) <= 4 and all(
        side.reading.lexicon.language == "en"
        and side.reading.kind is Kind.WHAT
        and any(_SUPERLATIVE.fullmatch(item.text) for item in side.reading.items)
        and not any(item.marker in (Marker.FROM, Marker.TO) for item in side.reading.items)
        for side in (first, second)
    )


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
    """One part went from one end to the other, cut where a preposition or a comma allows it.

    The part is one block: with more than one, what belongs to which could have been exchanged.
    """
    one, two = first.concepts, second.concepts
    ahead = [_is_movable(item, freedom) for item in first.items]
    behind = [_is_movable(item, freedom) for item in second.items]
    for cut in range(1, len(one)):
        if one[cut:] + one[:cut] != two or not (ahead[cut] or behind[len(one) - cut]):
            continue
        if not any(ahead[1:cut]) or not any(ahead[cut + 1 :]):
            return True
    return False
