"""`migrate_vectors --from A --to B`: copy all vectors between two stores of `VECTOR_STORES`, embedding nothing."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from knowledge.management.terminal import JsonCommand, errors_to_terminal, progress_bar
from knowledge.vectors.base import VectorStore, vector_store
from knowledge.vectors.migrate import migrate_vectors


class Command(JsonCommand):
    help = "Copy every collection and alias from one vector store to another; can be repeated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--from", dest="source", required=True, help="for example: table")
        parser.add_argument("--to", dest="target", required=True, help="for example: qdrant")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        source, target = _store(options["source"]), _store(options["target"])
        if settings.VECTOR_STORES[options["source"]] == settings.VECTOR_STORES[options["target"]]:
            raise CommandError("--from and --to are the same store: there is nothing to copy.")
        with errors_to_terminal(), progress_bar("point") as on_progress:
            report = migrate_vectors(source=source, target=target, on_progress=on_progress)
        line = (
            f"{len(report.collections)} collections, {report.points} points, "
            f"{len(report.aliases)} aliases copied; {report.removed} points removed from the target."
        )
        self.tell(options, asdict(report), [line])


def _store(alias: str) -> VectorStore:
    if alias not in settings.VECTOR_STORES:
        known = ", ".join(sorted(settings.VECTOR_STORES))
        hint = " Set QDRANT_URL to have qdrant." if alias == "qdrant" else ""
        raise CommandError(f"There is no vector store {alias!r} (known: {known}).{hint}")
    return vector_store(alias)
