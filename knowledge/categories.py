"""Category detection: what a question is about, from the passages that search found for it.

The passages vote, each by its rank, and the winner must have enough of the votes and enough more than the next.
Detection informs (the trace); staff may have search favour what it finds, or keep nothing else (`with_category` in
`knowledge.search`), which `benchmarks/retrieval` measures.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.vectors.payloads import FAQ_CATEGORY, Passage

#: Passages that vote; more of them bring in categories that merely border on the question's.
_VOTERS = 6
LEAST_SHARE = 0.5
LEAST_MARGIN = 0.4


@dataclass(frozen=True, slots=True)
class DetectedCategory:
    """`share`: its part of the votes; `margin`: how much more that is than the next one's."""

    name: str
    share: float
    margin: float

    @property
    def is_of_documents(self) -> bool:
        """Validated answers share a category that says nothing of their subject."""
        return self.name != FAQ_CATEGORY


def detect_category(
    passages: Sequence[Passage], *, least_share: float = LEAST_SHARE, least_margin: float = LEAST_MARGIN
) -> DetectedCategory | None:
    """The category of `passages` (one a chunk, best first), or None when they do not agree. Limits are inclusive."""
    votes: defaultdict[str, float] = defaultdict(float)
    for rank, passage in enumerate(passages[:_VOTERS], start=1):
        votes[passage.category] += 1 / rank
    total = sum(votes.values())
    ordered = sorted(votes.items(), key=lambda item: (-item[1], item[0]))
    if not ordered or not ordered[0][0]:
        return None
    (name, most), *others = ordered
    share, margin = most / total, (most - (others[0][1] if others else 0)) / total
    if share < least_share or margin < least_margin:
        return None
    return DetectedCategory(name, share, margin)
