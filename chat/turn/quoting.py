"""The answer where no model writes one: of each passage the sentences that answer, with their list, table or code
whole. Pure.

A short passage is quoted whole, and so is the first unless it is long: what is cut out is missed more than what is too
much disturbs. Of a longer one the pieces that share the question's rarest words are taken, each with what may reverse
its sense, even over the limit: its headings, the sentence before its list, table or code, the one that it leans on, the
exception that follows it; what is left out is marked, and the end says where the rest is. Words are compared by their
stems; where none is shared, the beginning is quoted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import log

from django.utils.translation import gettext as _
from markdown_it import MarkdownIt

from chat.rendering import escape_citations
from knowledge.language.words import common_stem, fold, same_writing, word_class, words
from knowledge.search import Passage

#: And in an answer without a model: the first one is seldom longer (`CHUNK_TARGET_CHARACTERS`); of ten that were cut at
#: 700, somebody who had not the source understood six.
MAX_FIRST_QUOTE_CHARACTERS = 1_400
MAX_QUOTE_CHARACTERS = 700

_LEFT_OUT = "[…]"
#: Joining two sentences is harmless, cutting one is not: a stop after a short word is an abbreviation's (« art. L. 512
#: », « M. Dupont »).
_LONGEST_ABBREVIATION = 4
_NO_ABBREVIATION = "".join(rf"(?<!\b[^\W\d_]{{{letters}}}\.)" for letters in range(1, _LONGEST_ABBREVIATION + 1))
#: Where a sentence ends: before a capital, a quotation or a span of code.
_SENTENCE = re.compile(rf"(?<=[.!?…]){_NO_ABBREVIATION}[ \t]+(?=[A-ZÀ-ÖØ-Þ«\"“‘(\[`*])")
#: A sentence that begins so, folded, says nothing without the one before it.
_LEANING = re.compile(
    r"(?:il|elle|ils|elles|ce|cela|ceci|cette|ces|celui|celle|dans ce cas|en effet|sinon|de plus|en outre|ainsi|"
    r"par exemple|une? autre|d'autres|le premier|la premiere|comme (?:indique|mentionne|vu|dit)|"
    r"it|its|this|that|these|those|they|he|she|such|otherwise|thus|therefore|instead|in this case|also|then|"
    r"for (?:example|instance)|another|the (?:former|latter|answer|result)|as (?:mentioned|described|noted|explained|shown))\b"
    # « Les pseudo-paquets permettent ainsi… », "The table also shows…"
    r"|(?:[^\W\d_]+\W+){1,5}(?:ainsi|donc|egalement|quant a (?:lui|elle|eux|elles)|also|thus|therefore)\b(?! qu)"
)
#: Nor is the one before it true without one that begins so, folded, behind its marks.
_CONTRASTING = re.compile(
    r"(?:\d+[.)])?[\W_]{0,9}(?:sauf|hormis|excepte(?:e?s|e)?|(?:a l'|par |une )?exceptions?|mais|neanmoins|toutefois|cependant|pourtant|"
    r"en revanche|a moins|uniquement si|seulement si|seule?s?|par derogation|"
    r"except|unless|but|however|nevertheless|only)\b"
)
#: A sentence that begins so behind another of its piece, which ends in a short word.
_CONTRASTING_INSIDE = re.compile(rf"[.!?][ \t]+{_CONTRASTING.pattern}")
#: What stands in bold at the beginning of a paragraph; alone on its line it is the title, or the term, of what follows.
_BOLD = re.compile(r"(?:\*\*[^*]+\*\*|__[^_]+__)[ \t]*:?")
#: A line that is no plain prose: of a list, a table, a heading, a quotation or code, or one that begins with emphasis.
_MARKED_LINE = re.compile(r"\s*(?:[-*+#|>]|\d+[.)]\s|```)")
#: How deep a bold line stands: under any heading (1 to 6).
_BOLD_LEVEL = 7
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
    #: Of a title: how deep it stands, from 1; 0 for what is none.
    level: int = 0
    #: The places of the pieces without which it might say the contrary.
    needs: set[int] = field(default_factory=set)

    @property
    def announces(self) -> bool:
        """Not chosen without the piece after it."""
        return self.level > 0 or self.text.rstrip("*_ ").endswith(":")


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
    """The first `limit` passages, without those that repeat an earlier one."""
    kept: list[Passage] = []
    for passage in passages:
        if len(kept) < limit and not any(_says_nothing_new(passage, other) for other in kept):
            kept.append(passage)
    return kept


def _says_nothing_new(passage: Passage, kept: Passage) -> bool:
    """Whether a passage repeats one already taken, under the same question: in one document by its words, else whole.

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
    limit = MAX_QUOTE_CHARACTERS if number > 1 else MAX_FIRST_QUOTE_CHARACTERS
    text = telling_part(passage.content, question, place, limit)
    if text == passage.content.strip() and not passage.question:
        text = _without_open_end(text)
    quoted = "\n".join(f"> {line}".rstrip() for line in escape_citations(text).splitlines())
    heading = (is_alone and passage.question) or place.replace(" > ", " › ") or passage.question
    rest = f"\n\n{_rest(passage, number)}" if text != passage.content.strip() else ""
    return f"**{heading}** [{number}]\n\n{quoted}{rest}"


