"""The answer where no model writes one: the best passages, quoted whole with their source.

What is shown is cut from the passage and its neighbours in its section (`widened`): a rule with its exception, a list
with what announces it. A passage that is too long is one run of its blocks around the one that shares the question's
rarest words; what is left out is marked. A sentence, item or row that says most of the question's words is in bold.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from markdown_it import MarkdownIt

from chat.rendering import escape_citations
from knowledge.language.words import NO_ABBREVIATION, content_stems, passage_language, same_writing
from knowledge.models import Chunk
from knowledge.search import Passage, PointType

#: Of the first quote (`CHUNK_MAX_CHARACTERS`), and of the others and a passage with its neighbours.
MAX_FIRST_QUOTE_CHARACTERS = 1_800
MAX_QUOTE_CHARACTERS = 1_100
#: A later passage is quoted from this share of the first one's relevance on, else only named (`benchmarks/passages`).
LEAST_SHARE = 0.75

QUOTES_INTRO = gettext_noop("Voici ce que disent les documents les plus proches de votre question :")
_LEFT_OUT = "[…]"
#: The share of the question's words from which a sentence is marked: below it four of five marks were at another place
#: than the answer (`benchmarks/passages`).
_MARKED_SHARE = 0.6
#: Passages that may be shown beside one that was found: so many before it in its section, and after it.
_BEFORE, _AFTER = 1, 2
#: Where a sentence ends: before a capital, a quotation or a span of code.
_SENTENCE = re.compile(rf"(?<=[.!?…]){NO_ABBREVIATION}[ \t]+(?=[A-ZÀ-ÖØ-Þ«\"“‘(\[`*])")
_ITEM = re.compile(r"\n(?=(?:[-*+]|\d+[.)])\s)")
_MARKER = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+|")
_BOLD_LINE = re.compile(r"(?:\*\*[^*\n]+\*\*|__[^_\n]+__)[ \t]*:?")
#: How many passages are quoted where no model writes.
EXTRACTIVE_PASSAGES = 3
#: Text that emphasis would break.
_NOT_BOLD = re.compile(r"[*_`<]|\]\(")


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph, heading, list, table or code, or a unit of one: a sentence, an item, a row."""

    text: str
    kind: str

    @property
    def is_bold(self) -> bool:
        return bool(_BOLD_LINE.fullmatch(self.text.strip()))

    @property
    def announces(self) -> bool:
        """Whether what follows belongs to it."""
        said = self.text.rstrip("*_ ")
        return self.kind == "heading" or said.endswith(":") or (self.is_bold and not said.endswith((".", "!")))


def widened(passages: Sequence[Passage], limit: int) -> list[Passage]:
    """The first `limit` passages with neighbours that fit, none shown already; a pair stands for its found passage."""
    of_documents = [each for each in passages if each.chunk_id and each.type is not PointType.QA_PAIR]
    placed = [each for each in of_documents if each.chunk_index is not None]
    found = {(each.document_id, each.chunk_index) for each in placed}
    near = _neighbours(placed)
    shown: list[Passage] = []
    used: set[int] = set()
    for passage in passages:
        if len(shown) == limit:
            break
        if passage.chunk_id in used and passage in of_documents:
            continue
        place = (passage.document_id, passage.chunk_index)
        shown.append(_wide(passage, near, used) if place in found and place in near else passage)
    return shown


_Near = Mapping[tuple[int | None, int | None], tuple[int, str, str]]


def _neighbours(passages: Sequence[Passage]) -> _Near:
    """The key, headings and text of the passages and of those beside them, by document and rank."""
    beside = range(-_BEFORE, _AFTER + 1)
    wanted = {(each.document_id, (each.chunk_index or 0) + step) for each in passages for step in beside}
    documents, ranks = {document for document, _rank in wanted if document}, {rank for _document, rank in wanted}
    # Two lists cost half of a range for each passage; what has a rank of another document's passage is dropped.
    rows = Chunk.objects.current().filter(document_id__in=documents, index__in=ranks)
    found = rows.values_list("document_id", "index", "pk", "parent_context", "content")
    return {(row[0], row[1]): row[2:] for row in found if row[:2] in wanted}


def _wide(passage: Passage, near: _Near, used: set[int]) -> Passage:
    """The passage with the blocks after it, those of a further section under its title, then those before it in its own
    section, as far as there is room: a deadline or a price often stands under the next title (`benchmarks/passages`).
    """
    document, rank = passage.document_id, passage.chunk_index or 0
    own, path, _own_text = near[document, rank]
    used.add(own)
    content = passage.content
    for steps in (range(1, _AFTER + 1), range(-1, -_BEFORE - 1, -1)):
        for step in steps:
            pk, section, text = near.get((document, rank + step), (None, "", ""))
            if pk is None or pk in used or (section != path and step < 0):
                break
            blocks = [block.text for block in _blocks(text)]
            # Short sections that are one passage hold their own titles.
            if step > 0 and not near[document, rank + step - 1][1].startswith(section):
                blocks[:1] = [f"**{section.rpartition(' > ')[2]}**\n\n{blocks[0]}"]
            while blocks and len(content) + len(blocks[0 if step > 0 else -1]) + 2 <= MAX_QUOTE_CHARACTERS:
                content = f"{content}\n\n{blocks.pop(0)}" if step > 0 else f"{blocks.pop()}\n\n{content}"
            if blocks:
                break
            used.add(pk)
    return passage if content == passage.content else passage.with_values(content=content)


