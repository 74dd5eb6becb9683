"""Answers that wait for a person to read them, of the memory and of the FAQ, as one list: the longest waiting first.

Two kinds: those that time has overtaken (a passage changed, their review date passed), and the others (learned,
imported, drafted, reported). What a standing answer replaced waits for nobody: to validate it would put it back in the
place of the newer one. Drafts of unanswered questions wait with their groups. Pages are merged of the first rows of
each table, so that a list is bounded whatever is in them.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from faqs.answers.precedence import vouch_for_entries
from faqs.answers.writing import set_status as set_answer_status
from faqs.memory.entries import set_status as set_entry_status
from faqs.memory.origins import is_stale_answer
from faqs.models import (
    CachedResponse,
    EntryStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    QuestionGroup,
    StatusReason,
)

#: What any database takes for a key.
_DATABASE_KEY = re.compile(r"[0-9]{1,18}")
#: Leaves of some rows those that somebody works on.
Narrowing = Callable[[QuerySet[Any]], QuerySet[Any]]
_OVERTAKEN = (StatusReason.CHUNK_CHANGED, StatusReason.REVIEW_DUE)


def _all(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows


def entries_to_review(*, stale: bool | None = None) -> QuerySet[CachedResponse]:
    """Entries of the memory; all of them, or only those that time has overtaken, or only the others."""
    waiting = CachedResponse.objects.filter(~_newer_answer(), status=EntryStatus.TO_REVIEW)
    if stale is None:
        return waiting
    overtaken = Q(status_reason__in=_OVERTAKEN)
    return waiting.filter(overtaken) if stale else waiting.exclude(overtaken)


def answers_to_review(*, stale: bool | None = None) -> QuerySet[LearnedResponse]:
    """Validated answers and drafts; `stale` as for the entries."""
    newer_entry = CachedResponse.objects.filter(pk=OuterRef("superseded_by_entry"), status=EntryStatus.VALID)
    group = QuestionGroup.objects.filter(response=OuterRef("pk"), status=GroupStatus.DRAFTED)
    waiting: QuerySet[LearnedResponse] = LearnedResponse.objects.filter(
        ~_newer_answer(),
        ~Exists(newer_entry),
        # Its validation is that of its group, until a person has validated it once.
        ~Exists(group) | Q(validated_at__isnull=False),
        status=LearnedStatus.TO_REVIEW,
    )
    if stale is None:
        return waiting
    is_late = Q(review_date__isnull=False, review_date__lt=timezone.localdate())
    overtaken = is_late | Q(is_stale_answer())
    return waiting.filter(overtaken) if stale else waiting.filter(~overtaken)


def _newer_answer() -> Exists:
    """That an answer in service took the place of the row."""
    return Exists(LearnedResponse.objects.standing().filter(pk=OuterRef("superseded_by")))


@dataclass(frozen=True, slots=True)
class ToReview:
    """One answer that waits, of either table."""

    row: CachedResponse | LearnedResponse
    since: datetime
    why: str

    @property
    def is_learned(self) -> bool:
        """Of the memory; else of the FAQ."""
        return isinstance(self.row, CachedResponse)

    @property
    def key(self) -> str:
        """Names the row among both tables, in forms."""
        return f"{'memory' if self.is_learned else 'faq'}-{self.row.pk}"


def page_to_review(
    page: int, *, tables: Collection[str], stale: bool | None = None, among: Narrowing = _all
) -> tuple[list[ToReview], bool]:
    """One page, counted from 1, of the `tables` ("memory", "faq") that its reader may see; and whether more follow.

    `among` leaves of the rows of either table those that the reader works on.
    """
    size = settings.REVIEW_PAGE_ANSWERS
    end = page * size
    found: list[ToReview] = []
    if "memory" in tables:
        entries = among(entries_to_review(stale=stale)).defer("embedding").select_related("deployment")
        found += [
            ToReview(row, row.created_at, row.status_note or row.get_status_reason_display())
            for row in entries.order_by("created_at", "pk")[: end + 1]
        ]
    if "faq" in tables:
        answers = among(answers_to_review(stale=stale)).select_related("agent")
        found += [
            ToReview(row, row.updated_at, row.status_reason) for row in answers.order_by("updated_at", "pk")[: end + 1]
        ]
    found.sort(key=lambda each: (each.since, each.key))
    return found[end - size : end], len(found) > end


@dataclass(frozen=True, slots=True)
class Decided:
    """How many answers a decision changed, and how many it left: gone, decided or replaced meanwhile, empty or overdue."""

    changed: int
    left: int


def decide(keys: Collection[str], *, is_valid: bool, by: AbstractBaseUser | None, among: Narrowing = _all) -> Decided:
    """Validate the answers of these keys, or take them out of service. Raises the errors of the embedder and the store."""
    entry_ids, answer_ids = _ids(keys, "memory"), _ids(keys, "faq")
    entries = among(entries_to_review()).filter(pk__in=entry_ids)
    answers = list(among(answers_to_review()).filter(pk__in=answer_ids))
    if is_valid:
        changed = vouch_for_entries(entries) if entry_ids else 0
        changed += set_answer_status(answers, LearnedStatus.VALID, by=by)
    else:
        changed = set_entry_status(entries, EntryStatus.OBSOLETE, StatusReason.STAFF)
        changed += set_answer_status(answers, LearnedStatus.OBSOLETE, by=by)
    return Decided(changed, len(keys) - changed)


def _ids(keys: Collection[str], table: str) -> list[Any]:
    """Keys come from a form: whatever is none is left out."""
    pairs = (key.partition("-") for key in keys)
    return [int(pk) for name, _dash, pk in pairs if name == table and _DATABASE_KEY.fullmatch(pk)]
