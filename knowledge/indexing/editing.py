"""What staff change in a chunk, and how it meets what the document says later.

The first change keeps what the document said (`Chunk.source`). When the document has changed there, both are merged;
where both changed the same sentence or answer, staff's version stays in use and the document's stands beside it
(`Chunk.conflict`) until somebody decides. Nothing that staff wrote is dropped by a re-parse. Saving a chunk makes its
points follow.
"""

from collections.abc import Sequence
from typing import Any, Literal

from knowledge.chunking import ChunkDraft, KnowledgeUnit, units_as_json, units_from_json
from knowledge.indexing.merging import merge_text, merge_units
from knowledge.models import Chunk, UnitsOrigin

Choice = Literal["staff", "document"]
CHANGED, REMOVED = "changed", "removed"


def edit_chunk(
    chunk: Chunk, *, content: str, parent_context: str, units: Sequence[KnowledgeUnit], settled: bool = False
) -> Chunk:
    """Store staff's version; `settled` says that it takes account of the document's, which ends a conflict."""
    wanted = _version(content.strip(), parent_context.strip(), units_as_json(units))
    if settled and chunk.conflict is not None:
        _take_as_source(chunk)
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
    """Put back what staff's journal says a passage was; its points follow."""
    chunk.enabled = values.get("enabled", chunk.enabled)
    edit_chunk(
        chunk,
        content=values.get("content", chunk.content),
        parent_context=values.get("parent_context", chunk.parent_context),
        units=units_from_json(values.get("knowledge_units", chunk.knowledge_units)),
    )


def resolve_conflict(chunk: Chunk, choice: Choice) -> Chunk | None:
    """End a conflict by one of the two versions; `None` when that deletes the chunk."""
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
        _take_as_source(chunk)
        chunk.enabled = chunk.enabled or (removed and bool(conflict.get("was_enabled")))
    chunk.save()
    return chunk


def carry_over(chunk: Chunk, draft: ChunkDraft) -> None:
    """Make a chunk with staff's work stand for `draft`, which took the place of its text; the caller saves."""
    base = chunk.source
    now = _version(draft.content, draft.parent_context, units_as_json(draft.units))
    chunk.content_hash = draft.content_hash
    if base is None:  # only switched off
        chunk.summary, chunk.keywords = draft.summary, list(draft.keywords)
        chunk.units_origin = UnitsOrigin.FOUND if draft.units else UnitsOrigin.WAITING
        _apply(chunk, now)
        return
    text = merge_text(base["content"], chunk.content, now["content"])
    path = merge_text(base["parent_context"], chunk.parent_context, now["parent_context"])
    units, units_clash = _merged_units(chunk, base, now)
    if text.is_conflict or path.is_conflict or units_clash:
        chunk.conflict = {"kind": CHANGED, **now}
        return
    chunk.conflict, chunk.source = None, now
    if text.text != chunk.content:
        chunk.summary = ""
    if units != chunk.knowledge_units:
        chunk.units_origin = _origin(units, now["units"])
    _apply(chunk, _version(text.text, path.text, units))
    if _said_by(chunk) == now:
        chunk.source = None


def mark_removed(chunk: Chunk) -> None:
    """The document no longer says this: an edited chunk is kept, unused, until staff decide; the caller saves."""
    if chunk.source is None or chunk.source.get("kept") or _kind(chunk) == REMOVED:
        return
    chunk.conflict = {"kind": REMOVED, "was_enabled": chunk.enabled, **_version("", "", [])}
    chunk.enabled = False


def mark_found_again(chunk: Chunk) -> None:
    """The document says again what it said when staff changed the chunk; the caller saves."""
    if _kind(chunk) == REMOVED and chunk.conflict is not None:
        chunk.enabled = chunk.enabled or bool(chunk.conflict.get("was_enabled"))
        chunk.conflict = None


def document_text(chunk: Chunk) -> str:
    """What the document says where this chunk stands, as far as it was read."""
    if chunk.conflict is not None and chunk.conflict["kind"] == CHANGED:
        return str(chunk.conflict["content"])
    return str(chunk.source["content"]) if chunk.source is not None else chunk.content


def units_of(chunk: Chunk) -> list[KnowledgeUnit]:
    return units_from_json(chunk.knowledge_units)


def _merged_units(chunk: Chunk, base: dict[str, Any], now: dict[str, Any]) -> tuple[list[dict[str, str]], bool]:
    """The units to keep, and whether staff must look at them."""
    untouched = base["units"] == chunk.knowledge_units
    if not now["units"]:
        # The model wrote them for another text: it writes its own again, staff's are theirs to check.
        text_changed = base["content"] != now["content"]
        if untouched:
            return ([] if text_changed else chunk.knowledge_units), False
        return chunk.knowledge_units, text_changed
    merged = merge_units(units_from_json(base["units"]), units_of(chunk), units_from_json(now["units"]))
    return units_as_json(merged.units), merged.is_conflict


def _origin(units: Sequence[dict[str, str]], found: Sequence[dict[str, str]]) -> UnitsOrigin:
    if not units:
        return UnitsOrigin.WAITING
    return UnitsOrigin.FOUND if list(units) == list(found) else UnitsOrigin.STAFF


def _take_as_source(chunk: Chunk) -> None:
    """What the document says now becomes what staff's version is compared with."""
    conflict = chunk.conflict or {}
    chunk.source = {key: conflict.get(key) for key in ("content", "parent_context", "units")}
    if conflict.get("kind") == REMOVED:
        chunk.source["kept"] = True
    chunk.conflict = None


def _apply(chunk: Chunk, said: dict[str, Any]) -> None:
    chunk.content, chunk.parent_context = said["content"], said["parent_context"]
    chunk.knowledge_units = said["units"]


def _said_by(chunk: Chunk) -> dict[str, Any]:
    return _version(chunk.content, chunk.parent_context, chunk.knowledge_units)


def _version(content: str, parent_context: str, units: list[dict[str, str]]) -> dict[str, Any]:
    """As `Chunk.source` and `Chunk.conflict` hold it."""
    return {"content": content, "parent_context": parent_context, "units": units}


def _kind(chunk: Chunk) -> str:
    return "" if chunk.conflict is None else str(chunk.conflict["kind"])
