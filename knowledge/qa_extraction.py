"""Questions and answers that stand in a document already, found without a model.

Blocks come in and go out; those that ask and answer leave as blocks of kind `qa`. Recognised: headings that ask with
what stands under them, lines marked `Q:` and `R:` (or `A:`), bold lines that ask, and tables of questions and answers.
A question inside running prose is prose. No word is lost: what belongs to no question goes out as it came.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from knowledge.models import QA_MAX_ANSWER_CHARACTERS, QA_MAX_QUESTION_CHARACTERS
from knowledge.readers.base import Block, asks, bare_text, table_cells

_MARKED_QUESTION = re.compile(
    r"^\s*(?:[*_]{2})?(?:Q|Question)\s*\d*\s*(?:[*_]{2})?\s?(?:[:.]|[-–—](?=\s))\s*(?:[*_]{2})?\s*(?P<text>\S.*)$",
    re.IGNORECASE,
)
_MARKED_ANSWER = re.compile(
    r"^\s*(?:[*_]{2})?(?:R|A|R[ée]ponse|Answer)\s*\d*\s*(?:[*_]{2})?\s?(?:[:.]|[-–—](?=\s))\s*(?:[*_]{2})?\s*(?P<text>\S.*)$",
    re.IGNORECASE,
)
_BOLD_LINE = re.compile(r"^\s*(\*\*|__)(?P<text>[^\n]+?)\1\s*$")
_TABLE_HEADER = re.compile(r"^\|\s*(?:questions?)\s*\|\s*(?:r[ée]ponses?|answers?)\s*\|\s*$", re.IGNORECASE)
#: Lines that a marked question may take before its marked answer.
_QUESTION_LINES = 4
_WITHOUT_SUBJECT = re.compile(
    r"(?:de quoi s['’]agit-il|qui est concernée?s?|est-ce obligatoire|comment ça (?:marche|fonctionne)|"
    r"(?:où |quand |et |comment )+(?:faire|effectuer) (?:la|cette|sa|ma) (?:demande|démarche)|"
    r"qui peut (?:faire|effectuer) (?:la|cette) (?:demande|démarche)|dans quels? délais?|à quel prix|"
    r"what is it|who is concerned|how does it work)\s*\?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line of a paragraph, or a whole list, table or code block; `starts`: the first of its block."""

    text: str
    block: Block
    starts: bool


def extract_questions(blocks: Sequence[Block], *, title: str = "") -> list[Block]:
    """The blocks in the same order, with questions and their answers turned into blocks of kind `qa`."""
    return list(_by_heading(blocks, title=title, above=0))


def _by_heading(blocks: Sequence[Block], *, title: str, above: int) -> Iterator[Block]:
    """Sections under headings that ask, looked for below the first `above` headings of each path."""
    for path, group in groupby(blocks, key=lambda block: _asking_path(block, above=above)):
        section = list(group)
        if not path:
            yield from _inside(section)
        elif _answers_as_a_whole(path, section):
            yield from _answered_heading(path, section, title=title)
        else:
            yield from _by_heading(section, title=title, above=len(path))


def _asking_path(block: Block, *, above: int) -> tuple[str, ...]:
    """The path down to the outermost heading that asks, if one does."""
    for depth, heading in enumerate(block.headings, start=1):
        if depth > above and asks(heading) and len(heading) <= QA_MAX_QUESTION_CHARACTERS:
            return block.headings[:depth]
    return ()


def _answers_as_a_whole(path: tuple[str, ...], section: Sequence[Block]) -> bool:
    """Whether a section is one answer: of a bounded size, and without sections that ask in their turn."""
    size = sum(len(block.text) for block in section)
    inner = (heading for block in section for heading in block.headings[len(path) :])
    has_pairs = any(block.kind == "qa" for block in section)
    return size <= QA_MAX_ANSWER_CHARACTERS and not has_pairs and not any(map(asks, inner))


def _answered_heading(path: tuple[str, ...], section: Sequence[Block], *, title: str) -> Iterator[Block]:
    first = section[0]
    pieces: list[str] = []
    inner: tuple[str, ...] = path
    for block in section:
        if block.headings != inner and len(block.headings) > len(path):
            pieces.append(f"**{block.headings[-1]}**")
        inner = block.headings
        pieces.append(block.text)
    question = path[-1]
    if marked := _MARKED_QUESTION.match(question):
        question, (line, *more) = marked["text"], pieces[0].split("\n")
        if (answer := _MARKED_ANSWER.match(line)) and ":" in line[: answer.start("text")]:
            line = answer["text"].removesuffix("**") if answer["text"].count("**") % 2 else answer["text"]
        pieces[0] = "\n".join([line, *more])
    yield replace(
        first,
        text="\n\n".join(pieces),
        headings=path[:-1],
        kind="qa",
        question=_in_context(question, (title, *path[:-1])),
    )


