"""Real questions that were put to an agent: what a rebuilt index is tried with before it goes live."""

from collections.abc import Sequence

from agents.models import Agent
from chat.models import Role, Turn

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
