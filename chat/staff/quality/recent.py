"""Real questions that were put to an agent: what a rebuilt index is tried with before it goes live, and which passages
were of use, for whom a model writes questions first.
"""

from collections import Counter
from collections.abc import Sequence

from django.conf import settings

from agents.models import Agent
from chat.models import Message, Role, Turn

#: Turns looked at for each question wanted: people repeat themselves.
_REPEATS = 4


def recent_questions(agent: Agent, limit: int) -> Sequence[str]:
    """The last different questions of users to the agent's deployments, newest first.

    A build keeps them with its preview, so none comes from a temporary chat.
    """
    asked = (
        Turn.objects.filter(conversation__deployment__agent=agent, messages__role=Role.USER)
        .filter(conversation__is_temporary=False)
        .order_by("-started_at")
        .values_list("messages__content", flat=True)[: limit * _REPEATS]
    )
    return list(dict.fromkeys(text.strip() for text in asked if text.strip()))[:limit]


def recently_used_chunks() -> Counter[int]:
    """How often the last answers showed each chunk as a source, of all agents."""
    shown = (
        Message.objects.filter(role=Role.ASSISTANT, conversation__is_temporary=False)
        .exclude(sources=[])
        .order_by("-pk")
        .values_list("sources", flat=True)[: settings.QUESTIONS_USAGE_MESSAGES]
    )
    return Counter(source["chunk_id"] for sources in shown for source in sources if source.get("chunk_id"))