def _in_context(question: str, above: Sequence[str]) -> str:
    """A question that names no subject ("Qui est concerné ?") is preceded by the title above it."""
    context = next((heading for heading in reversed(above) if heading and not asks(heading)), "")
    if not context or not _WITHOUT_SUBJECT.fullmatch(question):
        return question
    return f"{context} : {question[0].lower()}{question[1:]}"


def _inside(section: Sequence[Block]) -> Iterator[Block]:
    """Marked lines, bold questions and tables under one heading after the other."""
    rows = (row for block in section for row in (_table_rows(block) if block.kind == "table" else [block]))
    for (is_qa, _headings), group in groupby(rows, key=lambda b: (b.kind == "qa", b.headings)):
        blocks = list(group)
        pieces = [] if is_qa else [piece for block in blocks for piece in _pieces(block)]
        if any(_question_at(pieces, index) for index in range(len(pieces))):
            yield from _read(pieces)
        else:
            yield from blocks


def _pieces(block: Block) -> Iterator[_Piece]:
    if block.kind == "prose":
        for index, line in enumerate(block.text.split("\n")):
            yield _Piece(line, block, starts=index == 0)
    else:
        yield _Piece(block.text, block, starts=True)


def _question_at(pieces: Sequence[_Piece], index: int) -> tuple[str, int] | None:
    """The question that a piece begins, with the place of its answer's first piece."""
    piece = pieces[index]
    if piece.block.kind != "prose":
        return None
    if marked := _MARKED_QUESTION.match(piece.text):
        return _marked_question(pieces, index, marked["text"])
    bold = _BOLD_LINE.match(piece.text)
    if not bold or not asks(bold["text"]) or index + 1 == len(pieces):
        return None
    if _BOLD_LINE.match(pieces[index + 1].text):
        return None
    return _bounded(bold["text"], index + 1)


def _marked_question(pieces: Sequence[_Piece], index: int, question: str) -> tuple[str, int] | None:
    """A marked question counts only with its marked answer, at most a few lines below."""
    for at in range(index + 1, min(index + 1 + _QUESTION_LINES, len(pieces))):
        if _MARKED_ANSWER.match(pieces[at].text):
            return _bounded(question, at)
        if _MARKED_QUESTION.match(pieces[at].text):
            break
        question += " " + pieces[at].text
    return None


def _bounded(question: str, at: int) -> tuple[str, int] | None:
    question = bare_text(question)
    return (question, at) if 0 < len(question) <= QA_MAX_QUESTION_CHARACTERS else None


def _read(pieces: Sequence[_Piece]) -> Iterator[Block]:
    index = 0
    while index < len(pieces):
        start = index
        found = _question_at(pieces, start)
        index = found[1] + 1 if found else start + 1
        while index < len(pieces) and not _stops(pieces, index, answering=found is not None):
            index += 1
        pair = _pair(pieces[start], *found, pieces[found[1] : index]) if found else None
        yield from [pair] if pair else _restored(pieces[start:index])


def _stops(pieces: Sequence[_Piece], index: int, *, answering: bool) -> bool:
    """An answer goes on up to the next question or bold line, other text up to the next question."""
    if _question_at(pieces, index):
        return True
    text = pieces[index].text
    return answering and bool(_MARKED_QUESTION.match(text) or _BOLD_LINE.match(text))


def _pair(start: _Piece, question: str, _at: int, answer: Sequence[_Piece]) -> Block | None:
    first = _MARKED_ANSWER.match(answer[0].text) if _MARKED_QUESTION.match(start.text) else None
    text = first["text"] if first else answer[0].text
    for piece in answer[1:]:
        text += ("\n\n" if piece.starts else "\n") + piece.text
    if not text.strip() or len(text) > QA_MAX_ANSWER_CHARACTERS:
        return None
    return replace(start.block, text=text.strip(), kind="qa", question=question)


def _restored(pieces: Sequence[_Piece]) -> Iterator[Block]:
    """The pieces as the blocks they were."""
    for _key, group in groupby(pieces, key=lambda piece: id(piece.block)):
        lines = list(group)
        text = "\n".join(piece.text for piece in lines)
        if text.strip():
            yield replace(lines[0].block, text=text)


def _table_rows(block: Block) -> Iterator[Block]:
    """A table of two columns, question and answer, as one block a row."""
    lines = block.text.splitlines()
    if len(lines) < 3 or not _TABLE_HEADER.match(lines[0]):
        yield block
        return
    for line in lines[2:]:
        cells = [cell.replace("\\|", "|") for cell in table_cells(line)]
        question, answer = (cells + ["", ""])[:2]
        if question and answer:
            yield replace(block, text=answer, kind="qa", question=bare_text(question))
        elif question or answer:
            yield replace(block, text=question or answer, kind="prose")
