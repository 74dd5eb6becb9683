"""The memory guard: serves answers that the memory holds. A similarity alone lets nothing out.

Entries at or above the threshold are taken best first (the most recent of equals; synonyms alone last). Each must agree
by the second key, and is claimed by one conditional update that holds only while row and passages are unchanged.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.database import single_write
from agents.effective import EffectiveConfig
from faqs.memory import (
    PHASE,
    Held,
    delete_entries,
    expired_entries,
    may_answer,
    nearest_entries,
    question_hash,
    retention_days,
    set_status,
)
from faqs.memory import MemoryMark as MemoryMark
from faqs.memory import Scope as Scope
from faqs.memory import is_known_empty as is_known_empty
from faqs.memory import memory_mark as memory_mark
from faqs.memory import memory_threshold as memory_threshold
from faqs.memory import normalised_question as normalised_question
from faqs.memory import stored_mark as stored_mark
from faqs.models import CachedResponse, EntryStatus, StatusReason
from faqs.origins import STALE, stale_entries
from faqs.precedence import is_answered_since
from faqs.second_key.comparison import Disagreement, explain_differences
from faqs.second_key.same_question import Decision, ask_the_same, would_serve
from knowledge.acronyms import NO_FORMS, Forms
from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Vector

#: How many of the nearest entries the second key looks at for one question.
MEMORY_MAX_CANDIDATES = 20

#: From this similarity on, a use of an answer in memory counts twice.
MEMORY_STRONG_SIMILARITY = 0.95

_DAY = 86_400.0

#: Why an entry near enough was not served.
REFUSALS: dict[str, str | Promise] = {
    "below_threshold": gettext_lazy("similarité sous le seuil"),
    "second_key": gettext_lazy("les deux questions diffèrent"),
    "audience": gettext_lazy("apprise pour un autre public"),
    "scope": gettext_lazy("apprise dans une autre phase ou un autre projet"),
    "expired": gettext_lazy("trop ancienne"),
    "changed": gettext_lazy("modifiée à l’instant"),
    "not_valid": gettext_lazy("plus valide"),
    "review_due": gettext_lazy("date de relecture passée"),
    "chunk_changed": gettext_lazy("un passage d’origine a changé, a été désactivé ou supprimé"),
    "reported": gettext_lazy("signalée comme fausse pour cette question"),
    "superseded": gettext_lazy("une réponse validée à la même question est plus récente"),
}


def why_not_served(entry: CachedResponse, *, max_age_days: int) -> str:
    """A key of `REFUSALS`, or an empty string where the entry could be served to its own question."""
    if entry.status != EntryStatus.VALID:
        return "not_valid"
    if entry.review_on is not None and entry.review_on < timezone.localdate():
        return "review_due"
    if entry.confirmed_at.timestamp() < _oldest(max_age_days):
        return "expired"
    return "chunk_changed" if stale_entries().filter(pk=entry.pk).exists() else ""


#: The version says that the row is the one that was compared: its question, its status, its age, its reports.
_CONDITIONS = f"id = %s AND version = %s AND status = 'valid' AND NOT {STALE}"
# Constant texts: every value is a parameter.
_CLAIM = f"UPDATE responses SET usage_count = usage_count + %s WHERE {_CONDITIONS} RETURNING answer, sources"  # noqa: S608
_READ = f"SELECT answer, sources FROM responses WHERE {_CONDITIONS}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Lookup:
    """A query: the least similarity and the greatest age that answer; without `writes` nothing is counted or moved."""

    question: str
    threshold: float
    max_age_days: int
    writes: bool = True
    #: Of a conversation with a phase or a project: only what was learned in the same may answer.
    scope: Scope | None = None
    #: The agents of the deployment, whose validated answers stand over what the memory learned.
    agent_ids: Sequence[int] = ()
    #: Whether the expired are deleted by a lookup, and from what age on.
    prune_days: int | None = None
    #: The acronyms and synonyms by which two questions are one.
    forms: Forms = NO_FORMS


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one near entry, with its similarity; `refusal` is empty where the entry answers."""

    entry_id: int
    question: str
    score: float
    refusal: str = ""
    explanation: str = ""
    disagreements: tuple[Disagreement, ...] = ()

    def as_stored(self) -> dict[str, Any]:
        return stored_refusal(self.question, self.score, self.refusal, self.disagreements)


