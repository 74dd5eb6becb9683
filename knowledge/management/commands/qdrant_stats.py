"""`qdrant_stats`: what the configured vector store holds, whichever it is."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from knowledge.embeddings.base import Recipe, embedder
from knowledge.management.terminal import errors_to_terminal, print_json
from knowledge.vectors.base import CollectionInfo, vector_store


class Command(BaseCommand):
    help = (
        "List the collections of the vector store with their sizes, aliases and embedding models."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        store = vector_store()
        recipe = embedder().recipe
        with errors_to_terminal():
            rows = [_row(info, recipe) for info in store.collections()]
            advice = store.advice()
        points = sum(row["points"] for row in rows)
        if options["json"]:
            print_json(
                self.stdout,
                {
                    "store": type(store).__name__,
                    "points": points,
                    "collections": rows,
                    "advice": advice,
                },
            )
            return
        self.stdout.write(f"{type(store).__name__}: {len(rows)} collections, {points} points")
        for row in rows:
            self.stdout.write(_line(row))
        for sentence in advice:
            self.stderr.write(self.style.WARNING(sentence))


def _row(info: CollectionInfo, recipe: Recipe) -> dict[str, Any]:
    return {
        "name": info.name,
        "points": info.points,
        "aliases": list(info.aliases),
        "model": info.recipe.model,
        "dimensions": info.recipe.dimensions,
        "is_current_model": info.recipe == recipe,
    }


def _line(row: dict[str, Any]) -> str:
    aliases = f" <- {', '.join(row['aliases'])}" if row["aliases"] else ""
    outdated = "" if row["is_current_model"] else " (another model than the one in use: rebuild)"
    return (
        f"{row['points']:>9}  {row['name']}{aliases}  {row['model']}/{row['dimensions']}{outdated}"
    )
