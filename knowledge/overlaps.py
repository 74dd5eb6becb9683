"""Stored questions that ask the same: duplicates, and above all those whose answers differ.

Two questions of different chunks count as one when their vectors are as close as a direct answer asks for and the
second key (registered by the app that owns it) agrees; without a measured profile, only when they are written alike.
What staff accepted stays accepted as long as both answers stay as they are.
"""

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import transaction
from django.db.models import Q

from agents.models import Agent, IndexingMethod
from knowledge.above import answers_above
from knowledge.language.words import fold_keeping_accents, words
from knowledge.models import Chunk, OverlapKind, QuestionOverlap
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Hit, Vector, batches, collection_alias, vector_store
from knowledge.vectors.payloads import Passage, is_question, passage_from_hit

#: Above this product of questions compared, close questions are looked for only where documents change; pairs kept.
OVERLAP_MAX_COMPARISONS = 400_000_000
OVERLAP_MAX_PAIRS = 1_000

logger = logging.getLogger(__name__)

#: Without a measured profile only questions written alike count.
_ALIKE = 0.9999
_ROWS_AT_ONCE = 1_024
#: Answers with this share of words in common, and the same figures, say the same.
_SAME_ANSWER = 0.8
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


@dataclass(frozen=True, slots=True)
class Overlap:
    first: Passage
    second: Passage
    similarity: float
    kind: OverlapKind

    @property
    def key(self) -> str:
        sides = sorted([p.question, p.content, p.chunk_id or 0] for p in (self.first, self.second))
        return hashlib.sha256(json.dumps(sides).encode()).hexdigest()


def find_overlaps(agent: Agent, *, document_ids: Collection[int] | None = None, validated: bool = False) -> int:
    """Look through the agent's stored questions and keep what overlaps.

    All of them against all; or those of some documents, and with `validated` those of validated answers, against all.
    Returns how many pairs stand. Nothing is embedded: the vectors are those of the index in service.
    """
    store, alias = vector_store(), collection_alias(agent.slug, IndexingMethod.QA_ATOMIC)
    if store.resolve_alias(alias) is None:
        return 0
    passages, rows = _questions(alias)
    mine = [
        index
        for index, passage in enumerate(passages)
        if document_ids is None or passage.document_id in document_ids or (validated and passage.is_faq)
    ]
    if len(mine) * len(passages) > OVERLAP_MAX_COMPARISONS:
        logger.info("%s: %d questions are too many to compare at once.", agent.slug, len(mine))
        return agent.overlaps.count()
    profile = threshold_profile(store.info(alias).recipe.model)
    least = _ALIKE if profile is None else profile.direct_answer
    found = list(_overlaps(passages, rows, mine, _ALIKE if least is None else least))
    _keep(agent, found[:OVERLAP_MAX_PAIRS], document_ids, validated)
    return agent.overlaps.count()


def _questions(alias: str) -> tuple[list[Passage], Vector]:
    passages: list[Passage] = []
    vectors: list[Vector] = []
    for batch in vector_store().scroll(alias):
        for point in batch:
            if is_question(point.payload):
                passages.append(passage_from_hit(Hit(point.id, 1.0, point.payload)))
                vectors.append(point.vector)
    rows: Vector = np.asarray(vectors, dtype=np.float32)
    return passages, rows


def _overlaps(passages: Sequence[Passage], rows: Vector, mine: Sequence[int], least: float) -> Iterator[Overlap]:
    seen: set[tuple[int, int]] = set()
    for block in batches(mine, _ROWS_AT_ONCE):
        scores = rows[block] @ rows.T
        for at, other in np.argwhere(scores >= least).tolist():
            pair = (min(block[at], other), max(block[at], other))
            if pair[0] == pair[1] or pair in seen:
                continue
            seen.add(pair)
            first, second = passages[pair[0]], passages[pair[1]]
            if _may_overlap(first, second) and _ask_the_same(first.question, second.question):
                kind = _kind(first.content, second.content)
                yield Overlap(first, second, round(float(scores[at, other]), 4), kind)


def _may_overlap(first: Passage, second: Passage) -> bool:
    """Whether the two belong to different chunks and are not both validated answers (compared when staff save them)."""
    if first.is_faq and second.is_faq:
        return False
    return first.chunk_id is None or first.chunk_id != second.chunk_id


def _ask_the_same(first: str, second: str) -> bool:
    if _NUMBER.findall(first) != _NUMBER.findall(second):
        return False
    return answers_above().ask_the_same(first, second)


def _kind(first: str, second: str) -> OverlapKind:
    said = [set(words(fold_keeping_accents(text))) for text in (first, second)]
    figures = [sorted(_NUMBER.findall(text)) for text in (first, second)]
    union = said[0] | said[1]
    alike = not union or len(said[0] & said[1]) / len(union) >= _SAME_ANSWER
    if figures[0] == figures[1] and alike:
        return OverlapKind.DUPLICATE
    return OverlapKind.CONTRADICTION


def _keep(agent: Agent, found: Sequence[Overlap], document_ids: Collection[int] | None, validated: bool) -> None:
    """Store the found pairs, and delete older pairs in the same scope that no longer overlap."""
    known = Chunk.objects.filter(pk__in={p.chunk_id for each in found for p in (each.first, each.second) if p.chunk_id})
    chunks = set(known.values_list("pk", flat=True))
    rows = [_row(agent, each, chunks) for each in found]
    keys = {row.key for row in rows}
    stored = agent.overlaps.all()
    if document_ids is not None:
        looked_at = Q(first_chunk__document__in=document_ids) | Q(second_chunk__document__in=document_ids)
        if validated:  # they have no chunk
            looked_at |= Q(first_chunk=None) | Q(second_chunk=None)
        stored = stored.filter(looked_at)
    gone = [pk for pk, key in stored.values_list("pk", "key") if key not in keys]
    with transaction.atomic():
        QuestionOverlap.objects.filter(pk__in=gone).delete()
        QuestionOverlap.objects.bulk_create(rows, ignore_conflicts=True, batch_size=200)


def _row(agent: Agent, overlap: Overlap, chunks: Collection[int]) -> QuestionOverlap:
    first, second = overlap.first, overlap.second
    return QuestionOverlap(
        agent=agent,
        key=overlap.key,
        kind=overlap.kind,
        similarity=overlap.similarity,
        first_question=first.question,
        first_answer=first.content,
        first_source=first.title,
        first_chunk_id=first.chunk_id if first.chunk_id in chunks else None,
        second_question=second.question,
        second_answer=second.content,
        second_source=second.title,
        second_chunk_id=second.chunk_id if second.chunk_id in chunks else None,
    )
