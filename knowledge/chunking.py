"""Blocks to chunks: pieces of a size that one vector can stand for, each with the path of headings above it.

Deterministic, and no word is lost. An edit changes the chunks around it and no others (`segments`). A question with its
answer is a chunk of its own with one unit. A list stays with the sentence that announces it, a title with what stands
under it. A long block of code is closed and opened again with its language, a long table repeats its header and its
open section rows in every part, and a sentence is cut only where it alone is longer than a piece may be.
"""

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise

from knowledge.language.words import NO_ABBREVIATION
from knowledge.models import MAX_PASSAGE_CHARACTERS
from knowledge.qa_extraction import extract_questions
from knowledge.readers.base import Block, ParsedDocument, table_cells, table_row

#: A chunk's aim and ceiling (about 180 and 300 French words).
CHUNK_TARGET_CHARACTERS = 1_100
CHUNK_MAX_CHARACTERS = 1_800
#: What one document may become: passages, and pieces of words in them; what is beyond is not read, and it says so.
MAX_DOCUMENT_CHUNKS = 20_000
MAX_DOCUMENT_WEIGHT = 1_000_000

PATH_SEPARATOR = " > "
#: A section shorter than this is joined to its neighbour under the headings that both share.
TINY_CHARACTERS = 200
#: What a sentence that ends with a colon announces.
_ANNOUNCED = ("list", "table", "code")
_WORD_PIECE = re.compile(r"\w{1,4}|[^\w\s]")


@dataclass(frozen=True, slots=True)
class KnowledgeUnit:
    question: str
    answer: str


def units_as_json(units: Sequence[KnowledgeUnit]) -> list[dict[str, str]]:
    """As `Chunk.knowledge_units` holds them."""
    return [{"question": unit.question, "answer": unit.answer} for unit in units]


