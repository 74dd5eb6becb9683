"""The replies that staff wrote to greetings, thanks and the like: found by their words, without a search."""

from collections.abc import Collection
from typing import NamedTuple

from faqs.models import LearnedKind, LearnedResponse
from knowledge.language.folding import fold, words


class StaffReply(NamedTuple):
    learned_id: int
    text: str


def staff_reply(agent_ids: Collection[int], said: str) -> StaffReply | None:
    """The newest standing courtesy of these agents in the same words, case, accents and signs apart. One query, or two."""
    asked = words(fold(said))
    rows = LearnedResponse.objects.standing().filter(agent_id__in=agent_ids, kind=LearnedKind.COURTESY)
    for row in rows.order_by("-validated_at", "-pk").prefetch_related("phrasings"):
        if any(words(fold(text)) == asked for _point, text in row.points()):
            return StaffReply(row.pk, row.answer)
    return None
