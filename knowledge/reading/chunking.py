"""Blocks to chunks: pieces of a size that one vector can stand for, each with the path of headings above it.

Deterministic, and no word is lost. An edit changes the chunks around it and no others (`cutting.segments`). A question
with its answer is a chunk of its own with one unit. A list stays with the sentence that announces it, a title with what
stands under it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from django.conf import settings

from knowledge.parsing.base import Block, ParsedDocument
from knowledge.reading.cutting import Item, cut, is_title, segments
from knowledge.reading.qa_extraction import extract_questions

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


def units_from_json(units: Sequence[dict[str, str]]) -> list[KnowledgeUnit]:
    return [KnowledgeUnit(unit["question"], unit["answer"]) for unit in units]


@dataclass(frozen=True, slots=True)
class Place:
    """A box on a page (from 1), as shares of its width and height from the top left corner; an empty box is the page
    alone.
    """

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
    """Text under one path of headings."""

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
        return self.chunks <= settings.MAX_DOCUMENT_CHUNKS and self.weight <= settings.MAX_DOCUMENT_WEIGHT


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
        cut_up = _qa_group if is_qa else _prose_chunks
        for draft in cut_up(list(group)):
            yield _below(parsed.above, draft)


def _below(above: Sequence[str], draft: ChunkDraft) -> ChunkDraft:
    if not above:
        return draft
    path = PATH_SEPARATOR.join(filter(None, (*above, draft.parent_context)))
    return replace(draft, parent_context=path)


def _qa_group(blocks: Sequence[Block]) -> Iterator[ChunkDraft]:
    for block in blocks:
        yield from _qa_chunks(block)


def _qa_chunks(block: Block) -> Iterator[ChunkDraft]:
    """One unit with the whole answer; an answer longer than a passage may be goes on in chunks without units."""
    path = PATH_SEPARATOR.join((*block.headings, block.question))
    unit = KnowledgeUnit(question=block.question, answer=block.text)
    pieces = list(cut(block.text, settings.MAX_PASSAGE_CHARACTERS, settings.MAX_PASSAGE_CHARACTERS))
    for index, piece in enumerate(pieces):
        yield ChunkDraft(
            content=piece,
            parent_context=path,
            category=block.category,
            units=() if index else (unit,),
            anchor=block.anchor,
        )


def _prose_chunks(blocks: Sequence[Block]) -> Iterator[ChunkDraft]:
    for section in _joined_sections(_sections(blocks)):
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
        if announced and len(pieces[-1].text) + len(text) < settings.CHUNK_MAX_CHARACTERS:
            pieces[-1] = replace(pieces[-1], text=f"{pieces[-1].text}\n\n{text}")
        elif announced and len(pieces[-1].text) < TINY_CHARACTERS:
            pieces[-1] = replace(pieces[-1], text=text, lead=pieces[-1].text)
        else:
            pieces.append(_Piece(text, block.anchor))
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
    units = list(_with_titles(run))
    texts = [Item("\n\n".join(piece.text for section in unit for piece in section.pieces)) for unit in units]
    start = 0
    for group in segments(texts, aim=settings.CHUNK_TARGET_CHARACTERS, gap=2):
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
    """Pieces gathered to about the aimed size, each with the anchor of its beginning; a piece that is too long alone is
    cut.
    """
    target, most = settings.CHUNK_TARGET_CHARACTERS, settings.CHUNK_MAX_CHARACTERS
    parts: list[tuple[str, str]] = []
    for piece in _under_titles(pieces):
        first, *others = cut(piece.text, target, most)
        parts.append((f"{piece.lead}\n\n{first}" if piece.lead else first, piece.anchor))
        parts += [(other, piece.anchor) for other in others]
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
