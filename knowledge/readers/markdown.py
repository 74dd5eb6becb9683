"""Markdown: headings, paragraphs, lists, tables, code, front matter, `<details>`.

The structure comes from the parser; the text of a block stays the source's. A file of single long lines, whose titles
and lists carry no mark, is read as plain lines between its marked headings. Indented code is not recognised: it is text
by accident.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, bare_text, clean_text, outline_text, seems_to_ask
from knowledge.readers.html import html_fragment_text
from knowledge.readers.text import add_plain_lines, broken_at_margin, decode_text, join_lines, margin_width

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_DETAILS_TAG = re.compile(r"<(/?)(details|summary)\b[^<>]*>", re.IGNORECASE)
_HELD = re.compile("\ue0f0(\\d+)\ue0f1")
#: The marks of what is held, which no text may bring along.
_MARKS = str.maketrans("", "", "\ue0f0\ue0f1")
#: `<details>` within `<details>` are questions of their own down to here; deeper ones are read as HTML.
_MAX_DEPTH = 20
#: The line below the header of a table.
_RULE = re.compile(r"[\s|:-]+")
_BREADCRUMB = re.compile(r"[^.?!\n]{2,120}\s[/›>»](?:\s[^.?!\n]*)?")
#: Indented code (see above), and what would be parsed within a run of text for nothing: its source is kept, of which
#: only the HTML tags need to be known. Links and images are looked for anew from each of their brackets: `![` repeated
#: 20,000 times took 10 s.
_UNUSED_RULES = ["code", "link", "image", "emphasis"]
#: Each piece bounded, so that a mark which never closes costs no walk to the end of the text.
_IMAGE = re.compile(r"!\[([^\]]{0,500})\]\([^)]{0,2000}\)")
_HTML_PIECE = re.compile(r"<!--(?:(?!<!--).)*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL)
#: Fewer unmarked lines than this say nothing about how the file is written.
_ENOUGH_LINES = 12


def parse_markdown(data: bytes, *, filename: str) -> ParsedDocument:
    text = clean_text(decode_text(data, filename=filename)).translate(_MARKS)
    reader = _MarkdownReader()
    front = _front_matter(text)
    reader.outline.category = next((front[key] for key in ("category", "catégorie", "categorie") if front.get(key)), "")
    reader.read(_FRONT_MATTER.sub("", text, count=1))
    title = bare_text(next((front[key] for key in ("title", "titre") if front.get(key)), ""))
    return reader.outline.finish(filename=filename, source_type=SourceType.MARKDOWN, title=title)


def _front_matter(text: str) -> dict[str, str]:
    """The plain `key: value` lines of the front matter; anything richer is not needed here."""
    match = _FRONT_MATTER.match(text)
    pairs = re.findall(r"^([^\W\d]\w*)[ \t]*:[ \t]*(.+?)[ \t]*$", match[1] if match else "", re.M)
    return {key.lower(): value.strip("\"'") for key, value in pairs}


@dataclass(slots=True)
class _Details:
    """Where a `<details>` with its `<summary>` stands in a text."""

    start: int
    end: int = 0
    summary: tuple[int, int] = (0, 0)
    body: tuple[int, int] = (0, 0)


def _details_in(text: str) -> list[_Details]:
    """The outermost complete `<details>` that begin with a `<summary>`, found in one walk over the tags."""
    found: list[_Details] = []
    open_: list[_Details] = []
    opened_at = summary_at = -1
    for tag in _DETAILS_TAG.finditer(text):
        is_end, is_summary = bool(tag[1]), tag[2].lower() == "summary"
        follows, within = opened_at, summary_at
        opened_at = summary_at = -1
        if is_summary and not is_end and follows >= 0 and not text[follows : tag.start()].strip():
            summary_at = tag.end()
        elif is_summary and is_end and within >= 0:
            open_[-1].summary = (within, tag.start())
            open_[-1].body = (tag.end(), tag.end())
        elif not is_summary and not is_end:
            open_.append(_Details(tag.start()))
            opened_at = tag.end()
        elif not is_summary and open_:
            part = open_.pop()
            if not part.body[0]:
                continue
            part.end, part.body = tag.end(), (part.body[0], tag.start())
            while found and found[-1].start > part.start:
                found.pop()
            found.append(part)
    return found


class _MarkdownReader:
    def __init__(self, depth: int = 0) -> None:
        self.outline = Outline()
        self._depth = depth
        self._markdown = MarkdownIt("commonmark").enable("table").disable(_UNUSED_RULES)
        self._held: list[tuple[str, str]] = []
        self._plain: list[str] = []
        self._plain_mode = False
        self._width = 0

    def read(self, text: str) -> None:
        if self._depth < _MAX_DEPTH:
            text = self._hold(text)
        lines = text.split("\n")
        tokens = self._markdown.parse(text)
        self._measure(tokens)
        for index, token in enumerate(tokens):
            if token.level == 0 and token.nesting >= 0 and token.map is not None:
                inline = tokens[index + 1] if index + 1 < len(tokens) else None
                self._token(token, inline, lines[token.map[0] : token.map[1]])
        self._flush()

    def _hold(self, text: str) -> str:
        """Set every `<details>` aside: blank lines inside it would cut it in pieces."""
        pieces, at = [], 0
        for part in _details_in(text):
            pieces += [text[at : part.start], f"\n\n\ue0f0{len(self._held)}\ue0f1\n\n"]
            self._held.append((html_fragment_text(text[slice(*part.summary)]), text[slice(*part.body)]))
            at = part.end
        return "".join([*pieces, text[at:]])

    def _measure(self, tokens: Sequence[Token]) -> None:
        lines = [
            line
            for index, token in enumerate(tokens)
            if token.type == "paragraph_open" and token.level == 0
            for line in tokens[index + 1].content.split("\n")
        ]
        self._width = margin_width(lines)
        self._plain_mode = len(lines) >= _ENOUGH_LINES and not broken_at_margin(lines)

    def _token(self, token: Token, inline: Token | None, source: list[str]) -> None:
        if token.type == "paragraph_open" and inline is not None:
            self._paragraph(inline)
            return
        self._flush()
        match token.type:
            case "heading_open" if inline is not None:
                self.outline.heading(int(token.tag[1]), bare_text(_without_html(inline)))
            case "bullet_list_open" | "ordered_list_open":
                self.outline.add(_trimmed(source), kind="list")
            case "table_open":
                self.outline.add(_unpadded(source), kind="table")
            case "fence":
                self.outline.add(_trimmed(source), kind="code")
            case "blockquote_open":
                self._quote(source)
            case "html_block":
                self.outline.add(html_fragment_text("\n".join(source)))

    def _paragraph(self, inline: Token) -> None:
        text = _without_html(inline)
        if held := _HELD.fullmatch(text.strip()):
            self._flush()
            self._details(*self._held[int(held[1])])
        elif self._plain_mode:
            self._plain.extend(text.split("\n"))
        else:
            lines = join_lines(text.split("\n"), width=self._width)
            self.outline.add("\n".join(re.sub(r"[ \t]+", " ", line.strip()) for line in lines))

    def _details(self, summary: str, body: str) -> None:
        inner = _MarkdownReader(self._depth + 1)
        inner.read(body)
        answer = outline_text(inner.outline)
        if seems_to_ask(summary):
            self.outline.add(answer, kind="qa", question=bare_text(summary))
        else:
            self.outline.add(f"**{bare_text(summary)}**\n\n{answer}".strip("*\n "))

    def _quote(self, source: list[str]) -> None:
        text = "\n".join(re.sub(r"^\s{0,3}>\s?", "", line) for line in source).strip()
        first = not self.outline.blocks and not self.outline.category
        if first and self.outline.title and _BREADCRUMB.fullmatch(text):
            self.outline.category = text.strip(" /›>»")
            return
        self._plain_mode, mode = False, self._plain_mode
        self.outline.add(text)
        self._plain_mode = mode

    def _flush(self) -> None:
        lines, self._plain = self._plain, []
        add_plain_lines(self.outline, lines)


def _without_html(inline: Token) -> str:
    """The source of a run of text, without its HTML tags and the addresses of its images."""
    text = _IMAGE.sub(r"\1", inline.content)
    if any(child.type == "html_inline" for child in inline.children or ()):
        text = re.sub(r"<br\s*/?>", "\n", text, flags=re.IGNORECASE)
        text = _HTML_PIECE.sub("", text)
    return text


def _trimmed(source: list[str]) -> str:
    return "\n".join(line.rstrip() for line in source).strip("\n")


def _unpadded(source: list[str]) -> str:
    """The rows of a table between bars, without the blanks and dashes that align its source: they would fill passages,
    and tear its rows.
    """
    rows = (re.sub(r"[ \t]{2,}", " ", line.strip()) for line in source if line.strip())
    rows = (re.sub(r"-{4,}", "---", row) if _RULE.fullmatch(row) else row for row in rows)
    rows = (row if row.startswith("|") else f"| {row}" for row in rows)
    return "\n".join(row if re.search(r"(?<!\\)\|$", row) else f"{row} |" for row in rows)