def _rest(passage: Passage, number: int) -> str:
    if passage.url:
        return f"[{_('Lire la page entière')}]({passage.url})"
    return f"*{_('Le passage entier est dans la source')}* [{number}]"


def telling_part(content: str, question: str, place: str = "", limit: int | None = None) -> str:
    """Of a passage in Markdown what answers the question, at most about `limit` characters (`MAX_QUOTE_CHARACTERS`);
    all of it where it is short.
    """
    content = content.strip()
    limit = MAX_QUOTE_CHARACTERS if limit is None else limit
    if len(content) <= limit:
        return content
    pieces = _pieces(content)
    return _joined(pieces, _choose(pieces, _ranked(_weighted(pieces, question, place)), limit))


def _without_open_end(content: str) -> str:
    """A passage of a document without a last sentence that announces what is in the next one, if something else is left
    of it.
    """
    *lines, last = content.rstrip().splitlines() or [""]
    *sentences, sentence = _SENTENCE.split(last)
    stands_alone = bool(sentences) or (bool(lines) and not lines[-1].strip())
    before = "\n".join([*lines, " ".join(sentences)]).rstrip()
    is_said = before.endswith((".", "!", "?", "…", ")", "|", "`", ";"))
    if not (sentence.endswith(":") and stands_alone and is_said) or _MARKED_LINE.match(last):
        return content
    return f"{before} {_LEFT_OUT}" if sentences else f"{before}\n\n{_LEFT_OUT}"


def _pieces(content: str) -> list[_Piece]:
    pieces = list(_cut(content))
    _put_under_titles(pieces)
    _put_under_announcements(pieces)
    for at in range(1, len(pieces)):
        _tie_to_previous(pieces, at)
    return pieces


def _cut(content: str) -> Iterator[_Piece]:
    lines = content.split("\n")
    tops = [t for t in _parser().parse(content) if t.level == 0 and t.map and t.nesting >= 0]
    for block, token in enumerate(tops):
        start, end = token.map or [0, 0]
        text = "\n".join(lines[start:end]).strip("\n")
        if token.type == "paragraph_open":
            yield from _sentences(text, block)
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            yield from (_Piece(each, block, is_prose=False) for each in _items(text))
        else:
            level = int(token.tag[1:]) if token.type == "heading_open" else 0
            yield _Piece(text, block, is_prose=False, level=level)


def _sentences(text: str, block: int) -> Iterator[_Piece]:
    """Of a paragraph; a first line in bold is a title."""
    first, *others = text.split("\n")
    if _BOLD.fullmatch(first.strip()):
        yield _Piece(first, block, is_prose=True, level=_BOLD_LEVEL)
    else:
        others = [first, *others]
    if others:
        yield from (_Piece(each, block, is_prose=True) for each in _SENTENCE.split(" ".join(others)))


def _put_under_titles(pieces: Sequence[_Piece]) -> None:
    titles: list[int] = []
    for at, piece in enumerate(pieces):
        if piece.level:
            titles = [each for each in titles if pieces[each].level < piece.level]
        piece.needs.update(titles)
        if piece.level:
            titles.append(at)


