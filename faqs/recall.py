"""Validated answers among what a search found.

`confirm_learned` is the database half, called by `knowledge.search.confirm_passages`: two short queries, and none when no hit
is a validated answer. What is served is the row's text, never the store's. `recall_learned` is pure: it separates the
courtesies and puts validated answers first where scores are equal.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from faqs.models import IndexState, LearnedKind, LearnedResponse, Phrasing, standing_condition
from knowledge.search import Passage, SearchResult


@dataclass(frozen=True, slots=True)
class LearnedRecall:
    """`result`: what may answer or be quoted. `courtesy`: the greeting or thanks that this question is, if any."""

    result: SearchResult
    learned: int
    courtesy: Passage | None = None


def recall_learned(found: SearchResult, question: str) -> LearnedRecall:
    """Validated answers take priority over documents at the same score; courtesies are no passages."""
    hits = tuple(_learned_first(hit for hit in found.hits if not hit.is_courtesy))
    asked = _bare(question)
    return LearnedRecall(
        result=SearchResult(hits=hits),
        learned=len({hit.learned_id for hit in hits if hit.is_faq}),
        # Small talk has nothing to compare but its words: the same words are the second key.
        courtesy=next(
            (hit for hit in found.hits if hit.is_courtesy and _bare(hit.question) == asked), None
        ),
    )


def confirm_learned(hits: Sequence[Passage], agent_id: int) -> list[Passage]:
    """The hits whose row answers now, with its text; a point that no longer says what its row says is no hit."""
    by_point = _rows_of([hit.point_id for hit in hits], agent_id)
    confirmed = []
    for hit in hits:
        row = by_point.get(hit.point_id)
        if row is not None and row[0] == hit.question:
            _text, learned_id, kind, answer = row
            confirmed.append(
                replace(
                    hit,
                    content=answer,
                    learned_id=learned_id,
                    has_questions=True,
                    is_courtesy=kind == LearnedKind.COURTESY,
                )
            )
    return confirmed


def _rows_of(point_ids: Sequence[str], agent_id: int) -> dict[str, tuple[str, int, str, str]]:
    # Two plain queries rather than one union, which takes longer to compile than both.
    questions = (
        LearnedResponse.objects.answering()
        .filter(agent_id=agent_id, point_id__in=point_ids)
        .values_list("point_id", "question", "pk", "kind", "answer")
    )
    phrasings = Phrasing.objects.filter(
        standing_condition("response__"),
        point_id__in=point_ids,
        response__agent_id=agent_id,
        response__index_state=IndexState.INDEXED,
    ).values_list("point_id", "text", "response_id", "response__kind", "response__answer")
    rows = (*questions.order_by(), *phrasings.order_by())
    return {str(point): (text, pk, kind, answer) for point, text, pk, kind, answer in rows}


def _learned_first(hits: Iterator[Passage]) -> Iterator[Passage]:
    for _score, equal in groupby(hits, key=lambda hit: hit.score):
        yield from sorted(equal, key=lambda hit: not hit.is_faq)


def _bare(text: str) -> str:
    """The words of a text, without case, accents, punctuation and signs."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    kept = (c if c.isalnum() else " " for c in decomposed if not unicodedata.combining(c))
    return " ".join("".join(kept).split())
