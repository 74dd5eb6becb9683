"""Search: a question's vector to the passages that may answer it.

`search` is the network half (vector store only) and `confirm_passages` the database half: it fills in what the legacy
format does not carry and drops what no longer exists, so a deleted chunk stops answering at once, whatever the store
still holds. `SearchResult` has the questions that thresholds ask; all comparisons are inclusive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Q

from agents.effective import EffectiveConfig
from agents.models import IndexingMethod
from knowledge.calibration import threshold_profile
from knowledge.embeddings.base import Recipe, Vectors
from knowledge.models import Chunk, UnitsOrigin
from knowledge.payloads import Passage as Passage
from knowledge.payloads import PointType, category_filter, passage_from_hit
from knowledge.vectors.base import vector_store

#: A chunk may hold several points; more are fetched than passages are wanted, then grouped by chunk.
POINTS_PER_PASSAGE = 4


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a turn; `None`: switched off, or no measured profile for the embedding model.

    Questions lie much closer to questions than to passages, so a chunk that has questions is held to a guard rail of
    its own (`benchmarks/thresholds`: one value for both kinds lets 79 % of off-topic questions pass, two values 22 %
    where every chunk has questions). A threshold that staff set holds for both.
    """

    direct_answer: float | None
    guard_rail: float | None
    guard_rail_questions: float | None = None

    def guard_rail_for(self, passage: Passage) -> float | None:
        return self.guard_rail_questions if passage.has_questions else self.guard_rail


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Every hit, best first."""

    hits: tuple[Passage, ...] = ()

    @property
    def best_score(self) -> float:
        return self.hits[0].score if self.hits else 0.0

    def passages(self, limit: int) -> list[Passage]:
        """The best hit of each chunk, at most `limit`."""
        best: dict[object, Passage] = {}
        for hit in self.hits:
            best.setdefault(hit.chunk_id or hit.point_id, hit)
        return list(best.values())[:limit]

    def direct_candidates(self, threshold: float | None) -> list[Passage]:
        """The `qa_pair` hits at or above the threshold, best first; the second key decides among them."""
        if threshold is None:
            return []
        return [
            hit
            for hit in self.hits
            if hit.type is PointType.QA_PAIR and hit.score >= threshold and hit.content
        ]

    def in_domain(self, thresholds: Thresholds) -> "SearchResult":
        """The hits that pass the guard rail."""
        return SearchResult(
            hits=tuple(
                hit
                for hit in self.hits
                if (least := thresholds.guard_rail_for(hit)) is None or hit.score >= least
            )
        )

    def is_out_of_domain(self, thresholds: Thresholds) -> bool:
        """No hit passes the guard rail, or there is none."""
        return not self.in_domain(thresholds).hits


def collection_alias(agent_slug: str, method: IndexingMethod) -> str:
    """The name that readers use; it points at the current generation."""
    return f"agent_{agent_slug}_{method.value}"


def thresholds_for(config: EffectiveConfig, *, model: str) -> Thresholds:
    """A level's own threshold, else the measured profile of the embedding model, else off."""
    profile = threshold_profile(model)
    direct, guard = config.direct_answer_threshold, config.guard_rail_threshold
    guard_questions = guard
    if profile is not None and direct is None:
        direct = profile.direct_answer
    if profile is not None and guard is None:
        guard, guard_questions = profile.guard_rail, profile.guard_rail_questions
    return Thresholds(
        direct_answer=direct if config.direct_answers else None,
        guard_rail=guard,
        guard_rail_questions=guard if guard_questions is None else guard_questions,
    )


def search(
    *,
    agent_slug: str,
    method: IndexingMethod,
    vector: Vectors,
    recipe: Recipe,
    limit: int,
    min_score: float | None = None,
    categories: Sequence[str] = (),
    collection: str = "",
) -> SearchResult:
    """The nearest points of an agent's index. Raises `CollectionMissingError`, `EmbeddingMismatchError`.

    `collection` names a generation that is not in service, to look at what it would find.
    """
    hits = vector_store().query(
        collection or collection_alias(agent_slug, method),
        vector,
        recipe=recipe,
        limit=limit * POINTS_PER_PASSAGE,
        payload_filter=category_filter(list(categories)),
        min_score=min_score,
    )
    return SearchResult(hits=tuple(passage_from_hit(hit) for hit in hits))


def confirm_passages(result: SearchResult, *, agent_id: int) -> SearchResult:
    """Keep the hits whose chunk is still there, in use and the agent's; give legacy hits their chunk."""
    by_id, by_rank = _existing_chunks(result.hits, agent_id)
    kept = []
    for hit in result.hits:
        chunk_id = hit.chunk_id or by_rank.get((hit.document_id, hit.chunk_index))
        if hit.document_id is None:
            kept.append(hit)
        elif chunk_id in by_id:
            kept.append(replace(hit, chunk_id=chunk_id, has_questions=by_id[chunk_id]))
    return SearchResult(hits=tuple(kept))


def _existing_chunks(
    hits: Sequence[Passage], agent_id: int
) -> tuple[dict[int | None, bool], dict[tuple[int | None, int | None], int]]:
    """The chunks that hits name, by key (`qr_atomique`) and by document and rank (`legacy`), in one query."""
    ids = [hit.chunk_id for hit in hits if hit.chunk_id is not None]
    legacy = [hit for hit in hits if hit.chunk_id is None and hit.document_id is not None]
    named = Q(pk__in=ids)
    if legacy:
        named |= Q(
            document__in={hit.document_id for hit in legacy},
            index__in={hit.chunk_index for hit in legacy},
        )
    rows = list(
        Chunk.objects.served()
        .filter(named, document__agent_id=agent_id)
        .values_list("pk", "document_id", "index", "units_origin")
    )
    has_questions: dict[int | None, bool] = {
        pk: origin != UnitsOrigin.WAITING for pk, _, _, origin in rows
    }
    return has_questions, {(document, rank): pk for pk, document, rank, _ in rows}
