"""Copying every collection from one vector store to another, without embedding anything anew.

Running it again copies again and removes what the source no longer has. Aliases move last, so readers never see a
half-filled collection. A write to the source meanwhile may be missed, which the count at the end of each collection
tells.
"""

from collections.abc import Callable
from dataclasses import dataclass

from knowledge.exceptions import KnowledgeError
from knowledge.vectors.base import CollectionInfo, PayloadFilter, VectorStore


@dataclass(frozen=True, slots=True)
class MigrationReport:
    collections: tuple[str, ...]
    points: int
    removed: int
    aliases: tuple[str, ...]


def migrate_vectors(
    *, source: VectorStore, target: VectorStore, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> MigrationReport:
    """Make `target` hold the collections and aliases of `source`; `on_progress` receives (points done, in all).

    Raises `EmbeddingMismatchError` when the target has a collection of the same name and another recipe, and
    `KnowledgeError` when a collection changed while it was copied. Collections that only the target has are left.
    """
    infos = source.collections()
    total = sum(info.points for info in infos)
    done = removed = 0
    for info in infos:
        start = done
        target.ensure(info.name, info.recipe)
        copied: set[str] = set()
        for batch in source.scroll(info.name):
            target.upsert(info.name, batch)
            copied.update(point.id for point in batch)
            done = start + len(copied)
            on_progress(done, max(total, done))
        strays = [key for key in target.ids_where(info.name, PayloadFilter()) if key not in copied]
        target.delete(info.name, strays)
        removed += len(strays)
        _verify(source, target, info)
    for info in infos:
        for alias in info.aliases:
            target.point_alias(alias, info.name)
    return MigrationReport(
        collections=tuple(info.name for info in infos),
        points=done,
        removed=removed,
        aliases=tuple(sorted(alias for info in infos for alias in info.aliases)),
    )


def _verify(source: VectorStore, target: VectorStore, info: CollectionInfo) -> None:
    there, here = source.count(info.name), target.count(info.name)
    if there != here:
        raise KnowledgeError(
            f"{info.name} has {there} points in the source and {here} in the target: it was written to meanwhile. "
            "Stop the workers and run the migration again."
        )
