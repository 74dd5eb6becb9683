"""Both payload formats of a point (seed 001, sections 1.2 and 1.3), and the `Passage` that hides them.

The only file that knows payload field names; readers accept both formats in any collection.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from knowledge.embeddings.base import Purpose
from knowledge.models import Chunk, Document
from knowledge.vectors.base import Condition, Hit, Json, Payload, PayloadFilter, Point

#: The namespace of every point id; a point's natural key below it gives a UUIDv5, so indexing again overwrites.
POINT_NAMESPACE = uuid.UUID("5e0a1b44-6c0b-5d0e-9d0f-7c3c1f6a2b90")


#: The fields in which words are looked for, and how much a word of each counts.
SEARCHED_FIELDS: Mapping[str, float] = dict.fromkeys(
    ("question", "summary", "source_doc", "document_title", "parent_context", "content", "display_text"), 1.0
)
#: In a point that has a question, the answer says less about what it is for than the question does.
SEARCHED_BESIDE_A_QUESTION: Mapping[str, float] = {"question": 1.0, "display_text": 0.25}
#: The fields that filters look at, of which a store may keep an index.
FILTERED_TEXTS = ("category", "chunk_category", "type")
FILTERED_NUMBERS = ("chunk_id", "document_id")


class PointType(StrEnum):
    QA_PAIR = "qa_pair"
    SOURCE_MATERIAL = "source_material"
    LEGACY = "legacy"


@dataclass(frozen=True)
class Passage:
    """A retrieved point, whichever format it was written in. `score` is the cosine with the question; `overlap` the
    share of the question's words that the point has, rare ones counting more, and `coverage` the same with all words
    alike (both 0 where words were not looked at); `relevance` orders the chunks (`knowledge.search`)."""

    point_id: str
    type: PointType
    score: float
    content: str
    question: str
    title: str
    parent_context: str
    category: str
    summary: str
    document_id: int | None
    chunk_id: int | None
    chunk_index: int | None = None
    overlap: float = 0.0
    coverage: float = 0.0
    relevance: float = 0.0
    #: A validated answer (seed 001, section 5.4); its row is known once the passage is confirmed.
    is_faq: bool = False
    learned_id: int | None = None
    is_courtesy: bool = False
    #: When a person last vouched for it, in seconds since the epoch; 0 for what nobody did.
    validated_at: float = 0.0
    #: Known once the passage is confirmed: the address of its document's page (empty for a file), the page of it that
    #: the passage begins on (from 1), and when it was last read.
    url: str = ""
    page: int | None = None
    read_at: datetime | None = None

    def with_values(self, **values: Any) -> "Passage":
        """A copy in which these fields are others; a search makes many, and `dataclasses.replace` is slow."""
        made = object.__new__(Passage)
        made.__dict__.update(self.__dict__, **values)
        return made

    def place(self, *, between: str = " > ", untitled: str = "") -> str:
        """Its document's title and the headings it stands under."""
        return full_path(self.title or untitled, self.parent_context, between=between)

    @property
    def chunk_key(self) -> tuple[object, ...]:
        """What two points of one chunk, or of one validated answer, have in common, in either format."""
        if self.learned_id is not None:
            return ("learned", self.learned_id)
        if self.chunk_id is not None:
            return (self.chunk_id,)
        if self.document_id is not None and self.chunk_index is not None:
            return (self.document_id, self.chunk_index)
        return (self.point_id, None, None)


def point_id(*, agent_id: int, kind: PointType, chunk_id: int, ordinal: int = 0) -> str:
    return str(uuid.uuid5(POINT_NAMESPACE, f"{agent_id}:{kind.value}:{chunk_id}:{ordinal}"))


def qa_pair_payload(chunk: Chunk, *, question: str, answer: str) -> dict[str, Json]:
    return {"type": PointType.QA_PAIR.value, "display_text": answer, "question": question, **_atomic_fields(chunk)}


def source_material_payload(chunk: Chunk) -> dict[str, Json]:
    return {
        "type": PointType.SOURCE_MATERIAL.value,
        "display_text": chunk.content,
        "summary": chunk.summary,
        **_atomic_fields(chunk),
    }


def _atomic_fields(chunk: Chunk) -> dict[str, Json]:
    document = chunk.document
    return {
        "category": _category(chunk) or _category(document),
        "source_doc": str(document),
        "parent_context": chunk.parent_context,
        "chunk_id": chunk.pk,
        "document_id": document.pk,
        "agent_id": document.agent_id,
    }


def _category(row: Chunk | Document) -> str:
    return row.category.name if row.category else ""


#: What every validated answer says of itself (seed 001, section 5.4).
FAQ_CATEGORY = "FAQ"
FAQ_SOURCE = "FAQ Validée"