@dataclass(frozen=True, slots=True)
class Place:
    """A box on a page (from 1), as shares of its width and height from the top left; an empty box is the page alone."""

    page: int
    x0: float = 0.0
    y0: float = 0.0
    x1: float = 0.0
    y1: float = 0.0


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    content: str
    parent_context: str
    category: str = ""
    units: tuple[KnowledgeUnit, ...] = ()
    keywords: tuple[str, ...] = ()
    summary: str = ""
    #: Where the page can be opened at it, as `Block` has it.
    anchor: str = ""
    places: tuple[Place, ...] = ()

    @property
    def content_hash(self) -> str:
        """The identity of a chunk across re-parses: what the document says, not what was added to it."""
        units = [[unit.question, unit.answer] for unit in self.units]
        said = json.dumps([self.parent_context, self.content, self.category, units])
        return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text of a section; `lead` is what stands above it and goes with its first part; `anchor` as `Block` has it."""

    text: str
    anchor: str = ""
    lead: str = ""


@dataclass(slots=True)
class _Section:
    headings: tuple[str, ...]
    category: str
    pieces: list[_Piece]

    @property
    def size(self) -> int:
        return sum(len(piece.text) + 2 for piece in self.pieces)

    @property
    def is_title(self) -> bool:
        return all(is_title(piece.text) for piece in self.pieces)


@dataclass(slots=True)
class _Budget:
    """What the passages of one document may cost; `weight` is in pieces of words, about what a model reads."""

    chunks: int = 0
    weight: int = 0

    def takes(self, draft: ChunkDraft) -> bool:
        units = [text for unit in draft.units for text in (unit.question, unit.answer)]
        self.chunks += 1
        self.weight += sum(map(weight_of, (draft.parent_context, draft.content, *units)))
        return self.chunks <= MAX_DOCUMENT_CHUNKS and self.weight <= MAX_DOCUMENT_WEIGHT


def weight_of(text: str) -> int:
    """About how many tokens a model makes of a text: four letters are one, each sign is one, spaces are none."""
    return len(_WORD_PIECE.findall(text))


def affordable_chunks(parsed: ParsedDocument) -> tuple[list[ChunkDraft], bool]:
    """The passages of a document from its beginning, as far as one document may cost; and whether that is all of it."""
    budget = _Budget()
    kept: list[ChunkDraft] = []
    for draft in _chunks(parsed):
        if not budget.takes(draft):
            return kept, False
        kept.append(draft)
    return kept, True


def _chunks(parsed: ParsedDocument) -> Iterator[ChunkDraft]:
    blocks = extract_questions(parsed.blocks, title=parsed.title)
    for is_qa, group in groupby(blocks, key=lambda b: b.kind == "qa"):
        if is_qa:
            yield from chain.from_iterable(map(_qa_chunks, group))
        else:
            yield from _prose_chunks(list(group))


def _qa_chunks(block: Block) -> Iterator[ChunkDraft]:
    """One unit with the whole answer; an answer longer than a passage may be goes on in chunks without units."""
    path = PATH_SEPARATOR.join((*block.headings, block.question))
    unit = KnowledgeUnit(question=block.question, answer=block.text)
    pieces = list(cut(block.text, MAX_PASSAGE_CHARACTERS, MAX_PASSAGE_CHARACTERS))
    for index, piece in enumerate(pieces):
        yield ChunkDraft(
            content=piece,
            parent_context=path,
            category=block.category,
            units=() if index else (unit,),
            anchor=block.anchor,
        )


def _prose_chunks(blocks: Sequence[Block]) -> Iterator[ChunkDraft]:
    sections = list(_sections(blocks))
    # A short document would be one passage: its sections are, where they say something.
    is_short = sum(section.size for section in sections) <= CHUNK_TARGET_CHARACTERS
    for section in _joined_sections(sections, TINY_CHARACTERS // 3 if is_short else TINY_CHARACTERS):
        for content, anchor in _packed(section.pieces):
            yield ChunkDraft(
                content=content,
                parent_context=PATH_SEPARATOR.join(section.headings),
                category=section.category,
                anchor=anchor,
            )


def _sections(blocks: Iterable[Block]) -> Iterator[_Section]:
    for (headings, category), group in groupby(blocks, key=lambda b: (b.headings, b.category)):
        yield _Section(headings, category, _announced(list(group)))


def _announced(blocks: Sequence[Block]) -> list[_Piece]:
    """Texts of blocks, a list, table or code glued to the sentence that announces it as long as both fit in a chunk."""
    pieces: list[_Piece] = []
    for block in blocks:
        text = f"**{block.text}**" if block.kind == "title" else block.text
        announced = bool(pieces) and block.kind in _ANNOUNCED and pieces[-1].text.endswith(":")
        if announced and len(pieces[-1].text) + len(text) < CHUNK_MAX_CHARACTERS:
            pieces[-1] = replace(pieces[-1], text=f"{pieces[-1].text}\n\n{text}")
        elif announced and len(pieces[-1].text) < TINY_CHARACTERS:
            pieces[-1] = replace(pieces[-1], text=text, lead=pieces[-1].text)
        else:
            pieces.append(_Piece(text, block.anchor))
    return pieces


def _joined_sections(sections: Iterable[_Section], tiny: int) -> Iterator[_Section]:
    """Join tiny sections to their neighbours under what their paths share; their own headings become bold lines."""
    run: list[_Section] = []
    for section in sections:
        if run and not (min(run[-1].size, section.size) < tiny and run[-1].category == section.category):
            yield from _joined_run(run)
            run = []
        run.append(section)
    yield from _joined_run(run)


def _joined_run(run: Sequence[_Section]) -> Iterator[_Section]:
    units = list(_with_titles(run))
    texts = [Item("\n\n".join(piece.text for section in unit for piece in section.pieces)) for unit in units]
    start = 0
    for group in segments(texts, aim=CHUNK_TARGET_CHARACTERS, gap=2):
        yield _join([section for unit in units[start : start + len(group)] for section in unit])
        start += len(group)


def _with_titles(run: Sequence[_Section]) -> Iterator[list[_Section]]:
    """Sections that stay together: headings with nothing under them and the section that follows, or precedes the last."""
    units: list[list[_Section]] = []
    open_ = False
    for section in run:
        if open_:
            units[-1].append(section)
        else:
            units.append([section])
        open_ = section.is_title
    if open_ and len(units) > 1:
        units[-2:] = [[*units[-2], *units[-1]]]
    yield from units


def _join(sections: Sequence[_Section]) -> _Section:
    if len(sections) == 1:
        return sections[0]
    paths = [section.headings for section in sections]
    shared = next(
        (depth for depth, headings in enumerate(zip(*paths, strict=False)) if len(set(headings)) > 1),
        min(map(len, paths)),
    )
    pieces = [piece for section in sections for piece in _headed(section, shared)]
    return _Section(paths[0][:shared], sections[0].category, pieces)


def _headed(section: _Section, shared: int) -> list[_Piece]:
    below = section.headings[shared:]
    if not below:
        return section.pieces
    return [_Piece(f"**{PATH_SEPARATOR.join(below)}**", section.pieces[0].anchor), *section.pieces]


def _packed(pieces: Iterable[_Piece]) -> Iterator[tuple[str, str]]:
    """Pieces gathered to about the aimed size, or cut, each with the anchor of its beginning."""
    target, most = CHUNK_TARGET_CHARACTERS, CHUNK_MAX_CHARACTERS
    parts: list[tuple[str, str]] = []
    for piece in _under_titles(pieces):
        first, *others = cut(piece.text, target, most)
        parts.append((f"{piece.lead}\n\n{first}" if piece.lead else first, piece.anchor))
        # A table's caption names the rows of each of its parts.
        lead = f"{piece.lead}\n\n" if piece.lead and piece.text.startswith("|") else ""
        parts += [(lead + other, piece.anchor) for other in others]
    start = 0
    for group in segments([Item(text) for text, _anchor in parts], aim=target, gap=2):
        yield "\n\n".join(group), parts[start][1]
        start += len(group)


def _under_titles(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """The pieces, a bold line led to what it stands above; the last one has nothing under it."""
    held: list[_Piece] = []
    for piece in pieces:
        if sum(len(title.text) for title in held) > TINY_CHARACTERS:
            yield from held
            held = []
        if is_title(piece.text) and not piece.lead:
            held.append(piece)
            continue
        lead = "\n\n".join([*(title.text for title in held), *filter(None, [piece.lead])])
        yield replace(piece, lead=lead, anchor=held[0].anchor if held else piece.anchor)
        held = []
    yield from held


#: Half the width of the neighbourhood in which one boundary is cut, as a share of the aimed size.
_NEIGHBOURHOOD = 0.4
#: A piece this much longer than aimed is cut again.
_TOLERANCE = 1.4
_SENTENCE_END = re.compile(rf"(?<=[.!?…;:]){NO_ABBREVIATION}\s+|\n+")
_FENCE = re.compile(r"(?P<indent> *)(?:(?:[-*]|\d{1,9}\.) +)?(?P<fence>`{3,}|~{3,})(?P<language>[^`~]{0,80})$")
_SEPARATOR = re.compile(r"\s*\|[\s|:-]*-[\s|:-]*\|\s*$")
_TITLE = re.compile(r"\s*\*\*[^\n]{1,300}\*\*\s*$")
#: A line that goes on with the item of a list above it.
_CONTINUES = re.compile(r"[ \t]+(?![-*] |\d{1,9}[.)] )\S")


@dataclass(frozen=True, slots=True)
class Item:
    """A text that is not cut; `roughness` says how bad a cut after it is (0: the end of a paragraph)."""

    text: str
    roughness: int = 0

    @property
    def rank(self) -> tuple[int, bytes]:
        return self.roughness, hashlib.blake2b(self.text.strip().encode(), digest_size=8).digest()


def is_title(line: str) -> bool:
    """Whether a text is one bold line: what follows belongs under it."""
    return bool(_TITLE.match(line))


def cut(text: str, target: int, most: int) -> Iterator[str]:
    """A text of at most `most` characters as it is, a longer one in parts of about `target`."""
    if len(text) <= most:
        yield text
        return
    for run in _uncut_runs(text, target, most):
        for group in segments(list(_titled_items(run, target)), aim=target):
            if part := _flush_left("".join(group)):
                yield part


def _uncut_runs(text: str, target: int, most: int) -> Iterator[list[Item]]:
    """What is not cut, in runs with a cut between them: two parts of a table would be one with two headers."""
    run: list[Item] = []
    for kind, lines in _runs(text.split("\n")):
        whole = "".join(f"{line}\n" for line in lines)
        if kind == "text":
            run += _fragments(whole, target)
        elif kind == "title" or len(whole) <= most:
            run.append(Item(whole))
        else:
            parts = _code_parts(lines, target) if kind == "code" else _table_parts(lines, target)
            first, *others = parts
            run.append(first)
            for part in others:
                yield run
                run = [part]
    yield run


def _titled_items(items: Sequence[Item], target: int) -> Iterator[Item]:
    """The items, a bold line joined to what it stands above; a text of many bold lines is cut among them."""
    held = ""
    for item in items:
        if is_title(item.text) and len(held) < target // 2:
            held += item.text
        else:
            yield Item(held + item.text, item.roughness)
            held = ""
    if held:
        yield Item(held)


def _flush_left(part: str) -> str:
    """Without white space around it; the lines of a block of code that it begins with move along."""
    part = part.strip("\n").rstrip()
    lines = part.split("\n")
    opened = _FENCE.match(lines[0])
    if opened and opened["indent"]:
        end, margin = _end_of_code(lines, 0), len(opened["indent"])
        lines[:end] = [line[min(margin, len(line) - len(line.lstrip(" "))) :] for line in lines[:end]]
    return "\n".join(lines).strip()


def _runs(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The lines of a text in runs: a block of code with its fences, a table with its header, a title, or anything else."""
    held: list[str] = []
    at = 0
    while at < len(lines):
        end, kind = at, "text"
        if _FENCE.match(lines[at]):
            end, kind = _end_of_code(lines, at), "code"
        elif at + 1 < len(lines) and "|" in lines[at] and _SEPARATOR.match(lines[at + 1]):
            end, kind = max(_end_of(lines, at, lambda line: line.lstrip().startswith("|")), at + 2), "table"
        elif is_title(lines[at]):
            # With the empty lines under it.
            end, kind = _end_of(lines, at + 1, lambda line: not line.strip()), "title"
        if kind == "text":
            held.append(lines[at])
            at += 1
            continue
        if held:
            yield "text", held
        yield kind, list(lines[at:end])
        held, at = [], end
    if held:
        yield "text", held


