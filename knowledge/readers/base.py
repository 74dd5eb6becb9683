"""What every parser produces, and the outline they build it with.

A `ParsedDocument` is a flat sequence of blocks of light Markdown, each with the path of headings above it. Invariants:
no blank block; no word of the document is lost (a heading that has nothing under it becomes a block of its own); the
document's title is in no heading path. Parsers raise `UnreadableDocumentError` with a public message, nothing else.
"""

import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import PurePath
from typing import Literal, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

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
#: More rows of headings are content.
MAX_HEADER_ROWS = 4

#: What the libraries that read files raise at a malformed one, beside their own errors.
MALFORMED = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(AssertionError, NotImplementedError, OSError, RecursionError),
)
BlockKind = Literal["prose", "list", "table", "code", "qa", "title"]

_INVISIBLE = dict.fromkeys([*range(9), 0x0B, *range(0x0E, 0x20), 0x7F, 0xAD, 0x200B, 0x2060, 0xFEFF])
#: What the font Wingdings shows where Unicode has private characters: boxes that are empty or ticked, and ticks.
_BOXES = dict.fromkeys((0xF06F, 0xF071, 0xF072, 0xF0A8), "☐") | dict.fromkeys((0xF078, 0xF0FD, 0xF0FE), "☒")
_SHOWN = {**_INVISIBLE, **_BOXES, 0xF0FB: "✗", 0xF0FC: "✓"}
#: What Markdown escapes; any other backslash is text (`C:\Users`, `\d`).
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
#: Where an escaped mark waits while others are read, in a plane that no text uses.
_HELD = 0x10FF00
_WAS_ESCAPED = re.compile("[\U0010ff21-\U0010ff7e]")
#: What stands raised behind a digit or a letter and belongs to it: endings of ordinals; powers of units and of ten.
_ORDINAL = re.compile(r"\d (?:ers?|res?|ères?|de?s?|nde?s?|es?|[èe]mes?|st|nd|rd|th|os?|h)$", re.IGNORECASE)
_POWER = re.compile(r"(?:(?<![^\W\d_])[^\W\d_]|\b[kcdmµn]m|(?<![\w.,])10) [-−+]?\d{1,2}$")
_RAISED = str.maketrans("0123456789-−+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁺")
_LOWERED = str.maketrans("0123456789-−+", "₀₁₂₃₄₅₆₇₈₉₋₋₊")
_ROMAN_VALUES = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
#: Beyond it, lists are counted in digits.
_MOST_COUNTED = 4_000
_MOST_STRUCK, _STRUCK_LENGTH = 5, 60
_MAX_NOTICES = 100
#: What programs, scanners and templates call a document by themselves: a default name, a name of a file, a long number.
_NO_TITLE = re.compile(
    r"\(.*\)|.*\.\w{2,4}|\S*\d{6,}\S*|microsoft (?:word|excel|powerpoint)\b.*|"
    r"(?:document|doc|classeur|book|workbook|présentation(?: powerpoint)?|(?:powerpoint )?presentation|untitled|"
    r"sans (?:titre|nom)|scan|numérisation|image|img|mod[eè]le|template|brouillon|draft)[\s_-]*\d*",
    re.IGNORECASE,
)
#: Dots, at least four, that lead to a page number; what lists of such lines are called.
_LEADER = re.compile(r"\s*(?:[.·…_]\s?){4,}\s*(?:\d{1,4}|[ivxlc]{1,7})?\s*$")
_CONTENTS = re.compile(r"(?:table des mati[eè]res|sommaire|(?:table of )?contents)\W*", re.IGNORECASE)
_NUMBERING = re.compile(
    r"^(?:(?:chapter|chapitre|part|partie|appendix|annexe|section)\s+)?(?:\d+(?:\.\d+)*|[A-Z](?:\.\d+)+|[A-Z]|[IVXLC]+)[.:)]?\s+(?=\S)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list, a table… A `title` is a heading that has nothing under it. `inferred` counts the last headings,
    guessed from plain lines; `anchor` opens a page at the block or its heading."""

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
    """`lines` say where the words of the blocks stand, in their order, where the format has pages."""

    title: str
    blocks: tuple[Block, ...]
    source_type: SourceType
    notices: tuple[str, ...] = ()
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
        #: What is struck out in the source: left out, and said.
        self.struck: list[str] = []
        #: The page that what is added stands on, where its caller does not say.
        self.page: int | None = None
        self._items: list[str] = []
        self._margins: list[tuple[int, int]] = []
        self._stack: list[_Heading] = []
        self._inferred: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading.text for heading in self._stack) + self._inferred

    @property
    def anchor(self) -> str:
        """That of the innermost heading that has one."""
        return next((h.anchor for h in reversed(self._stack) if h.anchor), "")

    def heading(self, level: int, text: str, *, anchor: str = "", is_part: bool = False) -> None:
        """Open a section under a plain text. The first heading of level 1 is the document's title, unless it `is_part`."""
        text = one_line(text)
        if len(text) > MAX_HEADING_CHARACTERS or is_leader(text):
            # It would stand above every passage of its section, or is a line of a list of contents.
            self.add(text)
            return
        if not text:
            return
        is_contents = _CONTENTS.fullmatch(text) is not None
        if level == 1 and not self.title and not is_part and not is_contents:
            self._close(1)
            self.title = text
            return
        self._close(level)
        for parent in self._stack:
            parent.used = True
        self._stack.append(_Heading(level, text, anchor, used=is_contents))

    def item(self, text: str, *, depth: int = 0, mark: str = "-") -> None:
        """Add an item to the list that ends where anything else is added; a mark that Markdown does not know is text."""
        while self._margins and self._margins[-1][0] >= depth:
            self._margins.pop()
        if mark == "1." and not depth:
            self.end_list()
        margin = " " * sum(width for _depth, width in self._margins)
        self._margins.append((depth, len(mark) + 1 if re.fullmatch(r"\d{1,9}\.", mark) else 2))
        self._items.append(f"{margin}{mark if self._margins[-1][1] > 2 or mark == '-' else f'- {mark}'} {text}")

    def leave_sections(self) -> None:
        """What follows stands under no heading yet."""
        self._close(0)

    def leave_out(self) -> None:
        """Something stands here that is not kept: the headings above it are not empty."""
        for heading in self._stack:
            heading.used = True

    def name_hidden(self, slides: Sequence[int]) -> None:
        said = ngettext(
            "diapositive %(slides)s : masquée, ignorée", "diapositives %(slides)s : masquées, ignorées", len(slides)
        )
        self.notices += [said % {"slides": some_numbers(slides)}] if slides else []

    def name_comments(self, places: Sequence[int | str], sheet: str = "") -> None:
        """Say where what people noted for each other stands, or how many notes there are."""
        if places:
            self.notices.append(sheet + _("commentaires ignorés : %(places)s") % {"places": some_numbers(places)})

    def add_around(self, texts: Iterable[str]) -> None:
        """Add what stands around pages, but for their numbers, once and below no heading."""
        self.leave_sections()
        self.add("\n\n".join(dict.fromkeys(text for text in texts if not is_page_count(text))))

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
        self.end_list()
        self.leave_out()
        inferred = len(self._inferred)
        self.blocks.append(
            Block(
                text if kind in ("code", "list") else text.strip(),
                self.path,
                kind=kind,
                question=one_line(question),
                category=self.category,
                page=page or self.page,
                inferred=inferred,
                anchor=anchor or self.anchor,
            )
        )

    def finish(self, *, filename: str, source_type: SourceType, title: str = "") -> ParsedDocument:
        """The document; its title: the first heading of level 1, else `title` or the heading of all, else its name."""
        self._close(0)
        titles = {title_key(heading) for block in self.blocks for heading in block.headings}
        contents = [b.text for b in self.blocks if all(leads_to(line, titles) for line in b.text.split("\n"))]
        self.blocks = [block for block in self.blocks if block.text not in contents]
        if contents:
            text = one_line(" ".join(contents))[:_STRUCK_LENGTH]
            self.notices.append(_("sommaire, laissé de côté : « %(text)s »") % {"text": text})
        if not self.blocks:
            raise UnreadableDocumentError(
                f"{filename}: no text", public_message=_("Ce document ne contient aucun texte.")
            )
        if said := [one_line(text)[:_STRUCK_LENGTH] for text in self.struck if text.strip()]:
            texts = ", ".join(f"« {text} »" for text in said[:_MOST_STRUCK]) + ("…" if said[_MOST_STRUCK:] else "")
            texts += f" ({len(said)})" if said[1:] else ""
            self.notices.append(_("texte barré, laissé de côté : %(texts)s") % {"texts": texts})
        if (more := len(self.notices) - _MAX_NOTICES) > 0:
            self.notices[_MAX_NOTICES:] = [_("et %(count)d autres lignes ignorées") % {"count": more}]
        root = self._root()
        title = self.title or (root if _NO_TITLE.fullmatch(one_line(title)) else one_line(title))
        return ParsedDocument(
            title=title or re.sub(r"[_\s]+", " ", PurePath(filename.replace("\\", "/")).stem).strip() or filename,
            blocks=tuple(_undoubled(block, title) for block in self.blocks),
            source_type=source_type,
            notices=tuple(self.notices),
            lines=tuple(self.lines),
        )

    def _root(self) -> str:
        """The heading that all blocks stand under, if there is one that the source marks."""
        roots = {block.headings[: len(block.headings) - block.inferred][:1] for block in self.blocks}
        return roots.pop()[0] if len(roots) == 1 and () not in roots else ""

    def end_list(self) -> None:
        """What follows begins another list."""
        items, self._items, self._margins = self._items, [], []
        self.add("\n".join(items), kind="list")

    def _close(self, level: int) -> None:
        self.end_list()
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


@lru_cache(maxsize=4096)
def title_key(text: str) -> str:
    """A title as it is compared: letters and digits, without its number."""
    bare = _NUMBERING.sub("", text)
    return re.sub(r"[\W_]+", "", bare.casefold()) or text.casefold().strip()


def is_leader(line: str) -> bool:
    return len(line) <= MAX_HEADING_CHARACTERS and _LEADER.search(line) is not None


def leads_to(line: str, titles: Container[str]) -> bool:
    """Whether a line is one of a list of contents: its dots lead to the page of one of the titles."""
    bare = _LEADER.sub("", line) if is_leader(line) and line.rstrip()[-1].isalnum() else line
    return (bare != line and (not bare or title_key(bare) in titles)) or bool(_CONTENTS.fullmatch(bare.strip("* ")))


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
    text = text.translate(_SHOWN).replace("\u2028", "\n").replace("\u2029", "\n\n")
    return text.replace("\f", "\n")


def raised(before: str, text: str) -> str:
    """What stands raised behind a text, so that no reader takes it for a part of the number before: m², 1er, 4 (1) €."""
    text = text.strip()
    joint = f"{before[-4:]} {text}"
    if _POWER.search(joint):
        return text.translate(_RAISED)
    if not re.search(r"\w", text) or _ORDINAL.search(joint) or (text.isalpha() and before[-1:].isalpha()):
        return text
    is_note = len(text) <= 12 and not (text.isalpha() and len(text) > 3)
    return f" ({text.strip('()[] ') or text})" if is_note else f" {text}"


class Run(NamedTuple):
    """A piece of a paragraph: raised (1), lowered (-1) or neither, struck out or not, and where it leads."""

    text: str
    height: int = 0
    is_struck: bool = False
    link: str = ""


def joined(runs: Iterable[Run], struck: list[str]) -> str:
    """The text of a paragraph; what is struck out is added to `struck`."""
    said, is_raised = "", False
    for style, group in groupby(runs, lambda run: run[1:]):
        height, is_struck, link = style
        text = "".join(run.text for run in group)
        if said[-1:].isspace():
            text = text.lstrip(" ")
        if is_struck:
            struck.append(text)
        elif height > 0 and text.strip():
            said += raised(said, text)
        elif link and (label := text.strip()) and re.match(r"(?:https?://|mailto:)[^\s()<>]+$", link):
            said += text if label in link or "[" in label else text.replace(label, f"[{label}]({link})", 1)
        else:
            is_apart = text[:1].isalnum() and re.search(r"\(\S{1,12}\)$", said) and is_raised
            said += f" {text}" if is_apart else text.translate(_LOWERED) if height else text
        is_raised = height > 0 and not is_struck
    return said


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def bare_text(text: str) -> str:
    """One line of Markdown without the marks of emphasis, code and links: for titles, headings and questions."""
    text = _ESCAPED.sub(lambda mark: chr(_HELD + ord(mark[1])), text)
    text = re.sub(r"!?\[([^\]]{0,500})\]\([^)\s]{0,2000}\)", r"\1", text)
    text = re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = re.sub(r"(?<!\w)([*_`])(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    return one_line(_WAS_ESCAPED.sub(lambda mark: chr(ord(mark[0]) - _HELD), text))


def is_page_count(text: str) -> bool:
    """Whether the line of a header or footer says nothing but "Page 2 sur 7"."""
    return bool(re.fullmatch(r"(?:page)?\W*\d{0,4}\W*(?:sur|of|de)?\W*\d{0,4}\W*", text, re.IGNORECASE))


def asks(text: str) -> bool:
    """Whether a heading or label is a question: it ends with a question mark."""
    return bool(re.search(r"\w[\s»\"”’')*_]*\?[\s»\"”’')*_]*$", text))


def counted(number: int, kind: str) -> str:
    """A number as a list shows it: `1`, `01`, `a`, `A`, `i`, `I`, or nothing; letters repeat past z: aa, bb."""
    if kind.upper() not in ("A", "I") or not 0 < number < _MOST_COUNTED:
        return str(number).zfill(2 if kind.startswith("0") else 1) if kind else ""
    if kind.upper() == "A":
        text = chr(ord("A") + (number - 1) % 26) * ((number + 25) // 26)
    else:
        text = ""
        for value, sign in zip(_ROMAN_VALUES, "M CM D CD C XC L XL X IX V IV I".split(), strict=True):
            text += sign * (number // value)
            number %= value
    return text if kind.isupper() else text.lower()


def page_name(name: str) -> str:
    """The name of a page without what servers add: `guide/index.html`, `guide.html` and `guide/` are `guide`."""
    return re.sub(r"(?:(?:^|/)index)?\.x?html?$", "", name.split("?")[0]).rstrip("/")


def table_text(rows: Sequence[Sequence[str]], *, headers: int = 0) -> str:
    """A Markdown table; short rows are filled up, and its `headers` first rows become one (0: as many as seem to be)."""
    rows = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows if any(row)]
    if not rows:
        return ""
    width = max(len(row) for row in rows)
    # One wide row among many short ones would be a table of nothing but empty cells.
    fill = width if width * len(rows) <= MAX_FILLED_CELLS else 0
    rows = [[*row, *[""] * (fill - len(row))] for row in rows]
    count = (headers or _header_rows(rows)) if fill else 1
    lines = list(map(table_row, [_one_header(rows[:count]), *rows[count:]]))
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def table_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table_cells(row: str) -> list[str]:
    """The cells of a row of a Markdown table, their bars still escaped."""
    row = re.sub(r"(?<!\\)\|$", "", row.strip().removeprefix("|"))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]


def _header_rows(rows: Sequence[Sequence[str]]) -> int:
    """How many rows at the top name columns: a title alone in its row, names below a name over several columns."""
    count = 1
    if len(rows) > 2 and len(rows[0]) > 2 and sum(map(bool, rows[0])) == 1:  # a title, a header, a row
        count += sum(map(bool, rows[1])) > 1 and not any(re.match(r"\d", cell) for cell in rows[1])
    first = rows[count - 1]
    while count < min(len(rows) - 1, MAX_HEADER_ROWS):
        above, row = rows[count - 1], rows[count]
        gaps = [column for column in range(1, len(row)) if not above[column]]
        is_spanned = any(above[column - 1] for column in gaps)
        is_named = all(row[column] or row[column - 1] for column in gaps)
        if not (first[0] and is_spanned and is_named and row[0] in ("", first[0])):
            break
        count += 1
    return count


def _one_header(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of headings as one: what each column is called, from the outermost in."""
    filled = [list(rows[-1])]
    for row in rows[-2::-1]:
        names = list(row)
        for column in range(1, len(names) if sum(map(bool, row)) > 1 else 0):
            if not names[column] and filled[0][column]:
                names[column] = names[column - 1]
        filled.insert(0, names)
    return [" / ".join(dict.fromkeys(filter(None, names))) for names in zip(*filled, strict=True)]


def fenced(code: str) -> str:
    """Code as a block of Markdown, whatever marks it holds."""
    longest = max(map(len, re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{code}\n{fence}"


def check_length(characters: int, *, filename: str) -> None:
    """Refuse a document while it is read, before more of it is held."""
    if characters > MAX_DOCUMENT_CHARACTERS:
        raise unreadable(
            f"{filename}: over {MAX_DOCUMENT_CHARACTERS} characters",
            _("Ce document est trop long : %(limit)d caractères au plus.") % {"limit": MAX_DOCUMENT_CHARACTERS},
        )


def some_numbers(numbers: Sequence[int | str]) -> str:
    """As many as somebody may read."""
    return ", ".join(map(str, numbers[:20])) + ("…" if numbers[20:] else "")


def unreadable(detail: str, public_message: str) -> UnreadableDocumentError:
    return UnreadableDocumentError(detail, public_message=public_message)
