"""A branch as PDF. Apart from `chat.archive.export.documents` because its library and fonts take 45 MB: imported when
one is asked for.

The PDF is drawn with the fonts that every reader of PDFs has, whose characters are those of cp1252: French is whole,
other scripts are not, and the document says so where one was left out. `EXPORT_FONT` names a font file to be embedded
instead.

A line drawn costs a quarter of a millisecond, so a document has `EXPORT_PDF_MAX_LINES` of them, by estimate: of a
longer conversation the newest exchanges, and the document says how many are not in it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from fpdf import FPDF
from fpdf.enums import XPos, YPos
from markdown_it.token import Token

from chat.archive.export.documents import ExportedExchange, dated, exported_exchanges, no_answer, source_lines
from chat.models import Conversation
from chat.rendering import answer_tokens

#: A PDF holds about so many lines, two hundred pages: some 3 s of processor at worst, and more than anybody prints.
EXPORT_PDF_MAX_LINES = 10_000

#: What a core font of PDF can show; anything else becomes this.
_CORE_ENCODING, _UNKNOWN = "cp1252", "?"
_MARGIN_MM = 18
_TEXT_POINTS, _SMALL_POINTS = 10.5, 8.5
_LINE_MM = 5.4
_INDENT_MM = 6.0
_Look = Literal["plain", "bold", "grey", "code"]
#: By the kind of a block; all others are plain.
_LOOKS: dict[str, _Look] = {"heading": "bold", "quote": "grey", "code": "code"}
#: A word longer than this is broken, so that it fits the narrowest line.
_LONGEST_WORD = 60
#: About what a line holds, to estimate how many a text takes.
_LINE_CHARACTERS = 80


def as_pdf(conversation: Conversation) -> bytes:
    page = _Page()
    page.text(conversation.title, size=16, look="bold")
    page.text(dated(conversation), size=_SMALL_POINTS, look="grey")
    exchanges = exported_exchanges(conversation)
    drawn = _newest(exchanges)
    if left_out := len(exchanges) - len(drawn):
        page.gap()
        note = ngettext(
            "L’échange le plus ancien n’est pas dans ce document trop long ; l’export en Markdown le contient.",
            "Les %(count)d échanges les plus anciens ne sont pas dans ce document trop long ; l’export en Markdown les contient.",
            left_out,
        )
        page.text(note % {"count": left_out}, size=_SMALL_POINTS, look="grey")
    for exchange in drawn:
        page.gap()
        page.text(exchange.question, look="bold")
        page.gap(0.5)
        for block in _blocks(exchange.answer or no_answer()):
            page.block(block)
        if exchange.answer and not exchange.is_whole:
            page.text(_("Réponse incomplète."), size=_SMALL_POINTS, look="grey")
        for line in source_lines(exchange.sources):
            page.text(line, size=_SMALL_POINTS, look="grey")
    return page.finished()


def _newest(exchanges: Sequence[ExportedExchange]) -> Sequence[ExportedExchange]:
    """As many of the last ones as fit, one at least."""
    lines = 0
    for count, exchange in enumerate(reversed(exchanges)):
        lines += _estimated_lines(exchange)
        if count and lines > EXPORT_PDF_MAX_LINES:
            return exchanges[-count:]
    return exchanges


def _estimated_lines(exchange: ExportedExchange) -> int:
    texts = f"{exchange.question}\n{exchange.answer}".split("\n")
    return len(exchange.sources) + sum(1 + len(text) // _LINE_CHARACTERS for text in texts)


class _Page:
    """Text down a page, in the core fonts or in the one that the site names."""

    def __init__(self) -> None:
        self._pdf = FPDF(format="A4")
        self._pdf.set_margin(_MARGIN_MM)
        self._pdf.set_auto_page_break(auto=True, margin=_MARGIN_MM)
        self._pdf.add_page()
        self._left_out = False
        #: Of words, in millimetres, by font and size.
        self._widths: dict[tuple[str, str, float], dict[str, float]] = {}
        self._family, self._bold = "Helvetica", "B"
        if settings.EXPORT_FONT:
            self._family, self._bold = "site", ""
            self._pdf.add_font("site", fname=settings.EXPORT_FONT)
        else:
            self._pdf.core_fonts_encoding = _CORE_ENCODING

    def text(self, text: str, *, look: _Look = "plain", size: float = _TEXT_POINTS, indent: int = 0) -> None:
        own_font = bool(settings.EXPORT_FONT)
        family = "Courier" if look == "code" and not own_font else self._family
        font = (family, self._bold if look == "bold" else "", size)
        self._pdf.set_font(font[0], style=font[1], size=size)
        self._pdf.set_text_color(*((95, 95, 95) if look == "grey" else (25, 25, 25)))
        left = _MARGIN_MM + indent * _INDENT_MM
        height = _LINE_MM * size / _TEXT_POINTS
        widths = self._widths.setdefault(font, {})
        for line in self._lines(self._shown(text), self._pdf.w - _MARGIN_MM - left, widths):
            if not line:
                self._pdf.ln(height)
                continue
            self._pdf.set_x(left)
            self._pdf.cell(w=0, h=height, text=line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)

    def _lines(self, text: str, width: float, widths: dict[str, float]) -> Iterator[str]:
        """The text broken at blanks to a width in millimetres. Each word is measured once for the document (`widths`):
        the library's own breaking measures a line again at each of its blanks, and took four times as long."""
        usable = width - 2 * self._pdf.c_margin
        blank = self._measured(" ", widths)
        for paragraph in text.split("\n"):
            # The blanks before a line of code stay.
            inner = paragraph.lstrip(" ")
            indented = "\u00a0" * (len(paragraph) - len(inner)) + inner
            line, length = "", 0.0
            for word in indented.split(" "):
                wide = self._measured(word, widths)
                if line and length + blank + wide > usable:
                    yield line
                    line, length = word, wide
                else:
                    line, length = f"{line} {word}" if line else word, length + blank + wide
            yield line

    def _measured(self, word: str, widths: dict[str, float]) -> float:
        if word not in widths:
            widths[word] = self._pdf.get_string_width(word)
        return widths[word]

    def block(self, block: "_Block") -> None:
        size = _TEXT_POINTS + (2 if block.kind == "heading" else 0)
        look = _LOOKS.get(block.kind, "plain")
        self.text(block.text, look=look, size=size, indent=block.depth)
        self.gap(0.3)

    def gap(self, lines: float = 1.0) -> None:
        self._pdf.ln(_LINE_MM * lines)

    def finished(self) -> bytes:
        if self._left_out:
            self.gap()
            note = _("Les caractères que la police du document n’a pas sont remplacés par « ? ».")
            self.text(note, size=_SMALL_POINTS, look="grey")
        return bytes(self._pdf.output())

    def _shown(self, text: str) -> str:
        text = re.sub(rf"(\S{{{_LONGEST_WORD}}})(?=\S)", r"\1 ", text.replace("\t", "    "))
        text = "".join(c for c in text if c == "\n" or c.isprintable() or c == "\u00a0")
        if settings.EXPORT_FONT:
            return text
        # A narrow no-break space, as French typography has it, is in no core font.
        text = text.replace("\u202f", "\u00a0").replace("\u2011", "-").replace("−", "-")
        text = text.replace("☐", "[ ]").replace("☑", "[x]")
        shown = text.encode(_CORE_ENCODING, "replace").decode(_CORE_ENCODING)
        self._left_out |= shown != text
        return shown


