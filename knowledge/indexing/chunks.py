"""A document's chunks brought up to date with what it says now.

A chunk whose text is unchanged keeps its row, and with it its points and vectors. A chunk with staff's work is never
lost: it follows the text that took the place of its own (`knowledge.indexing.editing`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db import transaction

from knowledge.chunking import ChunkDraft, places_as_json, units_as_json
from knowledge.indexing.editing import carry_over, document_text, mark_found_again, mark_removed
from knowledge.indexing.merging import resemblance
from knowledge.models import Category, Chunk, Document, UnitsOrigin

#: Words in common from which a new text counts as the successor of an edited one.
_SUCCESSOR = 0.4
#: Added where the headings above are the same.
_SAME_PLACE = 0.1
_WRITE_BATCH = 500
_CARRIED_FIELDS = (
    "index",
    "content",
    "parent_context",
    "summary",
    "keywords",
    "category",
    "enabled",
    "knowledge_units",
    "units_origin",
    "content_hash",
    "source",
    "conflict",
    "page",
    "places",
    "anchor",
)
_MOVED_FIELDS = ("index", "conflict", "enabled", "page", "places", "anchor")
_NAMED_FIELDS = ("parent_context", "content_hash", "category")


@dataclass(slots=True)
class Matches:
    """Which rows say what which drafts say; dictionaries are by place among the drafts."""

    same: dict[int, Chunk] = field(default_factory=dict)
    #: The same text under other headings: they keep their rows with the questions written for them.
    renamed: dict[int, Chunk] = field(default_factory=dict)
    #: Rows without a draft, and drafts without a row.
    left: list[Chunk] = field(default_factory=list)
    new: dict[int, ChunkDraft] = field(default_factory=dict)


def match_chunks(chunks: Iterable[Chunk], drafts: Sequence[ChunkDraft]) -> Matches:
    """Compare a document's rows with what it says now; nothing is changed."""
    found = Matches()
    rows = sorted(chunks, key=lambda chunk: -chunk.index)
    by_hash: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk in rows:
        by_hash[chunk.content_hash].append(chunk)
    for index, draft in enumerate(drafts):
        if by_hash[draft.content_hash]:
            found.same[index] = by_hash[draft.content_hash].pop()
        else:
            found.new[index] = draft
    by_text: defaultdict[str, list[Chunk]] = defaultdict(list)
    kept = {chunk.pk for chunk in found.same.values()}
    for chunk in rows:
        if chunk.pk not in kept and not chunk.is_edited and chunk.enabled:
            by_text[chunk.content].append(chunk)
    for index, draft in list(found.new.items()):
        alike = by_text[draft.content]
        if alike and _has_the_units(alike[-1], draft):
            found.renamed[index] = alike.pop()
            del found.new[index]
    kept |= {chunk.pk for chunk in found.renamed.values()}
    found.left = [chunk for chunk in rows if chunk.pk not in kept]
    return found


def synchronise_chunks(document: Document, drafts: Sequence[ChunkDraft]) -> None:
    """Make the document's chunks those of `drafts`; of two workers at once, the second finds what the first wrote."""
    with transaction.atomic():
        list(Document.objects.select_for_update().filter(pk=document.pk))
        _synchronise(document, drafts)


