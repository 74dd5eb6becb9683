"""`migrate_vectors --from A --to B`: copy all vectors between two stores of `VECTOR_STORES`, embedding nothing."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from knowledge.errors import KnowledgeError
from knowledge.management.terminal import JsonCommand, progress_bar
from knowledge.vectors.base import PayloadFilter, VectorStore, vector_store


def migrate_vectors(
    *, source: VectorStore, target: VectorStore, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """Make `target` hold the collections and aliases of `source`; `on_progress` receives (points done, in all). Raises
    `EmbeddingMismatchError` when the target has a collection of the same name and another recipe, and `KnowledgeError`
    when a collection changed while it was copied. Collections that only the target has are left."""
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
        there, here = source.count(info.name), target.count(info.name)
        if there != here:
            raise KnowledgeError(
                f"{info.name} has {there} points in the source and {here} in the target: it was written to meanwhile. "
                "Stop the workers and run the migration again."
            )
    for info in infos:
        for alias in info.aliases:
            target.point_alias(alias, info.name)
    return {
        "collections": [info.name for info in infos],
        "points": done,
        "removed": removed,
        "aliases": sorted(alias for info in infos for alias in info.aliases),
    }


class Command(JsonCommand):
    help = "Copy every collection and alias from one vector store to another; can be repeated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--from", dest="source", default="table", help="table (the default)")
        parser.add_argument("--to", dest="target", default="qdrant", help="qdrant (the default)")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        source, target = _store(options["source"]), _store(options["target"])
        if settings.VECTOR_STORES[options["source"]] == settings.VECTOR_STORES[options["target"]]:
            raise CommandError("--from and --to are the same store: there is nothing to copy.")
        with progress_bar("point") as on_progress:
            report = migrate_vectors(source=source, target=target, on_progress=on_progress)
        line = (
            f"{len(report['collections'])} collections, {report['points']} points, "
            f"{len(report['aliases'])} aliases copied; {report['removed']} points removed from the target."
        )
        self.tell(options, report, [line])


def _store(alias: str) -> VectorStore:
    if alias not in settings.VECTOR_STORES:
        known = ", ".join(sorted(settings.VECTOR_STORES))
        hint = " Set QDRANT_URL to have qdrant." if alias == "qdrant" else ""
        raise CommandError(f"There is no vector store {alias!r} (known: {known}).{hint}")
    return vector_store(alias)
