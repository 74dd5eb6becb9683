"""Where a cited passage stands: on which pages, where on them, and their pictures; else what stands around it in its
document.

Whoever calls has asked already whether this person may see them. Only pages of the passage are named; the file is never
given.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from django.conf import settings

from knowledge.exceptions import PagePictureError
from knowledge.models import Chunk, Document, DocumentStatus, SourceType
from knowledge.reading.drawing import UndrawablePageError, draw_page

logger = logging.getLogger(__name__)

#: Passages that are shown before a cited one, and after it, in a document without pages.
_AROUND = 1
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
        if page not in boxes and len(boxes) >= settings.MAX_CITED_PAGES:
            continue
        found = boxes.setdefault(page, [])
        if x1 > x0 and y1 > y0:
            found.append((100 * x0, 100 * y0, 100 * (x1 - x0), 100 * (y1 - y0)))
    return CitedPages(chunk.document, boxes)


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """A document, and pieces of it in their order (path of headings, text, whether it is the passage)."""

    document: Document
    pieces: list[tuple[str, str, bool]]


def cited_place(chunk_id: int | None, *, agent_ids: Collection[int]) -> CitedPlace | None:
    """What stands around a passage of a document of these agents, the passage still there."""
    if chunk_id is None:
        return None
    served = Chunk.objects.served().filter(document__agent__in=agent_ids)
    served = served.filter(document__status=DocumentStatus.INDEXED)
    chunk = served.filter(pk=chunk_id).select_related("document").first()
    if chunk is None:
        return None
    near = served.filter(document=chunk.document, index__range=(chunk.index - _AROUND, chunk.index + _AROUND))
    pieces = [(each.parent_context, each.content, each == chunk) for each in near.order_by("index")]
    return CitedPlace(chunk.document, pieces)


class _Pictures:
    """The last pictures of this process, and how many are drawn at once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._drawing = threading.BoundedSemaphore(settings.PAGE_PICTURES_AT_ONCE)

    def of(self, document: Document, page: int) -> bytes:
        key = document.file_hash, page
        if (found := self._find(key)) is not None:
            return found
        if not self._drawing.acquire(timeout=settings.PAGE_PICTURE_SECONDS):
            raise PagePictureError("too many pages are drawn")
        try:
            # Somebody else may have drawn it meanwhile.
            found = self._find(key)
            return found if found is not None else self._keep(key, _drawn(document, page))
        finally:
            self._drawing.release()

    def _find(self, key: tuple[str, int]) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: tuple[str, int], picture: bytes) -> bytes:
        with self._lock:
            self._kept[key] = picture
            while len(self._kept) > settings.PAGE_PICTURES_KEPT:
                self._kept.popitem(last=False)
        return picture


def _drawn(document: Document, page: int) -> bytes:
    try:
        with document.file.open("rb") as file:
            data = file.read()
        return draw_page(
            data,
            page,
            pixels=settings.PAGE_PICTURE_PIXELS,
            seconds=settings.PAGE_PICTURE_SECONDS,
            memory=settings.PARSE_MEMORY_BYTES,
            folder=str(settings.BASE_DIR),
        )
    except (UndrawablePageError, OSError, ValueError) as error:
        # `ValueError`: a document whose file was never stored.
        logger.warning("A page cannot be drawn: %s.", type(error).__name__)
        raise PagePictureError(f"document {document.pk}, page {page}") from error


_pictures = _Pictures()


def page_picture(document: Document, page: int) -> bytes:
    """A page as PNG. Raises `PagePictureError` where it cannot be drawn now. Synchronous, for a second or so."""
    return _pictures.of(document, page)
