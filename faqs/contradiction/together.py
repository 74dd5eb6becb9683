"""Could two questions be asked in the same situation, though the second key tells them apart? Pure.

Looser than the second key: « Combien coûte l'entrée de la piscine pour un adulte ? » beside « Combien coûte la piscine
? ». What tells questions of one field apart is looked for instead: another year, another branch, children for adults,
one word in the place of another in the same sentence, or nothing in common. Two languages are compared by the
dictionary, and by the words that they share.
"""

from collections.abc import Collection
from difflib import SequenceMatcher

from faqs.contradiction.stance import Exchange, days_in
from faqs.contradiction.words import WORDS, Group, synonyms, values_in

#: Two sentences with so many words in common, and a word of their own each, ask for two things.
_SAME_SENTENCE = 0.5
#: So much of one question is spoken of on the other side: where figures clash, and where words do.
_COMMON_FIGURES, _COMMON_WORDS = 0.5, 0.5
#: Letters at the beginning by which a word is the same in two languages.
_ALIKE = 5
#: Kinds of facts of which some are a beginning and others an end.
_TIMES = frozenset(("hour", "date", "duration"))


def why_apart(one: Exchange, two: Exchange, *, figures: Collection[str]) -> str:
    """The rule that tells two questions apart; empty where none does. `figures`: the kinds of figures that clash."""
    for name, group in WORDS.groups.items():
        if _differ(one, two, group):
            return name
    if figures and (_is_a_part(one, two) or _is_a_part(two, one)):
        return "part"
    if _TIMES.intersection(figures) and _differ(one, two, WORDS.limits):
        return "limits"
    days = days_in(one.asked), days_in(two.asked)
    if all(days) and not days[0] & days[1]:
        return "days"
    if _other_figures(one, two):
        return "figures"
    if one.names - two.stems and two.names - one.stems:
        return "names"
    return _other_words(one, two, _COMMON_FIGURES if figures else _COMMON_WORDS)


def share(concepts: Collection[str], others: Collection[str]) -> float:
    """How much of one side is on the other; all of it where there is nothing."""
    return sum(each in others for each in concepts) / len(concepts) if concepts else 1.0


def are_alike(one: str, two: str) -> bool:
    """Stems that two languages share: « dentair » and "dental"."""
    return len(one) >= _ALIKE and one[:_ALIKE] == two[:_ALIKE]


def _differ(one: Exchange, two: Exchange, group: Group) -> bool:
    left, right = values_in(one.asked, group), values_in(two.asked, group)
    return bool(left and right and not left & right)


def _is_a_part(one: Exchange, two: Exchange) -> bool:
    """The first question is about children, and nothing on the other side is."""
    for name, value in WORDS.narrow:
        group = WORDS.groups[name]
        if group[value].search(one.asked) and not values_in(two.asked, group):
            if not group[value].search(two.said):
                return True
    return False


def _other_figures(one: Exchange, two: Exchange) -> bool:
    """2023 and 2024, zone 1 and zones 1 to 3."""
    for kind in {each.kind for each in one.asked_facts} & {each.kind for each in two.asked_facts}:
        left = [each for each in one.asked_facts if each.kind == kind]
        right = [each for each in two.asked_facts if each.kind == kind]
        if len(left) != len(right) or not all(any(map(each.matches, right)) for each in left):
            return True
    return False


def _other_words(one: Exchange, two: Exchange, least: float) -> str:
    """A word of their own each in one sentence, or too little in common.

    A long answer has something in common with much: there a word of their own each is enough.
    """
    common = _common(one, two), _common(two, one)
    alone = one.subject - common[0], two.subject - common[1]
    if one.language != two.language:
        # Words that the dictionary does not have say nothing.
        known = (each & synonyms(e.language).keys() for each, e in zip(alone, (one, two), strict=True))
        return "words" if all(known) else "" if any(common) else "nothing_common"
    is_long = one.is_long or two.is_long
    if all(alone) and (is_long or _same_sentence(one, two)):
        return "words"
    if not one.subject or not two.subject:
        return "" if one.subject == two.subject else "nothing_common"
    shares = [len(each) / len(e.subject) for each, e in zip(common, (one, two), strict=True)]
    return "" if (min if is_long else max)(shares) >= least else "nothing_common"


def _same_sentence(one: Exchange, two: Exchange) -> bool:
    return SequenceMatcher(None, one.words, two.words, autojunk=False).ratio() >= _SAME_SENTENCE


def _common(one: Exchange, two: Exchange) -> set[str]:
    """The concepts of one question that the other side speaks of, in its words or in others."""
    known, same_language = synonyms(one.language), one.language == two.language
    return {
        concept
        for concept in one.subject
        if (concept in two.spoken_of if same_language else any(are_alike(concept, c) for c in two.spoken_of))
        or known.get(concept, frozenset()) & two.groups
    }