def _put_under_announcements(pieces: Sequence[_Piece]) -> None:
    """A list, table or code under the sentence before it, whatever its sign; a block under a colon, a paragraph under
    its bold words.
    """
    sentence: int | None = None
    start = 0
    for at, piece in enumerate(pieces):
        if not at or piece.block != pieces[at - 1].block:
            start = at
        if start and pieces[start - 1].announces:
            piece.needs.add(start - 1)
        if piece.is_prose and at > start and _BOLD.match(pieces[start].text):
            piece.needs.add(start)
        if piece.is_prose or piece.level:
            sentence = None if piece.level else at
        elif sentence is not None:
            piece.needs.add(sentence)


def _tie_to_previous(pieces: Sequence[_Piece], at: int) -> None:
    """What leans on the piece before it needs that; what restricts it, or speaks of a whole list, is needed by it as
    well.
    """
    piece, before = pieces[at], pieces[at - 1]
    if before.level or piece.level not in (0, _BOLD_LEVEL):
        return
    said = fold(piece.text)
    leans = piece.is_prose and bool(_LEANING.match(said))
    contrasts = bool(_CONTRASTING.match(said) or (leans and _CONTRASTING_INSIDE.search(said)))
    is_about_a_block = leans and not before.is_prose
    if contrasts or is_about_a_block or (leans and piece.block == before.block):
        piece.needs.add(at - 1)
    if contrasts or is_about_a_block:
        for each in range(_first_restricted(pieces, at), at):
            pieces[each].needs.add(at)
    if contrasts and piece.announces and at + 1 < len(pieces):
        piece.needs.add(at + 1)


def _first_restricted(pieces: Sequence[_Piece], at: int) -> int:
    """Where begins what an exception is one to: the piece before it with what that leans on, or the whole list with its
    announcement.
    """
    first = at - 1
    whole = None if pieces[first].is_prose else pieces[first].block
    whole = None if whole == pieces[at].block else whole
    while first and not pieces[first - 1].level:
        if first - 1 not in pieces[first].needs and pieces[first - 1].block != whole:
            break
        first -= 1
    return first


def _items(text: str) -> list[str]:
    """The list as one piece; a list too long for a quote is cut between its items."""
    if len(text) <= MAX_QUOTE_CHARACTERS:
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
        stem: log(1 + len(pieces) / count) * (_IN_HEADING if stem in above else 1.0) for stem, count in having.items()
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
    others = chosen - {last}
    is_needed = not others or any(last in pieces[each].needs for each in others)
    # What it announces is in another passage.
    return others if pieces[last].announces and not is_needed else chosen


def _with(pieces: Sequence[_Piece], chosen: set[int], at: int, limit: int) -> set[int] | None:
    """The chosen pieces and one more, `None` where there is no room; the first is taken whatever its size."""
    more = chosen | _with_context(pieces, at)
    size = sum(len(pieces[each].text) for each in more)
    return more if not chosen or size <= limit else None


def _with_context(pieces: Sequence[_Piece], at: int) -> set[int]:
    """A piece with what it announces, and with those that it is not understood without."""
    left = [at]
    while pieces[left[-1]].announces and left[-1] + 1 < len(pieces):
        left.append(left[-1] + 1)
    context: set[int] = set()
    while left:
        each = left.pop()
        if each not in context:
            context.add(each)
            left.extend(pieces[each].needs)
    return context


def _joined(pieces: Sequence[_Piece], chosen: Iterable[int]) -> str:
    """In their order; a mark where something between them, or before them, was left out."""
    order = sorted(chosen)
    text = (f"{_LEFT_OUT} " if pieces[order[0]].is_prose else f"{_LEFT_OUT}\n\n") if order[0] else ""
    text += pieces[order[0]].text
    for before, at in pairwise(order):
        gap = at - before > 1
        if pieces[at].block == pieces[before].block and (pieces[at].is_prose or not gap):
            between = " " if pieces[at].is_prose else "\n"
            text += f"{between}{_LEFT_OUT}{between}" if gap else between
        else:
            text += f"\n\n{_LEFT_OUT}\n\n" if gap else "\n\n"
        text += pieces[at].text
    if order[-1] + 1 < len(pieces):
        text += f" {_LEFT_OUT}" if pieces[order[-1]].is_prose else f"\n\n{_LEFT_OUT}"
    return text
