"""The bookmarks of a file: the titles of its parts, with their level and page."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pypdfium2

from knowledge.readers.base import clean_text, one_line
from knowledge.readers.pdf.furniture import title_key

_MOST = 20_000
_DEPTH = 6


@dataclass(slots=True)
class Bookmark:
    """`page` is counted from 1; 0 where the file does not say."""

    key: str
    level: int
    page: int
    used: bool = False


class Bookmarks:
    """Finds the bookmark that a line is the title of: on its page or beside it, each once."""

    def __init__(self, entries: list[Bookmark]) -> None:
        self.keys: Collection[str] = {entry.key for entry in entries}
        self._by_key: dict[str, list[Bookmark]] = {}
        self._by_page: dict[int, list[Bookmark]] = {}
        for entry in entries:
            self._by_page.setdefault(entry.page, []).append(entry)
            self._by_key.setdefault(entry.key, []).append(entry)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def level(self, text: str, page: int) -> int:
        """The level of a title, 1 or more, which is then used; 0 for any other text."""
        if entry := self._find(text, page):
            entry.used = True
            return entry.level
        return 0

    def levels(self, text: str, page: int) -> list[int]:
        entry = self._find(text, page)
        return [entry.level] if entry else []

    def names(self, text: str, page: int) -> bool:
        return self._find(text, page) is not None

    def begins(self, text: str, page: int) -> bool:
        """Whether a title of this page begins with this line and goes on."""
        key = title_key(text)
        return len(key) >= 4 and any(
            entry.key.startswith(key)
            for number in (page - 1, page, page + 1)
            for entry in self._by_page.get(number, ())
            if not entry.used
        )

    def _find(self, text: str, page: int) -> Bookmark | None:
        return self._free(self._by_key.get(title_key(text), []), page)

    def _free(self, entries: list[Bookmark], page: int) -> Bookmark | None:
        near = (e for e in entries if not e.used and (not e.page or abs(e.page - page) <= 1))
        return next(near, None)


def read_bookmarks(document: Any) -> Bookmarks:
    entries: list[Bookmark] = []
    try:
        for item in islice(document.get_toc(max_depth=_DEPTH), _MOST):
            target = item.get_dest()
            page = target.get_index() if target else None
            if key := title_key(one_line(clean_text(item.get_title()))):
                entries.append(Bookmark(key, item.level + 1, 0 if page is None else page + 1))
    except (pypdfium2.PdfiumError, ValueError, RecursionError):
        # Bookmarks only help; the text is there without them.
        return Bookmarks([])
    return Bookmarks(entries)
