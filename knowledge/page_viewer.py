"""Where a passage stands in its document: its boxes on the pages when it is read, and its pages when it is cited.

Passages are cut from the text alone. `placed_chunks` finds their boxes afterwards: it walks once through the document's
lines and the letters of the passages, which come in one order, and passes over what the cutting adds (a table's header)
or mends (a word cut at a line's end). Callers of `cited_pages` have checked that this person may see the document; it
names the passage's pages only, and never gives the file.
"""

import logging
import re
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from django.conf import settings

from agents.cache import TtlCache
from knowledge.chunking import ChunkDraft, Place
from knowledge.errors import PagePictureError
from knowledge.models import Chunk, Document, DocumentStatus, SourceType
from knowledge.readers.base import ParsedDocument, PlacedLine
from knowledge.readers.drawing import UndrawablePageError, draw_page

#: The picture of a cited page: enough to read A4 on a wide screen (150 dots an inch are 2.2 million), and how long
#: drawing it may take.
PAGE_PICTURE_PIXELS = 2_500_000
PAGE_PICTURE_SECONDS = 20.0
#: Drawn at the same time in one process; who comes later waits as long as a drawing may take.
PAGE_PICTURES_AT_ONCE = 2
#: Kept in each process (about 0.2 MB each), and by a reader's browser.
PAGE_PICTURES_KEPT = 24
#: Pages of one passage that are shown.
MAX_CITED_PAGES = 4

logger = logging.getLogger(__name__)

#: From which share of its marked area on a passage is looked for on a page.
_FAIR_SHARE = 0.2

#: Left, top, width, height in hundredths of the page's width and height.
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class CitedPages:
    """A document, and by page number (from 1) the boxes of the passage on it; empty where only the page is known."""

    document: Document
    boxes: dict[int, list[Box]]

    @property
    def opens_on(self) -> int:
        """The first page with a fair share of it: a footnote of the page before may belong to it."""
        marked = {page: sum(width * height for _x, _y, width, height in boxes) for page, boxes in self.boxes.items()}
        fair = min(_FAIR_SHARE * sum(marked.values()), max(marked.values()))
        return next(page for page in self.boxes if marked[page] >= fair)


def cited_pages(chunk_id: int | None, *, agent_ids: Collection[int]) -> CitedPages | None:
    """The pages of a passage that still stands in a PDF of these agents; `None` for any other."""
    if chunk_id is None:
        return None
    chunk = (
        Chunk.objects.served()
        .filter(pk=chunk_id, document__agent__in=agent_ids, document__source_type=SourceType.PDF)
        # The boxes are those of the file that was read: not of one that has replaced it since.
        .filter(document__status=DocumentStatus.INDEXED)
        .select_related("document")
        .first()
    )
    if chunk is None or not chunk.places:
        return None
    boxes: dict[int, list[Box]] = {}
    for page, x0, y0, x1, y1 in chunk.places:
        if page not in boxes and len(boxes) >= MAX_CITED_PAGES:
            continue
        found = boxes.setdefault(page, [])
        if x1 > x0 and y1 > y0:
            found.append((100 * x0, 100 * y0, 100 * (x1 - x0), 100 * (y1 - y0)))
    return CitedPages(chunk.document, boxes)


_pictures: TtlCache[bytes] = TtlCache(most=PAGE_PICTURES_KEPT)
_drawing = threading.BoundedSemaphore(PAGE_PICTURES_AT_ONCE)


def page_picture(document: Document, page: int) -> bytes:
    """A page as PNG. Raises `PagePictureError` where it cannot be drawn now. Synchronous, for a second or so."""
    return _pictures.get(partial(_drawn, document, page), (document.file_hash, page))


