"""The method `legacy`: one point a chunk, its vector made of category and content (seed 001, section 1.3)."""

from collections.abc import Iterator

from knowledge.indexing.points import PlannedPoint
from knowledge.models import Chunk
from knowledge.payloads import ChunkFacts, PointType, legacy_payload, point_id


def plan_chunk(chunk: Chunk, facts: ChunkFacts) -> Iterator[PlannedPoint]:
    yield PlannedPoint(
        id=point_id(agent_id=facts.agent_id, kind=PointType.LEGACY, chunk_id=chunk.pk),
        payload=legacy_payload(facts),
    )