def _end_of_code(lines: Sequence[str], start: int) -> int:
    opened = _FENCE.match(lines[start])
    fence = opened["fence"] if opened else ""
    for at in range(start + 1, len(lines)):
        mark = lines[at].strip()
        if mark.startswith(fence) and not mark.strip(fence[:1]):
            return at + 1
    return len(lines)


def _end_of(lines: Sequence[str], start: int, belongs: Callable[[str], bool]) -> int:
    """Where the lines from `start` on cease to belong to it."""
    return next((at for at in range(start, len(lines)) if not belongs(lines[at])), len(lines))


def _code_parts(lines: Sequence[str], target: int) -> Iterator[Item]:
    """A long block of code in blocks of its own, each with the fences and the language."""
    opened = _FENCE.match(lines[0])
    if opened is None or len(lines[0]) > target:
        yield from _fragments("\n".join(lines), target)
        return
    fence = " " * opened.start("fence") + opened["fence"]
    is_closed = lines[-1].strip() == opened["fence"]
    # An empty line before it makes a line the better place for a cut.
    pieces = (
        line[at : at + target]
        for line in lines[1 : -1 if is_closed else None]
        for at in range(0, len(line) or 1, target)
    )
    body = [Item(f"{piece}\n", roughness=bool(piece.strip())) for piece in pieces]
    for number, group in enumerate(segments(body, aim=target)):
        code = "".join(group).rstrip("\n")
        yield Item(f"{fence + opened['language'].rstrip() if number else lines[0]}\n{code}\n{fence}\n")


