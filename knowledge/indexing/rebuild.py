"""Rebuild an agent's index as a new generation, and go back to the one before.

A new collection is filled from the documents and every registered source, its count is checked, and the alias moves
in one call: readers see the old index or the new one, never half of either. Vectors of the current generation are
reused where their text and recipe are the same. Two generations are kept, the current and the previous.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agents.models import Agent, IndexingMethod
from knowledge.embeddings.base import Embedder, embedder
from knowledge.exceptions import CollectionMissingError, KnowledgeError
from knowledge.indexing.generations import generations, previous_generation
from knowledge.indexing.points import PlannedPoint, PointWriter
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.indexing.sources import plan_agent, plan_registered
from knowledge.models import Chunk
from knowledge.payloads import is_faq_point, same_payload
from knowledge.search import collection_alias
from knowledge.vectors.base import Point, VectorStore, vector_store

#: Passes over the sources before the alias moves: documents indexed meanwhile are caught by the second.
MAX_PASSES = 3


@dataclass(frozen=True, slots=True)
class IndexDiff:
    """What a rebuild would change, in points, against the index that readers see now."""

    added: int
    removed: int
    changed: int


def fill_generation(
    *,
    agent: Agent,
    method: IndexingMethod,
    generation: str,
    on_progress: OnProgress = no_progress,
) -> IndexReport:
    """Fill `generation`, verify it and move the alias to it. Run again after a crash, it completes what is missing."""
    store, model = vector_store(), embedder()
    store.ensure(generation, model.recipe)
    writer = PointWriter(
        store=store,
        collection=generation,
        embedder=model,
        donors=_donors(store, agent, method, model),
    )
    planned = _fill(writer, agent, method, on_progress)
    _verify(store, generation, planned)
    store.point_alias(collection_alias(agent.slug, method), generation)
    # What was written to the old generation after the last pass; from here on writers find the new one.
    _write_registered(writer, agent, method)
    _drop_older(store, agent, method)
    return _report(agent, generation, planned, writer)


def rollback_agent_index(*, agent: Agent, method: IndexingMethod) -> str:
    """Point the alias at the generation before the current one; returns its name.

    Its documents are those of its time. The points of other apps (validated answers) are brought up to date, so that
    none of them is lost or comes back.
    """
    store, model = vector_store(), embedder()
    previous = previous_generation(store, agent, method)
    if previous is None:
        raise CollectionMissingError(
            f"{collection_alias(agent.slug, method)} has no previous generation to go back to."
        )
    writer = PointWriter(
        store=store,
        collection=previous,
        embedder=model,
        donors=_donors(store, agent, method, model),
    )
    # Where the embedding model has changed since, that generation answers nothing until it is rebuilt.
    is_current_model = store.info(previous).recipe == model.recipe
    if is_current_model:
        _write_registered(writer, agent, method)
    store.point_alias(collection_alias(agent.slug, method), previous)
    if is_current_model:
        planned = _write_registered(writer, agent, method)
        _remove_strays(writer, planned, among=lambda point: is_faq_point(point.payload))
    return previous


def diff_agent_index(*, agent: Agent, method: IndexingMethod) -> IndexDiff:
    """Compare what a rebuild would write with what is indexed; writes and embeds nothing."""
    planned = {point.id: point for point in plan_agent(agent, method)}
    store, alias = vector_store(), collection_alias(agent.slug, method)
    removed = changed = found = 0
    if store.resolve_alias(alias):
        for batch in store.scroll(alias):
            for point in batch:
                if point.id not in planned:
                    removed += 1
                    continue
                found += 1
                changed += not same_payload(point.payload, planned[point.id].payload)
    return IndexDiff(added=len(planned) - found, removed=removed, changed=changed)


def _fill(
    writer: PointWriter, agent: Agent, method: IndexingMethod, on_progress: OnProgress
) -> list[PlannedPoint]:
    planned: list[PlannedPoint] = []
    for _ in range(MAX_PASSES):
        planned = list(plan_agent(agent, method))
        written = writer.counts.written
        writer.write(planned, total=len(planned), on_progress=on_progress)
        _remove_strays(writer, planned)
        if writer.counts.written == written:
            break
    return planned


def _write_registered(
    writer: PointWriter, agent: Agent, method: IndexingMethod
) -> list[PlannedPoint]:
    planned = list(plan_registered(agent, method))
    writer.write(planned, total=len(planned), on_progress=no_progress)
    return planned


def _remove_strays(
    writer: PointWriter,
    planned: list[PlannedPoint],
    *,
    among: Callable[[Point], bool] = lambda _point: True,
) -> None:
    """Delete the points that nobody planned, `among` those it accepts."""
    wanted = {point.id for point in planned}
    strays = [
        point.id
        for batch in writer.store.scroll(writer.collection)
        for point in batch
        if point.id not in wanted and among(point)
    ]
    if strays:
        writer.store.delete(writer.collection, strays)


def _verify(store: VectorStore, generation: str, planned: list[PlannedPoint]) -> None:
    stored, expected = store.count(generation), len({point.id for point in planned})
    if stored != expected:
        raise KnowledgeError(f"{generation} holds {stored} points, {expected} were planned.")


def _donors(store: VectorStore, agent: Agent, method: IndexingMethod, model: Embedder) -> list[str]:
    current = store.resolve_alias(collection_alias(agent.slug, method))
    if current is None or store.info(current).recipe != model.recipe:
        return []
    return [current]


def _drop_older(store: VectorStore, agent: Agent, method: IndexingMethod) -> None:
    current = store.resolve_alias(collection_alias(agent.slug, method))
    older = [name for name in generations(store, agent, method) if name < (current or "")]
    for name in older[:-1]:
        store.drop(name)


def _report(
    agent: Agent, generation: str, planned: list[PlannedPoint], writer: PointWriter
) -> IndexReport:
    chunks = Chunk.objects.filter(document__agent=agent)
    return IndexReport(
        documents=agent.documents.count(),
        chunks=chunks.count(),
        points=len(planned),
        embedded=writer.counts.embedded,
        reused=len(planned) - writer.counts.embedded,
        waiting=chunks.waiting().count(),
        generation=generation,
    )
