"""Blocks to chunks: pieces of a size that one vector can stand for, each with the path of headings above it.

Deterministic, and no word is lost. An edit changes the chunks around it and no others (`segments`). A question with its answer is
a chunk of its own with one unit. A list stays with the sentence that announces it, a table's rows keep their header, and a
sentence is cut only where it alone is longer than a chunk may be.
"""

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

from django.conf import settings

from knowledge.parsing.base import Block, ParsedDocument
from knowledge.reading.qa_extraction import extract_questions

PATH_SEPARATOR = " > "
#: A section shorter than this is joined to its neighbour under the headings that both share.
TINY_CHARACTERS = 200
#: Half the width of the neighbourhood in which one boundary is cut, as a share of the aimed size. The mean piece is
#: twice that and the mean text; 0.4 gives pieces of the size that packing gave, measured on 90 pages of service-public.fr.
_NEIGHBOURHOOD = 0.4
#: A piece this much longer than aimed is cut again.
_TOLERANCE = 1.4
_WORD_PIECE = re.compile(r"\w{1,4}|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?…;:])\s+|\n+")


@dataclass(frozen=True, slots=True)
class KnowledgeUnit:
    question: str
    answer: str


def units_as_json(units: Sequence[KnowledgeUnit]) -> list[dict[str, str]]:
    """As `Chunk.knowledge_units` holds them."""
    return [{"question": unit.question, "answer": unit.answer} for unit in units]


def units_from_json(units: Sequence[dict[str, str]]) -> list[KnowledgeUnit]:
    return [KnowledgeUnit(unit["question"], unit["answer"]) for unit in units]


@dataclass(frozen=True, slots=True)
class Place:
    """A box on a page (from 1), as shares of its width and height from the top left corner; an empty box is the page alone."""

    page: int
    x0: float = 0.0
    y0: float = 0.0
    x1: float = 0.0
    y1: float = 0.0


def places_as_json(places: Sequence[Place]) -> list[list[float]]:
    """As `Chunk.places` holds them."""
    return [[place.page, place.x0, place.y0, place.x1, place.y1] for place in places]


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    content: str
    parent_context: str
    category: str = ""
    units: tuple[KnowledgeUnit, ...] = ()
    keywords: tuple[str, ...] = ()
    summary: str = ""
    places: tuple[Place, ...] = ()

    @property
    def content_hash(self) -> str:
        """The identity of a chunk across re-parses: what the document says, not what was added to it."""
        units = [[unit.question, unit.answer] for unit in self.units]
        said = json.dumps([self.parent_context, self.content, self.category, units])
        return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Item:
    """A text that is not cut; `roughness` says how bad a cut after it is (0: the end of a paragraph)."""

    text: str
    roughness: int = 0

    @property
    def rank(self) -> tuple[int, bytes]:
        return self.roughness, hashlib.blake2b(self.text.strip().encode(), digest_size=8).digest()


@dataclass(slots=True)
class _Section:
    """Text under one path of headings."""

    headings: tuple[str, ...]
    category: str
    pieces: list[str]

    @property
    def size(self) -> int:
        return sum(len(piece) + 2 for piece in self.pieces)


@dataclass(slots=True)
class _Budget:
    """What the passages of one document may cost; `weight` is in pieces of words, about what a model reads."""

    chunks: int = 0
    weight: int = 0

    def takes(self, draft: ChunkDraft) -> bool:
        units = [text for unit in draft.units for text in (unit.question, unit.answer)]
        self.chunks += 1
        self.weight += sum(map(weight_of, (draft.parent_context, draft.content, *units)))
        return (
            self.chunks <= settings.MAX_DOCUMENT_CHUNKS
            and self.weight <= settings.MAX_DOCUMENT_WEIGHT
        )


def weight_of(text: str) -> int:
    """About how many tokens a model makes of a text: four letters are one, each sign is one, spaces are none."""
    return len(_WORD_PIECE.findall(text))


def chunk_document(parsed: ParsedDocument) -> list[ChunkDraft]:
    return list(_chunks(parsed))


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
            yield from (chunk for block in group for chunk in _qa_chunks(block))
        else:
            yield from _prose_chunks(list(group))


def _qa_chunks(block: Block) -> Iterator[ChunkDraft]:
    """One unit with the whole answer; an answer longer than a passage may be goes on in chunks without units."""
    path = PATH_SEPARATOR.join((*block.headings, block.question))
    unit = KnowledgeUnit(question=block.question, answer=block.text)
    pieces = list(
        _cut(block.text, settings.MAX_PASSAGE_CHARACTERS, settings.MAX_PASSAGE_CHARACTERS)
    )
    for index, piece in enumerate(pieces):
        yield ChunkDraft(
            content=piece,
            parent_context=path,
            category=block.category,
            units=() if index else (unit,),
        )


def _prose_chunks(blocks: Sequence[Block]) -> Iterator[ChunkDraft]:
    for section in _joined_sections(_sections(blocks)):
        for content in _packed(section.pieces):
            yield ChunkDraft(
                content=content,
                parent_context=PATH_SEPARATOR.join(section.headings),
                category=section.category,
            )


