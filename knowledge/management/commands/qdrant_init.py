"""`qdrant_init`: make the configured vector store ready, whichever it is."""

from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent
from knowledge.embeddings.base import Recipe, embedder
from knowledge.errors import CollectionMissingError, EmbeddingMismatchError
from knowledge.indexing.points import current_generation
from knowledge.management.terminal import JsonCommand
from knowledge.vectors.base import VectorStore, collection_alias, vector_store


class Command(JsonCommand):
    help = "Check that the vector store answers, and give every agent the collections that it needs."

    def handle(self, *args: Any, **options: Any) -> None:
        store = vector_store()
        recipe = embedder().recipe
        store.ping()
        rows = [
            _prepare(store, agent, alias, recipe)
            for agent in Agent.objects.order_by("slug")
            for alias in sorted(agent.methods_in_use())
        ]
        name = type(store).__name__
        lines = ["{alias}: {state} ({collection})".format(**row) for row in rows]
        self.tell(options, {"store": name, "recipe": recipe.as_json(), "indexes": rows}, [f"{name} answers.", *lines])
        to_build = [f"{row['alias']} ({row['state']})" for row in rows if row["state"] in ("missing", "outdated")]
        if to_build:
            raise CommandError(
                f"There are documents without an index of the model {recipe.model}: {', '.join(to_build)}. "
                "Build it with: manage.py rebuild_agent_index AGENT"
            )


def _prepare(store: VectorStore, agent: Agent, method: Any, recipe: Recipe) -> dict[str, str]:
    alias = collection_alias(agent.slug, method)
    before = store.resolve_alias(alias)
    try:
        collection = current_generation(store, agent, method, recipe)
    except EmbeddingMismatchError:
        return {"alias": alias, "collection": before or "", "state": "outdated"}
    except CollectionMissingError:
        return {"alias": alias, "collection": "", "state": "missing"}
    return {"alias": alias, "collection": collection, "state": "ready" if before == collection else "created"}
