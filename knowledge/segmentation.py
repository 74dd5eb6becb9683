"""Where to cut a sequence of texts, so that an edit in one place moves no cut anywhere else.

Packing texts one after the other up to a size shifts every later cut when a paragraph is put in at the top, and every
shifted chunk is embedded anew and loses what staff wrote on it. Here a boundary is a cut when its rank (how natural it
is, then a hash of the text before it) is the lowest of all boundaries around it: what is farther away has no say. Only
a piece that is still too long is then cut again, on its own.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

#: Half the width of the neighbourhood in which one boundary is cut, as a share of the aimed size. The mean piece is
#: twice that and the mean text; 0.4 gives pieces of the size that packing gave, measured on 90 pages of service-public.fr.
_NEIGHBOURHOOD = 0.4
#: A piece this much longer than aimed is cut again.
_TOLERANCE = 1.4


@dataclass(frozen=True, slots=True)
class Item:
    """A text that is not cut; `roughness` says how bad a cut after it is (0: the end of a paragraph)."""

    text: str
    roughness: int = 0

    @property
    def rank(self) -> tuple[int, bytes]:
        return self.roughness, hashlib.blake2b(self.text.strip().encode(), digest_size=8).digest()


def segments(items: Sequence[Item], *, aim: int, gap: int = 0) -> list[list[str]]:
    """The texts in order, in groups of about `aim` characters; `gap` is what joins two texts, in characters."""
    if not items:
        return []
    ends = list(accumulate(len(item.text) + gap for item in items))
    ranks = [item.rank for item in items]
    cuts = _local_cuts(ends, ranks, aim)
    bounds: list[int] = []
    for start, end in pairwise([0, *cuts, len(items)]):
        bounds.extend([start, *_further_cuts(start, end, ends, ranks, aim)])
    return [
        [item.text for item in items[start:end]]
        for start, end in pairwise([*bounds, len(items)])
        if start < end
    ]


def _local_cuts(ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int) -> list[int]:
    """Places (before item i) whose boundary has the lowest rank of its neighbourhood, the first of equals."""
    if ends[-1] <= aim:
        return []
    reach = int(aim * _NEIGHBOURHOOD)
    cuts = []
    for index in range(len(ends) - 1):
        at = ends[index]
        if at < reach or ends[-1] - at < reach:
            continue
        first, last = bisect_left(ends, at - reach), bisect_right(ends, at + reach)
        before, after = ranks[first:index], ranks[index + 1 : min(last, len(ends) - 1)]
        if all(ranks[index] < r for r in before) and all(ranks[index] <= r for r in after):
            cuts.append(index + 1)
    return cuts


def _further_cuts(
    start: int, end: int, ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int
) -> list[int]:
    """Cuts inside a piece that is too long: at the lowest rank of its middle half, then in both parts."""
    cuts: list[int] = []
    waiting = [(start, end)]
    while waiting:
        first, last = waiting.pop()
        base = ends[first - 1] if first else 0
        size = ends[last - 1] - base
        if last - first < 2 or size <= aim * _TOLERANCE:
            continue
        inner = range(first, last - 1)
        middle = [i for i in inner if size <= 4 * (ends[i] - base) <= 3 * size]
        if middle:
            best = min(middle, key=lambda i: ranks[i])
        else:
            best = min(inner, key=lambda i: abs(2 * (ends[i] - base) - size))
        cuts.append(best + 1)
        waiting += [(first, best + 1), (best + 1, last)]
    return sorted(cuts)
