"""The verdict: would a visitor be told two different things? Advice for staff, measured by `benchmarks/contradictions`.

Pure. The cosine of the two questions only chooses which answers are compared; what tells questions apart is in their
words.
"""

from dataclasses import dataclass
from typing import Literal

from faqs.contradiction.clash import (
    Clash,
    channel_clashes,
    day_clashes,
    figure_clashes,
    side_clashes,
    verdict_clashes,
    word_clashes,
)
from faqs.contradiction.stance import Exchange, read_exchange
from faqs.contradiction.together import why_apart
from knowledge.language.folding import same_writing

#: Clashes that are told: the most telling kinds come first.
_MOST = 3
_IN_WORDS = (day_clashes, channel_clashes, side_clashes, word_clashes, verdict_clashes)

#: A question with its answer.
Entry = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Warning:
    kind: Literal["duplicate", "contradiction"]
    clashes: tuple[Clash, ...] = ()


def warning_about(stored: Entry, new: Entry, *, asks_the_same: bool) -> Warning | None:
    """What staff are told of a stored answer beside a new one; `asks_the_same`: by the second key.

    Answers to the same question contradict each other unless they are the same, or have the same figures and no clash;
    answers to two questions only where something clashes.
    """
    one, two = read_exchange(*stored), read_exchange(*new)
    figures = figure_clashes(one, two)
    clashes = (*figures, *(clash for find in _IN_WORDS for clash in find(one, two)))[:_MOST]
    if not asks_the_same:
        is_told = clashes and not why_apart(one, two, figures={each.kind for each in figures})
        return Warning("contradiction", clashes) if is_told else None
    if same_writing(one.answer, two.answer) or (not clashes and _have_the_same_figures(one, two)):
        return Warning("duplicate")
    return Warning("contradiction", clashes)


def _have_the_same_figures(one: Exchange, two: Exchange) -> bool:
    left, right = ([each.fact for each in side.stated] for side in (one, two))
    return bool(left and right) and all(
        any(each.kind == other.kind and each.matches(other) for other in others)
        for mine, others in ((left, right), (right, left))
        for each in mine
    )
