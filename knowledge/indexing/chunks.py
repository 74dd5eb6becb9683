"""Updates a document's chunks to the document's current text.

A chunk whose text is unchanged keeps its row, and with it its points and vectors. A chunk that staff edited or disabled
is never lost: its edits move to the chunk that replaces it.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, TypeVar

from knowledge.chunking import ChunkDraft, KnowledgeUnit, units_as_json
from knowledge.models import Category, Chunk, Document, UnitsOrigin

Choice = Literal["staff", "document"]
T = TypeVar("T")
CHANGED, REMOVED = "changed", "removed"


def edit_chunk(chunk: Chunk, *, content: str, parent_context: str, units: Sequence[KnowledgeUnit]) -> Chunk:
    """Store staff's version."""
    wanted = _version(content.strip(), parent_context.strip(), units_as_json(units))
    if wanted != _said_by(chunk):
        chunk.source = chunk.source or _said_by(chunk)
        if wanted["units"] != chunk.knowledge_units:
            chunk.units_origin = UnitsOrigin.STAFF if units else UnitsOrigin.WAITING
        if wanted["content"] != chunk.content:
            chunk.summary = ""  # the model's summary was of another text
        _apply(chunk, wanted)
    if chunk.source == _said_by(chunk) and chunk.conflict is None:
        chunk.source = None
    chunk.save()
    return chunk


def restore_chunk(chunk: Chunk, values: dict[str, Any], _by: Any) -> None:
    """Store values of the journal as staff's version; the points follow."""
    chunk.enabled = values.get("enabled", chunk.enabled)
    edit_chunk(
        chunk,
        content=values.get("content", chunk.content),
        parent_context=values.get("parent_context", chunk.parent_context),
        units=[KnowledgeUnit(**unit) for unit in values.get("knowledge_units", chunk.knowledge_units)],
    )


def resolve_conflict(chunk: Chunk, choice: Choice) -> Chunk | None:
    """Resolve a conflict with one of the two versions; `None` when that deletes the chunk."""
    conflict = chunk.conflict
    if conflict is None:
        return chunk
    removed = conflict["kind"] == REMOVED
    if choice == "document" and removed:
        chunk.delete()
        return None
    if choice == "document":
        chunk.units_origin = UnitsOrigin.FOUND if conflict["units"] else UnitsOrigin.WAITING
        chunk.summary, chunk.source, chunk.conflict = "", None, None
        _apply(chunk, conflict)
    else:
        # The document's current text is what staff's version is compared with from now on.
        chunk.source = {key: conflict[key] for key in ("content", "parent_context", "units")}
        if removed:
            chunk.source["kept"] = True
        chunk.conflict = None
        chunk.enabled = chunk.enabled or (removed and bool(conflict.get("was_enabled")))
    chunk.save()
    return chunk


def carry_over(chunk: Chunk, draft: ChunkDraft) -> None:
    """Move a chunk that staff changed to `draft`, the successor of its text; the caller saves."""
    base = chunk.source
    if base is None:  # only switched off
        _take_text(chunk, draft)
        return
    chunk.content_hash = draft.content_hash
    now = _version(draft.content, draft.parent_context, units_as_json(draft.units))
    text = _merged(base["content"], chunk.content, now["content"])
    path = _merged(base["parent_context"], chunk.parent_context, now["parent_context"])
    units = _merged_units(chunk, base, now)
    if text is None or path is None or units is None:
        chunk.conflict = {"kind": CHANGED, **now}
        return
    chunk.conflict, chunk.source = None, now
    if text != chunk.content:
        chunk.summary = ""
    if units != chunk.knowledge_units:
        by_whom = UnitsOrigin.FOUND if list(units) == list(now["units"]) else UnitsOrigin.STAFF
        chunk.units_origin = by_whom if units else UnitsOrigin.WAITING
    _apply(chunk, _version(text, path, units))
    if _said_by(chunk) == now:
        chunk.source = None


def mark_removed(chunk: Chunk) -> None:
    """Disable an edited chunk whose text the document no longer has, until staff decide; the caller saves."""
    if chunk.source is None or chunk.source.get("kept") or _kind(chunk) == REMOVED:
        return
    chunk.conflict = {"kind": REMOVED, "was_enabled": chunk.enabled, **_version("", "", [])}
    chunk.enabled = False


