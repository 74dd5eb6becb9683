"""`qdrant_stats`: what the configured vector store holds, whichever it is."""

from typing import Any

from knowledge.embeddings.base import embedder
from knowledge.management.terminal import JsonCommand
from knowledge.vectors.base import vector_store


class Command(JsonCommand):
    help = "List the collections of the vector store with their sizes, aliases and embedding models."

    def handle(self, *args: Any, **options: Any) -> None:
        store = vector_store()
        recipe = embedder().recipe
        rows: list[dict[str, Any]] = [
            {
                "name": info.name,
                "points": info.points,
                "aliases": list(info.aliases),
                "model": info.recipe.model,
                "dimensions": info.recipe.dimensions,
                "is_current_model": info.recipe == recipe,
            }
            for info in store.collections()
        ]
        points = sum(row["points"] for row in rows)
        name = type(store).__name__
        self.tell(
            options,
            {"store": name, "points": points, "collections": rows},
            [f"{name}: {len(rows)} collections, {points} points", *map(_line, rows)],
        )


def _line(row: dict[str, Any]) -> str:
    aliases = f" <- {', '.join(row['aliases'])}" if row["aliases"] else ""
    outdated = "" if row["is_current_model"] else " (another model than the one in use: rebuild)"
    return f"{row['points']:>9}  {row['name']}{aliases}  {row['model']}/{row['dimensions']}{outdated}"
