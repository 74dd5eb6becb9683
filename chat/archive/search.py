"""Search in a person's conversations: titles and what was said, without case or accents, on SQLite and PostgreSQL, and
an excerpt of what was said that has the words.

Every word must be found: all in the title, or all in one message. Only that person's latest conversations are looked
at, and no index is kept: a few thousand messages are read in milliseconds, and nothing is written for it.
"""

import re
import unicodedata
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Exists, F, Func, Max, OuterRef, Q, QuerySet, TextField, Value
from django.dispatch import receiver

from chat.models import Conversation, Message
from knowledge.language.words import ACCENTED, PLAIN, bounded_marks, fold_letters

#: Of a person's conversations, so many of the latest are searched; so many words of the search count.
SEARCH_MAX_CONVERSATIONS = 2_000
SEARCH_MAX_WORDS = 8

_LONGEST_WORD = 60
#: An excerpt: so much before the first word that was found, and so much in all.
_CHARACTERS_BEFORE, _CHARACTERS = 40, 160
#: What Markdown writes around words, and the numbers of sources: signs that an excerpt does without.
_NUMBERS, _SIGNS = re.compile(r"\s*\[\d+\]"), re.compile(r"[*`#>|~]+|\s+")


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
            "repondant_folded", 1, lambda text: None if text is None else fold_letters(text), deterministic=True
        )


def search_conversations(own: QuerySet[Conversation], text: str) -> QuerySet[Conversation]:
    """Those of a person's conversations that hold every word of `text`; all of them where it has none."""
    words = _words(text)
    if not words:
        return own
    latest = own.order_by("-is_pinned", "-updated_at").values("pk")
    latest = latest[:SEARCH_MAX_CONVERSATIONS]
    in_title = Q()
    for word in words:
        in_title &= Q(plain_title__contains=word)
    found = Conversation.objects.filter(pk__in=latest).alias(plain_title=Folded(F("title")))
    return found.filter(in_title | Q(Exists(_saying(words).filter(conversation=OuterRef("pk")))))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What was said in the latest message that has the words: pieces of text, and whether each is one of them."""

    turn_id: uuid.UUID | None
    parts: tuple[tuple[str, bool], ...]


def excerpts(conversations: Iterable[Conversation], text: str) -> dict[uuid.UUID, Excerpt]:
    """By conversation; none where only the title has the words."""
    words = _words(text)
    if not words:
        return {}
    found = _saying(words).filter(conversation__in=[each.pk for each in conversations])
    latest = found.order_by().values("conversation").annotate(latest=Max("pk")).values("latest")
    rows = Message.objects.filter(pk__in=latest).values_list("conversation", "turn", "content")
    return {row[0]: Excerpt(row[1], _parts(row[2], words)) for row in rows}


def _words(text: str) -> list[str]:
    plain = fold_letters(text).replace("\0", " ")
    return [word[:_LONGEST_WORD] for word in plain.split()][:SEARCH_MAX_WORDS]


def _saying(words: Iterable[str]) -> QuerySet[Message]:
    said = Message.objects.exchanges().alias(plain=Folded(F("content")))
    for word in words:
        said = said.filter(plain__contains=word)
    return said


def _parts(content: str, words: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    text = unicodedata.normalize("NFC", _SIGNS.sub(" ", _NUMBERS.sub("", bounded_marks(content))))
    text = re.sub(" +", " ", text).strip()
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))
    plain, places = _folded(text)
    first = pattern.search(plain)
    start = max(0, places[first.start()] - _CHARACTERS_BEFORE) if first else 0
    if start:
        start = text.find(" ", start, start + _CHARACTERS_BEFORE) + 1 or start
    end = start + _CHARACTERS
    shown = text[start:end].rsplit(" ", 1)[0] if end < len(text) else text[start:]
    shown = ("… " if start else "") + shown + (" …" if end < len(text) else "")
    plain, places = _folded(shown)
    parts: list[tuple[str, bool]] = []
    done = 0
    for match in pattern.finditer(plain):
        begin, stop = places[match.start()], places[match.end() - 1] + 1
        parts += [(shown[done:begin], False), (shown[begin:stop], True)]
        done = stop
    return tuple(part for part in (*parts, (shown[done:], False)) if part[0])


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """The text as it is compared, and where each of its letters stands in the text."""
    plain = fold_letters(text)
    if len(plain) == len(text):
        return plain, range(len(text))
    letters = [fold_letters(letter) for letter in text]
    return "".join(letters), [index for index, letter in enumerate(letters) for _ in letter]
