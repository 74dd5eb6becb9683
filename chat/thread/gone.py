"""Conversations that are deleted while somebody reads them or writes to them: held against it, or told that they are
gone.
"""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError

from chat.exceptions import ConversationNotFoundError
from chat.models import Conversation, Feedback, Message, ToolRound, Turn

_ROWS = tuple(model.DoesNotExist for model in (Conversation, Turn, Message, Feedback, ToolRound))
#: PostgreSQL's `foreign_key_violation`.
_FOREIGN_KEY = "23503"


def gone_error(error: BaseException) -> ConversationNotFoundError | None:
    """The error as that of a conversation that is gone; `None` where it is another one.

    Both databases look at foreign keys when a transaction ends, and SQLite does not say whose: whatever a row of a
    conversation refers to goes with it, or it with that.
    """
    if isinstance(error, IntegrityError):
        cause = error.__cause__
        is_gone = (
            cause.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
            if isinstance(cause, sqlite3.Error)
            else getattr(cause, "sqlstate", None) == _FOREIGN_KEY
        )
    else:
        is_gone = isinstance(error, _ROWS)
    return ConversationNotFoundError(" ".join(str(error).split())) if is_gone else None


def hold_conversation(conversation_id: uuid.UUID) -> Conversation:
    """Its row as it is now, held to the end of the transaction; raises `ConversationNotFoundError` where it is gone.

    Whoever writes rows of a conversation holds it before any other of them, and so does its deletion: nobody waits in a
    circle.
    """
    held = Conversation.objects.select_for_update(no_key=True).filter(pk=conversation_id).first()
    if held is None:
        raise ConversationNotFoundError(f"Conversation {conversation_id} is gone.")
    return held


@contextmanager
def still_there() -> Iterator[None]:
    """Raises `ConversationNotFoundError` where the conversation was deleted meanwhile, and other errors as they are."""
    try:
        yield
    except (ObjectDoesNotExist, IntegrityError) as error:
        if (gone := gone_error(error)) is None:
            raise
        raise gone from error
