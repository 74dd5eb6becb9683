"""Citations in a streamed answer: `[1]` is kept when source 1 was given, removed when it was not.

Pure. A model may write `[1]`, `[Source 1]`, `[1, 3]`; all leave as `[1]` and `[1][3]`. Text is held back only while a
bracket that may become a citation is open, so streaming goes on.
"""

import re
from collections.abc import Collection

_NUMBERS = r"(?:sources?[ \t]*)?\d{1,3}(?:[ \t]*(?:,|;|et|and|&)[ \t]*(?:sources?[ \t]*)?\d{1,3})*"
_CITATION = re.compile(rf"[ \t]?\[[ \t]*{_NUMBERS}[ \t]*\]", re.IGNORECASE)
_OPEN = re.compile(r"[ \t]?\[[^\]\n]{0,40}\Z|[ \t]\Z")


def clean_citations(text: str, given: Collection[int]) -> str:
    """Normalise citations and remove those to sources that were not given."""

    def replace(match: re.Match[str]) -> str:
        kept = [n for n in map(int, re.findall(r"\d+", match[0])) if n in given]
        if not kept:
            return ""
        space = match[0][0] if match[0][0] in " \t" else ""
        return space + "".join(f"[{n}]" for n in kept)

    return _CITATION.sub(replace, text)


class CitationFilter:
    """`clean_citations` for a stream: feed pieces, send what comes back, and flush at the end."""

    def __init__(self, given: Collection[int]) -> None:
        self._given = given
        self._held = ""

    def feed(self, piece: str) -> str:
        if not self._held and "[" not in piece and not piece.endswith((" ", "\t")):
            return piece
        text = self._held + piece
        opened = _OPEN.search(text)
        ready, self._held = (text[: opened.start()], opened[0]) if opened else (text, "")
        return clean_citations(ready, self._given)

    def flush(self) -> str:
        text, self._held = self._held, ""
        return clean_citations(text, self._given)
