"""Validated answers under a new acronym or synonym: which it would set against each other, and which have to take
effect anew.
"""

from collections.abc import Iterator
from heapq import nlargest
from itertools import product
from typing import NamedTuple

from faqs.answers.indexing import unsettle
from faqs.models import LearnedResponse, Phrasing, standing_condition
from faqs.second_key.agreement import ask_the_same
from knowledge.acronyms.readings import Form, Forms
from knowledge.language.folding import fold, same_writing, words
from knowledge.vectors.base import batches

#: Pairs of questions that are compared for one pair of forms, those with the most words in common (some 0.7 ms each).
_COMPARED = 500
#: Questions with each form that are looked at, the newest.
_LOOKED_AT = 500
#: Keys in one `IN (…)`, below SQLite's oldest limit on variables.
_KEY_BATCH = 500


class _Asked(NamedTuple):
    """A way to ask a standing answer. `words`: folded, each form in one writing."""

    learned_id: int
    text: str
    answer: str
    words: frozenset[str]
    is_in_short_form: bool


def find_conflicts(agent_id: int, short: str, long: str) -> Iterator[tuple[str, str]]:
    """Questions that these forms would make one, though people answered them differently, the likeliest first."""
    forms = Forms((Form(short, long, is_confirmed=True),))
    asked = list(_asked_in(forms, agent_id))
    with_short = [each for each in asked if each.is_in_short_form][:_LOOKED_AT]
    with_long = [each for each in asked if not each.is_in_short_form][:_LOOKED_AT]
    for one, other in nlargest(_COMPARED, product(with_short, with_long), key=_share_in_common):
        if one.learned_id == other.learned_id or same_writing(one.answer, other.answer):
            continue
        if ask_the_same(one.text, other.text, forms) and not ask_the_same(one.text, other.text):
            yield one.text, other.text


def settle_again(agent_id: int, forms: Forms) -> None:
    """Validated answers that hold one of the forms also answer what stands in the other form now: older words go."""
    for batch in batches(sorted({each.learned_id for each in _asked_in(forms, agent_id)}), _KEY_BATCH):
        unsettle(LearnedResponse.objects.filter(pk__in=batch))


def _asked_in(forms: Forms, agent_id: int) -> Iterator[_Asked]:
    """Ways to ask the agent's standing answers that hold one of the forms, the newest first."""
    mains = LearnedResponse.objects.standing().filter(agent=agent_id)
    others = Phrasing.objects.filter(standing_condition("response__"), response__agent=agent_id)
    texts = ("response_id", "text", "response__answer")
    for rows in (mains.values_list("pk", "question", "answer"), others.values_list(*texts)):
        for learned_id, text, answer in rows.order_by("-pk").iterator():
            if forms.other_reading(text):
                written = forms.one_writing(text)
                found = frozenset(words(fold(written)))
                yield _Asked(learned_id, text, answer, found, written == text)


def _share_in_common(pair: tuple[_Asked, _Asked]) -> float:
    one, other = pair
    return len(one.words & other.words) / (len(one.words | other.words) or 1)
