"""An answer's Markdown as HTML that a page may insert as it is.

Two walls: the parser is told to pass no HTML and no link but `http`, `https` and `mailto`; then nh3 keeps only the
elements and attributes listed here. Callers must not add markup to what comes back. `[n]` outside code becomes a link
to source `n` when that source was given, and disappears when it was not. An image is never loaded (its address would
carry what was said here to whoever owns it): it is a link.
`chat/static/chat/markdown.js` writes the same while an answer comes; a test holds the two together.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

#: The level of an answer's first heading: it stands below « Réponse », the third of its page.
ANSWER_HEADING = 4
_LOWEST_HEADING = 6

_ADDRESS = r"(?<![\w/.@-])(?:https?://|www\.)[^\s<>\[\]\"«»`\\|]{1,2000}"
_MAIL = r"(?<![\w.+@/:-])[a-z0-9][\w.+-]*@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?![\w@-])"
#: A bracket behind a variable of one letter, or before an assignment, is an index: `a[1]`, `ligne[2] = 5`.
_OPENING, _CLOSING = r"(?<!(?u-i:\b[a-z]))\[", r"\](?![ \t]*=)"
_LINKED = re.compile(
    rf"[ \t]?{_OPENING}(?P<number>\d{{1,3}}){_CLOSING}|(?P<address>{_ADDRESS})|(?P<mail>{_MAIL})",
    re.ASCII | re.IGNORECASE,
)
#: What ends a sentence, and not the address that stands last in it.
_AFTER_ADDRESS = ".,;:!?'’*_~…"
_SOURCE_LINE = re.compile(r"\n\n\*Source ?: [^\n]+\* \[1\]\s*\Z")
_MARKS = re.compile(r"[\\`\[\]<]")
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\][ \t]+")
_STRONG, _END_STRONG = Token("strong_open", "strong", 1), Token("strong_close", "strong", -1)
_BOXES = {" ": "☐ ", "x": "☑ ", "X": "☑ "}

_UNITS = (
    "[kMGT]?(?:Hz|Wh?|Pa|V|A|B|o|€)|[kcdmµn]?m[²³]?|ha|[km]?g|t|[cdm]?[lL]|h|min|m?s|°[CF]?|dB|bar|Md€|[$£]|EUR|USD|CHF"
)
#: The blanks at which no line is broken: in a figure, before its unit, and where French sets one with its punctuation.
_TIED = re.compile(
    rf"(?<=[0-9]) (?=[0-9]{{3}}(?![0-9])|(?:{_UNITS})(?![\w'’-]))"
    r"|(?<=«) | (?=[»?!:;%‰€])|(?:(?<=[nN]°)|(?<=art\.)|(?<=§)) (?=[0-9])"
)

_HEADINGS = {f"h{level}" for level in range(1, _LOWEST_HEADING + 1)}
_TAGS = {
    *_HEADINGS,
    *("p", "br", "hr", "sub", "sup", "mark", "blockquote", "pre", "code", "em", "strong", "s", "ul", "ol", "li", "a"),
    *("table", "thead", "tbody", "tr", "th", "td", "div"),
}
_ATTRIBUTES = {"a": {"href", "target", "title", "data-n"}, "ol": {"start"}, "code": {"class"}}
_VALUES = {
    "a": {"class": {"citation", "image"}},
    "div": {"class": {"table"}, "dir": {"auto"}, "tabindex": {"0"}},
    "li": {"class": {"task"}},
    "p": {"dir": {"auto"}},
    "pre": {"dir": {"ltr"}, "tabindex": {"0"}},
    **{tag: {"align": {"left", "center", "right"}} for tag in ("th", "td")},
    **{tag: {"dir": {"auto"}} for tag in (*_HEADINGS, "blockquote", "ul", "ol")},
}


def render_answer(
    markdown: str, *, turn_id: str, source_numbers: Collection[int], heading: int = ANSWER_HEADING
) -> str:
    """Safe HTML of an answer: citations point to `#source-<turn_id>-<n>`, the first heading is of the level `heading`. The
    line by which a direct answer names its one source (`direct_text`) is left out: pages list the sources below.
    """
    environment = {"turn_id": turn_id, "source_numbers": frozenset(source_numbers), "heading": heading}
    if environment["source_numbers"] == {1}:
        markdown = _SOURCE_LINE.sub("", markdown)
    return nh3.clean(
        _PARSER.render(markdown, environment),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        tag_attribute_values=_VALUES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener nofollow",
    )


def plain_markdown(text: str) -> str:
    """Text of others (the title of a page) for a line of Markdown: no link, image, code or markup comes of it."""
    return _MARKS.sub(r"\\\g<0>", text)


def tied(text: str) -> str:
    """The text with no-break spaces in figures, before units, and in French punctuation."""
    return _TIED.sub("\u00a0", text)


# Within a line: citations, addresses, images, and what no line is broken at.


def _read_lines(state: StateCore) -> None:
    for block in state.tokens:
        if block.type == "inline" and block.children:
            block.children = list(_linked(block.children, state.env))


def _linked(tokens: Sequence[Token], environment: Any) -> Iterator[Token]:
    """The same tokens with citations, addresses and images linked, but for those that already stand in a link."""
    depth = 0
    for token in tokens:
        if token.type in {"link_open", "link_close"}:
            depth += token.nesting
        if token.type == "link_open":
            token.attrSet("target", "_blank")
        if token.type == "image":
            yield from _picture(token, is_linked=bool(depth))
        elif token.type == "text" and not depth:
            yield from _split_text(token.content, environment)
        elif token.type == "text":
            yield _text(token.content)
        else:
            yield token


def _picture(image: Token, *, is_linked: bool) -> Iterator[Token]:
    address = str(image.attrGet("src") or "")
    name = image.content.strip() or address
    link = None if is_linked else _link(address, name, **{"class": "image"})
    yield from link or (_text(name),)


def _split_text(text: str, environment: Any) -> Iterator[Token]:
    position = 0
    found: Sequence[Token] | None
    for match in _LINKED.finditer(text):
        if match["number"]:
            found = _citation(int(match["number"]), environment)
            end = match.end()
        else:
            shown = _without_end(match[0])
            found = _link(_completed(shown, is_mail=bool(match["mail"])), shown)
            end = match.start() + len(shown)
        if found is None:
            continue
        yield _text(text[position : match.start()])
        yield from found
        position = end
    yield _text(text[position:])


def _without_end(address: str) -> str:
    """Without the punctuation of the sentence, and without the bracket that was opened before the address."""
    while True:
        kept = address.rstrip(_AFTER_ADDRESS)
        if kept.endswith(")") and kept.count(")") > kept.count("("):
            kept = kept[:-1]
        if kept == address:
            return address
        address = kept


def _completed(address: str, *, is_mail: bool) -> str:
    if is_mail:
        return f"mailto:{address}"
    return f"http://{address}" if address[:4].lower() == "www." else address


def _link(address: str, text: str, **attributes: str) -> Sequence[Token] | None:
    href = _PARSER.normalizeLink(address)
    if not _PARSER.validateLink(href):
        return None
    return (
        Token("link_open", "a", 1, attrs={"href": href, "target": "_blank", **attributes}),
        Token("text", "", 0, content=text),
        Token("link_close", "a", -1),
    )


def _text(content: str) -> Token:
    return Token("text", "", 0, content=tied(content))


def _citation(number: int, environment: Any) -> Sequence[Token]:
    if number not in environment["source_numbers"]:
        return ()
    attributes: dict[str, str | int | float] = {
        "class": "citation",
        "href": f"#source-{environment['turn_id']}-{number}",
        "data-n": str(number),
    }
    return (Token("link_open", "a", 1, attrs=attributes), _text(str(number)), Token("link_close", "a", -1))


#: The only HTML that an answer may hold: a line's end, and small marks of text.
_SMALL_TAG = re.compile(r"<(?:/?(?P<mark>sub|sup|mark)|br[ \t]*/?)>", re.IGNORECASE)


def _small_tag(state: StateInline, silent: bool) -> bool:
    match = _SMALL_TAG.match(state.src, state.pos, state.posMax)
    if match and not silent:
        state.push("html_inline" if match["mark"] else "hardbreak", "" if match["mark"] else "br", 0).content = match[0]
    state.pos = match.end() if match else state.pos
    return match is not None


def _dress_blocks(state: StateCore) -> None:
    """Headings without a gap below the page's own (those of a quote or a list are none), the direction of each block
    from its text, boxes of tasks."""
    levels: list[int] = []
    previous: Sequence[Token] = ()
    for token in state.tokens:
        if token.type == "heading_open" and token.level == 0:
            level = int(token.tag[1])
            while levels and levels[-1] >= level:
                levels.pop()
            levels.append(level)
        if token.type in {"heading_open", "heading_close"}:
            shown = min(state.env["heading"] + len(levels) - 1, _LOWEST_HEADING)
            token.tag = "p" if token.level else f"h{shown}"
        if token.nesting == 1 and token.level == 0:
            token.attrSet("dir", "auto")
        if previous and previous[-1].type == "heading_open" and previous[-1].level:
            token.children = [_STRONG, *(token.children or ()), _END_STRONG]
        if token.type in {"th_open", "td_open"} and (style := token.attrGet("style")):
            token.attrs = {"align": str(style).removeprefix("text-align:")}
        if [each.type for each in previous] == ["list_item_open", "paragraph_open"]:
            _tick(previous[0], token)
        previous = (*previous[-1:], token)


def _tick(item: Token, inline: Token) -> None:
    first = inline.children[0] if inline.children else None
    found = _TASK.match(first.content) if first and first.type == "text" else None
    if first and found:
        item.attrSet("class", "task")
        first.content = _BOXES[found[1]] + first.content[found.end() :]


def _render_code(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, _environment: Any) -> str:
    """Code can be scrolled with the keyboard, and tells its language."""
    language = tokens[at].info.split(maxsplit=1)[:1]
    named = f' class="language-{escapeHtml(language[0])}"' if language else ""
    return f'<pre tabindex="0" dir="ltr"><code{named}>{escapeHtml(tokens[at].content)}</code></pre>\n'


def _render_table(_renderer: RendererHTML, tokens: Sequence[Token], at: int, _options: Any, _environment: Any) -> str:
    """In a box of its own, which scrolls: a table that does so itself is none to a screen reader."""
    if tokens[at].nesting < 0:
        return "</table>\n</div>\n"
    direction = ' dir="auto"' if tokens[at].attrGet("dir") else ""
    return f'<div class="table" tabindex="0"{direction}>\n<table>\n'


class _AnswerParser(MarkdownIt):
    """CommonMark, tables, strikethrough, tasks and bare addresses, with absolute web links only."""

    def validateLink(self, url: str) -> bool:
        return bool(_SAFE_LINK.match(url))


def _parser() -> MarkdownIt:
    """Without reference definitions, which would take `[1]` for a link of the model's own."""
    parser = _AnswerParser("commonmark", {"html": False, "linkify": False})
    parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    parser.inline.ruler.before("autolink", "small_tag", _small_tag)
    # Before escapes are joined with the text around them: `\\[1\\]` is no citation.
    parser.core.ruler.before("text_join", "lines", _read_lines)
    parser.core.ruler.push("blocks", _dress_blocks)
    for kind, rule in {
        "fence": _render_code,
        "code_block": _render_code,
        "table_open": _render_table,
        "table_close": _render_table,
    }.items():
        parser.add_render_rule(kind, rule)
    return parser


