"""Search: finds the passages that may answer a question, from its vector.

`search` is the network half (vector store only), `confirm_passages` the database half: it completes the legacy format
and drops deleted chunks and answers, which therefore stop answering at once. All comparisons are inclusive.

Search is hybrid where benchmarks favour that for the embedding model (`ThresholdProfile.lexical_weight`): the
*relevance* of a chunk is the mean cosine of its questions and its text (the farther one at half weight), plus that
weight times their best overlap with the question's words. Without a weight, or the question's text, the relevance is
the cosine. Hybrid search ranks passages by relevance plus the support of their section (`Passage.support`). The guard
rail compares relevance and the nearest question (`SearchResult.nearness`). A stored answer is given by its cosine and
the second key only.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from agents.cache import TtlCache
from agents.database import PreparedSelectIn, parameter
from agents.effective import EffectiveConfig, agent_setting
from agents.models import Agent
from agents.settings import CategoryUse
from knowledge.above import ConfirmedAnswers, answers_above
from knowledge.embeddings.base import Purpose, embedder
from knowledge.errors import CollectionMissingError
from knowledge.language.spelling import Vocabulary
from knowledge.models import Chunk, Document, UnitsOrigin, page_address
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Hit, Query, Wanted, collection_alias, vector_store
from knowledge.vectors.payloads import (
    FAQ_CATEGORY,
    OF_ONE_CHUNK,
    faq_payload,
    passage_from_hit,
    searched_fields,
    searched_filter,
)
from knowledge.vectors.payloads import Passage as Passage
from knowledge.vectors.payloads import PointType as PointType

#: Passages that vote; more of them bring in categories that merely border on the question's.
_VOTERS = 6
LEAST_SHARE = 0.5
LEAST_MARGIN = 0.4


@dataclass(frozen=True, slots=True)
class DetectedCategory:
    """`share`: its share of the votes; `margin`: its lead over the next category's share."""

    name: str
    share: float
    margin: float

    @property
    def is_of_documents(self) -> bool:
        """Whether the category is one of documents; that of all validated answers says nothing of a subject."""
        return self.name != FAQ_CATEGORY


def detect_category(
    passages: Sequence[Passage], *, least_share: float = LEAST_SHARE, least_margin: float = LEAST_MARGIN
) -> DetectedCategory | None:
    """The category of `passages` (one a chunk, best first), or None when they do not agree. Limits are inclusive."""
    votes: defaultdict[str, float] = defaultdict(float)
    for rank, passage in enumerate(passages[:_VOTERS], start=1):
        votes[passage.category] += 1 / rank
    total = sum(votes.values())
    ordered = sorted(votes.items(), key=lambda item: (-item[1], item[0]))
    if not ordered or not ordered[0][0]:
        return None
    (name, most), *others = ordered
    share, margin = most / total, (most - (others[0][1] if others else 0)) / total
    if share < least_share or margin < least_margin:
        return None
    return DetectedCategory(name, share, margin)