def _table_parts(lines: Sequence[str], target: int) -> Iterator[Item]:
    header = "\n".join(lines[:2])
    if len(header) > target:
        # It would fill every passage of its table.
        yield from _fragments("".join(f"{line}\n" for line in lines), target)
        return
    room = max(target - len(header), target // 4)
    rows = [(above, part) for above, row in _under_sections(lines[2:]) for part in _short_rows(row, room)]
    start = 0
    for group in segments([Item(row) for _above, row in rows], aim=room, gap=1):
        yield Item("\n".join(filter(None, [header, rows[start][0], *group])) + "\n")
        start += len(group)


def _under_sections(rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The open section rows (one text names the rows down to the next) and each row with those that open above it."""
    open_: list[str] = []
    run: list[str] = []
    for row in rows:
        if _is_section(row):
            run.append(row)
            continue
        outer = open_[: max(len(open_) - len(run), 0)] if run else open_
        if sum(map(len, run)) > CHUNK_MAX_CHARACTERS:  # rows of their own, such as questions to be ticked
            yield from (("", each) for each in run[:-1])
            run = run[-1:]
        yield "\n".join(outer), "\n".join([*run, row])
        if run:
            open_ = [*outer, *run] if sum(map(len, run)) <= TINY_CHARACTERS else []
            run = []
    yield from (("", each) for each in run)


def _is_section(row: str) -> bool:
    cells = table_cells(row)
    said = {cell for cell in cells if cell}
    is_one = sum(map(bool, cells)) in (1, len(cells))
    return len(cells) > 1 and len(said) == 1 and is_one and any(map(str.isalpha, said.pop()))


def _short_rows(row: str, room: int) -> Iterator[str]:
    """A row, or parts of one that no chunk holds: its cells stay in their columns, under what its first one says."""
    if len(row) <= room:
        yield row
        return
    *above, last = row.split("\n")
    label, *cells = table_cells(last)
    if len(label) > room // 4 or not any(cells):
        label, cells = "", [label, *cells]
    first = len(table_cells(last)) - len(cells)
    for column, cell in enumerate(cells):
        around = [label] * first + [""] * column, [""] * (len(cells) - column - 1)
        for group in segments(list(_fragments(cell, room)), aim=room) if cell else ():
            yield "\n".join([*above, table_row([*around[0], "".join(group).strip(), *around[1]])])
            above = []


def _fragments(text: str, target: int) -> Iterator[Item]:
    """Lines and sentences with the white space after them; a longer one in pieces of whole words."""
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        sentence = text[start:end]
        start = end
        while len(sentence) > target:
            space = sentence.rfind(" ", target // 2, target)
            at = space + 1 if space > 0 else target
            yield Item(sentence[:at], roughness=2)
            sentence = sentence[at:]
        if sentence:
            ends_line = sentence.endswith("\n") and not _CONTINUES.match(text, end)
            yield Item(sentence, roughness=0 if ends_line else 1)


def segments(items: Sequence[Item], *, aim: int, gap: int = 0) -> list[list[str]]:
    """The texts in order, in groups of about `aim` characters; `gap` is what joins two texts, in characters. An edit in
    one place moves no cut anywhere else, so chunks keep their vectors and what staff wrote on them: a boundary is a cut
    when its rank (how natural it is, then a hash of the text before it) is the lowest around it. Only a piece that is
    still too long is then cut again, on its own."""
    if not items:
        return []
    ends = list(accumulate(len(item.text) + gap for item in items))
    ranks = [item.rank for item in items]
    cuts = _local_cuts(ends, ranks, aim)
    bounds: list[int] = []
    for start, end in pairwise([0, *cuts, len(items)]):
        bounds.extend([start, *_further_cuts(start, end, ends, ranks, aim)])
    return [[item.text for item in items[start:end]] for start, end in pairwise([*bounds, len(items)]) if start < end]


def _local_cuts(ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int) -> list[int]:
    """Places (before item i) whose boundary has the lowest rank of its neighbourhood, the first of equals."""
    if ends[-1] <= aim:
        return []
    reach = int(aim * _NEIGHBOURHOOD)
    cuts = []
    for index in range(len(ends) - 1):
        at = ends[index]
        if at < reach or ends[-1] - at < reach:
            continue
        first, last = bisect_left(ends, at - reach), bisect_right(ends, at + reach)
        before, after = ranks[first:index], ranks[index + 1 : min(last, len(ends) - 1)]
        if all(ranks[index] < r for r in before) and all(ranks[index] <= r for r in after):
            cuts.append(index + 1)
    return cuts


def _further_cuts(start: int, end: int, ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int) -> list[int]:
    """Cuts inside a piece that is too long: at the lowest rank of its middle half, then in both parts."""
    cuts: list[int] = []
    waiting = [(start, end)]
    while waiting:
        first, last = waiting.pop()
        base = ends[first - 1] if first else 0
        size = ends[last - 1] - base
        if last - first < 2 or size <= aim * _TOLERANCE:
            continue
        inner = range(first, last - 1)
        middle = [i for i in inner if size <= 4 * (ends[i] - base) <= 3 * size]
        if middle:
            best = min(middle, key=lambda i: ranks[i])
        else:
            best = min(inner, key=lambda i: abs(2 * (ends[i] - base) - size))
        cuts.append(best + 1)
        waiting += [(first, best + 1), (best + 1, last)]
    return sorted(cuts)
