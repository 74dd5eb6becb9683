"""Which passages were of use, for whom a model writes questions first."""

from collections import Counter

from django.conf import settings

from chat.models import Message, Role


def recently_used_chunks() -> Counter[int]:
    """How often the last answers showed each chunk as a source, of all agents."""
    shown = (
        Message.objects.filter(role=Role.ASSISTANT, conversation__is_temporary=False)
        .exclude(sources=[])
        .order_by("-pk")
        .values_list("sources", flat=True)[: settings.QUESTIONS_USAGE_MESSAGES]
    )
    return Counter(source["chunk_id"] for sources in shown for source in sources if source.get("chunk_id"))
