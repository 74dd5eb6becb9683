"""Search: finds the passages that may answer a question, from its vector.

`search` is the network half (vector store only), `confirm_passages` the database half: it completes the legacy format
and drops deleted chunks and answers, which therefore stop answering at once. All comparisons are inclusive.

Two numbers are made of a hit. Its *relevance* orders the chunks: the chunk's best cosine plus, where search is hybrid
(`ThresholdProfile.lexical_weight`), its best overlap with the question's words. Its *closeness* meets the guard rail
(`Thresholds.closeness`): nothing else in the index changes it. A stored answer needs its cosine and the second key.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import Q

from agents.cache import TtlCache
from agents.effective import EffectiveConfig, agent_setting
from agents.models import Agent, IndexingMethod
from knowledge.acronyms import Forms
from knowledge.embeddings.base import Purpose, embedder
from knowledge.errors import CollectionMissingError
from knowledge.language.spelling import Vocabulary
from knowledge.language.words import common_stem
from knowledge.models import Chunk, UnitsOrigin, page_address
from knowledge.thresholds import ThresholdProfile, threshold_profile
from knowledge.vectors.base import Hit, Query, Wanted, collection_alias, vector_store
from knowledge.vectors.bm25 import content_words
from knowledge.vectors.payloads import Passage as Passage
from knowledge.vectors.payloads import PlannedPoint as PlannedPoint
from knowledge.vectors.payloads import PointType as PointType
from knowledge.vectors.payloads import faq_payload, passage_from_hit, searched_fields, searched_filter


@dataclass(frozen=True, slots=True)
class ConfirmedAnswers:
    """Hits on validated answers whose row answers now, completed from it; `late`: see `SearchResult`."""

    hits: Sequence[Passage] = ()
    late: Sequence[Passage] = ()


class ValidatedAnswers:
    """How `knowledge` uses the app of validated answers: the default is a site without any; `faqs` overrides each method."""

    def plan_points(self, agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
        """The points that every rebuild of the agent's index takes along."""
        return iter(())

    def confirm(self, hits: Sequence[Passage], agent_id: int, question: str) -> ConfirmedAnswers:
        """The hits on validated answers whose row is valid."""
        return ConfirmedAnswers()

    def settle_again(self, agent_id: int, forms: Forms) -> None:
        """Apply validated answers again after these forms of an agent become one; called after the commit."""

    def resting_on(self, chunk: Chunk, content: str, units: Sequence[Mapping[str, Any]]) -> list[tuple[Any, bool]]:
        """The valid answers drawn from a passage; of each, whether this other text of the passage withdraws it."""
        return []

    def are_opposites(self, first: str, second: str) -> bool:
        return False


_registered = ValidatedAnswers()


def answers_above() -> ValidatedAnswers:
    return _registered


def register_answers(answers: ValidatedAnswers) -> None:
    global _registered
    _registered = answers


#: Passages that vote; more of them bring in categories that merely border on the question's.
_VOTERS = 6
#: Of the votes, and beyond those of the next category; both inclusive.
_LEAST_SHARE, _LEAST_MARGIN = 0.5, 0.4


def detect_category(passages: Sequence[Passage]) -> str:
    """The category that the passages (one a chunk, best first) agree on; empty where they do not."""
    votes: defaultdict[str, float] = defaultdict(float)
    for rank, passage in enumerate(passages[:_VOTERS], start=1):
        votes[passage.category] += 1 / rank
    ordered = sorted(votes.items(), key=lambda item: (-item[1], item[0]))
    if not ordered:
        return ""
    (name, most), *others = ordered
    total, margin = sum(votes.values()), most - (others[0][1] if others else 0)
    return name if most >= _LEAST_SHARE * total and margin >= _LEAST_MARGIN * total else ""


#: A chunk may hold several points; more are fetched than passages are wanted, then grouped by chunk.
POINTS_PER_PASSAGE = 4


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a turn; `None`: switched off, or not measured for the embedding model. A question is closer to
    questions than to passages, so each kind of point has a guard rail of its own (`benchmarks/thresholds`). A threshold
    set by staff applies to both."""

    direct_answer: float | None
    guard_rail: float | None
    guard_rail_questions: float | None = None
    coverage_weight: float = 0.0

    def guard_rail_for(self, hit: Passage) -> float | None:
        return self.guard_rail_questions if hit.type is PointType.QA_PAIR else self.guard_rail

    def closeness(self, hit: Passage) -> float:
        return hit.score + self.coverage_weight * hit.coverage

    def lets_in(self, hit: Passage) -> bool:
        """Whether the hit's closeness is at or above the guard rail."""
        least = self.guard_rail_for(hit)
        return least is None or self.closeness(hit) >= least