_PARSER = _parser()


_NUMBERS = r"(?:sources?[ \t]*)?\d{1,3}(?:[ \t]*(?:,|;|et|and|&)[ \t]*(?:sources?[ \t]*)?\d{1,3})*"
_CITED = rf"{_OPENING}[ \t]*{_NUMBERS}[ \t]*{_CLOSING}"
#: Citations in a row, with what stands between them: it goes with those that go.
_CITATION = re.compile(rf"[ \t]?{_CITED}(?:[ \t]*(?:[,;]|et\b|and\b|&)?[ \t]*{_CITED})*", re.IGNORECASE)
_BRACKETS = re.compile(f"({_CITED})", re.IGNORECASE)
_OPEN = re.compile(
    r"(?i)(?:\b[a-z])?[ \t]?(?:\[[^\]\n]{1,40}\][ \t]*(?:(?:[,;&]|et?|and?|a)[ \t]*)?)*(?:\[[^\]\n]{0,40})?\Z"
)
#: Other forms that become `[n]`: brackets of other kinds, ranges, footnotes, a source by its name, and a bare number in
#: round brackets where a statement ends; and what more text may make one of.
_SEVERAL = _NUMBERS.replace("et|and|&", "et|and|&|-|–|à")
_ODD = re.compile(
    rf"{_OPENING}[ \t]*\^?{_SEVERAL}[ \t]*\]|【[ \t]*{_SEVERAL}[^】\n]*】|\([ \t]*(?=source){_SEVERAL}[ \t]*\)"
    r"|(?<=[^\W\d_])(?P<space>[ \t])\(\d{1,3}\)(?=[ \t]*(?:[.;:!?]|,[ \t]|\Z))"
    r"|\bsource[ \t\u00a0]+(?:n°[ \t]?)?\d{1,3}(?=[.,;:!?)])",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d{1,3})[ \t]*(?:-|–|à)[ \t]*(?:source[ \t]*)?(\d{1,3})", re.IGNORECASE)
