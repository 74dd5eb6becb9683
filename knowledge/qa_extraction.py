"""Questions and answers that stand in a document already, found without a model.

Blocks come in and go out; those that ask and answer leave as blocks of kind `qa`. Recognised: headings that ask with what
stands under them, lines marked `Q:` and `R:` (or `A:`), bold lines that ask, and tables of questions and answers. A question
inside running prose is prose. No word is lost: what belongs to no question goes out as it came.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from django.conf import settings

from knowledge.parsing.base import Block, asks, bare_text

_MARKED_QUESTION = re.compile(
    r"^\s*(?:[*_]{2})?(?:Q|Question)\s*\d*\s*(?:[*_]{2})?\s?[:.]\s*(?:[*_]{2})?\s*(?P<text>\S.*)$",
    re.IGNORECASE,
)
_MARKED_ANSWER = re.compile(
    r"^\s*(?:[*_]{2})?(?:R|A|R[ée]ponse|Answer)\s*\d*\s*(?:[*_]{2})?\s?[:.]\s*(?:[*_]{2})?\s*(?P<text>\S.*)$",
    re.IGNORECASE,
)
_BOLD_LINE = re.compile(r"^\s*(\*\*|__)(?P<text>[^\n]+?)\1\s*$")
_TABLE_HEADER = re.compile(
    r"^\|\s*(?:questions?)\s*\|\s*(?:r[ée]ponses?|answers?)\s*\|\s*$", re.IGNORECASE
)
_CELL_BREAK = re.compile(r"(?<!\\)\|")


def extract_questions(blocks: Sequence[Block]) -> list[Block]:
    """The same text in the same order, questions with their answers as blocks of kind `qa`."""
    found: list[Block] = []
    for heading, group in groupby(blocks, key=_asking_path):
        section = list(group)
        answers = heading and _answers_as_a_whole(heading, section)
        found.extend(_answered_heading(heading, section) if answers else _inside(section))
    return found


def _asking_path(block: Block) -> tuple[str, ...]:
    """The path down to the outermost heading that asks; empty where none does.

    A guessed heading does not count: where its section ends is a guess too, and an answer is shown word for word.
    """
    marked = block.headings[: len(block.headings) - block.inferred]
    for depth, heading in enumerate(marked, start=1):
        if (
            asks(heading)
            and block.kind != "qa"
            and len(heading) <= settings.QA_MAX_QUESTION_CHARACTERS
        ):
            return block.headings[:depth]
    return ()


def _answers_as_a_whole(path: tuple[str, ...], section: Sequence[Block]) -> bool:
    """Whether a section is one answer: of a bounded size, and without sections that ask in their turn."""
    size = sum(len(block.text) for block in section)
    inner = (heading for block in section for heading in block.headings[len(path) :])
    return size <= settings.QA_MAX_ANSWER_CHARACTERS and not any(map(asks, inner))


def _answered_heading(path: tuple[str, ...], section: Sequence[Block]) -> Iterator[Block]:
    first = section[0]
    pieces: list[str] = []
    inner: tuple[str, ...] = path
    for block in section:
        if block.headings != inner and len(block.headings) > len(path):
            pieces.append(f"**{block.headings[-1]}**")
        inner = block.headings
        pieces.append(block.text)
    yield replace(
        first,
        text="\n\n".join(pieces),
        headings=path[:-1],
        kind="qa",
        question=path[-1],
        inferred=min(first.inferred, len(path) - 1),
    )


def _inside(section: Sequence[Block]) -> Iterator[Block]:
    """Marked lines, bold questions and tables among blocks under headings that do not ask."""
    question: Block | None = None
    answer: list[str] = []
    for block in (piece for whole in section for piece in _split_marked(whole)):
        bold = _BOLD_LINE.match(block.text) if block.kind == "prose" else None
        if question is not None and (
            bold or block.kind == "qa" or block.headings != question.headings
        ):
            yield from _bold_pair(question, answer)
            question, answer = None, []
        if bold and asks(bold["text"]):
            question = block
        elif question is not None:
            answer.append(block.text)
        else:
            yield block
    if question is not None:
        yield from _bold_pair(question, answer)


def _bold_pair(question: Block, answer: Sequence[str]) -> Iterator[Block]:
    if not answer:
        yield question
        return
    asked = bare_text(question.text)
    yield replace(question, text="\n\n".join(answer), kind="qa", question=asked)


def _split_marked(block: Block) -> Iterator[Block]:
    if block.kind == "table":
        yield from _table_rows(block)
    elif block.kind in ("prose", "list"):
        yield from _marked_lines(block)
    else:
        yield block


def _table_rows(block: Block) -> Iterator[Block]:
    """A table of two columns, question and answer, as one block a row."""
    lines = block.text.splitlines()
    if len(lines) < 3 or not _TABLE_HEADER.match(lines[0]):
        yield block
        return
    for line in lines[2:]:
        cells = [
            cell.strip().replace("\\|", "|") for cell in _CELL_BREAK.split(line.strip().strip("|"))
        ]
        question, answer = (cells + ["", ""])[:2]
        if question and answer:
            yield replace(block, text=answer, kind="qa", question=bare_text(question))
        elif question or answer:
            yield replace(block, text=question or answer, kind="prose")


def _marked_lines(block: Block) -> Iterator[Block]:
    """`Q:` … `R:` lines as pairs; lines before the first mark stay a block of their own."""
    lines = block.text.splitlines()
    if not any(map(_MARKED_QUESTION.match, lines)):
        yield block
        return
    yield from _pairs(block, lines)


def _pairs(block: Block, lines: Iterable[str]) -> Iterator[Block]:
    question = ""
    answer: list[str] = []
    before: list[str] = []
    for line in lines:
        if asked := _MARKED_QUESTION.match(line):
            yield from _pair(block, question, answer)
            question, answer = bare_text(asked["text"]), []
        elif question and not answer and (answered := _MARKED_ANSWER.match(line)):
            answer = [answered["text"]]
        elif question:
            answer.append(line)
        else:
            before.append(line)
    if before:
        yield replace(block, text="\n".join(before))
    yield from _pair(block, question, answer)


def _pair(block: Block, question: str, answer: Sequence[str]) -> Iterator[Block]:
    text = "\n".join(answer).strip()
    if question and text:
        yield replace(block, text=text, kind="qa", question=question)
    elif question:
        yield replace(block, text=f"**{question}**", kind="prose")
