"""Citations in a streamed answer: `[1]` is kept when source 1 was given, removed when it was not.

Pure. A model may write `[1]`, `[Source 1]`, `[1, 3]`; all leave as `[1]` and `[1][3]`. Code is left alone: `row[0]`
cites nothing. Text is held back only while a bracket that may become a citation is open, so streaming goes on.
"""

import re
from collections.abc import Collection

_NUMBERS = r"(?:sources?[ \t]*)?\d{1,3}(?:[ \t]*(?:,|;|et|and|&)[ \t]*(?:sources?[ \t]*)?\d{1,3})*"
_CITATION = re.compile(rf"[ \t]?\[[ \t]*{_NUMBERS}[ \t]*\]", re.IGNORECASE)
_OPEN = re.compile(r"[ \t]?\[[^\]\n]{0,40}\Z|[ \t]\Z")
_BACKTICKS = re.compile(r"`+\Z")
#: What begins or ends code: a fence, a span, and the end of a line, past which no span goes on here.
_CODE_MARK = re.compile(r"(```|`|\n)")
_CODE_OR_NUMBER = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\[(\d{1,3})\]", re.DOTALL)


def escape_citations(markdown: str) -> str:
    """A document's own `[2]`, which cites nothing here, as text that is not taken for a citation."""
    return _CODE_OR_NUMBER.sub(lambda found: rf"\[{found[1]}\]" if found[1] else found[0], markdown)


def _without_false_citations(text: str, given: Collection[int]) -> str:
    def replace(match: re.Match[str]) -> str:
        kept = [n for n in map(int, re.findall(r"\d+", match[0])) if n in given]
        if not kept:
            return ""
        space = match[0][0] if match[0][0] in " \t" else ""
        return space + "".join(f"[{n}]" for n in kept)

    return _CITATION.sub(replace, text)


#: A piece without any of these passes as it is.
_NOTABLE = re.compile(r"[\[`\n]|[ \t]\Z")


def _open_at(text: str) -> int:
    """Where the end begins that more text may still change: an open bracket, a space, backticks short of a fence."""
    opened, backticks = _OPEN.search(text), _BACKTICKS.search(text)
    unfinished = len(backticks[0]) % 3 if backticks else 0
    return min(opened.start() if opened else len(text), len(text) - unfinished)


class CitationFilter:
    """Citations outside code made one form, false ones left out: feed pieces, send what comes back, and flush at the
    end.
    """

    def __init__(self, given: Collection[int]) -> None:
        self._given = given
        self._held = ""
        self._in_fence = False
        self._in_span = False

    def feed(self, piece: str) -> str:
        if not self._held and not _NOTABLE.search(piece):
            return piece
        text = self._held + piece
        at = _open_at(text)
        self._held = text[at:]
        return self._cleaned(text[:at])

    def flush(self) -> str:
        text, self._held = self._held, ""
        return self._cleaned(text)

    def _cleaned(self, text: str) -> str:
        if "`" not in text and not self._in_fence and not self._in_span:
            return _without_false_citations(text, self._given)
        return "".join(self._cleaned_piece(piece) for piece in _CODE_MARK.split(text))

    def _cleaned_piece(self, piece: str) -> str:
        match piece:
            case "```":
                self._in_fence = not self._in_fence
            case "`":
                self._in_span = not self._in_span and not self._in_fence
            case "\n":
                self._in_span = False
            case _ if not self._in_fence and not self._in_span:
                return _without_false_citations(piece, self._given)
        return piece