_ODD_OPEN = re.compile(
    r"\[[^\]\n]{0,40}\Z|【[^】\n]{0,60}\Z|[ \t]\Z|[ \t]?\([ \t]*(?:s[^)\n]{0,40}|\d{0,3})\Z"
    r"|\bs(?:o(?:u(?:r(?:c(?:e(?:[ \t\u00a0]+(?:n°?[ \t]?)?\d{0,3})?)?)?)?)?)?\Z",
    re.IGNORECASE,
)
#: A piece without any of these passes as it is.
_NOTABLE = re.compile(r"[\[`\n]|(?:[ \t]|\b[a-z])\Z")
_ODD_NOTABLE = re.compile(r"[\[【(`\n]|[ \t]\Z|s[ource]{0,5}\Z|source", re.IGNORECASE)
_ROUND_END = re.compile(r"[ \t]?\(\d{1,3}\)[ \t]*,?[ \t]*\Z")
_BACKTICKS = re.compile(r"`+\Z")
#: What begins or ends code: a fence, a span, and the end of a line, past which no span goes on here.
_CODE_MARK = re.compile(r"(```|`|\n)")
_CODE_OR_NUMBER = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\[(\d{1,3})\]", re.DOTALL)


def escape_citations(markdown: str) -> str:
    """A document's own `[2]`, which cites nothing here, as text that is not taken for a citation."""
    return _CODE_OR_NUMBER.sub(lambda found: rf"\[{found[1]}\]" if found[1] else found[0], markdown)


