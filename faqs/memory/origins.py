"""The passages an entry was made from, and whether they are still what they were.

A passage used for its text is compared by its text; one used for an answer in it, by its text and all of its answers
(`with_units`). The comparison is one indexed condition in SQL, so a change counts from the moment it is committed,
whoever made it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models.expressions import RawSQL
from django.db.models.functions import MD5, Cast, Concat

from faqs.models import CachedResponse, ResponseChunk
from knowledge.models import Chunk

#: True for a row of `responses` that has lost a passage, or of which one was switched off or has changed.
STALE = """
EXISTS (SELECT 1 FROM responses_chunks origin LEFT JOIN knowledge_chunk chunk ON chunk.id = origin.chunk_id
LEFT JOIN knowledge_document document ON document.id = chunk.document_id
WHERE origin.response_id = responses.id AND (chunk.id IS NULL OR NOT chunk.enabled OR NOT document.enabled OR origin.fingerprint <> MD5(
chunk.content || CASE WHEN origin.with_units THEN CAST(chunk.knowledge_units AS TEXT) ELSE '' END)))"""


#: The type of a source that is one of the answers of its passage, not the passage's text.
_QA_PAIR = "qa_pair"


@dataclass(frozen=True, slots=True)
class Origin:
    """A passage as an answer used it, still unchanged when it was looked up."""

    chunk_id: int
    with_units: bool
    fingerprint: str


def stale_entries(chunk_ids: Iterable[int] | None = None) -> "models.QuerySet[CachedResponse]":
    """The entries with a passage that changed, was switched off or went; of all passages, or of these."""
    entries = CachedResponse.objects.all()
    if chunk_ids is not None:
        origins = ResponseChunk.objects.filter(chunk_id__in=list(chunk_ids))
        entries = entries.filter(pk__in=origins.values("response_id"))
    return entries.filter(RawSQL(STALE, (), output_field=models.BooleanField()))  # noqa: S611  # constant text


def origins_of(sources: Sequence[Mapping[str, Any]]) -> list[Origin] | None:
    """Where an answer's sources stand now; `None` when one of them cannot be followed.

    A source that names no passage cannot, nor one whose text is no longer in its passage: it changed while the
    answer was being written.
    """
    by_id = {chunk.pk: chunk for chunk in _fingerprinted(_chunk_ids(sources))}
    origins: dict[tuple[int, bool], Origin] = {}
    for source in sources:
        chunk = by_id.get(source.get("chunk_id"))
        text = source.get("text")
        if chunk is None:
            return None
        with_units = source.get("type") == _QA_PAIR
        used = [unit.get("answer") for unit in chunk.knowledge_units]
        if text not in (used if with_units else [chunk.content]):
            return None
        mark = chunk.marks_units if with_units else chunk.marks_text
        origins[chunk.pk, with_units] = Origin(chunk.pk, with_units, mark)
    return list(origins.values())


def keep_origins(response_id: int, origins: Iterable[Origin]) -> None:
    """Make these the passages of an entry, in the caller's transaction."""
    ResponseChunk.objects.filter(response_id=response_id).delete()
    ResponseChunk.objects.bulk_create(
        ResponseChunk(
            response_id=response_id,
            chunk_id=origin.chunk_id,
            with_units=origin.with_units,
            fingerprint=origin.fingerprint,
        )
        for origin in origins
    )


def accept_origins(response_ids: Sequence[int]) -> None:
    """Take the passages of these entries as they are now; those that have gone or are switched off are forgotten."""
    origins = list(ResponseChunk.objects.filter(response_id__in=response_ids))
    chunks = {chunk.pk: chunk for chunk in _fingerprinted({o.chunk_id for o in origins})}
    gone = [origin.pk for origin in origins if origin.chunk_id not in chunks]
    ResponseChunk.objects.filter(pk__in=gone).delete()
    standing = [origin for origin in origins if origin.chunk_id in chunks]
    for origin in standing:
        chunk = chunks[origin.chunk_id]
        origin.fingerprint = chunk.marks_units if origin.with_units else chunk.marks_text
    ResponseChunk.objects.bulk_update(standing, ["fingerprint"], batch_size=500)


def _chunk_ids(sources: Iterable[Mapping[str, Any]]) -> set[int]:
    return {pk for source in sources if isinstance(pk := source.get("chunk_id"), int)}


def _fingerprinted(chunk_ids: Iterable[int]) -> "models.QuerySet[Any]":
    units = Cast("knowledge_units", models.TextField())
    return (
        Chunk.objects.served()
        .filter(pk__in=list(chunk_ids))
        .annotate(marks_text=MD5("content"), marks_units=MD5(Concat("content", units)))
    )
