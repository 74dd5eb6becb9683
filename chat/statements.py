"""The statements that every turn runs, written by the ORM once (`agents.statements`); `chat.thread` alone runs them."""

from typing import Any

from django.db.models import F, QuerySet

from agents.statements import PreparedInsert, PreparedSelect, PreparedUpdate, parameter
from chat.models import Conversation, Message, Turn, TurnStatus

#: What the end of a turn says about it.
ENDING = (
    "status",
    "answer_source",
    "model",
    "score",
    "best_score",
    "llm_calls",
    "prompt_tokens",
    "completion_tokens",
    "rounds",
    "efficiency",
    "stop_reason",
    "is_personal",
    "trace",
    "error_code",
    "finished_at",
)


def _conversation() -> QuerySet[Conversation, Any]:
    return Conversation.objects.filter(pk=parameter(Conversation, "id", name="conversation_id"))


def _open_turn() -> QuerySet[Turn, Any]:
    """One that may still end: running, or taken for dead."""
    return Turn.objects.filter(
        pk=parameter(Turn, "id", name="turn_id"),
        conversation=parameter(Turn, "conversation", name="conversation_id"),
        status__in=(TurnStatus.RUNNING, TurnStatus.INTERRUPTED),
    )


_next_version = {
    "version": F("version") + 1,
    "updated_at": parameter(Conversation, "updated_at", name="now"),
}

TITLE_AND_LEAF = PreparedSelect(lambda: _conversation().order_by().values_list("title", "leaf"))
NEXT_VERSION = PreparedUpdate(_conversation, _next_version)
#: Of a conversation that has not branched, here neither (`chat.branches`).
NAME_LINE = PreparedUpdate(
    lambda: _conversation().filter(leaf=None),
    {**_next_version, "title": parameter(Conversation, "title")},
)
INSERT_TURN = PreparedInsert(Turn)
END_TURN = PreparedUpdate(_open_turn, {name: parameter(Turn, name) for name in ENDING})
INSERT_MESSAGE = PreparedInsert(Message)