def _sections(blocks: Iterable[Block]) -> Iterator[_Section]:
    for (headings, category), group in groupby(blocks, key=lambda b: (b.headings, b.category)):
        yield _Section(headings, category, _announced(list(group)))


def _announced(blocks: Sequence[Block]) -> list[str]:
    """Texts of blocks, a list glued to the sentence that announces it as long as both fit in a chunk."""
    pieces: list[str] = []
    for block in blocks:
        announced = bool(pieces) and block.kind in ("list", "table") and pieces[-1].endswith(":")
        if announced and len(pieces[-1]) + len(block.text) < settings.CHUNK_MAX_CHARACTERS:
            pieces[-1] += f"\n\n{block.text}"
        else:
            pieces.append(block.text)
    return pieces


def _joined_sections(sections: Iterable[_Section]) -> Iterator[_Section]:
    """Join tiny sections to their neighbours under what their paths share; their own headings become bold lines."""
    run: list[_Section] = []
    for section in sections:
        if run and not _may_join(run[-1], section):
            yield from _joined_run(run)
            run = []
        run.append(section)
    yield from _joined_run(run)


def _may_join(first: _Section, second: _Section) -> bool:
    tiny = first.size < TINY_CHARACTERS or second.size < TINY_CHARACTERS
    return tiny and first.category == second.category


def _joined_run(run: Sequence[_Section]) -> Iterator[_Section]:
    texts = [Item("\n\n".join(section.pieces)) for section in run]
    start = 0
    for group in segments(texts, aim=settings.CHUNK_TARGET_CHARACTERS, gap=2):
        yield _join(run[start : start + len(group)])
        start += len(group)


def _join(sections: Sequence[_Section]) -> _Section:
    if len(sections) == 1:
        return sections[0]
    paths = [section.headings for section in sections]
    shared = next(
        (
            depth
            for depth, headings in enumerate(zip(*paths, strict=False))
            if len(set(headings)) > 1
        ),
        min(map(len, paths)),
    )
    pieces = [piece for section in sections for piece in _headed(section, shared)]
    return _Section(paths[0][:shared], sections[0].category, pieces)


def _headed(section: _Section, shared: int) -> list[str]:
    below = section.headings[shared:]
    return [f"**{PATH_SEPARATOR.join(below)}**", *section.pieces] if below else section.pieces


def _packed(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces gathered to about the aimed size; a piece that is too long alone is cut."""
    target, most = settings.CHUNK_TARGET_CHARACTERS, settings.CHUNK_MAX_CHARACTERS
    parts = [Item(part) for whole in pieces for part in _cut(whole, target, most)]
    for group in segments(parts, aim=target, gap=2):
        yield "\n\n".join(group)


def _cut(text: str, target: int, most: int) -> Iterator[str]:
    if len(text) <= most:
        yield text
        return
    lines = text.split("\n")
    # A header of half a passage is content itself: it would stand in every passage of its table.
    header = len(lines[0]) + len(lines[1]) if len(lines) > 2 else 0
    if 0 < header <= target // 2 and lines[0].startswith("|") and set(lines[1]) <= set("|-: "):
        yield from _cut_table(lines, target)
        return
    for group in segments(list(_fragments(text, target)), aim=target):
        if part := "".join(group).strip():
            yield part


def _cut_table(lines: Sequence[str], target: int) -> Iterator[str]:
    header = "\n".join(lines[:2])
    room = max(target - len(header), target // 4)
    rows = [Item(row) for line in lines[2:] for row in _short_rows(line, room)]
    for group in segments(rows, aim=room, gap=1):
        if part := "\n".join(group).strip():
            yield f"{header}\n{part}"


def _short_rows(line: str, room: int) -> Iterator[str]:
    """A row, or its parts where it is so long that no chunk holds it."""
    if len(line) <= room:
        yield line
        return
    for group in segments(list(_fragments(line, room)), aim=room):
        yield "".join(group).strip()


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
            yield Item(sentence, roughness=0 if sentence.endswith("\n") else 1)


def segments(items: Sequence[Item], *, aim: int, gap: int = 0) -> list[list[str]]:
    """The texts in order, in groups of about `aim` characters; `gap` is what joins two texts, in characters.

    An edit in one place moves no cut anywhere else. Packing texts one after the other up to a size would shift every
    later cut when a paragraph is put in at the top, and every shifted chunk would be embedded anew and lose what staff
    wrote on it. Here a boundary is a cut when its rank (how natural it is, then a hash of the text before it) is the
    lowest of all boundaries around it: what is farther away has no say. Only a piece that is still too long is then cut
    again, on its own.
    """
    if not items:
        return []
    ends = list(accumulate(len(item.text) + gap for item in items))
    ranks = [item.rank for item in items]
    cuts = _local_cuts(ends, ranks, aim)
    bounds: list[int] = []
    for start, end in pairwise([0, *cuts, len(items)]):
        bounds.extend([start, *_further_cuts(start, end, ends, ranks, aim)])
    return [
        [item.text for item in items[start:end]]
        for start, end in pairwise([*bounds, len(items)])
        if start < end
    ]


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


def _further_cuts(
    start: int, end: int, ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int
) -> list[int]:
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
