"""The memory guard: a validated answer to this question, if there is one.

A similarity alone lets nothing out. The entries at or above the threshold are taken best first, the most recent of
equals before the others; each must agree by the second key, and is then claimed on its row: one conditional update
that counts the use and holds only while the entry is valid, young enough, unchanged since it was compared, its
passages are what they were, and nobody reported this pair as wrong. Refusals come back with their reasons.

Synchronous, for the database bridge. Thresholds are inclusive.
"""

import json
import logging
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from agents.effective import EffectiveConfig
from agents.transactions import short_write
from faqs.agreement import compare_questions
from faqs.memory.array import Held, MemoryMark, nearest_entries
from faqs.memory.array import memory_mark as memory_mark
from faqs.memory.entries import prune_expired, set_status
from faqs.memory.keys import may_answer, normalised_question, question_hash
from faqs.memory.origins import STALE
from faqs.models import CachedResponse, EntryStatus, StatusReason
from knowledge.calibration import threshold_profile
from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Vector

logger = logging.getLogger(__name__)

#: Why an entry near enough was not served.
REFUSALS: dict[str, str | Promise] = {
    "below_threshold": gettext_lazy("similarité sous le seuil"),
    "second_key": gettext_lazy("les deux questions diffèrent"),
    "audience": gettext_lazy("apprise pour un autre public"),
    "expired": gettext_lazy("trop ancienne"),
    "changed": gettext_lazy("modifiée à l’instant"),
    "not_valid": gettext_lazy("plus valide"),
    "review_due": gettext_lazy("date de relecture passée"),
    "chunk_changed": gettext_lazy("un passage d’origine a changé ou a été supprimé"),
    "reported": gettext_lazy("signalée comme fausse pour cette question"),
}

_REPORTED = """
EXISTS (
    SELECT 1 FROM responses_wrong_pairs AS wrong
    WHERE wrong.response_id = responses.id AND wrong.question_hash = %s
    AND (wrong.answer_digest = '' OR wrong.answer_digest = MD5(responses.answer))
)"""
_CONDITIONS = f"""
id = %s AND version = %s AND status = 'valid' AND confirmed_at >= %s
AND (review_on IS NULL OR review_on >= %s) AND NOT {STALE} AND NOT {_REPORTED}"""
_ANSWER = "answer, sources, metadata, language, created_at"
_CLAIM = (
    f"UPDATE responses SET usage_count = usage_count + %s WHERE {_CONDITIONS} RETURNING {_ANSWER}"  # noqa: S608
)
_READ = f"SELECT {_ANSWER} FROM responses WHERE {_CONDITIONS}"  # noqa: S608
_DIAGNOSIS = f"""
SELECT version = %s, status, confirmed_at >= %s, review_on IS NULL OR review_on >= %s, {STALE}, {_REPORTED}
FROM responses WHERE id = %s"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is asked of the memory. With `writes` off nothing is counted, moved or pruned."""

    question: str
    threshold: float
    max_age_days: int
    auto_prune: bool = True
    writes: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """One entry that came near, with its similarity; `refusal` is empty where it answers."""

    entry_id: int
    question: str
    score: float
    refusal: str = ""
    explanation: str = ""

    def __str__(self) -> str:
        return f"{self.question} ({self.score:.3f}) : {self.explanation}"


@dataclass(frozen=True, slots=True)
class RecalledAnswer:
    entry_id: int
    question: str
    score: float
    text: str
    sources: list[dict[str, Any]]
    metadata: dict[str, Any]
    language: str
    created_at: datetime | str


@dataclass(frozen=True, slots=True)
class Recall:
    """What the memory said: an answer or none, and every entry that was near enough and refused."""

    answer: RecalledAnswer | None = None
    refused: tuple[Verdict, ...] = ()
    best_score: float | None = None


@dataclass(frozen=True, slots=True)
class _Moment:
    """A lookup at one point in time, in the database's own values."""

    lookup: Lookup
    audience: str
    now: datetime = field(default_factory=timezone.now)

    @property
    def oldest(self) -> datetime:
        return self.now - timedelta(days=self.lookup.max_age_days)

    @property
    def today(self) -> date:
        return timezone.localdate(self.now)

    def ages(self) -> tuple[Any, Any]:
        return (
            connection.ops.adapt_datetimefield_value(self.oldest),
            connection.ops.adapt_datefield_value(self.today),
        )


def memory_threshold(config: EffectiveConfig, *, model: str) -> float | None:
    """The similarity from which the memory answers: staff's, the environment's, the model's profile; else off."""
    if not config.memory:
        return None
    if config.memory_threshold is not None:
        return config.memory_threshold
    if settings.MEMORY_SIMILARITY_THRESHOLD is not None:
        return float(settings.MEMORY_SIMILARITY_THRESHOLD)
    profile = threshold_profile(model)
    return None if profile is None else profile.memory


