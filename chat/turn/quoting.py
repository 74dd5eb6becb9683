"""The answer where no model writes one: of each passage the sentences that answer, with their list, table or code whole. Pure.

A short passage is quoted whole. Of a longer one the pieces that share the question's rarest words are taken, a sentence of prose with
the one that it leans on, a block of its own (list, table, code) with the sentence that announces it; what is left out is marked, and
the end says where the rest is. Words are compared by their stems; where none is shared, the beginning is quoted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log

from django.conf import settings
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt

from chat.citations import escape_citations
from knowledge.language.classes import word_class
from knowledge.language.folding import fold, same_writing, words
from knowledge.language.stemming import common_stem
from knowledge.search import Passage

_LEFT_OUT = "[…]"
#: Joining two sentences is harmless, cutting one is not: a stop after a short word is an abbreviation's (« art. L. 512 », « M. Dupont »).
_LONGEST_ABBREVIATION = 4
_NO_ABBREVIATION = "".join(
    rf"(?<!\b[^\W\d_]{{{letters}}}\.)" for letters in range(1, _LONGEST_ABBREVIATION + 1)
)
#: Where a sentence ends: before a capital, a quotation or a span of code.
_SENTENCE = re.compile(rf"(?<=[.!?…]){_NO_ABBREVIATION}[ \t]+(?=[A-ZÀ-ÖØ-Þ«\"“‘(\[`*])")
#: A sentence that begins so says nothing without the one before it.
_LEANING = re.compile(
    r"(?:il|elle|ils|elles|ce|cela|ceci|cette|ces|celui|celle|dans ce cas|en effet|toutefois|cependant|sinon|de plus|en outre|ainsi|"
    r"it|its|this|that|these|those|they|he|she|such|however|otherwise|thus|therefore|instead|in this case|also|then)\b",
    re.IGNORECASE,
)
#: A line in bold is the title, or the term, of what follows.
_TERM = re.compile(r"\*\*[^*]+\*\*")
#: What a word counts that the passage's own headings say: every piece is about it.
_IN_HEADING = 0.3
#: What a word counts that a chosen piece has; a further piece is taken that adds so much of what the best one has.
_SAID_ALREADY = 0.4
_WORTH_IT = 0.3


@dataclass(slots=True)
class _Piece:
    """What is quoted whole or not at all. `block` tells pieces of one paragraph or list from those of the next."""

    text: str
    block: int
    is_prose: bool
    #: Not quoted without the piece before it: a block that is announced, a sentence that leans on another.
    leans: bool = False
    #: Not quoted without the piece after it: a heading, an announcement.
    announces: bool = False


def quoted_text(passages: Sequence[Passage], question: str) -> str:
    """The best passages, quoted with their source."""
    asked = [passage.question for passage in passages]
    quotes = [
        _quote(passage, number, question, is_alone=asked.count(passage.question) == 1)
        for number, passage in enumerate(passages, start=1)
    ]
    intro = _("Voici ce que disent les documents les plus proches de votre question :")
    return "\n\n".join([intro, *quotes])


def without_twins(passages: Sequence[Passage], limit: int) -> list[Passage]:
    """Without those that say nothing which one before them does not say, at most `limit`."""
    kept: list[Passage] = []
    for passage in passages:
        if len(kept) < limit and not any(_says_nothing_new(passage, other) for other in kept):
            kept.append(passage)
    return kept


def _says_nothing_new(passage: Passage, kept: Passage) -> bool:
    """At one place, for no other question: of one document its words stand in the other's, of two the writing is one.

    Nothing weaker: « sans » and « avec », « nord » and « sud » are two answers, « Oui » to two questions as well.
    """
    if passage.place() != kept.place() or passage.question not in ("", kept.question):
        return False
    if passage.document_id is None or passage.document_id != kept.document_id:
        return same_writing(passage.content, kept.content)
    ours, theirs = (" ".join(each.content.casefold().split()) for each in (passage, kept))
    return f" {ours} " in f" {theirs} "


def _quote(passage: Passage, number: int, question: str, *, is_alone: bool) -> str:
    """A passage under its question; two under the same one are told apart by where they stand."""
    place = passage.place(between=" › ")
    text = telling_part(passage.content, question, place)
    quoted = "\n".join(f"> {line}".rstrip() for line in escape_citations(text).splitlines())
    heading = (is_alone and passage.question) or place.replace(" > ", " › ") or passage.question
    rest = f"\n\n{_rest(passage, number)}" if text != passage.content.strip() else ""
    return f"**{heading}** [{number}]\n\n{quoted}{rest}"


def _rest(passage: Passage, number: int) -> str:
    if passage.url:
        return f"[{_('Lire la page entière')}]({passage.url})"
    return f"*{_('Le passage entier est dans la source')}* [{number}]"


def telling_part(content: str, question: str, place: str = "") -> str:
    """Of a passage in Markdown what answers the question, at most about `MAX_QUOTE_CHARACTERS`; all of it where it is short."""
    content = content.strip()
    limit = settings.MAX_QUOTE_CHARACTERS
    if len(content) <= limit:
        return content
    pieces = list(_pieces(content))
    chosen = _choose(pieces, _ranked(_weighted(pieces, question, place)), limit)
    return _joined(pieces, chosen)


def _pieces(content: str) -> Iterator[_Piece]:
    lines = content.split("\n")
    tops = [t for t in _parser().parse(content) if t.level == 0 and t.map and t.nesting >= 0]
    previous: _Piece | None = None
    for block, token in enumerate(tops):
        start, end = token.map or [0, 0]
        text = "\n".join(lines[start:end]).strip("\n")
        is_prose = token.type == "paragraph_open"
        texts = _SENTENCE.split(" ".join(text.split("\n"))) if is_prose else [text]
        if token.type in ("bullet_list_open", "ordered_list_open"):
            texts = _items(text)
        for position, each in enumerate(texts):
            is_announced = not position and previous is not None and previous.announces
            piece = _Piece(each, block, is_prose)
            piece.leans = is_announced or (is_prose and position > 0 and bool(_LEANING.match(each)))
            is_title = token.type == "heading_open" or bool(_TERM.fullmatch(each))
            piece.announces = is_title or each.rstrip("* ").endswith(":")
            yield piece
            previous = piece


def _items(text: str) -> list[str]:
    """A list is one piece; one that is too long for a quote is cut between its items."""
    if len(text) <= settings.MAX_QUOTE_CHARACTERS:
        return [text]
    return re.split(r"\n(?=(?:[-*+]|\d+[.)])\s)", text)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _stems(text: str) -> list[str]:
    stops = word_class("stop_words")
    return [common_stem(word) for word in words(fold(text)) if word not in stops]


def _weighted(pieces: Sequence[_Piece], question: str, place: str) -> list[dict[str, float]]:
    """What each piece shares with the question: rare words of the passage count most, those of its headings little."""
    asked, above = set(_stems(question)), set(_stems(place))
    found = [asked & set(_stems(piece.text)) for piece in pieces]
    having = Counter(stem for each in found for stem in each)
    weights = {
        stem: log(1 + len(pieces) / count) * (_IN_HEADING if stem in above else 1.0)
        for stem, count in having.items()
    }
    return [{stem: weights[stem] for stem in each} for each in found]


def _ranked(shared: Sequence[dict[str, float]]) -> list[int]:
    """The best piece, then whichever adds most: words that no chosen piece has count whole, the others little."""
    covered: set[str] = set()
    ranked: list[int] = []
    most = 0.0
    while len(ranked) < len(shared):
        gains = {
            at: sum(w * (_SAID_ALREADY if stem in covered else 1.0) for stem, w in each.items())
            for at, each in enumerate(shared)
            if at not in ranked
        }
        best = max(gains, key=lambda at: (gains[at], -at))
        most = most or gains[best]
        if not gains[best] or gains[best] < _WORTH_IT * most:
            break
        ranked.append(best)
        covered |= shared[best].keys()
    return ranked


def _choose(pieces: Sequence[_Piece], ranked: Sequence[int], limit: int) -> set[int]:
    """The best pieces with what they lean on; then what follows the best one, while there is room."""
    wanted = ranked or [0]
    beside = [*range(wanted[0] + 1, len(pieces)), *range(wanted[0] - 1, -1, -1)]
    chosen: set[int] = set()
    for at in wanted:
        chosen = _with(pieces, chosen, at, limit) or chosen
    for at in beside:
        more = _with(pieces, chosen, at, limit)
        if more is None:
            break
        chosen = more
    last = max(chosen)
    # What it announces is in another passage.
    return chosen - {last} if pieces[last].announces and len(chosen) > 1 else chosen


def _with(pieces: Sequence[_Piece], chosen: set[int], at: int, limit: int) -> set[int] | None:
    """The chosen pieces and one more, `None` where there is no room; the first is taken whatever its size."""
    more = chosen | _with_context(pieces, at)
    size = sum(len(pieces[each].text) for each in more)
    return more if not chosen or size <= limit else None


def _with_context(pieces: Sequence[_Piece], at: int) -> set[int]:
    """A piece with those that it is not understood without."""
    first = last = at
    while first and (pieces[first].leans or pieces[first - 1].announces):
        first -= 1
    while last + 1 < len(pieces) and pieces[last].announces:
        last += 1
    return set(range(first, last + 1))


def _joined(pieces: Sequence[_Piece], chosen: Iterable[int]) -> str:
    """In their order; a mark where something between them, or before them, was left out."""
    order = sorted(chosen)
    text = (
        (f"{_LEFT_OUT} " if pieces[order[0]].is_prose else f"{_LEFT_OUT}\n\n") if order[0] else ""
    )
    text += pieces[order[0]].text
    for before, at in pairwise(order):
        gap = at - before > 1
        if pieces[at].block == pieces[before].block:
            between = " " if pieces[at].is_prose else "\n"
            text += f"{between}{_LEFT_OUT}{between}" if gap and pieces[at].is_prose else between
        else:
            text += f"\n\n{_LEFT_OUT}\n\n" if gap else "\n\n"
        text += pieces[at].text
    if order[-1] + 1 < len(pieces):
        text += f" {_LEFT_OUT}" if pieces[order[-1]].is_prose else f"\n\n{_LEFT_OUT}"
    return text