#: A chunk may hold several points; more are fetched than passages are wanted, then grouped by chunk.
POINTS_PER_PASSAGE = 4
#: How much the farther of a chunk's two kinds of points counts beside the nearer one.
_FARTHER = 0.5
#: What the best other hit of a passage's section adds to its place, of that hit's distance to the least relevant one: a
#: page on which several passages are near the question comes before a page with one that is as near
#: (`benchmarks/documents`, `benchmarks/retrieval`).
_SUPPORT = 0.3
#: And at most of so much distance: a small index has hits that are far from anything.
_SUPPORT_REACH = 0.4
#: How exactly two places are told apart; cosines come with seven decimals.
_PLACE_DECIMALS = 9
#: What being of the detected category is worth, of the distance between the first hit and the last: the same for models
#: whose cosines lie wide apart and for those that lie close (`benchmarks/retrieval`).
CATEGORY_LEAD = 0.25


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a turn; `None`: switched off, or not measured for the embedding model.

    A question is closer to questions than to passages, so a chunk with questions has a guard rail of its own
    (`benchmarks/thresholds`). A threshold set by staff applies to both.
    """

    direct_answer: float | None
    guard_rail: float | None
    guard_rail_questions: float | None = None

    def guard_rail_for(self, passage: Passage) -> float | None:
        return self.guard_rail_questions if passage.has_questions else self.guard_rail


#: What a whole story finds counts less than what is asked in it (`benchmarks/as_typed`).
STORY_WEIGHT = 0.8


@dataclass(frozen=True)
class SearchResult:
    """All hits, ordered by relevance plus support of their chunk, then by cosine."""

    hits: tuple[Passage, ...] = ()
    #: Validated answers to the question whose points are not written yet: they count once they are compared.
    late: tuple[Passage, ...] = ()

    def weighed(self, weight: float) -> "SearchResult":
        """The same hits with their relevance multiplied by `weight`."""
        hits = (hit.with_values(lift=hit.relevance * weight - hit.score) for hit in self.hits)
        return SearchResult(tuple(hits), self.late)

    @property
    def is_supported(self) -> bool:
        """Whether the support of a section has moved a passage up."""
        return any(hit.support for hit in self.hits)

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
        """The `qa_pair` hits at or above the threshold, best first, validated answers before others at the same score;
        the second key decides among them.
        """
        if threshold is None:
            return []
        found = [hit for hit in self.hits if hit.type is PointType.QA_PAIR and hit.score >= threshold and hit.content]
        return sorted(found, key=lambda hit: (-hit.score, not hit.is_faq))

    @cached_property
    def nearest_question(self) -> float | None:
        """The cosine of the nearest question; `None` where no hit is a question."""
        return max((hit.score for hit in self.hits if hit.type is PointType.QA_PAIR), default=None)

    def nearness(self, hit: Passage) -> float:
        """The guard rail's score: the relevance; for a chunk with questions, its mean with the nearest question's
        cosine.

        For a question of another subject, words and texts overlap by chance more often than the index's questions do
        (`benchmarks/thresholds`).
        """
        nearest = self.nearest_question if hit.has_questions else None
        return hit.relevance if nearest is None else (hit.relevance + nearest) / 2

    def lets_in(self, hit: Passage, thresholds: Thresholds) -> bool:
        """Whether the hit's score is at or above the guard rail."""
        least = thresholds.guard_rail_for(hit)
        return least is None or self.nearness(hit) >= least

    def in_domain(self, thresholds: Thresholds) -> "SearchResult":
        """The hits that pass the guard rail."""
        return SearchResult(tuple(hit for hit in self.hits if self.lets_in(hit, thresholds)))

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
    """The similarity for direct answers, for work outside a turn; `None` when they are off."""
    enabled, threshold = agent_setting(agent, "direct_answers"), agent_setting(agent, "direct_answer_threshold")
    if threshold is None:
        profile = threshold_profile(model, agent.slug if agent else "")
        threshold = None if profile is None else profile.direct_answer
    return float(threshold) if enabled and threshold is not None else None


def search(
    collection: str, query: Query, *, limit: int, min_score: float | None = None, categories: Sequence[str] = ()
) -> SearchResult:
    """Search a collection for the best points for a question, in one query of the vector store.

    The collection is an agent's index (`collection_alias`), or a generation not in service, for a preview. `min_score`
    is a cosine. Raises `CollectionMissingError`, `EmbeddingMismatchError`.
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
    """The confirmed hits of a turn with this configuration."""
    query = query_of(question)
    found = search_index(config, query, limit=limit)
    confirmed = confirm_passages(found, agent_id=config.agent_id, question=question)
    return compare_late(confirmed, query)


def search_index(
    config: EffectiveConfig, query: Query, *, limit: int, others: Sequence[Query] = (), weight: float = 1.0
) -> SearchResult:
    """The network half of a turn's search: search the agent's index, then apply the detected category as staff chose.

    `others` are further readings of the question: each point keeps its best reading, with the question's own multiplied
    by `weight`.
    """

    def within(*categories: str) -> SearchResult:
        collection = collection_alias(config.agent_slug, config.indexing_method)
        least = config.match_threshold
        whole, *further = [
            search(collection, reading, limit=limit, min_score=least, categories=categories)
            for reading in (query, *others)
        ]
        return best_of([whole if weight == 1.0 else whole.weighed(weight), *further])

    return with_category(within(), config.category_use, limit=limit, search_in=within)


def best_of(results: Iterable[SearchResult]) -> SearchResult:
    """Merge the results of several readings of one question; each hit keeps its most relevant reading."""
    first, *others = results
    if not others:
        return first
    best: dict[str, Passage] = {}
    for hit in (hit for result in (first, *others) for hit in result.hits):
        known = best.get(hit.point_id)
        if known is None or hit.relevance > known.relevance:
            best[hit.point_id] = hit
    is_supported = any(result.is_supported for result in (first, *others))
    return _in_order(list(best.values()), is_supported=is_supported)


def with_category(
    found: SearchResult, use: str, *, limit: int, search_in: Callable[[str], SearchResult]
) -> SearchResult:
    """Favour the detected category by `CATEGORY_LEAD`, or search again in that category alone.

    Where the passages agree on no category nothing changes. Validated answers are favoured with every category. The
    relevance for the guard rail is unchanged, and so is the nearest passage: no category has the majority without it.
    """
    if use == CategoryUse.INFORM:
        return found
    category = detect_category(found.passages(limit))
    if category is None or not category.is_of_documents:
        return found
    if use == CategoryUse.FILTER:
        return search_in(category.name)
    least = min(hit.relevance for hit in found.hits)
    lead = CATEGORY_LEAD * (found.best_relevance - least)

    def place(hit: Passage) -> float:
        is_favoured = hit.is_faq or hit.category == category.name
        return -hit.relevance - hit.support - (lead if is_favoured else 0.0)

    return SearchResult(tuple(sorted(found.hits, key=place)))


def ranked(hits: Sequence[Passage], lexical_weight: float) -> SearchResult:
    """The hits with their chunk's relevance, in the order of a result."""
    nearest: dict[object, dict[PointType, float]] = {}
    overlap: dict[object, float] = {}
    for hit in hits:
        of_type = nearest.setdefault(hit.chunk_key, {})
        of_type[hit.type] = max(hit.score, of_type.get(hit.type, -1.0))
        overlap[hit.chunk_key] = max(hit.overlap, overlap.get(hit.chunk_key, 0.0))
    relevance = {
        key: _taken_together(of_type.values()) + lexical_weight * overlap[key] for key, of_type in nearest.items()
    }
    known = [hit.with_values(lift=relevance[hit.chunk_key] - hit.score) for hit in hits]
    return _in_order(known, is_supported=True)