def scope_of(*, phase: str, project: str, deployment_slug: str) -> Scope | None:
    """The scope of a conversation; `None` where it names nothing but what applies to all. Pure."""
    scope = Scope(phase or PHASE, project or deployment_slug)
    return None if scope == Scope(PHASE, deployment_slug) else scope


def stored_refusal(question: str, score: float, reason: str, disagreements: Sequence[Disagreement]) -> dict[str, Any]:
    """A refusal for a trace: codes and the words that clash, so that each reader has it in their own language."""
    clashes = [[each.kind, each.stored, each.asked] for each in disagreements]
    return {"question": question, "score": round(score, 4), "reason": reason, "clashes": clashes}


def refusal_text(stored: dict[str, Any]) -> str:
    """A line for a stored refusal: the question, its similarity and why it was not given."""
    clashes = [Disagreement(*each) for each in stored["clashes"]]
    reason = str(stored["reason"])
    return _("%(question)s (%(score)s) : %(reason)s") % {
        "question": stored["question"],
        "score": number_format(stored["score"], decimal_pos=3),
        "reason": explain_differences(clashes) if clashes else REFUSALS.get(reason, reason),
    }


@dataclass(frozen=True, slots=True)
class RecalledAnswer:
    entry_id: int
    question: str
    score: float
    text: str
    sources: list[dict[str, Any]]
    #: The one that it reached, and whether it may be given.
    threshold: float
    #: Its question is another without the acronyms and synonyms.
    is_by_form: bool = False


@dataclass(frozen=True, slots=True)
class Recall:
    """The memory's reply: an answer or none, and every near entry that was refused."""

    answer: RecalledAnswer | None = None
    refused: tuple[Verdict, ...] = ()
    best_score: float | None = None


def lookup_of(
    config: EffectiveConfig, question: str, *, model: str, writes: bool, scope: Scope | None = None
) -> Lookup | None:
    """The query of a turn on the strictest terms of the deployment's agents; `None` where one of them has no memory."""
    agents = config.of_each_agent
    thresholds = [memory_threshold(each, model=model) for each in agents]
    known = [threshold for threshold in thresholds if threshold is not None]
    if len(known) < len(thresholds):
        return None
    return Lookup(
        question=question,
        threshold=max(known),
        max_age_days=min(each.memory_max_age_days for each in agents),
        prune_days=retention_days(config),
        writes=writes,
        scope=scope,
        agent_ids=[each.agent.pk for each in agents],
    )


def recall_cached(mark: MemoryMark, lookup: Lookup, *, vector: Vector, recipe: Recipe) -> Recall:
    """Return the best entry that may answer, its use counted: +1, or +2 from `MEMORY_STRONG_SIMILARITY` on."""
    nearest = nearest_entries(mark, vector, recipe=recipe, limit=MEMORY_MAX_CANDIDATES, least=lookup.threshold)
    if lookup.prune_days and lookup.writes and nearest.oldest < _oldest(lookup.prune_days + 1):
        # Once a day at most: every array is loaded anew after it.
        delete_entries(expired_entries(mark.deployment_id, lookup.prune_days))
    if not nearest.found:
        return Recall()
    refused: list[Verdict] = []
    for held, score in sorted(nearest.found, key=lambda each: _is_by_form(each[0], lookup)):
        judged = _judge(held, score, lookup, mark.audience)
        if isinstance(judged, RecalledAnswer):
            return Recall(judged, tuple(refused), score)
        refused.append(judged)
    return Recall(None, tuple(refused), nearest.found[0][1])


def examine_memory(mark: MemoryMark, lookup: Lookup, *, vector: Vector, recipe: Recipe, limit: int) -> list[Verdict]:
    """Return the nearest entries, above the threshold or not, each with what `recall_cached` would say of it."""
    if lookup.writes:
        raise ValueError("An examination writes nothing.")
    nearest = nearest_entries(mark, vector, recipe=recipe, limit=limit, least=None)
    verdicts = []
    for held, score in nearest.found:
        if score < lookup.threshold:
            verdicts.append(_refused(held, score, "below_threshold"))
            continue
        judged = _judge(held, score, lookup, mark.audience)
        if isinstance(judged, RecalledAnswer):
            judged = Verdict(held.pk, held.question, score)
        verdicts.append(judged)
    return verdicts


