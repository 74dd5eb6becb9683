"""What every parser produces, and the outline they build it with.

A `ParsedDocument` is a flat sequence of blocks of light Markdown, each with the path of headings above it. Invariants:
no blank block; no word of the document is lost (a heading that has nothing under it becomes a block of its own); the
document's title is in no heading path. Parsers raise `UnreadableDocumentError` with a public message, nothing else.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from django.utils.translation import gettext as _

from knowledge.errors import UnreadableDocumentError
from knowledge.language.words import bounded_marks
from knowledge.models import SourceType

#: Pages of a PDF, slides of a presentation.
MAX_DOCUMENT_PAGES = 2_000
MAX_DOCUMENT_CHARACTERS = 10_000_000
#: A longer heading is a paragraph: it would be repeated above each passage of its section.
MAX_HEADING_CHARACTERS = 500
#: Cells up to which the short rows of a table are filled up to its widest.
MAX_FILLED_CELLS = 200_000

#: What the libraries that read files raise at a malformed one, beside their own errors.
MALFORMED = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(AssertionError, NotImplementedError, OSError, RecursionError),
)
BlockKind = Literal["prose", "list", "table", "code", "qa", "title"]

_INVISIBLE = dict.fromkeys([*range(9), 0x0B, *range(0x0E, 0x20), 0x7F, 0xAD, 0x200B, 0x2060, 0xFEFF])
#: What Markdown escapes; any other backslash is text (`C:\Users`, `\d`).
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
#: Where an escaped mark waits while others are read, in a plane that no text uses.
_HELD = 0x10FF00
_WAS_ESCAPED = re.compile("[\U0010ff21-\U0010ff7e]")
_INTERROGATIVE = re.compile(
    r"(?:comment|pourquoi|combien|quand|qui|que|quoi|où|quel(?:le)?s?|lequel|laquelle|lesquel(?:le)?s|"
    r"est-ce|peut-on|puis-je|dois-je|faut-il|how|what|when|where|who|why|which|can|could|do|does|is|"
    r"are|should)\b|qu['’]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list, a table… A `title` is a heading that has nothing under it.

    `inferred` counts the last headings that were guessed from plain lines. `anchor` is the identifier that opens a page
    at the block's place, or at its heading.
    """

    text: str
    headings: tuple[str, ...]
    kind: BlockKind = "prose"
    question: str = ""
    category: str = ""
    page: int | None = None
    inferred: int = 0
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line of the document as it stands on its page (from 1): left, top, right, bottom as shares of the page, 0 to 1."""

    text: str
    page: int
    box: tuple[float, float, float, float]
    is_title: bool = False


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """`lines` say where the words of the blocks stand, in their order, where the format has pages. `above`: the titles
    of what a page of a site is part of, as it says itself, and its own; empty where it says nothing.
    """

    title: str
    blocks: tuple[Block, ...]
    source_type: SourceType
    notices: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    lines: tuple[PlacedLine, ...] = ()


@dataclass(slots=True)
class _Heading:
    level: int
    text: str
    anchor: str = ""
    used: bool = False


class Outline:
    """Collects blocks in reading order under the current path of headings."""

    def __init__(self) -> None:
        self.title = ""
        self.category = ""
        self.blocks: list[Block] = []
        self.notices: list[str] = []
        self.lines: list[PlacedLine] = []
        self._stack: list[_Heading] = []
        self._inferred: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading.text for heading in self._stack) + self._inferred

    @property
    def anchor(self) -> str:
        """That of the innermost heading that has one."""
        return next((h.anchor for h in reversed(self._stack) if h.anchor), "")

    def heading(self, level: int, text: str, *, anchor: str = "") -> None:
        """Open a section under a plain text. The first heading of level 1 is the document's title."""
        text = one_line(text)
        if len(text) > MAX_HEADING_CHARACTERS:
            # It would stand above every passage of its section.
            self.add(text)
            return
        if not text:
            return
        if level == 1 and not self.title:
            self._close(1)
            self.title = text
            return
        self._close(level)
        for parent in self._stack:
            parent.used = True
        self._stack.append(_Heading(level, text, anchor))

    def leave_sections(self) -> None:
        """What follows stands under no heading yet."""
        self._close(0)

    def leave_out(self) -> None:
        """Something stands here that is not kept: the headings above it are not empty."""
        for heading in self._stack:
            heading.used = True

    def infer_headings(self, *texts: str) -> None:
        """Set the guessed headings below the real ones; the caller has prose to put under them."""
        self._inferred = tuple(bare_text(text) for text in texts)

    def add(
        self, text: str, *, kind: BlockKind = "prose", question: str = "", page: int | None = None, anchor: str = ""
    ) -> None:
        """Add a block; its question is plain text, its anchor that of its heading where it has none."""
        text = text.strip("\n").rstrip()
        if not text.strip():
            return
        self.leave_out()
        inferred = len(self._inferred)
        self.blocks.append(
            Block(
                text if kind in ("code", "list") else text.strip(),
                self.path,
                kind=kind,
                question=one_line(question),
                category=self.category,
                page=page,
                inferred=inferred,
                anchor=anchor or self.anchor,
            )
        )

    def add_apart(self, text: str, *, question: str) -> None:
        """Add a question and its answer that the source declares outside its text: under no heading."""
        self._close(0)
        self.add(text, kind="qa", question=question)

    def finish(self, *, filename: str, source_type: SourceType, title: str = "") -> ParsedDocument:
        """The document. Its title is the first heading of level 1, else `title` or the one heading that all stand
        under, where they say the same or there is no other, else the file's name.
        """
        self._close(0)
        if not self.blocks:
            raise UnreadableDocumentError(
                f"{filename}: no text", public_message=_("Ce document ne contient aucun texte.")
            )
        root = self._root()
        title = self.title or root_title(root, one_line(title))
        return ParsedDocument(
            title=title or title_from_filename(filename),
            blocks=tuple(_undoubled(block, title) for block in self.blocks),
            source_type=source_type,
            notices=tuple(self.notices),
            lines=tuple(self.lines),
        )

    def _root(self) -> str:
        """The heading that all blocks stand under, if there is one that the source marks."""
        roots = {block.headings[: len(block.headings) - block.inferred][:1] for block in self.blocks}
        return roots.pop()[0] if len(roots) == 1 and () not in roots else ""

    def _close(self, level: int) -> None:
        self._inferred = ()
        while self._stack and self._stack[-1].level >= level:
            heading = self._stack.pop()
            if not heading.used:
                self.blocks.append(
                    Block(
                        heading.text,
                        self.path,
                        kind="title",
                        category=self.category,
                        anchor=heading.anchor or self.anchor,
                    )
                )