def _in_order(hits: Sequence[Passage], *, is_supported: bool) -> SearchResult:
    """The hits in the order of a result, with the support of their sections; none of it where `is_supported` is off."""
    support = _support_of(hits) if is_supported else {}
    known = [
        hit if hit.support == added else hit.with_values(support=added)
        for hit in hits
        for added in (support.get(hit.chunk_key, 0.0),)
    ]
    return SearchResult(tuple(sorted(known, key=_place)))


def _place(hit: Passage) -> tuple[float, bool, float, str]:
    # Rounded: hits of one chunk are told apart by their cosines alone.
    place = round(hit.relevance + hit.support, _PLACE_DECIMALS)
    return -place, not hit.is_faq, -hit.score, hit.point_id


def _support_of(hits: Sequence[Passage]) -> dict[object, float]:
    """The boost that the best chunk of each section gets from the section's next one.

    A validated answer has no section; its boost keeps it ahead of boosted chunks that are no more relevant.
    """
    relevance: dict[object, float] = {}
    sections: dict[object, dict[object, None]] = {}
    for hit in sorted(hits, key=lambda hit: hit.point_id):
        relevance[hit.chunk_key] = max(hit.relevance, relevance.get(hit.chunk_key, -math.inf))
        sections.setdefault(hit.section_key, {})[hit.chunk_key] = None
    least = min(relevance.values(), default=0.0)
    support: dict[object, float] = {}
    for of_section in sections.values():
        best, *others = sorted(of_section, key=lambda key: -relevance[key])
        if others:
            support[best] = _SUPPORT * min(relevance[others[0]] - least, _SUPPORT_REACH)
    reached = {key: relevance[key] + added for key, added in support.items()}
    for answer in {hit.chunk_key for hit in hits if hit.is_faq}:
        passed = (place for key, place in reached.items() if relevance[key] <= relevance[answer])
        support[answer] = max(0.0, max(passed, default=0.0) - relevance[answer])
    return support


def _taken_together(cosines: Collection[float]) -> float:
    """The weighted mean of the highest cosine and the next one at half weight."""
    best, *others = sorted(cosines, reverse=True)
    return (best + _FARTHER * others[0]) / (1 + _FARTHER) if others else best


def confirm_passages(result: SearchResult, *, agent_id: int, question: str = "") -> SearchResult:
    """Keep the hits whose chunk or validated answer exists and belongs to the agent; complete legacy hits.

    With the question, the result also holds late answers: validated ones not indexed yet (`compare_late`).
    """
    by_id, by_rank, where = _existing_chunks(result.hits, agent_id)
    faq_hits = [hit for hit in result.hits if hit.is_faq]
    answers = answers_above().confirm(faq_hits, agent_id, question) if faq_hits or question else ConfirmedAnswers()
    standing = {hit.point_id: hit for hit in answers.hits}
    kept: list[Passage] = []
    for hit in result.hits:
        if hit.is_faq:
            kept += [standing[hit.point_id]] if hit.point_id in standing else []
            continue
        chunk_id = hit.chunk_id or by_rank.get((hit.document_id, hit.chunk_index))
        if hit.document_id is None:
            kept.append(hit)
        elif chunk_id in by_id:
            kept.append(hit.with_values(chunk_id=chunk_id, has_questions=by_id[chunk_id], **where[chunk_id]))
    return SearchResult(hits=tuple(kept), late=tuple(answers.late))


