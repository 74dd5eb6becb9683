"""Markdown, read as the page that it makes: a parser writes HTML, and `markup` reads it.

What wikis and generators of sites put between the lines (templates, boxes, attributes) becomes its text, or nothing. A
file of single long lines, whose titles and lists carry no mark, is read as plain lines between its marked headings.
Indented code is not recognised: it is text by accident. Every pattern is bounded, and so is what the parser may cost.
"""

import html
import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import PurePath
from typing import Any

from bs4 import Tag
from bs4.element import NavigableString, PageElement
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, bare_text, clean_text, one_line, raised
from knowledge.readers.html import Links, drop_pointers, drop_unread, write_pictures_out
from knowledge.readers.markup import (
    HEADINGS,
    MarkupReader,
    attribute,
    inline_text,
    plain_text,
    tags_named,
    take_out_marks,
    tree_of,
)
from knowledge.readers.office import PICTURE_NAME
from knowledge.readers.text import add_plain_lines, broken_at_margin, decode_text, join_lines, margin_width

_FRONT_MATTER = re.compile(r"\A(?:---|\+\+\+)[ \t]*\n(.*?)\n(?:---|\.\.\.|\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL)
#: Opening hours in a quotation have figures.
_BREADCRUMB = re.compile(r"[^.?!\n\d]{2,120}\s[/›>»](?:\s[A-ZÀ-Ý][^.?!\n\d]*)?")
#: An item and a line behind it, not indented: in a file without a margin the line is a paragraph, not the item's rest.
_AFTER_ITEM = re.compile(
    r"^((?:[-*+]|\d{1,9}[.)])[ \t]+\S[^\n]*\n)(?!\s|[#>|`~<(a-zß-öø-ÿ]|[*+-]\s|\d+[.)]\s)", re.MULTILINE
)
#: Fewer unmarked lines than this say nothing about how the file is written.
_ENOUGH_LINES = 12

_FENCE = re.compile(r"^[ \t>]*(?:[-*+] +|\d{1,9}[.)] +)?(`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
#: Liquid, Jinja and GitBook (`{% … %}`), Hugo (`{{< … >}}`), and what they print.
_TEMPLATE = re.compile(
    r"\{%-?\s*comment\s*-?%\}(?:(?!\{%).){0,5000}\{%-?\s*endcomment\s*-?%\}|\{%(?:(?!%\}|\{%).){0,2000}%\}|\{\{[<%](?:(?![>%]\}\}|\{\{).){0,2000}[>%]\}\}",
    re.DOTALL,
)
_PRINTED = re.compile(r"\{\{[^{}\n]{0,300}\}\}")
_FILTERED = re.compile(r"\{\{[^{}|\n]{0,300}\|[^{}\n]{0,300}\}\}")
#: A component of MDX over several lines, closed by itself: the parser knows those of one line, which show nothing.
_COMPONENT = re.compile(r"^[ \t]*<[A-Z][\w.]{0,80}[ \t]*\n[^<]{0,20000}?/>[ \t]*$", re.MULTILINE)
#: What a template or a line of JSON shows of its own.
_TEMPLATE_TEXT = re.compile(
    r"""\b(?:title|titre|caption|alt|text|content|description)["']?\s*[=:]\s*(?:"([^"]*)"|'([^']*)')"""
)
_JSON = re.compile(r"^[ \t]*([\[{][\"{\[].*[\]}])[ \t]*$", re.MULTILINE)
#: What only says how the page is made: a list of contents, an import of MDX, what a word is short for, attributes (Jekyll, Pandoc, MkDocs) at the
#: end of a line, behind a link, an image, an icon or emphasis, or at the head of an item.
_ATTRIBUTES = (
    r"\{(?::|[ \t]*(?:(?=[#.])|(?:align|class|width|height|style|target|rel|title|loading)=))[^{}`\n]{0,200}\}"
)
_SETTING = re.compile(
    r"""^[ \t]*\[\[?_?(?i:toc)_?\]?\][ \t]*$|^import[ \t]+(?:[\w*]+|\{[\w, ]{0,200}\})[ \t]+from[ \t]+["'][^"'\n]{1,200}["'];?[ \t]*$|^\*\[[^\]\n]{1,80}\]:[^\n]*$"""
    rf"|(?<![ \t])[ \t]*{_ATTRIBUTES}[ \t]*$|(?<=[)\]*_:>]){_ATTRIBUTES}|(?<=^- ){_ATTRIBUTES}|(?<=^\d\. ){_ATTRIBUTES}",
    re.MULTILINE,
)
#: The first line of a box, of VuePress and Docusaurus, MkDocs (tabs too), GitHub; and the last.
_BOX = re.compile(
    r"^([ \t>]*(?:[-*+] +)?)(?::{3,}[ \t]*\{?[\w-]*\}?[ \t]*\[?([^\]\n]*)\]?|"
    r'(?:!!!|\?\?\?)\+?[ \t]+[\w -]+?(?:[ \t]+"([^"\n]*)")?|===[+!]?[ \t]+"([^"\n]*)"|\[!\w+\][-+]?[ \t]*(.*))[ \t]*$',
    re.MULTILINE,
)
#: Deeper in quotes and lists than any page: the parser would look at each line once more for every level.
_DEEP = re.compile(
    r"^(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))){16,}[ \t]*|^(?: {4}|\t){15,}[ \t]*", re.MULTILINE
)
#: « + 0,92 % » is no item of a list.
_PLUS = re.compile(r"^([ \t]*)\+(?=[ \t]+\d)", re.MULTILINE)
_NOTE_TEXT = re.compile(r"^([ \t>]*)\[\^([^\s\[\]]{1,50})\]:[ \t]*", re.MULTILINE)
#: In a text: notes (`[^1]`, `^1^`), letters below the line, marked and struck text, links of wikis, names of icons.
_SIGNS = re.compile(
    r"\[\^(?P<note>[^\s\[\]]{1,50})\]|(?<!\^)\^(?P<up>[^\s^]{1,12})\^(?!\^)|(?<=\w)~(?P<down>\w{1,12})~"
    r"|(?<![=\w])==(?=[^\s=])(?P<marked>[^=\n]{1,500})(?<=\S)==(?![=\w])"
    r"|(?<![~\w])~(?![~\s])(?P<struck>[^~\n]{1,500})(?<!\s)~(?![~\w])"
    r"|(?P<picture>!)?\[\[(?:[^\[\]|\n]{1,300}\|)?(?P<wiki>[^\[\]|\n]{1,300})\]\]"
    # A picture within HTML, which the parser leaves as it is.
    r"|!\[(?P<alt>[^\[\]\n]{0,300})\]\([^()\n]{1,300}\)"
    r"|(?<![\w:]):[a-z][a-z0-9_+-]{1,60}:(?![\w:])|(?<![\w:]):[a-z0-9]{1,30}(?:\\?_[a-z0-9]{1,30}){1,5}:(?!:)"
)
#: What editors leave: a break that nothing follows, emphasis of nothing, emphasis that ends behind a space.
_BREAK = re.compile(r"^[ \t>]*\\[ \t]*$|(?<=\s)([^\s\\]*)\\[ \t]*(?=\n[ \t>]*(?:\n|\Z)|\Z)", re.MULTILINE)
_NO_EMPHASIS = re.compile(
    r"(?<=[a-zà-ÿ])\*{4}(?=[a-zà-ÿ])|^\*{4}(?=[^*\s`])|(?<=[a-zà-ÿ])\*\* \*\*(?=[\w:])", re.I | re.M
)
_LATE_END = re.compile(r"(?<!\*)\*\*(?=[^\s*])([^*\n]{1,200}?)([ \t]+)\*\*(?=[\s:.,;!?)]|\Z)")
#: Emphasis that a program escaped.
_ESCAPED_BOLD = re.compile(r"\\\*\\\*(?=[^\s*\\])([^*\n]{1,200}?)(?<=[^\s\\])\\\*\\\*")
#: What addresses of pages beside this one end with.
_PAGES = ("", ".md", ".markdown", ".html", ".htm")
#: What may begin something within a line; the parser's work grows with the square of their number in one text.
_SPECIAL = re.compile(r"[\[\]!`*_~<&]")

_MOST_SPECIAL, _MOST_WORK = 600, 50_000_000


def parse_markdown(data: bytes, *, filename: str) -> ParsedDocument:
    text = clean_text(decode_text(data, filename=filename))
    front = _front_matter(text)
    outline = Outline()
    outline.category = next((front[key] for key in ("category", "catégorie", "categorie") if front.get(key)), "")
    found: dict[str, Any] = {}
    soup = tree_of(_parser().render(without_templates(_FRONT_MATTER.sub("", text, count=1)), found))
    if found["plain"]:
        outline.notices.append(_("Trop de signes de mise en forme : une partie est lue comme un texte simple."))
    drop_unread(soup)
    drop_pointers(soup, Links(soup, filename, ()))
    write_pictures_out(soup)
    for link in tags_named(soup, ("a",)):
        address = attribute(link, "href")
        page = address.partition("#")[0]
        if ":" not in address and (PurePath(page).suffix.lower() in _PAGES or PICTURE_NAME.fullmatch(page)):
            link["href"] = ""
    for node in [node for node in soup.descendants if type(node) is NavigableString]:
        if any(sign in node for sign in "^~=[:") and node.find_parent(["code", "pre"]) is None:
            node.replace_with(_signs_read(node, outline.struck))
    outline.struck += take_out_marks(soup)
    reader = _MarkdownReader(outline)
    reader.has_plain_lines = found["has_plain_lines"]
    reader.read(soup.body or soup)
    reader.flush()
    title = bare_text(next((front[key] for key in ("title", "titre") if front.get(key)), ""))
    return outline.finish(filename=filename, source_type=SourceType.MARKDOWN, title=title)


def _front_matter(text: str) -> dict[str, str]:
    """The plain `key: value` lines of the front matter; anything richer is not needed here."""
    match = _FRONT_MATTER.match(text)
    pairs = re.findall(r"^([^\W\d]\w*)[ \t]*[:=][ \t]*(.+?)[ \t]*$", match[1] if match else "", re.M)
    return {key.lower(): value.strip("\"'") for key, value in pairs}


def _parser() -> MarkdownIt:
    """Emphasis stays as it is written: `n° 12669*02` is a number, and so is what is escaped to be none."""
    parser = MarkdownIt("commonmark", {"breaks": True, "maxNesting": 100}).enable(["table", "strikethrough"])
    parser.disable(["code", "emphasis", "text_join"]).core.ruler.at("inline", _read_inline)

    def escaped(_renderer: object, tokens: Sequence[Token], index: int, *_more: object) -> str:
        return html.escape(tokens[index].markup if tokens[index].content in "*_" else tokens[index].content)

    parser.add_render_rule("text_special", escaped)
    return parser


def _read_inline(state: StateCore) -> None:
    """Parse texts as far as their work is bounded, lines of a margin joined; `plain` counts the others."""
    of_page = [
        token
        for above, token in pairwise(state.tokens)
        if above.type == "paragraph_open" and above.level == 0 and token.type == "inline"
    ]
    lines = [line for token in of_page for line in token.content.split("\n")]
    state.env["has_plain_lines"] = len(lines) >= _ENOUGH_LINES and not broken_at_margin(lines)
    for token in [] if state.env["has_plain_lines"] else of_page:
        parts = re.split(r"(?<!\\)\\\n", token.content)
        joined = (join_lines(part.split("\n"), width=margin_width(lines)) for part in parts)
        token.content = "\n".join(chain.from_iterable(joined))
    state.env["plain"] = work = 0
    for token in state.tokens:
        if token.type == "inline" and token.children is not None:
            signs = len(_SPECIAL.findall(token.content))
            if signs > _MOST_SPECIAL or work + signs**2 > _MOST_WORK:
                token.children.append(Token("text", "", 0, content=token.content))
                state.env["plain"] += 1
            else:
                work += signs**2
                state.md.inline.parse(token.content, state.md, state.env, token.children)


def _signs_read(node: NavigableString, struck: list[str]) -> str:
    def read(found: re.Match[str]) -> str:
        if note := found["note"] or found["up"]:
            before = found.string[max(found.start() - 4, 0) : found.start()]
            return raised(before or str(node.find_previous(string=True) or ""), note)
        if found["struck"]:
            struck.append(found["struck"])
        return found["down"] or found["marked"] or found["alt"] or ("" if found["picture"] else found["wiki"]) or ""

    return _SIGNS.sub(read, str(node))


class _MarkdownReader(MarkupReader):
    """Reads paragraphs of the page itself as plain lines where the file is written so."""

    has_plain_lines = False

    def __init__(self, outline: Outline) -> None:
        super().__init__(outline)
        self._plain: list[str] = []

    def _paragraph(self, run: list[PageElement]) -> None:
        text = inline_text(run)
        if text and self.has_plain_lines:
            self._plain.extend(text.split("\n"))
        else:
            self._outline.add(text)

    def _block(self, tag: Tag) -> None:
        if tag.name == "p":
            self.read(tag)
            return
        self.flush()
        if tag.name in HEADINGS:
            self._outline.heading(int(tag.name[1]), bare_text(plain_text(tag)), anchor=attribute(tag, "id"))
            return
        if tag.name != "blockquote":
            super()._block(tag)
            return
        text = one_line(tag.get_text())
        first = not self._outline.blocks and not self._outline.category
        if first and self._outline.title and _BREADCRUMB.fullmatch(text):
            self._outline.category = text.strip(" /›>»")
            return
        self.has_plain_lines, mode = False, self.has_plain_lines
        self.read(tag)
        self.has_plain_lines = mode

    def flush(self) -> None:
        lines, self._plain = self._plain, []
        add_plain_lines(self._outline, lines)


def without_templates(text: str) -> str:
    """The text of a file with the parts of templates and boxes as what they show, lines of code apart."""
    flags = {
        "printed": bool(_TEMPLATE.search(text) or _FILTERED.search(text)),
        "wrapped": broken_at_margin(text.split("\n")),
    }
    return "".join(part if is_code else _untemplated(part, **flags) for is_code, part in _fenced_parts(text))


def _untemplated(text: str, *, printed: bool, wrapped: bool) -> str:
    text = text if wrapped else _AFTER_ITEM.sub(r"\1\n", text)
    text = _NOTE_TEXT.sub(r"\n\1(\2) ", _PLUS.sub(r"\1\\+", _DEEP.sub("", text)))
    text = _TEMPLATE.sub(_shown_text, _COMPONENT.sub("", text))
    text = _PRINTED.sub("", text) if printed else text
    text = _NO_EMPHASIS.sub(lambda found: " " * (" " in found[0]), _BOX.sub(_box_title, text))
    text = _ESCAPED_BOLD.sub(r"**\1**", text)
    text = _LATE_END.sub(r"**\1**\2", _BREAK.sub(lambda found: found[1] or "", text))
    return _JSON.sub(_json_text, _SETTING.sub("", text))


def _box_title(box: re.Match[str]) -> str:
    said = (box[2] or box[3] or box[4] or box[5] or "").strip()
    return f"\n{box[1]}**{said}**\n" if said else box[1].rstrip("-*+ ")


def _shown_text(found: re.Match[str]) -> str:
    return " ".join(filter(None, map("".join, _TEMPLATE_TEXT.findall(found[0]))))


def _json_text(line: re.Match[str]) -> str:
    """What a line of JSON (pictures, settings of a page) shows; any other line as it is."""
    try:
        json.loads(line[0])
    except (ValueError, RecursionError):
        return line[0]
    return _shown_text(line)


def _fenced_parts(text: str) -> Iterator[tuple[bool, str]]:
    """(whether it is a block of code, text), in order."""
    at = 0
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            yield False, text[at : fence.start()]
            opened, at = fence, fence.start()
        elif fence[1].startswith(opened[1]) and fence[0].rstrip().endswith(fence[1]):
            yield True, text[at : fence.end()]
            opened, at = None, fence.end()
    yield opened is not None, text[at:]
