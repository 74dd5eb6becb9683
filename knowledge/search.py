"""Search: a question's vector to the passages that may answer it.

`search` is the network half (vector store only), `confirm_passages` the database half: it completes the legacy format and drops
what no longer exists, so a deleted chunk stops answering at once. All comparisons are inclusive.

Search is hybrid where that was measured better for the embedding model (`ThresholdProfile.lexical_weight`): the *relevance* of
a chunk is the cosine of its questions and of its text taken together (the farther one counts half) plus that weight times their
best overlap with the question's words. Passages are ranked, and held to the guard rail, by relevance; a stored answer is let out
by its cosine alone and the second key. Without a weight, or the question's text, the relevance is the cosine.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet

from agents.effective import EffectiveConfig, agent_setting
from agents.models import Agent, RuntimeSettings
from agents.statements import PreparedSelectIn, parameter
from knowledge.calibration.profiles import threshold_profile
from knowledge.embeddings.base import Purpose, embedder
from knowledge.models import Chunk, Document, UnitsOrigin, page_address
from knowledge.vectors.base import Query, Wanted, collection_alias, vector_store
from knowledge.vectors.payloads import OF_ONE_CHUNK, passage_from_hit, searched_filter
from knowledge.vectors.payloads import Passage as Passage
from knowledge.vectors.payloads import PointType as PointType

#: A chunk may hold several points; more are fetched than passages are wanted, then grouped by chunk.
POINTS_PER_PASSAGE = 4
#: How much the farther of a chunk's two kinds of points counts beside the nearer one.
_FARTHER = 0.5


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

    def lets_in(self, passage: Passage) -> bool:
        """Whether the passage passes the guard rail; at the threshold it does."""
        least = self.guard_rail_for(passage)
        return least is None or passage.relevance >= least


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Every hit, by the relevance of its chunk, then by its own cosine."""

    hits: tuple[Passage, ...] = ()

    @property
    def best_score(self) -> float:
        return max((hit.score for hit in self.hits), default=0.0)

    @property
    def best_relevance(self) -> float:
        return max((hit.relevance for hit in self.hits), default=0.0)

    def passages(self, limit: int) -> list[Passage]:
        """The best hit of each chunk or validated answer, at most `limit`."""
        best: dict[object, Passage] = {}
        for hit in self.hits:
            best.setdefault(hit.chunk_key, hit)
        return list(best.values())[:limit]

    def direct_candidates(self, threshold: float | None) -> list[Passage]:
        """The `qa_pair` hits at or above the threshold, best first, validated answers before others; the second key decides among them."""
        if threshold is None:
            return []
        found = [
            hit
            for hit in self.hits
            if hit.type is PointType.QA_PAIR and hit.score >= threshold and hit.content
        ]
        return sorted(found, key=lambda hit: (-hit.score, not hit.is_faq))

    def in_domain(self, thresholds: Thresholds) -> "SearchResult":
        """The hits that pass the guard rail."""
        return SearchResult(tuple(hit for hit in self.hits if thresholds.lets_in(hit)))

    def is_out_of_domain(self, thresholds: Thresholds) -> bool:
        return not self.in_domain(thresholds).hits


def thresholds_for(config: EffectiveConfig, *, model: str) -> Thresholds:
    """A level's own threshold, else the measured profile of the embedding model, else off."""
    profile = threshold_profile(model, config.agent_slug)
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


def serving_threshold(agent: Agent | None, *, model: str) -> float | None:
    """The similarity from which a direct answer leaves, for work outside a turn; nothing when it is off."""
    site = RuntimeSettings.load()
    enabled = agent_setting(agent, "direct_answers") if agent else site.direct_answers
    threshold = (
        agent_setting(agent, "direct_answer_threshold") if agent else site.direct_answer_threshold
    )
    if threshold is None:
        profile = threshold_profile(model, agent.slug if agent else "")
        threshold = None if profile is None else profile.direct_answer
    return float(threshold) if enabled and threshold is not None else None


def search(
    collection: str,
    query: Query,
    *,
    limit: int,
    min_score: float | None = None,
    categories: Sequence[str] = (),
) -> SearchResult:
    """The best points of a collection for a question, in one query of the vector store.

    The collection is an agent's index (`collection_alias`), or a generation that is not in service, to look at what
    it would find. `min_score` is a cosine. Raises `CollectionMissingError`, `EmbeddingMismatchError`.
    """
    profile = threshold_profile(query.recipe.model)
    weight = profile.lexical_weight if profile is not None and query.text else None
    wanted = Wanted(
        limit=limit * POINTS_PER_PASSAGE,
        payload_filter=searched_filter(list(categories)),
        min_score=min_score,
        lexical_weight=weight,
        together=OF_ONE_CHUNK,
    )
    passages = [passage_from_hit(hit) for hit in vector_store().query(collection, query, wanted)]
    return SearchResult(tuple(passages)) if weight is None else ranked(passages, weight)


