"""Generations of an agent's index: `agent_<slug>_<method>_<stamp>` behind the alias `agent_<slug>_<method>`.

Readers only ever use the alias. A second alias, `…_previous`, names the generation that answered before the current
one: a rollback goes there and nowhere else, because a name alone does not say whether a generation was ever complete.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from django.db import transaction
from django.utils.translation import gettext as _

from agents.models import Agent, IndexingMethod
from knowledge.embeddings.base import Recipe
from knowledge.exceptions import CollectionMissingError
from knowledge.models import DocumentStatus
from knowledge.vectors.base import CollectionInfo, VectorStore, collection_alias

_STAMP = re.compile(r"_\d{8}T\d{12}$")
_GENERATION = re.compile(r"(?P<alias>agent_.+)_(?P<stamp>\d{8}T\d{6,})")


def new_generation(agent: Agent, method: IndexingMethod) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return f"{collection_alias(agent.slug, method)}_{stamp}"


def generations(store: VectorStore, agent: Agent, method: IndexingMethod) -> list[str]:
    """Every generation that the store holds, oldest first."""
    alias = collection_alias(agent.slug, method)
    return sorted(
        info.name for info in store.collections() if _STAMP.search(info.name) and _STAMP.sub("", info.name) == alias
    )


def superseded_generations(infos: Iterable[CollectionInfo], *, in_use: Collection[str]) -> list[CollectionInfo]:
    """The generations that nobody needs any more: those with no alias that are not `in_use`.

    The one in service and the one that a rollback goes back to both have an alias. Where none is in service the newest
    is kept, as it may be all there is. What is not named as a generation is never touched.
    """
    by_alias: defaultdict[str, list[CollectionInfo]] = defaultdict(list)
    for info in infos:
        if match := _GENERATION.fullmatch(info.name):
            by_alias[match["alias"]].append(info)
    found = []
    for alias, same in sorted(by_alias.items()):
        kept = set(in_use)
        if not any(alias in info.aliases for info in same):
            kept.add(max(info.name for info in same))  # stamps sort by time
        found += [info for info in same if not info.aliases and info.name not in kept]
    return found


def previous_alias(agent: Agent, method: IndexingMethod) -> str:
    return f"{collection_alias(agent.slug, method)}_previous"


def previous_generation(store: VectorStore, agent: Agent, method: IndexingMethod) -> str | None:
    """The generation that answered before the current one; `None` when there was none, or after a rollback to it."""
    previous = store.resolve_alias(previous_alias(agent, method))
    current = store.resolve_alias(collection_alias(agent.slug, method))
    return previous if previous != current else None


def current_generation(store: VectorStore, agent: Agent, method: IndexingMethod, recipe: Recipe) -> str:
    """The collection behind the alias; a first, empty one is made where there is none.

    Raises `EmbeddingMismatchError` for another recipe, and `CollectionMissingError` where documents are indexed
    already: only a rebuild can make an index of them. The agent's row is locked, so two first runs cannot make two
    collections.
    """
    alias = collection_alias(agent.slug, method)
    with transaction.atomic():
        Agent.objects.select_for_update().get(pk=agent.pk)
        current = store.resolve_alias(alias)
        if current is None:
            if agent.documents.filter(status=DocumentStatus.INDEXED).exists():
                raise CollectionMissingError(
                    f"{alias} has not been built yet.",
                    public_message=_("L’index %(name)s n’existe pas encore : construisez-le avec rebuild_agent_index.")
                    % {"name": alias},
                )
            current = new_generation(agent, method)
            store.ensure(current, recipe)
            store.point_alias(alias, current)
    store.ensure(current, recipe)
    return current