@dataclass(frozen=True)
class SearchResult:
    """All hits, ordered by the relevance of their chunk, then by cosine."""

    hits: tuple[Passage, ...] = ()
    #: Validated answers to the question whose points are not written yet: they count once they are compared.
    late: tuple[Passage, ...] = ()

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
        """The `qa_pair` hits at or above the threshold, best first; at one score validated answers before others."""
        if threshold is None:
            return []
        found = [hit for hit in self.hits if hit.type is PointType.QA_PAIR and hit.score >= threshold and hit.content]
        return sorted(found, key=lambda hit: (-hit.score, not hit.is_faq))

    def in_domain(self, thresholds: Thresholds) -> "SearchResult":
        """The hits that pass the guard rail."""
        return SearchResult(tuple(hit for hit in self.hits if thresholds.lets_in(hit)))

    def is_out_of_domain(self, thresholds: Thresholds) -> bool:
        return not self.in_domain(thresholds).hits


def thresholds_for(config: EffectiveConfig, *, model: str) -> Thresholds:
    """A level's own threshold, else the measured profile of the embedding model, else off."""
    profile = threshold_profile(model, config.agent.slug) or ThresholdProfile(model)
    direct, guard, guard_questions = config.direct_answer_threshold, config.guard_rail_threshold, None
    if guard is None:
        guard, guard_questions = profile.guard_rail, profile.guard_rail_questions
    direct = profile.direct_answer if direct is None else direct
    return Thresholds(
        direct_answer=direct if config.direct_answers else None,
        guard_rail=guard,
        guard_rail_questions=guard if guard_questions is None else guard_questions,
        coverage_weight=profile.coverage_weight,
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
    """Search an index, or a generation not in service, for the best points of a question; `min_score` is a cosine."""
    profile = threshold_profile(query.recipe.model)
    weight = profile.lexical_weight if profile is not None and query.text else None
    wanted = Wanted(
        limit=limit * POINTS_PER_PASSAGE,
        payload_filter=searched_filter(list(categories)),
        min_score=min_score,
        lexical_weight=weight,
    )
    passages = [passage_from_hit(hit) for hit in vector_store().query(collection, query, wanted)]
    return SearchResult(tuple(passages)) if weight is None else ranked(passages, query.text, weight)


def query_of(question: str) -> Query:
    """A question as an index is asked it."""
    model = embedder()
    return Query(model.embed_one(question, purpose=Purpose.QUERY), model.recipe, question)


def search_as(config: EffectiveConfig, question: str, *, limit: int) -> SearchResult:
    """The confirmed hits of a turn with this configuration."""
    query = query_of(question)
    found = search_index(config, query, limit=limit)
    confirmed = confirm_passages(found, agent_id=config.agent.pk, question=question)
    return compare_late(confirmed, query)


def search_index(config: EffectiveConfig, query: Query, *, limit: int, others: Sequence[Query] = ()) -> SearchResult:
    """The network half of a turn's search. `others` are further readings of the question: each point keeps its best."""
    collection = collection_alias(config.agent.slug, config.indexing_method)
    readings = (query, *others)
    return best_of(search(collection, each, limit=limit, min_score=config.match_threshold) for each in readings)


def best_of(results: Iterable[SearchResult]) -> SearchResult:
    """Merge the results of several readings of one question; each hit keeps its most relevant reading."""
    best: dict[str, Passage] = {}
    for hit in (hit for result in results for hit in result.hits):
        known = best.get(hit.point_id)
        if known is None or hit.relevance > known.relevance:
            best[hit.point_id] = hit
    return _in_order(best.values())


def ranked(hits: Sequence[Passage], question: str, lexical_weight: float) -> SearchResult:
    """The hits with their coverage and their chunk's relevance, in the order of a result."""
    cosine: defaultdict[object, float] = defaultdict(lambda: -1.0)
    overlap: defaultdict[object, float] = defaultdict(float)
    for hit in hits:
        cosine[hit.chunk_key] = max(hit.score, cosine[hit.chunk_key])
        overlap[hit.chunk_key] = max(hit.overlap, overlap[hit.chunk_key])
    asked = _stems(question)
    return _in_order(
        hit.with_values(
            coverage=_coverage(asked, hit), relevance=cosine[hit.chunk_key] + lexical_weight * overlap[hit.chunk_key]
        )
        for hit in hits
    )


def _in_order(hits: Iterable[Passage], *, lead: float = 0.0, asked: Collection[object] = ()) -> SearchResult:
    def place(hit: Passage) -> tuple[float, bool, float, str]:
        return lead * (hit.chunk_key in asked) - hit.relevance, not hit.is_faq, -hit.score, hit.point_id

    return SearchResult(tuple(sorted(hits, key=place)))


def _coverage(asked: frozenset[str], hit: Passage) -> float:
    """The share of the question's words that a hit says, in its text, its question or above them."""
    said = _stems(f"{hit.place()}\n{hit.question}\n{hit.content}")
    return len(asked & said) / len(asked) if asked else 0.0


@lru_cache(maxsize=2_048)
def _stems(text: str) -> frozenset[str]:
    return frozenset(map(common_stem, content_words(text)))


def confirm_passages(result: SearchResult, *, agent_id: int, question: str = "") -> SearchResult:
    """Keep the hits whose chunk or answer is the agent's; complete legacy hits, add answers that wait for the index."""
    chunks, has_plain = _existing_chunks(result.hits, agent_id)
    profile = threshold_profile(embedder().recipe.model) if has_plain else None
    lead = profile.question_lead if profile is not None else 0.0
    asked = {hit.chunk_key for hit in result.hits if hit.type is PointType.QA_PAIR and not hit.is_faq}
    faq_hits = [hit for hit in result.hits if hit.is_faq]
    answers = answers_above().confirm(faq_hits, agent_id, question) if faq_hits or question else ConfirmedAnswers()
    standing = {hit.point_id: hit for hit in answers.hits}
    kept: list[Passage] = []
    for hit in result.hits:
        if hit.is_faq:
            kept += [standing[hit.point_id]] if hit.point_id in standing else []
        elif hit.document_id is None:
            kept.append(hit)
        elif found := chunks.get(hit.chunk_id or (hit.document_id, hit.chunk_index)):
            kept.append(hit.with_values(**found))
    return SearchResult(_in_order(kept, lead=lead, asked=asked).hits, late=tuple(answers.late))


def faq_passage(*, agent_id: int, point_id: str, question: str, answer: str) -> Passage:
    """A phrasing of a validated answer as a hit, before its point is written and before it has a score."""
    payload = faq_payload(agent_id=agent_id, question=question, answer=answer, indexed_at="")
    return passage_from_hit(Hit(point_id, 0.0, payload))


def plan_faq_point(*, agent_id: int, point_id: str, question: str, answer: str, indexed_at: str) -> PlannedPoint:
    """One phrasing of a validated answer, the same in every collection that holds it (seed 001, section 5.4)."""
    payload = faq_payload(agent_id=agent_id, question=question, answer=answer, indexed_at=indexed_at)
    return PlannedPoint(id=point_id, payload=payload)


def compare_late(result: SearchResult, query: Query) -> SearchResult:
    """Add the late answers to the hits, each with its cosine. Waits for the embedder where there are any."""
    if not result.late:
        return result
    vectors = embedder().embed([hit.question for hit in result.late], purpose=Purpose.QUERY)
    scores = [float(vector @ query.vector) for vector in vectors]
    late = [hit.with_values(score=score, relevance=score) for hit, score in zip(result.late, scores, strict=True)]
    known = {hit.point_id for hit in late}
    hits = [*late, *(hit for hit in result.hits if hit.point_id not in known)]
    return _in_order(hits)


def _existing_chunks(hits: Sequence[Passage], agent_id: int) -> tuple[dict[object, dict[str, Any]], bool]:
    """What completes a hit, by its chunk's key and by document and rank (`legacy`); and if a chunk has no questions."""
    wanted = Q(pk__in={hit.chunk_id for hit in hits if hit.chunk_id is not None})
    if legacy := [hit for hit in hits if hit.chunk_id is None and hit.document_id is not None]:
        documents, ranks = {hit.document_id for hit in legacy}, {hit.chunk_index for hit in legacy}
        wanted |= Q(document__in=documents, index__in=ranks)
    rows = Chunk.objects.current().filter(wanted, document__agent=agent_id).order_by()
    found: dict[object, dict[str, Any]] = {}
    has_plain = False
    columns = ("pk", "document_id", "index", "document__name", "anchor", "page", "document__indexed_at", "units_origin")
    for pk, document, rank, name, anchor, page, read_at, units in rows.values_list(*columns):
        has_plain |= units == UnitsOrigin.WAITING
        place = {"url": page_address(name, anchor), "page": page, "read_at": read_at}
        found[pk] = found[document, rank] = {"chunk_id": pk, "chunk_index": rank, **place}
    return found, has_plain


#: Points whose words are read, about a second: further ones have the same words.
VOCABULARY_MOST_POINTS = 10_000

_cached: TtlCache[Vocabulary] = TtlCache("VOCABULARY_CACHE_SECONDS")


def is_vocabulary_known(collections: Sequence[str]) -> bool:
    """Whether `vocabulary_of` would answer from the cache."""
    return _cached.is_fresh(tuple(collections))


def vocabulary_of(collections: Sequence[str]) -> Vocabulary:
    """The words of these indexes together; of one that is missing, none."""
    key = tuple(collections)
    return _cached.get(lambda: _read(key), key)


def _read(collections: tuple[str, ...]) -> Vocabulary:
    looks = []
    for name in collections:
        with suppress(CollectionMissingError):
            info = vector_store().info(name)
            looks.append((info.name, info.points))
    return _words_of(tuple(looks))


@lru_cache(maxsize=32)
def _words_of(looks: tuple[tuple[str, int], ...]) -> Vocabulary:
    """The words of collections of these names and sizes."""
    return Vocabulary.of(_texts([name for name, _points in looks]))


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
