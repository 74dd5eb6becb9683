"""Search in a person's conversations: titles and what was said, without case or accents, on SQLite and PostgreSQL.

Every word must be found: all in the title, or all in one message. Only that person's latest conversations are looked
at, and no index is kept: a few thousand messages are read in milliseconds, and nothing is written for it.
"""

from typing import Any

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, TextField, Value
from django.dispatch import receiver

from chat.models import Conversation, Message
from knowledge.language.folding import ACCENTED, PLAIN, fold_letters

_LONGEST_WORD = 60


class Folded(Func):
    """`fold_letters` in the database: SQLite is given the function itself, PostgreSQL the letters that it folds."""

    output_field = TextField()
    function = "repondant_folded"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return Func(
            Func(*self.source_expressions, function="LOWER"),
            Value(ACCENTED),
            Value(PLAIN),
            function="TRANSLATE",
            output_field=TextField(),
        ).as_sql(compiler, connection, **context)


@receiver(connection_created)
def teach_sqlite(connection: BaseDatabaseWrapper, **_kwargs: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_function(
            "repondant_folded",
            1,
            lambda text: None if text is None else fold_letters(text),
            deterministic=True,
        )


def search_conversations(own: QuerySet[Conversation], text: str) -> QuerySet[Conversation]:
    """Those of a person's conversations that hold every word of `text`; all of them where it has none."""
    plain = fold_letters(text).replace("\0", " ")
    words = [word[:_LONGEST_WORD] for word in plain.split()][: settings.SEARCH_MAX_WORDS]
    if not words:
        return own
    latest = own.order_by("-updated_at").values("pk")[: settings.SEARCH_MAX_CONVERSATIONS]
    said = Message.objects.exchanges().filter(conversation=OuterRef("pk"))
    said = said.alias(plain=Folded(F("content")))
    in_title, in_message = Q(), Q()
    for word in words:
        in_title &= Q(plain_title__contains=word)
        in_message &= Q(plain__contains=word)
    found = Conversation.objects.filter(pk__in=latest).alias(plain_title=Folded(F("title")))
    return found.filter(in_title | Q(Exists(said.filter(in_message))))