def _usual_forms(text: str, given: frozenset[int]) -> str:
    def usual(match: re.Match[str]) -> str:
        spread = _RANGE.sub(
            lambda r: " ".join(map(str, range(int(r[1]), min(int(r[2]), int(r[1]) + 20) + 1))), match[0]
        )
        numbers = list(map(int, re.findall(r"\d+", spread)))
        if match[0][0] not in "[【" and not given.issuperset(numbers):
            return match[0]
        return (match["space"] or "") + "".join(f"[{n}]" for n in numbers)

    return _ODD.sub(usual, text)


def _without_false_citations(text: str, given: frozenset[int]) -> str:
    def replace(match: re.Match[str]) -> str:
        kept = ""
        first, *pieces = _BRACKETS.split(match[0])
        for between, cited in zip(["", *pieces[1::2]], pieces[::2], strict=False):
            own = "".join(f"[{n}]" for n in map(int, re.findall(r"\d+", cited)) if n in given)
            kept += f"{between if kept else first}{own}" if own else ""
        return kept

    return _CITATION.sub(replace, text)


def _open_at(text: str, pattern: re.Pattern[str]) -> int:
    """Where the end begins that more text may still change, with backticks short of a fence."""
    opened, backticks = pattern.search(text), _BACKTICKS.search(text)
    at = len(text) - (len(backticks[0]) % 3 if backticks else 0)
    at = min(at, opened.start() if opened else at)
    found = _ROUND_END.search(text, 0, at) if pattern is _ODD_OPEN else None
    return found.start() if found else at


class CitationFilter:
    """Citations outside code made one form, false ones left out: feed pieces, send what comes back, flush it last."""

    def __init__(self, given: Collection[int]) -> None:
        self._stages = (
            _OutsideCode(partial(_usual_forms, given=frozenset(given)), _ODD_OPEN, _ODD_NOTABLE),
            _OutsideCode(partial(_without_false_citations, given=frozenset(given)), _OPEN, _NOTABLE),
        )

    def feed(self, piece: str) -> str:
        for stage in self._stages:
            piece = stage.feed(piece)
        return piece

    def flush(self) -> str:
        first, second = self._stages
        return second.feed(first.flush()) + second.flush()


class _OutsideCode:
    """A change of the text that is no code. `opened`: an end that waits for more; without `notable` a piece passes."""

    def __init__(self, change: Callable[[str], str], opened: re.Pattern[str], notable: re.Pattern[str]) -> None:
        self._change, self._opened, self._notable = change, opened, notable
        self._held = ""
        #: The characters before, signs as dots: the end of a word is no variable of one letter, and no « source ».
        self._before = ""
        self._in_fence = False
        self._in_span = False

    def feed(self, piece: str) -> str:
        if not self._held and not self._notable.search(piece):
            self._note(piece)
            return piece
        text = self._held + piece
        at = max(0, _open_at(self._before + text, self._opened) - len(self._before))
        self._held = text[at:]
        return self._cleaned(text[:at])

    def flush(self) -> str:
        text, self._held = self._held, ""
        return self._cleaned(text)

    def _cleaned(self, text: str) -> str:
        before = self._before
        cleaned = "".join(self._cleaned_piece(piece) for piece in _CODE_MARK.split(before + text))[len(before) :]
        self._note(text)
        return cleaned

    def _note(self, text: str) -> None:
        self._before = re.sub(r"\W", ".", (self._before + text)[-9:])

    def _cleaned_piece(self, piece: str) -> str:
        match piece:
            case "```":
                self._in_fence = not self._in_fence
            case "`":
                self._in_span = not self._in_span and not self._in_fence
            case "\n":
                self._in_span = False
            case _ if not self._in_fence and not self._in_span:
                return self._change(piece)
        return piece