def _drawn(document: Document, page: int) -> bytes:
    if not _drawing.acquire(timeout=PAGE_PICTURE_SECONDS):
        raise PagePictureError("too many pages are drawn")
    try:
        with document.file.open("rb") as file:
            data = file.read()
        return draw_page(
            data,
            page,
            pixels=PAGE_PICTURE_PIXELS,
            seconds=PAGE_PICTURE_SECONDS,
            memory=settings.PARSE_MEMORY_BYTES,
            folder=str(settings.BASE_DIR),
        )
    except (UndrawablePageError, OSError, ValueError) as error:
        # `ValueError`: a document whose file was never stored.
        logger.warning("A page cannot be drawn: %s.", type(error).__name__)
        raise PagePictureError(f"document {document.pk}, page {page}") from error
    finally:
        _drawing.release()


#: How many letters may be passed over to find a line, for each letter of it; a short line might be found anywhere.
_AHEAD = 40
_FARTHEST = 6_000
#: Lines whose boxes are this near, in heights of a line, are one box.
_NEAR = 1.2
#: Boxes of one passage; of more, each page has one.
_MOST_BOXES = 24
_PRECISION = 4
_SIGNS = re.compile(r"[\W_]+")


def placed_chunks(drafts: Sequence[ChunkDraft], parsed: ParsedDocument) -> list[ChunkDraft]:
    """The drafts with their places. One that was not found has the page of the one before, and no box on it."""
    if not parsed.lines:
        return list(drafts)
    found: list[list[PlacedLine]] = [[] for _draft in drafts]
    for index, line in _owners(drafts, parsed.lines):
        found[index].append(line)
    placed: list[ChunkDraft] = []
    page = parsed.lines[0].page
    for draft, lines in zip(drafts, found, strict=True):
        places = _places(lines) or (Place(page),)
        page = places[-1].page
        placed.append(replace(draft, places=places))
    return placed


def _owners(drafts: Sequence[ChunkDraft], lines: Sequence[PlacedLine]) -> Iterator[tuple[int, PlacedLine]]:
    """Each line with the draft that holds it, or both that it is cut between."""
    texts = [_letters(draft.content) for draft in drafts]
    ends = list(accumulate(map(len, texts)))
    letters = "".join(texts)
    # Where the walk is, and where it was before it last passed something over: a line found too far ahead is made good
    # from there.
    at = before = 0
    for line in lines:
        wanted = _letters(line.text)
        start = at if wanted and letters.startswith(wanted, at) else -1
        # A title stands above its passages; in them only where it follows at once.
        if start < 0 and wanted and not line.is_title:
            reach = min(_AHEAD * len(wanted), _FARTHEST) + len(wanted)
            for origin in (at, before):
                start = letters.find(wanted, origin, origin + reach)
                if start >= 0:
                    before = origin
                    break
        if start < 0:
            continue
        at = start + len(wanted)
        first, last = (bisect_right(ends, place) for place in (start, at - 1))
        for index in range(first, last + 1):
            yield index, line


def _letters(text: str) -> str:
    return _SIGNS.sub("", text.casefold())


def _places(lines: Sequence[PlacedLine]) -> tuple[Place, ...]:
    """Boxes around lines that follow one another closely, in order."""
    places: list[Place] = []
    for line in lines:
        place = Place(line.page, *(round(min(max(x, 0.0), 1.0), _PRECISION) for x in line.box))
        if places and _is_near(places[-1], place, line.box[3] - line.box[1]):
            places[-1] = _around(places[-1], place)
        else:
            places.append(place)
    if len(places) <= _MOST_BOXES:
        return tuple(places)
    pages: dict[int, Place] = {}
    for place in places:
        known = pages.get(place.page)
        pages[place.page] = _around(known, place) if known else place
    return tuple(pages.values())


def _is_near(last: Place, place: Place, height: float) -> bool:
    return (
        last.page == place.page
        and min(last.x1, place.x1) > max(last.x0, place.x0)
        and -height <= place.y0 - last.y1 <= _NEAR * height
    ) or (last.page == place.page and abs(last.y1 - place.y1) < 0.5 * height and place.x0 >= last.x0)


def _around(one: Place, other: Place) -> Place:
    return Place(one.page, min(one.x0, other.x0), min(one.y0, other.y0), max(one.x1, other.x1), max(one.y1, other.y1))