@dataclass(frozen=True, slots=True)
class _Block:
    """`kind`: text, heading, code or quote; `depth` counts the lists and quotes around it."""

    kind: str
    text: str
    depth: int = 0


def _blocks(markdown: str) -> Iterator[_Block]:
    """The blocks of an answer, their text without marks; a row of a table is a line."""
    depth, quotes, kind, bullet = 0, 0, "text", ""
    numbers: list[int | None] = []
    cells: list[str] | None = None
    for token in answer_tokens(markdown):
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                first = int(token.attrs.get("start") or 1)
                numbers.append(first if token.type == "ordered_list_open" else None)
                depth += 1
            case "bullet_list_close" | "ordered_list_close":
                numbers.pop()
                depth -= 1
            case "list_item_open":
                number = numbers[-1]
                bullet = "• " if number is None else f"{number}. "
                numbers[-1] = None if number is None else number + 1
            case "blockquote_open" | "blockquote_close":
                quotes += token.nesting
            case "heading_open":
                kind = "heading"
            case "heading_close":
                kind = "text"
            case "tr_open":
                cells = []
            case "tr_close":
                yield _Block("text", "  |  ".join(cells or []), depth + quotes)
                cells = None
            case "fence" | "code_block" | "math_block":
                yield _Block("code", token.content.rstrip("\n"), depth + quotes)
            case "inline" if cells is not None:
                cells.append(_plain(token.children or []))
            case "inline":
                shown = "quote" if quotes and kind == "text" else kind
                yield _Block(shown, bullet + _plain(token.children or []), depth + quotes)
                bullet = ""


def _plain(tokens: Iterable[Token]) -> str:
    """The text of a line. What paper cannot show is written: where a link leads, and that words were struck out."""
    shown = {"softbreak": " ", "hardbreak": "\n", "s_open": "~~", "s_close": "~~"}
    parts, address, text = [], "", ""
    for token in tokens:
        piece = shown.get(token.type, token.content)
        text += piece
        if token.type == "link_open":
            address, text = str(token.attrGet("href") or ""), ""
        elif token.type == "link_close" and not address.endswith(text):
            piece = f" ({address})"
        parts.append(piece)
    return "".join(parts)