def root_title(root: str, title: str) -> str:
    """The title of a document without one in its text: its one uppermost heading, if it and `title` say the same, or
    `title`.
    """
    heading, said = _key(root), _key(title)
    return root if heading and said and (heading in said or said in heading) else title


def _key(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _undoubled(block: Block, title: str) -> Block:
    """The block, no heading of its path the same as the one above it, nor the first as the title."""
    kept: list[str] = []
    for heading in block.headings:
        if heading.casefold() != (kept[-1] if kept else title).casefold():
            kept.append(heading)
    if len(kept) == len(block.headings):
        return block
    return replace(block, headings=tuple(kept), inferred=min(block.inferred, len(kept)))


def outline_text(outline: Outline) -> str:
    """The blocks of a part of a document as one text, its headings as bold lines."""
    pieces: list[str] = []
    path: tuple[str, ...] = ()
    if outline.title:
        pieces.append(f"**{outline.title}**")
    for block in outline.blocks:
        if block.headings != path and block.headings:
            pieces.append(f"**{block.headings[-1]}**")
        path = block.headings
        if block.question:
            pieces.append(f"**{block.question}**")
        pieces.append(block.text)
    return "\n\n".join(pieces)


def clean_text(text: str) -> str:
    """Composed Unicode, `\\n` line ends, no invisible or control characters, no runs of spaces within a line."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = unicodedata.normalize("NFC", bounded_marks(text))
    text = text.translate(_INVISIBLE).replace("\u2028", "\n").replace("\u2029", "\n\n")
    return text.replace("\f", "\n")


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def bare_text(text: str) -> str:
    """One line of Markdown without the marks of emphasis, code and links: for titles, headings and questions."""
    text = _ESCAPED.sub(lambda mark: chr(_HELD + ord(mark[1])), text)
    text = re.sub(r"!?\[([^\]]{0,500})\]\([^)\s]{0,2000}\)", r"\1", text)
    text = re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = re.sub(r"(?<!\w)([*_`])(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    return one_line(_WAS_ESCAPED.sub(lambda mark: chr(ord(mark[0]) - _HELD), text))


def asks(text: str) -> bool:
    """Whether a heading or label is a question: it ends with a question mark."""
    return bool(re.search(r"\w[\s»\"”’')*_]*\?[\s»\"”’')*_]*$", text))


def seems_to_ask(text: str) -> bool:
    """Also without a question mark, by its first word: only where the source marks questions (FAQ markup)."""
    return asks(text) or (bool(_INTERROGATIVE.match(text.strip())) and len(text.split()) > 2)


def title_from_filename(filename: str) -> str:
    stem = PurePath(filename.replace("\\", "/")).stem
    return re.sub(r"[_\s]+", " ", stem).strip() or filename


def page_name(name: str) -> str:
    """The name of a page of a site without what servers add or leave out: `guide/index.html`, `guide.html` and `guide/`
    are `guide`.
    """
    return re.sub(r"(?:(?:^|/)index)?\.x?html?$", "", name.split("?")[0]).rstrip("/")


def table_text(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its header, short rows are filled up."""
    rows = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows if any(row)]
    if not rows:
        return ""
    width = max(len(row) for row in rows)
    # One wide row among many short ones would be a table of nothing but empty cells.
    fill = width if width * len(rows) <= MAX_FILLED_CELLS else 0
    lines = ["| " + " | ".join(row + [""] * (fill - len(row))) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def fenced(code: str, language: str = "") -> str:
    """Code as a block of Markdown, whatever marks it holds."""
    longest = max(map(len, re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def check_length(characters: int, *, filename: str) -> None:
    """Refuse a document while it is read, before more of it is held."""
    if characters > MAX_DOCUMENT_CHARACTERS:
        raise unreadable(
            f"{filename}: over {MAX_DOCUMENT_CHARACTERS} characters",
            _("Ce document est trop long : %(limit)d caractères au plus.") % {"limit": MAX_DOCUMENT_CHARACTERS},
        )


def some_numbers(numbers: Sequence[int]) -> str:
    """As many as somebody may read."""
    return ", ".join(map(str, numbers[:20])) + ("…" if numbers[20:] else "")


def unreadable(detail: str, public_message: str) -> UnreadableDocumentError:
    return UnreadableDocumentError(detail, public_message=public_message)