def recall_cached(mark: MemoryMark, lookup: Lookup, *, vector: Vector, recipe: Recipe) -> Recall:
    """The best entry that may answer, its use counted: +1, or +2 from `MEMORY_STRONG_SIMILARITY` on."""
    nearest = nearest_entries(
        mark,
        vector,
        recipe=recipe,
        limit=settings.MEMORY_MAX_CANDIDATES,
        least=lookup.threshold,
    )
    moment = _Moment(lookup, mark.audience)
    if lookup.auto_prune and lookup.writes and nearest.oldest < moment.oldest.timestamp():
        prune_expired(deployment_id=mark.deployment_id, max_age_days=lookup.max_age_days)
    refused = []
    for held, score in nearest.found:
        judged = _judge(held, score, moment)
        if isinstance(judged, RecalledAnswer):
            return Recall(judged, tuple(refused), score)
        refused.append(judged)
    return Recall(None, tuple(refused), nearest.found[0][1] if nearest.found else None)


def examine_memory(
    mark: MemoryMark, lookup: Lookup, *, vector: Vector, recipe: Recipe, limit: int
) -> list[Verdict]:
    """The nearest entries, above the threshold or not, each with what `recall_cached` would say of it."""
    if lookup.writes:
        raise ValueError("An examination writes nothing.")
    nearest = nearest_entries(mark, vector, recipe=recipe, limit=limit, least=None)
    moment = _Moment(lookup, mark.audience)
    verdicts = []
    for held, score in nearest.found:
        if score < lookup.threshold:
            verdicts.append(_refused(held, score, "below_threshold"))
            continue
        judged = _judge(held, score, moment)
        if isinstance(judged, RecalledAnswer):
            judged = Verdict(held.pk, held.question, score)
        verdicts.append(judged)
    return verdicts


def _judge(held: Held, score: float, moment: _Moment) -> RecalledAnswer | Verdict:
    if not may_answer(held.audience, moment.audience):
        return _refused(held, score, "audience")
    if held.confirmed_at < moment.oldest.timestamp():
        return _refused(held, score, "expired")
    asked = moment.lookup.question
    if normalised_question(held.question) != normalised_question(asked):
        agreement = compare_questions(held.question, asked)
        if not agreement.agrees:
            return _refused(held, score, "second_key", agreement.explain())
    row = _take(held, score, moment)
    if row is None:
        return _refused(held, score, _diagnose(held, moment))
    text, sources, metadata, language, created_at = row
    return RecalledAnswer(
        entry_id=held.pk,
        question=held.question,
        score=score,
        text=text,
        sources=_json(sources),
        metadata=_json(metadata),
        language=language,
        created_at=created_at,
    )


def _take(held: Held, score: float, moment: _Moment) -> tuple[Any, ...] | None:
    """The entry's answer if every condition holds on its row now; the use is counted in the same statement."""
    conditions = (held.pk, held.version, *moment.ages(), question_hash(moment.lookup.question))
    if not moment.lookup.writes:
        with connection.cursor() as cursor:
            cursor.execute(_READ, conditions)
            found: tuple[Any, ...] | None = cursor.fetchone()
        return found
    uses = 2 if score >= settings.MEMORY_STRONG_SIMILARITY else 1
    with short_write(), connection.cursor() as cursor:
        cursor.execute(_CLAIM, (uses, *conditions))
        # All of it: a statement that is not read to its end is not finished on SQLite.
        rows = cursor.fetchall()
    return rows[0] if rows else None


def _diagnose(held: Held, moment: _Moment) -> str:
    """Why the claim of an entry failed; what staff have to look at is moved to *to review*."""
    asked = question_hash(moment.lookup.question)
    with connection.cursor() as cursor:
        cursor.execute(_DIAGNOSIS, (held.version, *moment.ages(), asked, held.pk))
        row = cursor.fetchone()
    if row is None:
        return "not_valid"
    same_version, status, young, unreviewed, stale, reported = row
    if status != EntryStatus.VALID:
        return "not_valid"
    if stale:
        _send_to_review(held, moment, StatusReason.CHUNK_CHANGED)
        return "chunk_changed"
    if not unreviewed:
        _send_to_review(held, moment, StatusReason.REVIEW_DUE)
        return "review_due"
    if reported:
        return "reported"
    if not young:
        return "expired"
    return "changed" if not same_version else "not_valid"


def _send_to_review(held: Held, moment: _Moment, reason: StatusReason) -> None:
    if moment.lookup.writes:
        entry = CachedResponse.objects.filter(pk=held.pk, status=EntryStatus.VALID)
        set_status(entry, EntryStatus.TO_REVIEW, reason)


def _refused(held: Held, score: float, reason: str, explanation: str = "") -> Verdict:
    words = explanation or str(REFUSALS[reason])
    return Verdict(held.pk, held.question, score, refusal=reason, explanation=words)


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