def faq_payload(*, agent_id: int, question: str, answer: str, indexed_at: str) -> dict[str, Json]:
    return {
        "type": PointType.QA_PAIR.value,
        "category": FAQ_CATEGORY,
        "display_text": answer,
        "question": question,
        "source_doc": FAQ_SOURCE,
        "parent_context": "",
        "chunk_id": None,
        "document_id": None,
        "agent_id": agent_id,
        "is_faq": True,
        "indexed_at": indexed_at,
    }


def validated_answers() -> PayloadFilter:
    return PayloadFilter(all_of=(Condition("is_faq", True),))


def searched_filter(categories: list[str]) -> PayloadFilter | None:
    """What a search in these categories may find, in both formats; a validated answer stands beside every category."""
    if not categories:
        return None
    conditions = [Condition(key, name) for name in categories for key in ("category", "chunk_category")]
    return PayloadFilter(any_of=(*conditions, Condition("is_faq", True)))


def legacy_payload(chunk: Chunk) -> dict[str, Json]:
    document = chunk.document
    return {
        "content": chunk.content,
        "document_id": document.pk,
        "document_uuid": str(document.uuid),
        "document_title": str(document),
        "chunk_index": chunk.index,
        "category": _category(document),
        "source_type": document.source_type,
        "indexed_at": document.created_at.isoformat(),
        "summary": chunk.summary,
        "keywords": list(chunk.keywords),
        "chunk_category": _category(chunk),
        "chunk_category_id": chunk.category_id,
    }


def embedded_text(payload: Payload) -> tuple[str, Purpose]:
    """What a point's vector is made of, by its payload alone: a question, else summary or path with the content."""
    content = _text(payload, "display_text") or _text(payload, "content")
    match _text(payload, "type"):
        case PointType.QA_PAIR:
            return _text(payload, "question"), Purpose.QUERY
        case PointType.SOURCE_MATERIAL:
            path = full_path(_text(payload, "source_doc"), _text(payload, "parent_context"))
            heading = _text(payload, "summary") or path
        case _:
            heading = _text(payload, "chunk_category") or _text(payload, "category")
    return (f"{heading}\n{content}" if heading else content), Purpose.PASSAGE


def full_path(title: str, path: str, *, between: str = " > ") -> str:
    """The title of a document and the headings of a passage below it; a path that names the title is whole."""
    steps = path.split(" > ") if path else []
    if title and title not in steps:
        steps.insert(0, title)
    return between.join(steps)


def undated(payload: Payload) -> dict[str, Json]:
    """What a payload says, but for when it was written."""
    return {**payload, "indexed_at": None}


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A point as the rows want it, before it has a vector."""

    id: str
    payload: dict[str, Json]

    def differs_from(self, others: "Mapping[str, Point | PlannedPoint]") -> bool:
        """Whether the point of this id among `others`, if there is one, says something else."""
        other = others.get(self.id)
        return other is None or undated(other.payload) != undated(self.payload)


def searched_fields(payload: Mapping[str, object]) -> Mapping[str, float]:
    return SEARCHED_BESIDE_A_QUESTION if payload.get("question") else SEARCHED_FIELDS


_KINDS: dict[str, PointType] = {kind.value: kind for kind in PointType}


def passage_from_hit(hit: Hit) -> Passage:
    """Normalise either format (seed 001, section 4.5)."""
    payload = hit.payload
    kind = _text(payload, "type")
    return Passage(
        point_id=hit.id,
        type=_KINDS.get(kind, PointType.LEGACY),
        score=hit.score,
        content=_text(payload, "display_text") or _text(payload, "content"),
        question=_text(payload, "question"),
        title=_text(payload, "source_doc") or _text(payload, "document_title"),
        parent_context=_text(payload, "parent_context"),
        category=_text(payload, "category") or _text(payload, "chunk_category"),
        summary=_text(payload, "summary"),
        document_id=_number(payload, "document_id"),
        chunk_id=_number(payload, "chunk_id"),
        chunk_index=_number(payload, "chunk_index"),
        overlap=hit.overlap,
        relevance=hit.score,
        is_faq=payload.get("is_faq") is True,
    )


def of_documents(document_ids: Sequence[int]) -> PayloadFilter:
    return PayloadFilter(any_of=tuple(Condition("document_id", pk) for pk in document_ids))


def is_question(payload: Payload) -> bool:
    return _text(payload, "type") == PointType.QA_PAIR


def document_of(payload: Payload) -> int | None:
    """The document that a point belongs to; a validated answer belongs to none."""
    return _number(payload, "document_id")


def _text(payload: Payload, key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _number(payload: Payload, key: str) -> int | None:
    value = payload.get(key)
    return value if isinstance(value, int) else None
