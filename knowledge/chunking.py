"""Blocks to chunks: pieces of a size that one vector can stand for, each with the path of headings above it.

Deterministic, and nothing is lost: every word of the document is in a chunk's content or in its heading path. An edit
changes the chunks around it and no others (`knowledge.segmentation`). A question
with its answer is a chunk of its own with one unit. A list stays with the sentence that announces it, a table's rows keep
their header, and a sentence is cut only where it alone is longer than a chunk may be.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.conf import settings

from knowledge.parsing.base import Block, ParsedDocument
from knowledge.qa_extraction import extract_questions
from knowledge.segmentation import Item, segments

PATH_SEPARATOR = " > "
#: A section shorter than this is joined to its neighbour under the headings that both share.
TINY_CHARACTERS = 200
_SENTENCE_END = re.compile(r"(?<=[.!?…;:])\s+|\n+")


@dataclass(frozen=True, slots=True)
class KnowledgeUnit:
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    content: str
    parent_context: str
    category: str = ""
    units: tuple[KnowledgeUnit, ...] = ()
    keywords: tuple[str, ...] = ()
    summary: str = ""

    @property
    def content_hash(self) -> str:
        """The identity of a chunk across re-parses: what the document says, not what was added to it."""
        units = [[unit.question, unit.answer] for unit in self.units]
        said = json.dumps([self.parent_context, self.content, self.category, units])
        return hashlib.sha256(said.encode()).hexdigest()


@dataclass(slots=True)
class _Section:
    """Text under one path of headings."""

    headings: tuple[str, ...]
    category: str
    pieces: list[str]

    @property
    def size(self) -> int:
        return sum(len(piece) + 2 for piece in self.pieces)


def chunk_document(parsed: ParsedDocument) -> list[ChunkDraft]:
    chunks: list[ChunkDraft] = []
    blocks = extract_questions(parsed.blocks, title=parsed.title)
    for is_qa, group in groupby(blocks, key=lambda b: b.kind == "qa"):
        if is_qa:
            chunks.extend(chunk for block in group for chunk in _qa_chunks(block))
        else:
            chunks.extend(_prose_chunks(list(group)))
    return chunks


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
    if len(lines) > 2 and lines[0].startswith("|") and set(lines[1]) <= set("|-: "):
        yield from _cut_table(lines, target)
        return
    for group in segments(list(_fragments(text, target)), aim=target):
        if part := "".join(group).strip():
            yield part


def _cut_table(lines: Sequence[str], target: int) -> Iterator[str]:
    """Rows in parts, each under the table's header."""
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
