"""Blocks to chunks: pieces of a size that one vector can stand for, each with the path of headings above it.

Deterministic, and nothing is lost: every word of the document is in a chunk's content or in its heading path. A question
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
    """Join a tiny section to the next one under what their paths share; its own heading becomes a bold line."""
    held: _Section | None = None
    for section in sections:
        if held is None:
            held = section
        elif _may_join(held, section):
            held = _join(held, section)
        else:
            yield held
            held = section
    if held is not None:
        yield held


def _may_join(first: _Section, second: _Section) -> bool:
    tiny = first.size < TINY_CHARACTERS or second.size < TINY_CHARACTERS
    fits = first.size + second.size <= settings.CHUNK_TARGET_CHARACTERS
    return tiny and fits and first.category == second.category


def _join(first: _Section, second: _Section) -> _Section:
    shared = 0
    for one, other in zip(first.headings, second.headings, strict=False):
        if one != other:
            break
        shared += 1
    pieces = [*_headed(first, shared), *_headed(second, shared)]
    return _Section(first.headings[:shared], first.category, pieces)


def _headed(section: _Section, shared: int) -> list[str]:
    below = section.headings[shared:]
    return [f"**{PATH_SEPARATOR.join(below)}**", *section.pieces] if below else section.pieces


def _packed(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces gathered up to the aimed size; a piece that is too long alone is cut."""
    target, most = settings.CHUNK_TARGET_CHARACTERS, settings.CHUNK_MAX_CHARACTERS
    held: list[str] = []
    size = 0
    for piece in (part for whole in pieces for part in _cut(whole, target, most)):
        if held and size + len(piece) > target:
            yield "\n\n".join(held)
            held, size = [], 0
        held.append(piece)
        size += len(piece) + 2
    if held:
        yield "\n\n".join(held)


def _cut(text: str, target: int, most: int) -> Iterator[str]:
    if len(text) <= most:
        yield text
        return
    lines = text.split("\n")
    if len(lines) > 2 and lines[0].startswith("|") and set(lines[1]) <= set("|-: "):
        yield from _cut_table(lines, target)
        return
    yield from _gathered(_fragments(text, target), target)


def _cut_table(lines: Sequence[str], target: int) -> Iterator[str]:
    """Rows in parts, each under the table's header."""
    header = "\n".join(lines[:2])
    room = max(target - len(header), target // 4)
    for part in _gathered((row + "\n" for row in lines[2:]), room):
        yield f"{header}\n{part}"


def _fragments(text: str, target: int) -> Iterator[str]:
    """Sentences and lines with the white space after them; a longer one in pieces of whole words."""
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        sentence = text[start:end]
        start = end
        while len(sentence) > target:
            space = sentence.rfind(" ", target // 2, target)
            at = space + 1 if space > 0 else target
            yield sentence[:at]
            sentence = sentence[at:]
        if sentence:
            yield sentence


def _gathered(fragments: Iterable[str], target: int) -> Iterator[str]:
    held = ""
    for fragment in fragments:
        if held.strip() and len(held) + len(fragment) > target:
            yield held.strip()
            held = ""
        held += fragment
    if held.strip():
        yield held.strip()