def mark_found_again(chunk: Chunk) -> None:
    """Undo `mark_removed` for an edited chunk whose text is back in the document; the caller saves."""
    if _kind(chunk) == REMOVED and chunk.conflict is not None:
        chunk.enabled = chunk.enabled or bool(chunk.conflict.get("was_enabled"))
        chunk.conflict = None


def document_text(chunk: Chunk) -> str:
    """The document's own text of this chunk, as last read."""
    if chunk.conflict is not None and chunk.conflict["kind"] == CHANGED:
        return str(chunk.conflict["content"])
    return str(chunk.source["content"]) if chunk.source is not None else chunk.content


def _merged(base: T, staff: T, new: T) -> T | None:
    """What one side changed; `None` where both did, in different ways."""
    if staff == base:
        return new
    return staff if new in (base, staff) else None


def _merged_units(chunk: Chunk, base: dict[str, Any], now: dict[str, Any]) -> list[dict[str, str]] | None:
    """The merged units; `None` where staff must check them."""
    if now["units"]:
        return _merged(base["units"], chunk.knowledge_units, now["units"])
    # The model wrote them for another text: it writes its own again, staff's are theirs to check.
    if base["content"] == now["content"]:
        return list(chunk.knowledge_units)
    return [] if base["units"] == chunk.knowledge_units else None


def _apply(chunk: Chunk, said: dict[str, Any]) -> None:
    chunk.content, chunk.parent_context = said["content"], said["parent_context"]
    chunk.knowledge_units = said["units"]


def _said_by(chunk: Chunk) -> dict[str, Any]:
    return _version(chunk.content, chunk.parent_context, chunk.knowledge_units)


def _version(content: str, parent_context: str, units: list[dict[str, str]]) -> dict[str, Any]:
    """A version in the form of `Chunk.source` and `Chunk.conflict`."""
    return {"content": content, "parent_context": parent_context, "units": units}


def _kind(chunk: Chunk) -> str:
    return "" if chunk.conflict is None else str(chunk.conflict["kind"])


#: Words in common from which a new text counts as the successor of an edited one.
_SUCCESSOR = 0.4
#: Added where the headings above are the same.
_SAME_PLACE = 0.1
_WRITE_BATCH = 500
_MOVED_FIELDS = ("index", "conflict", "enabled", "page", "places", "anchor")
_RENAMED_FIELDS = (*_MOVED_FIELDS, "parent_context", "content_hash", "category")
_CARRIED_FIELDS = (*_RENAMED_FIELDS, "content", "summary", "keywords", "knowledge_units", "units_origin", "source")


def synchronise_chunks(document: Document, drafts: Sequence[ChunkDraft]) -> None:
    """Make the document's chunks those of `drafts`; the caller holds the document's lock."""
    rows = sorted(document.chunks.all(), key=lambda chunk: chunk.index)
    categories, unmatched = _categories(drafts), dict(enumerate(drafts))
    same = _matched(rows, unmatched, lambda each: each.content_hash)
    kept = {chunk.pk for chunk in same.values()}
    untouched = [chunk for chunk in rows if chunk.pk not in kept and not chunk.is_edited and chunk.enabled]
    # The same text under other headings: they keep their rows with the questions written for them.
    renamed = _matched(untouched, unmatched, _text_and_units)
    kept |= {chunk.pk for chunk in renamed.values()}
    moved = []
    for index, chunk in (same | renamed).items():
        draft = drafts[index]
        before = _place_of(chunk)
        _take_place(chunk, index, draft)
        mark_found_again(chunk)
        if index in renamed:
            chunk.parent_context, chunk.content_hash = draft.parent_context, draft.content_hash
            chunk.category = categories.get(draft.category)
        elif _place_of(chunk) != before:
            moved.append(chunk)
    left = [chunk for chunk in rows if chunk.pk not in kept]
    carried = _carried([chunk for chunk in left if chunk.is_edited or not chunk.enabled], unmatched, categories)
    gone = {chunk.pk for chunk in left} - {chunk.pk for chunk in carried}
    fresh = [_chunk(document, index, draft, categories.get(draft.category)) for index, draft in unmatched.items()]
    Chunk.objects.filter(pk__in=gone).delete()
    Chunk.objects.bulk_update(moved, _MOVED_FIELDS, batch_size=_WRITE_BATCH)
    Chunk.objects.bulk_update(renamed.values(), _RENAMED_FIELDS, batch_size=_WRITE_BATCH)
    Chunk.objects.bulk_update(carried, _CARRIED_FIELDS, batch_size=_WRITE_BATCH)
    Chunk.objects.bulk_create(fresh, batch_size=_WRITE_BATCH)


