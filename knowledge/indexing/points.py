"""Planned points to stored points, embedding only what has no vector yet.

A planned point whose id is stored with the same payload is left alone; one whose embedded text is the same takes the
stored vector. Both are known from the payload alone, because everything that is embedded is in it. Ids are
deterministic, so writing again overwrites and never doubles.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from knowledge.embeddings.base import Embedder, Purpose, Vectors
from knowledge.indexing.report import OnProgress
from knowledge.payloads import embedded_text, same_payload
from knowledge.vectors.base import Json, Point, VectorStore

#: Points compared, embedded and written together: bounds memory, and what a crash can lose.
WRITE_BATCH = 256


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    id: str
    payload: dict[str, Json]


@dataclass(slots=True)
class WriteCounts:
    embedded: int = 0
    reused: int = 0
    written: int = 0


@dataclass(slots=True)
class PointWriter:
    """Writes planned points into one collection; `donors` are collections whose vectors may be reused."""

    store: VectorStore
    collection: str
    embedder: Embedder
    donors: Sequence[str] = ()
    counts: WriteCounts = field(default_factory=WriteCounts)

    def write(
        self, planned: Iterable[PlannedPoint], *, total: int, on_progress: OnProgress
    ) -> None:
        done = 0
        for batch in _batches(planned, WRITE_BATCH):
            self._write_batch(batch)
            done += len(batch)
            on_progress(done, max(total, done))

    def _write_batch(self, batch: list[PlannedPoint]) -> None:
        ids = [point.id for point in batch]
        stored = self.store.fetch(self.collection, ids)
        missing = [
            point
            for point in batch
            if point.id not in stored or not same_payload(stored[point.id].payload, point.payload)
        ]
        known = dict(stored)
        for donor in self.donors:
            known = {**self.store.fetch(donor, [point.id for point in missing]), **known}
        vectors = self._vectors(missing, known)
        points = [Point(p.id, vectors[p.id], p.payload) for p in missing]
        if points:
            self.store.upsert(self.collection, points)
        self.counts.written += len(points)
        self.counts.reused += len(batch) - len(missing)

    def _vectors(self, points: list[PlannedPoint], known: dict[str, Point]) -> dict[str, Vectors]:
        vectors: dict[str, Vectors] = {}
        fresh: dict[Purpose, list[tuple[str, str]]] = {}
        for point in points:
            text, purpose = embedded_text(point.payload)
            old = known.get(point.id)
            if old is not None and embedded_text(old.payload) == (text, purpose):
                vectors[point.id] = old.vector
                self.counts.reused += 1
            else:
                fresh.setdefault(purpose, []).append((point.id, text))
        for purpose, group in fresh.items():
            rows = self.embedder.embed([text for _, text in group], purpose=purpose)
            vectors.update({key: row for (key, _), row in zip(group, rows, strict=True)})
            self.counts.embedded += len(group)
        return vectors


def _batches(items: Iterable[PlannedPoint], size: int) -> Iterator[list[PlannedPoint]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
