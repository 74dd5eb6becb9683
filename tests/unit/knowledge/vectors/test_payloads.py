"""The payload fields of seed 001, sections 1.2 and 1.3, and the passage that hides them."""

from datetime import UTC, datetime
from itertools import product

from knowledge.embeddings.base import Purpose
from knowledge.models import Category, Chunk, Document
from knowledge.vectors.base import Hit, Json
from knowledge.vectors.payloads import (
    PointType,
    embedded_text,
    legacy_payload,
    passage_from_hit,
    point_id,
    qa_pair_payload,
    searched_filter,
    source_material_payload,
    undated,
)

CHUNK = Chunk(
    pk=3,
    document=Document(
        pk=2,
        agent_id=1,
        title="Guide",
        category=Category(name="Vie pratique"),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    ),
    index=4,
    parent_context="Tarifs",
    content="12 euros",
    keywords=["prix"],
)
ATOMIC = {"type", "display_text", "category", "source_doc", "parent_context", "chunk_id", "document_id", "agent_id"}


def test_payloads_have_exactly_the_seeds_fields() -> None:
    assert set(qa_pair_payload(CHUNK, question="q", answer="a")) == ATOMIC | {"question"}
    assert set(source_material_payload(CHUNK)) == ATOMIC | {"summary"}
    assert set(legacy_payload(CHUNK)) == {
        *("content", "document_id", "document_uuid", "document_title", "chunk_index", "category"),
        *("source_type", "indexed_at", "summary", "keywords", "chunk_category", "chunk_category_id"),
    }


def test_both_formats_become_the_same_passage() -> None:
    atomic = passage_from_hit(Hit("a", 0.9, source_material_payload(CHUNK)))
    legacy = passage_from_hit(Hit("b", 0.9, legacy_payload(CHUNK)))
    assert (atomic.content, atomic.title, atomic.category) == ("12 euros", "Guide", "Vie pratique")
    assert (legacy.content, legacy.title, legacy.category) == ("12 euros", "Guide", "Vie pratique")
    assert (atomic.chunk_id, legacy.chunk_id, legacy.chunk_index) == (3, None, 4)


def test_category_filter_looks_into_both_fields_and_lets_validated_answers_in() -> None:
    found = searched_filter(["FAQ"])
    assert found is not None
    payloads: list[dict[str, Json]]
    payloads = [{"category": "FAQ"}, {"chunk_category": "FAQ"}, {"category": "x", "is_faq": True}]
    assert all(found.matches(payload) for payload in payloads)
    assert not found.matches({"category": "Autre"})
    assert searched_filter([]) is None


def test_vector_texts_follow_the_seed() -> None:
    assert embedded_text(qa_pair_payload(CHUNK, question="Combien ?", answer="12")) == ("Combien ?", Purpose.QUERY)
    assert embedded_text(source_material_payload(CHUNK)) == ("Guide > Tarifs\n12 euros", Purpose.PASSAGE)
    assert embedded_text(legacy_payload(CHUNK)) == ("Vie pratique\n12 euros", Purpose.PASSAGE)


def test_point_ids_are_deterministic_and_distinct() -> None:
    parts = list(product((1, 2), PointType, (1, 12), (0, 1)))
    ids, again = (
        [point_id(agent_id=agent, kind=kind, chunk_id=chunk, ordinal=ordinal) for agent, kind, chunk, ordinal in parts]
        for _time in range(2)
    )
    assert ids == again
    assert len(set(ids)) == len(parts)


def test_time_of_indexing_alone_is_no_difference() -> None:
    payload = legacy_payload(CHUNK)
    assert undated(payload) == undated({**payload, "indexed_at": "later"})
    assert undated(payload) != undated({**payload, "content": "13 euros"})