def _synchronise(document: Document, drafts: Sequence[ChunkDraft]) -> None:
    found, categories = match_chunks(document.chunks.all(), drafts), _categories(drafts)
    moved = [
        chunk
        for index, chunk in found.same.items()
        if chunk.conflict is not None or _where(chunk) != (index, *_place_of(drafts[index]))
    ]
    for index, chunk in (found.same | found.renamed).items():
        chunk.index, (chunk.page, chunk.places, chunk.anchor) = index, _place_of(drafts[index])
        mark_found_again(chunk)
    for index, chunk in found.renamed.items():
        draft = drafts[index]
        chunk.parent_context, chunk.content_hash = draft.parent_context, draft.content_hash
        chunk.category = categories.get(draft.category)
    renamed, left = list(found.renamed.values()), found.left
    carried = _carried([c for c in left if c.is_edited or not c.enabled], found.new, categories)
    gone = {chunk.pk for chunk in left} - {chunk.pk for chunk in carried}
    fresh = [_chunk(document, i, d, categories.get(d.category)) for i, d in found.new.items()]
    Chunk.objects.filter(pk__in=gone).delete()
    Chunk.objects.bulk_update(moved, _MOVED_FIELDS, batch_size=_WRITE_BATCH)
    Chunk.objects.bulk_update(renamed, [*_MOVED_FIELDS, *_NAMED_FIELDS], batch_size=_WRITE_BATCH)
    Chunk.objects.bulk_update(carried, _CARRIED_FIELDS, batch_size=_WRITE_BATCH)
    Chunk.objects.bulk_create(fresh, batch_size=_WRITE_BATCH)


def _has_the_units(chunk: Chunk, draft: ChunkDraft) -> bool:
    """Whether what the document declares is what the chunk holds; what a model or staff wrote for it is kept."""
    if draft.units:
        return bool(chunk.knowledge_units == units_as_json(draft.units))
    return chunk.units_origin != UnitsOrigin.FOUND


def _carried(
    touched: Sequence[Chunk], unmatched: dict[int, ChunkDraft], categories: dict[str, Category]
) -> list[Chunk]:
    """The chunks with staff's work, each standing for its successor, which leaves `unmatched`."""
    pairs = sorted(
        (
            (_likeness(chunk, draft), -abs(chunk.index - index), chunk.pk, index)
            for chunk in touched
            for index, draft in unmatched.items()
        ),
        reverse=True,
    )
    successors: dict[int, int] = {}
    for likeness, _distance, pk, index in pairs:
        if likeness >= _SUCCESSOR and pk not in successors and index not in successors.values():
            successors[pk] = index
    kept = []
    for chunk in touched:
        place = successors.get(chunk.pk)
        if place is not None:
            draft = unmatched.pop(place)
            mark_found_again(chunk)
            carry_over(chunk, draft)
            chunk.index, chunk.category = place, categories.get(draft.category)
            chunk.page, chunk.places, chunk.anchor = _place_of(draft)
        elif chunk.is_edited:
            mark_removed(chunk)
            chunk.page, chunk.places, chunk.anchor = None, None, ""
        else:
            continue
        kept.append(chunk)
    return kept


def _likeness(chunk: Chunk, draft: ChunkDraft) -> float:
    same_place = _SAME_PLACE if chunk.parent_context == draft.parent_context else 0.0
    return resemblance(document_text(chunk), draft.content) + same_place


def _chunk(document: Document, index: int, draft: ChunkDraft, category: Category | None) -> Chunk:
    units = units_as_json(draft.units)
    return Chunk(
        document=document,
        index=index,
        parent_context=draft.parent_context,
        content=draft.content,
        summary=draft.summary,
        keywords=list(draft.keywords),
        category=category,
        knowledge_units=units,
        units_origin=UnitsOrigin.FOUND if units else UnitsOrigin.WAITING,
        content_hash=draft.content_hash,
        places=places_as_json(draft.places) or None,
        page=_page_of(draft),
        anchor=draft.anchor,
    )


def _page_of(draft: ChunkDraft) -> int | None:
    return draft.places[0].page if draft.places else None


def _place_of(draft: ChunkDraft) -> tuple[int | None, list[list[float]] | None, str]:
    """Its page, boxes and anchor."""
    return _page_of(draft), places_as_json(draft.places) or None, draft.anchor


def _where(chunk: Chunk) -> tuple[int, int | None, list[list[float]] | None, str]:
    return chunk.index, chunk.page, chunk.places, chunk.anchor


def _categories(drafts: Iterable[ChunkDraft]) -> dict[str, Category]:
    names = {draft.category for draft in drafts if draft.category}
    # In one order for all, as each is locked until the end: two documents with the same ones never wait for each other.
    return {name: Category.objects.get_or_create(name=name[:200])[0] for name in sorted(names)}