def quoted_text(passages: Sequence[Passage], question: str) -> str:
    """The best passages, quoted; those much weaker than the first, or in another language, are only named."""
    asked, least = [passage.question for passage in passages], LEAST_SHARE * passages[0].relevance
    quotes, named = [], []
    for number, passage in enumerate(passages, start=1):
        heading = _heading(passage, is_alone=asked.count(passage.question) == 1)
        if number > 1 and (passage.relevance < least or len(_languages(passages[0], passage)) > 1):
            named.append(f"- {heading} [{number}]")
        else:
            quotes.append(f"**{heading}** [{number}]\n\n{_quote(passage, number, question)}")
    further = ["\n".join([_("Voir aussi :"), "", *named])] if named else []
    return "\n\n".join([_(QUOTES_INTRO), *quotes, *further])


def in_language_first(passages: Sequence[Passage], language: str) -> list[Passage]:
    """The passages of the reader's language before those of another, where its best one is near the very best."""
    own = [each for each in passages if passage_language(each.content) in ("", language)]
    if not own or own[0].relevance < LEAST_SHARE * passages[0].relevance:
        return list(passages)
    return own + [each for each in passages if each not in own]


def _languages(*passages: Passage) -> set[str]:
    return {passage_language(each.content) for each in passages} - {""}


def without_twins(passages: Sequence[Passage], limit: int) -> list[Passage]:
    """The first `limit` passages, without those that repeat an earlier one."""
    kept: list[Passage] = []
    for passage in passages:
        if len(kept) < limit and not any(_says_nothing_new(passage, other) for other in kept):
            kept.append(passage)
    return kept


#: Blocks shorter than this (a heading, a row) may well stand twice.
_REPEATABLE = 60


def without_repeats(passages: Sequence[Passage]) -> list[Passage]:
    """For a prompt: each text once. A document's pair goes where another passage holds its answer, and so does a block."""
    texts = [_spaced(each.content) for each in passages]
    kept: list[Passage] = []
    said = ""
    for at, passage in enumerate(passages):
        own = texts[at]
        is_held = any(own in other and (own != other or place < at) for place, other in enumerate(texts) if place != at)
        if is_held and not passage.is_faq:
            continue
        blocks = [block.text for block in _blocks(passage.content)]
        new = [each for each in blocks if len(each) < _REPEATABLE or _spaced(each) not in said]
        if passage.is_faq or any(len(each) >= _REPEATABLE for each in new) or new == blocks:
            kept.append(passage if new == blocks else passage.with_values(content="\n\n".join(new)))
            said += f" {own} "
    return kept


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def _says_nothing_new(passage: Passage, kept: Passage) -> bool:
    """Whether a passage repeats one already taken, under the same question: in one document by its words, else whole.

    Nothing weaker: « sans » and « avec », « nord » and « sud » are two answers, « Oui » to two questions as well.
    """
    if passage.place() != kept.place() or passage.question not in ("", kept.question):
        return False
    if passage.document_id is None or passage.document_id != kept.document_id:
        return same_writing(passage.content, kept.content)
    ours, theirs = _spaced(passage.content), _spaced(kept.content)
    return f" {ours} " in f" {theirs} "


def _heading(passage: Passage, *, is_alone: bool) -> str:
    """Its question, or where it stands; two passages under the same question are told apart by where they stand."""
    return (is_alone and passage.question) or named_place(passage) or passage.question


def named_place(passage: Passage) -> str:
    """The document of a passage and the headings above it, as readers are told them."""
    return passage.place(between=" › ").replace(" > ", " › ")


def _quote(passage: Passage, number: int, question: str) -> str:
    limit = MAX_QUOTE_CHARACTERS if number > 1 else MAX_FIRST_QUOTE_CHARACTERS
    text = telling_part(passage.content, question, limit)
    # A stored answer is the answer, all of it.
    marked = text if passage.question else _marked(text, question)
    quoted = "\n".join(f"> {line}".rstrip() for line in escape_citations(marked).splitlines())
    if _LEFT_OUT not in text:
        return quoted
    if passage.url:
        whole = _("Lire la page entière")
        return f"{quoted}\n\n[{whole}]({passage.url})"
    whole = _("Le passage entier est dans la source")
    return f"{quoted}\n\n*{whole}* [{number}]"


def _weights(blocks: Sequence[_Block], question: str) -> list[float]:
    """What each block shares with the question; words count most that few blocks say."""
    asked = content_stems(question)
    shared = [asked & content_stems(block.text) for block in blocks]
    having = Counter(stem for each in shared for stem in each)
    return [sum(log(1 + len(blocks) / having[stem]) for stem in each) for each in shared]