def faq_passage(*, agent_id: int, point_id: str, question: str, answer: str) -> Passage:
    """A phrasing of a validated answer as a hit, before its point is written and before it has a score."""
    payload = faq_payload(agent_id=agent_id, question=question, answer=answer, indexed_at="")
    return passage_from_hit(Hit(point_id, 0.0, payload))


def compare_late(result: SearchResult, query: Query) -> SearchResult:
    """Add the late answers to the hits, each with its cosine. Waits for the embedder where there are any."""
    if not result.late:
        return result
    vectors = embedder().embed([hit.question for hit in result.late], purpose=Purpose.QUERY)
    late = [
        hit.with_values(score=float(vector @ query.vector)) for hit, vector in zip(result.late, vectors, strict=True)
    ]
    known = {hit.point_id for hit in late}
    hits = [*late, *(hit for hit in result.hits if hit.point_id not in known)]
    return _in_order(hits, is_supported=result.is_supported)


def _chunk_rows(chunks: QuerySet[Chunk]) -> QuerySet[Chunk, tuple[Any, ...]]:
    return chunks.order_by().values_list(
        "pk", "document_id", "index", "units_origin", "document__name", "anchor", "page", "document__indexed_at"
    )


_SERVED_CHUNKS = PreparedSelectIn(
    parameter(Chunk, "id"),
    lambda keys: _chunk_rows(
        Chunk.objects.served().filter(pk__in=keys, document__agent=parameter(Document, "agent", name="agent_id"))
    ),
)


def _existing_chunks(
    hits: Sequence[Passage], agent_id: int
) -> tuple[dict[int | None, bool], dict[tuple[int | None, int | None], int], dict[int | None, dict[str, Any]]]:
    """The chunks behind the hits, by key (`qr_atomique`) and by document and rank (`legacy`), with their `url`, `page`
    and `read_at`.
    """
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
    has_questions: dict[int | None, bool] = {pk: origin != UnitsOrigin.WAITING for pk, _, _, origin, *_ in rows}
    by_rank: dict[tuple[int | None, int | None], int] = {(document, rank): pk for pk, document, rank, *_ in rows}
    where: dict[int | None, dict[str, Any]] = {
        pk: {"url": page_address(name, anchor), "page": page, "read_at": read_at}
        for pk, *_, name, anchor, page, read_at in rows
    }
    return has_questions, by_rank, where


#: Points whose words are read, about a second: further ones have the same words.
VOCABULARY_MOST_POINTS = 10_000

#: What the indexes looked like, and the words that were read then.
_Known = tuple[tuple[tuple[str, int], ...], Vocabulary]
_cached: TtlCache[Vocabulary] = TtlCache("VOCABULARY_CACHE_SECONDS")
_last: dict[tuple[str, ...], _Known] = {}


def is_vocabulary_known(collections: Sequence[str]) -> bool:
    """Whether `vocabulary_of` would answer from the cache."""
    return _cached.is_fresh(tuple(collections))


def vocabulary_of(collections: Sequence[str]) -> Vocabulary:
    """The words of these indexes together; of one that is missing, none."""
    key = tuple(collections)
    return _cached.get(lambda: _read(key), key)


def _read(collections: tuple[str, ...]) -> Vocabulary:
    looks, standing = [], []
    for name in collections:
        try:
            info = vector_store().info(name)
        except CollectionMissingError:
            continue
        looks.append((info.name, info.points))
        standing.append(info.name)
    known = _last.get(collections)
    if known is not None and known[0] == tuple(looks):
        return known[1]
    vocabulary = Vocabulary.of(_texts(standing))
    _last[collections] = tuple(looks), vocabulary
    return vocabulary


def _texts(collections: Sequence[str]) -> Iterator[str]:
    left = VOCABULARY_MOST_POINTS
    for name in collections:
        for batch in vector_store().scroll(name):
            yield from texts_of([point.payload for point in batch[:left]])
            left -= len(batch)
            if left <= 0:
                return


def texts_of(payloads: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """What is searched of each payload."""
    for payload in payloads:
        texts = (payload.get(field) for field in searched_fields(payload))
        yield from (text for text in texts if isinstance(text, str))