def _matched(
    rows: Iterable[Chunk], drafts: dict[int, ChunkDraft], key: Callable[[Chunk | ChunkDraft], Hashable]
) -> dict[int, Chunk]:
    """The first row for each draft of the same key, by the draft's position; those drafts are taken out of `drafts`."""
    by_key: defaultdict[Hashable, deque[Chunk]] = defaultdict(deque)
    for chunk in rows:
        by_key[key(chunk)].append(chunk)
    found = {index: by_key[key(draft)].popleft() for index, draft in drafts.items() if by_key[key(draft)]}
    for index in found:
        del drafts[index]
    return found


def _text_and_units(each: Chunk | ChunkDraft) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Its text and the document's own units; a chunk with units of a model is matched by a draft that has none."""
    if isinstance(each, ChunkDraft):
        units = units_as_json(each.units)
    else:
        units = each.knowledge_units if each.units_origin == UnitsOrigin.FOUND else []
    return each.content, tuple((unit["question"], unit["answer"]) for unit in units)


def _carried(
    touched: Sequence[Chunk], unmatched: dict[int, ChunkDraft], categories: dict[str, Category]
) -> list[Chunk]:
    """The chunks that staff changed, moved to their successors, which are removed from `unmatched`."""
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
            _take_place(chunk, place, draft)
            chunk.category = categories.get(draft.category)
        elif chunk.is_edited:
            mark_removed(chunk)
            chunk.page, chunk.places, chunk.anchor = None, None, ""
        else:
            continue
        kept.append(chunk)
    return kept


def _likeness(chunk: Chunk, draft: ChunkDraft) -> float:
    """The share of the two texts that is the same words in the same order, and a little for the same headings."""
    same_place = _SAME_PLACE if chunk.parent_context == draft.parent_context else 0.0
    matcher = SequenceMatcher(None, document_text(chunk).split(), draft.content.split(), autojunk=False)
    return same_place + (0.0 if matcher.quick_ratio() < 0.3 else matcher.ratio())


def _chunk(document: Document, index: int, draft: ChunkDraft, category: Category | None) -> Chunk:
    chunk = Chunk(document=document, category=category)
    _take_text(chunk, draft)
    _take_place(chunk, index, draft)
    return chunk


def _take_text(chunk: Chunk, draft: ChunkDraft) -> None:
    chunk.content_hash = draft.content_hash
    chunk.summary, chunk.keywords = draft.summary, list(draft.keywords)
    chunk.units_origin = UnitsOrigin.FOUND if draft.units else UnitsOrigin.WAITING
    _apply(chunk, _version(draft.content, draft.parent_context, units_as_json(draft.units)))


def _place_of(chunk: Chunk) -> tuple[object, ...]:
    """Where it stands, and whether its document has changed there."""
    return chunk.index, chunk.page, chunk.places, chunk.anchor, chunk.conflict


def _take_place(chunk: Chunk, index: int, draft: ChunkDraft) -> None:
    """Its rank, page, boxes and anchor."""
    chunk.index, chunk.anchor = index, draft.anchor
    chunk.page = draft.places[0].page if draft.places else None
    chunk.places = [[p.page, p.x0, p.y0, p.x1, p.y1] for p in draft.places] or None


def _categories(drafts: Iterable[ChunkDraft]) -> dict[str, Category]:
    names = {draft.category for draft in drafts if draft.category}
    # In one order for all, as each is locked until the end: two documents with the same ones never wait for each other.
    return {name: Category.objects.get_or_create(name=name[:200])[0] for name in sorted(names)}