def _judge(held: Held, score: float, lookup: Lookup, audience: str) -> RecalledAnswer | Verdict:
    asked = lookup.question
    if not may_answer(held.audience, audience):
        return _refused(held, score, "audience")
    if not _in_scope(held, lookup.scope):
        return _refused(held, score, "scope")
    if held.confirmed_at < _oldest(lookup.max_age_days):
        return _refused(held, score, "expired")
    if held.review_on is not None and held.review_on < timezone.localdate():
        return _send_to_review(held, score, lookup, StatusReason.REVIEW_DUE)
    if held.wrong and question_hash(asked) in held.wrong:
        return _refused(held, score, "reported")
    if held.question != asked and normalised_question(held.question) != normalised_question(asked):
        decision = would_serve(
            stored=lookup.forms.one_writing(held.question),
            asked=lookup.forms.one_writing(asked),
            score=score,
            threshold=lookup.threshold,
        )
        if not decision.served:
            return _refused(held, score, "second_key", decision)
    if _is_superseded(held, lookup):
        return _refused(held, score, "superseded")
    row = _take(held, score, counts=lookup.writes)
    if row is None:
        return _why_not_taken(held, score, lookup)
    text, sources = row
    return RecalledAnswer(
        entry_id=held.pk,
        question=held.question,
        score=score,
        text=text,
        sources=json.loads(sources) if isinstance(sources, str) else sources,
        threshold=lookup.threshold,
        is_by_form=_is_by_form(held, lookup),
    )


def _is_by_form(held: Held, lookup: Lookup) -> bool:
    """Whether the two questions, which agree, do so by an acronym or a synonym only."""
    asked = lookup.question
    return lookup.forms.unite(held.question, asked) and not ask_the_same(held.question, asked)


def _is_superseded(held: Held, lookup: Lookup) -> bool:
    """Whether a newer validated answer covers the question but has not withdrawn the entry yet."""
    questions = [lookup.question, held.question]
    if not is_answered_since(lookup.agent_ids, questions):
        return False
    entry = CachedResponse.objects.filter(pk=held.pk)
    vouched_for = entry.values_list("validated_at", flat=True).first()
    if held.is_scoped and vouched_for is not None:
        return False
    return is_answered_since(lookup.agent_ids, questions, than=vouched_for)


def _in_scope(held: Held, scope: Scope | None) -> bool:
    if scope is None:
        return not held.is_scoped
    # Compared as two texts: joined, as in the key, other pairs look the same.
    rows = CachedResponse.objects.filter(pk=held.pk, version=held.version)
    said = rows.values_list("metadata", flat=True).first() or {}
    return (said.get("phase"), said.get("project")) == (scope.phase, scope.project)


def _oldest(max_age_days: int) -> float:
    return time.time() - max_age_days * _DAY


def _take(held: Held, score: float, *, counts: bool) -> tuple[Any, ...] | None:
    """The entry's answer if every condition holds on its row now; the same statement counts the use."""
    if not counts:
        with connection.cursor() as cursor:
            cursor.execute(_READ, (held.pk, held.version))
            found: tuple[Any, ...] | None = cursor.fetchone()
        return found
    uses = 2 if score >= MEMORY_STRONG_SIMILARITY else 1
    with single_write(), connection.cursor() as cursor:
        cursor.execute(_CLAIM, (uses, held.pk, held.version))
        # All of it: a statement that is not read to its end is not finished on SQLite.
        rows = cursor.fetchall()
    return rows[0] if rows else None


def _why_not_taken(held: Held, score: float, lookup: Lookup) -> Verdict:
    """The refusal of an entry whose passage or row changed after the comparison."""
    entry = CachedResponse.objects.filter(pk=held.pk)
    current = entry.values_list("status", "version").first()
    if current is None or current[0] != EntryStatus.VALID:
        return _refused(held, score, "not_valid")
    if stale_entries().filter(pk=held.pk).exists():
        return _send_to_review(held, score, lookup, StatusReason.CHUNK_CHANGED)
    return _refused(held, score, "changed")


def _send_to_review(held: Held, score: float, lookup: Lookup, reason: StatusReason) -> Verdict:
    if lookup.writes:
        entry = CachedResponse.objects.filter(pk=held.pk, status=EntryStatus.VALID)
        set_status(entry, EntryStatus.TO_REVIEW, reason)
    return _refused(held, score, reason.value)


def _refused(held: Held, score: float, reason: str, decision: Decision | None = None) -> Verdict:
    return Verdict(
        held.pk,
        held.question,
        score,
        refusal=reason,
        explanation=decision.explanation if decision else str(REFUSALS[reason]),
        disagreements=decision.disagreements if decision else (),
    )
