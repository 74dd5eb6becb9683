"""An answer's Markdown as HTML that a page may insert as it is.

Two walls: the parser is told to pass no HTML, no image and no link but `http`, `https` and `mailto`; then nh3 keeps only the
elements and attributes listed here. Callers must not add markup to what comes back. `[n]` outside code becomes a
link to source `n` when that source was given, and disappears when it was not.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_CITATION = re.compile(r"[ \t]?\[(\d{1,3})\]")
_MARKS = re.compile(r"[\\`\[\]<]")
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code"),
    *("em", "strong", "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "target", "title", "class", "data-n"}, "ol": {"start"}}


def render_answer(markdown: str, *, turn_id: str, source_numbers: Collection[int]) -> str:
    """Safe HTML of an answer; its citations point to `#source-<turn_id>-<n>`."""
    environment = {"turn_id": turn_id, "source_numbers": frozenset(source_numbers)}
    return nh3.clean(
        _PARSER.render(markdown, environment),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener nofollow",
    )


def plain_markdown(text: str) -> str:
    """Text of others (the title of a page) for a line of Markdown: no link, image, code or markup comes of it."""
    return _MARKS.sub(r"\\\g<0>", text)


def _link_citations(state: StateCore) -> None:
    for block in state.tokens:
        if block.type == "inline" and block.children:
            block.children = list(_linked(block.children, state.env))


def _linked(tokens: list[Token], environment: Any) -> Iterator[Token]:
    """The same tokens with citations linked, but for those that already stand in a link."""
    depth = 0
    for token in tokens:
        if token.type in {"link_open", "link_close"}:
            depth += token.nesting
        if token.type == "link_open":
            token.attrSet("target", "_blank")
        if token.type == "text" and not depth:
            yield from _split_text(token.content, environment)
        else:
            yield token


def _split_text(text: str, environment: Any) -> Iterator[Token]:
    position = 0
    for match in _CITATION.finditer(text):
        number = int(match[1])
        yield _text(text[position : match.start()])
        position = match.end()
        if number in environment["source_numbers"]:
            yield from _citation(number, environment["turn_id"])
    yield _text(text[position:])


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _citation(number: int, turn_id: str) -> Iterator[Token]:
    attributes: dict[str, str | int | float] = {
        "class": "citation",
        "href": f"#source-{turn_id}-{number}",
        "data-n": str(number),
    }
    yield Token("link_open", "a", 1, attrs=attributes)
    yield _text(str(number))
    yield Token("link_close", "a", -1)


class _AnswerParser(MarkdownIt):
    """CommonMark and tables, with absolute links to pages and addresses only."""

    def validateLink(self, url: str) -> bool:
        return bool(_SAFE_LINK.match(url))


def _parser() -> MarkdownIt:
    """Without reference definitions, which would take `[1]` for a link of the model's own."""
    parser = _AnswerParser("commonmark", {"html": False, "linkify": False})
    parser.enable("table").disable(["image", "reference", "html_block", "html_inline"])
    # Before escapes are joined with the text around them: `\\[1\\]` is no citation.
    parser.core.ruler.before("text_join", "citations", _link_citations)
    return parser


_PARSER = _parser()
