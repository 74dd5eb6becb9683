"""The method `qr_atomique`: for each chunk, a `qa_pair` point a question and one `source_material` point.

Seed 001, section 1.2. A chunk without questions has its `source_material` point all the same, with the heading path in
the place of the summary: without a model nothing could be found otherwise (`SPEC.md`, section 2).
"""

from collections.abc import Iterator

from knowledge.indexing.points import PlannedPoint
from knowledge.models import Chunk
from knowledge.payloads import (
    ChunkFacts,
    PointType,
    point_id,
    qa_pair_payload,
    source_material_payload,
)


def plan_chunk(chunk: Chunk, facts: ChunkFacts) -> Iterator[PlannedPoint]:
    for ordinal, unit in enumerate(chunk.knowledge_units):
        yield PlannedPoint(
            id=_id(facts, PointType.QA_PAIR, ordinal),
            payload=qa_pair_payload(facts, question=unit["question"], answer=unit["answer"]),
        )
    yield PlannedPoint(
        id=_id(facts, PointType.SOURCE_MATERIAL, 0),
        payload=source_material_payload(facts),
    )


def _id(facts: ChunkFacts, kind: PointType, ordinal: int) -> str:
    return point_id(agent_id=facts.agent_id, kind=kind, chunk_id=facts.chunk_id, ordinal=ordinal)