def query_of(question: str) -> Query:
    """A question as an index is asked it."""
    model = embedder()
    return Query(model.embed_one(question, purpose=Purpose.QUERY), model.recipe, question)


def search_as(config: EffectiveConfig, question: str, *, limit: int) -> SearchResult:
    """What a turn of this configuration would find, confirmed."""
    found = search(
        collection_alias(config.agent_slug, config.indexing_method),
        query_of(question),
        limit=limit,
        min_score=config.match_threshold,
    )
    return confirm_passages(found, agent_id=config.agent_id)


def ranked(hits: Sequence[Passage], lexical_weight: float) -> SearchResult:
    """Hits with the relevance of their chunk, in the order of a result."""
    nearest: dict[object, dict[PointType, float]] = {}
    overlap: dict[object, float] = {}
    for hit in hits:
        of_type = nearest.setdefault(hit.chunk_key, {})
        of_type[hit.type] = max(hit.score, of_type.get(hit.type, -1.0))
        overlap[hit.chunk_key] = max(hit.overlap, overlap.get(hit.chunk_key, 0.0))
    relevance = {
        key: _taken_together(of_type.values()) + lexical_weight * overlap[key]
        for key, of_type in nearest.items()
    }
    known = [replace(hit, lift=relevance[hit.chunk_key] - hit.score) for hit in hits]
    return SearchResult(
        hits=tuple(
            sorted(known, key=lambda hit: (-relevance[hit.chunk_key], -hit.score, hit.point_id))
        )
    )


def _taken_together(cosines: Collection[float]) -> float:
    """The mean of the nearest, and of the next at half its weight."""
    best, *others = sorted(cosines, reverse=True)
    return (best + _FARTHER * others[0]) / (1 + _FARTHER) if others else best


#: Given hits on validated answers and an agent, the hits whose row answers now, completed from it.
FaqCheck = Callable[[Sequence[Passage], int], list[Passage]]

_faq_checks: list[FaqCheck] = []


def register_faq_check(check: FaqCheck) -> None:
    """Have `check` confirm the hits on validated answers, whose rows belong to an app above."""
    if check not in _faq_checks:
        _faq_checks.append(check)


def confirm_passages(result: SearchResult, *, agent_id: int) -> SearchResult:
    """Keep the hits whose chunk or validated answer still stands and is the agent's; legacy hits are given their chunk."""
    by_id, by_rank, addresses = _existing_chunks(result.hits, agent_id)
    faq_hits = [hit for hit in result.hits if hit.is_faq]
    standing = {
        passage.point_id: passage
        for check in (_faq_checks if faq_hits else ())
        for passage in check(faq_hits, agent_id)
    }
    kept = []
    for hit in result.hits:
        if hit.is_faq:
            kept += [standing[hit.point_id]] if hit.point_id in standing else []
            continue
        chunk_id = hit.chunk_id or by_rank.get((hit.document_id, hit.chunk_index))
        if hit.document_id is None:
            kept.append(hit)
        elif chunk_id in by_id:
            kept.append(
                replace(
                    hit, chunk_id=chunk_id, has_questions=by_id[chunk_id], url=addresses[chunk_id]
                )
            )
    return SearchResult(hits=tuple(kept))


def _chunk_rows(chunks: QuerySet[Chunk]) -> QuerySet[Chunk, tuple[Any, ...]]:
    return chunks.order_by().values_list(
        "pk", "document_id", "index", "units_origin", "document__name"
    )


_SERVED_CHUNKS = PreparedSelectIn(
    parameter(Chunk, "id"),
    lambda keys: _chunk_rows(
        Chunk.objects.served().filter(
            pk__in=keys, document__agent=parameter(Document, "agent", name="agent_id")
        )
    ),
)


def _existing_chunks(
    hits: Sequence[Passage], agent_id: int
) -> tuple[dict[int | None, bool], dict[tuple[int | None, int | None], int], dict[int | None, str]]:
    """The chunks that hits name, by key (`qr_atomique`) and by document and rank (`legacy`), and where their pages are."""
    ids = [hit.chunk_id for hit in hits if hit.chunk_id is not None]
    legacy = [hit for hit in hits if hit.chunk_id is None and hit.document_id is not None]
    rows = _SERVED_CHUNKS.rows(ids, agent_id=agent_id)
    if legacy:
        rows += _chunk_rows(
            Chunk.objects.served().filter(
                document__in={hit.document_id for hit in legacy},
                index__in={hit.chunk_index for hit in legacy},
                document__agent_id=agent_id,
            )
        )
    has_questions: dict[int | None, bool] = {
        pk: origin != UnitsOrigin.WAITING for pk, _, _, origin, _ in rows
    }
    by_rank: dict[tuple[int | None, int | None], int] = {
        (document, rank): pk for pk, document, rank, *_ in rows
    }
    return has_questions, by_rank, {pk: page_address(name) for pk, *_, name in rows}