def telling_part(content: str, question: str, limit: int = MAX_QUOTE_CHARACTERS) -> str:
    """One run of a passage's blocks of about `limit` characters; its end never only announces what follows."""
    blocks = _blocks(content.strip())
    first, last = _run(blocks, _weights(blocks, question), limit)
    if first == last and len(blocks[first].text) > limit:
        return _of_block(blocks[first], question, limit, is_first=first == 0, is_last=last == len(blocks) - 1)
    # Three lines in bold are steps, not headings of the next.
    while (
        last > first
        and blocks[last].announces
        and not all(each.is_bold for each in blocks[max(last - 2, 0) : last + 1])
    ):
        last -= 1
    text = "\n\n".join(block.text for block in blocks[first : last + 1])
    text = f"{_LEFT_OUT}\n\n{text}" if first else text
    return f"{text}\n\n{_LEFT_OUT}" if last < len(blocks) - 1 else text


def _run(blocks: Sequence[_Block], weights: Sequence[float], limit: int) -> tuple[int, int]:
    """The first and last block of the run: the best block under what announces it, then those after and before it."""
    best = max(range(len(blocks)), key=lambda at: (weights[at], -at))
    first = last = best
    while last + 1 < len(blocks) and blocks[last].announces:
        last += 1
    while first and blocks[first - 1].announces:
        first -= 1
    size = sum(len(block.text) + 2 for block in blocks[first : last + 1])
    if size > limit:
        is_cut = len(blocks[best].text) > limit and not blocks[best].announces
        return (best, best) if is_cut else (first, last)
    for step in (1, -1):
        while 0 <= (at := last + 1 if step > 0 else first - 1) < len(blocks) and size + len(blocks[at].text) <= limit:
            size += len(blocks[at].text) + 2
            first, last = min(first, at), max(last, at)
    return first, last


def _of_block(block: _Block, question: str, limit: int, *, is_first: bool, is_last: bool) -> str:
    """A run of the sentences, items or rows of a block that is too long; a table keeps its header."""
    header, units, between = _units(block)
    first, last = _run(units, _weights(units, question), limit - len(header))
    gap = " " if block.kind == "prose" else "\n\n"
    before = f"{_LEFT_OUT}{gap}" if (first or not is_first) and not header else ""
    is_whole = is_last and last == len(units) - 1 and not (first and header)
    text = between.join(unit.text for unit in units[first : last + 1])
    return f"{before}{header}{text}" if is_whole else f"{before}{header}{text}{gap}{_LEFT_OUT}"


def _units(block: _Block) -> tuple[str, list[_Block], str]:
    """The header of a block, its parts, and what stands between them."""
    match block.kind:
        case "table":
            head, rule, *rows = block.text.split("\n")
            return f"{head}\n{rule}\n", [_Block(row, "row") for row in rows] or [_Block("", "row")], "\n"
        case "list":
            return "", [_Block(item, "item") for item in _ITEM.split(block.text)], "\n"
        case "prose":
            return "", [_Block(each, "prose") for each in _SENTENCE.split(block.text.replace("\n", " "))], " "
    return "", [block], "\n"


def _marked(text: str, question: str) -> str:
    """The text with the sentence, item or row in bold that shares most with the question, if it says most of it."""
    parts = [_units(block) for block in _blocks(text) if block.kind in ("prose", "list", "table")]
    under = [(header, unit) for header, units, _between in parts for unit in units]
    units = [unit for _header, unit in under]
    weights = _weights(units, question)
    best = max(range(len(units)), key=lambda at: (weights[at], -at), default=0)
    if len(units) < 2 or not weights[best]:
        return text
    asked, said = content_stems(question), units[best].text
    if len(asked & content_stems(under[best][0] + said)) < _MARKED_SHARE * len(asked):
        return text
    if units[best].kind == "row":
        cells = [f" **{cell.strip()}** " if cell.strip() else cell for cell in said.strip().strip("|").split("|")]
        bold = f"|{'|'.join(cells)}|"
    else:
        line = said.partition("\n")[0]
        marker = (_MARKER.match(line) or [""])[0]
        said, bold = line, f"{marker}**{line[len(marker) :].strip()}**"
    if _NOT_BOLD.search(said) or said not in text:
        return text
    return text.replace(said, bold, 1)


def _blocks(text: str) -> list[_Block]:
    """The blocks of a text in Markdown, in their order; at least one."""
    kinds = {"heading_open": "heading", "paragraph_open": "prose", "table_open": "table"}
    kinds |= {"bullet_list_open": "list", "ordered_list_open": "list"}
    lines = text.split("\n")
    tops = [token for token in _parser().parse(text) if token.level == 0 and token.nesting >= 0]
    found = [
        _Block("\n".join(lines[token.map[0] : token.map[1]]).strip("\n"), kinds.get(token.type, "code"))
        for token in tops
        if token.map
    ]
    return found or [_Block(text, "prose")]


@cache
def _parser() -> MarkdownIt:
    """Reads blocks alone: what stands in a line is not looked at, which is half of the work."""
    return MarkdownIt("commonmark").enable("table").disable("inline")
