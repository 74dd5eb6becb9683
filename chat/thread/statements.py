"""The statements that every turn runs, written by the ORM once (`agents.database`); `chat.thread.turns`
alone runs them.
"""

from typing import Any

from django.db.models import F, QuerySet

from agents.database import PreparedSelect, PreparedUpdate, parameter
from chat.models import Conversation, Turn, TurnStatus

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
    "answered_by",
    "language",
    "trace",
    "unsettled",
    "error_code",
    "finished_at",
)


def _conversation() -> QuerySet[Conversation, Any]:
    return Conversation.objects.filter(pk=parameter(Conversation, "id", name="conversation_id"))


def _turn(status: TurnStatus) -> QuerySet[Turn, Any]:
    """This run of a turn, while the turn has that status."""
    return Turn.objects.filter(
        pk=parameter(Turn, "id", name="turn_id"),
        conversation=parameter(Turn, "conversation", name="conversation_id"),
        run=parameter(Turn, "run"),
        status=status,
    )


_next_version = {"version": F("version") + 1, "updated_at": parameter(Conversation, "updated_at", name="now")}

#: Held from then on.
HEAD = PreparedSelect(
    lambda: _conversation().select_for_update(no_key=True).order_by().values_list("title", "version", "leaf")
)
NEXT_VERSION = PreparedUpdate(_conversation, _next_version)
#: Of a conversation that has not branched, here neither (`chat.thread.branches`).
NAME_LINE = PreparedUpdate(
    lambda: _conversation().filter(leaf=None), {**_next_version, "title": parameter(Conversation, "title")}
)
_ending = {name: parameter(Turn, name) for name in ENDING}
END_TURN = PreparedUpdate(lambda: _turn(TurnStatus.RUNNING), _ending)
#: The end of a run whose lease had run out: it was marked as interrupted meanwhile.
END_LATE_TURN = PreparedUpdate(lambda: _turn(TurnStatus.INTERRUPTED), _ending)
