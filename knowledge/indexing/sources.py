"""Where an agent's points come from: its documents, and what other apps register.

A rebuild fills a new collection from every source, or points that no document owns (validated answers) would vanish.
Apps above this one register in their `AppConfig.ready()`; this module never imports them.
"""

from collections.abc import Callable, Iterator

from agents.models import Agent, IndexingMethod
from knowledge.indexing import legacy, qa_atomic
from knowledge.indexing.points import PlannedPoint
from knowledge.models import Chunk, Document, DocumentStatus
from knowledge.payloads import ChunkFacts, agent_filter, faq_payload
from knowledge.vectors.base import PayloadFilter

PointSource = Callable[[Agent, IndexingMethod], Iterator[PlannedPoint]]

_sources: list[PointSource] = []


def register_point_source(source: PointSource) -> None:
    """Have `source` asked for its points at every rebuild; registering twice is registering once."""
    if source not in _sources:
        _sources.append(source)


def plan_agent(agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """Every point that the agent's index holds under `method`, documents first."""
    for document in agent.documents.select_related("category").order_by("pk"):
        yield from plan_document(document, method)
    yield from plan_registered(agent, method)


def has_content(agent: Agent, method: IndexingMethod) -> bool:
    """Whether anything belongs into the agent's index by now: an indexed document, or a point of another app."""
    indexed = agent.documents.filter(status=DocumentStatus.INDEXED)
    return indexed.exists() or next(plan_registered(agent, method), None) is not None


def plan_registered(agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """The points that other apps give to the agent's index."""
    for source in _sources:
        yield from source(agent, method)


def plan_faq_point(
    *, agent_id: int, point_id: str, question: str, answer: str, indexed_at: str
) -> PlannedPoint:
    """One phrasing of a validated answer, the same in every collection that holds it (seed 001, section 5.4)."""
    payload = faq_payload(
        agent_id=agent_id, question=question, answer=answer, indexed_at=indexed_at
    )
    return PlannedPoint(id=point_id, payload=payload)


def agent_points(agent_id: int) -> PayloadFilter:
    """One agent's points in a collection that agents share."""
    return agent_filter(agent_id)


def plan_document(document: Document, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """The points of one document's chunks that are in use, in order."""
    chunks = document.chunks.served().select_related("category").order_by("index", "pk")
    for chunk in chunks.iterator(chunk_size=500):
        yield from plan_chunk(document, chunk, method)


def plan_chunk(document: Document, chunk: Chunk, method: IndexingMethod) -> Iterator[PlannedPoint]:
    facts = _facts(document, chunk)
    if method is IndexingMethod.QA_ATOMIC:
        return qa_atomic.plan_chunk(chunk, facts)
    return legacy.plan_chunk(chunk, facts)


def _facts(document: Document, chunk: Chunk) -> ChunkFacts:
    return ChunkFacts(
        agent_id=document.agent_id,
        document_id=document.pk,
        document_uuid=str(document.uuid),
        document_title=document.title or document.name,
        source_type=document.source_type,
        chunk_id=chunk.pk,
        chunk_index=chunk.index,
        parent_context=chunk.parent_context,
        content=chunk.content,
        summary=chunk.summary,
        keywords=tuple(chunk.keywords),
        category=document.category.name if document.category else "",
        chunk_category=chunk.category.name if chunk.category else "",
        chunk_category_id=chunk.category_id,
        indexed_at=document.created_at.isoformat(),
    )
