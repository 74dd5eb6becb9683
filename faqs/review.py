"""Answers that wait for a person to read them, and entries of the memory that a person makes validated answers of.

The list joins the memory and the FAQ, the longest waiting first: those that time has overtaken (a passage changed, their
review date passed), and the others (learned, imported, drafted, reported). Drafts of unanswered questions wait with their
groups, and what a valid answer replaced waits for nobody.

A promoted entry becomes an answer of every deployment and audience of its agent. One that is no longer given is validated
in the memory first; an answer that exists already is reported and never doubled. The entry stays.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.effective import effective_config
from faqs.answer_points import sync_learned
from faqs.answers import clean_answer, one_line, save_learned, without_citations
from faqs.answers import set_status as set_answer_status
from faqs.errors import AnswerRejectedError
from faqs.memory import set_status as set_entry_status
from faqs.models import (
    CachedResponse,
    EntryStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    QuestionGroup,
    StatusReason,
)
from faqs.neighbours import SimilarAnswer, find_similar
from faqs.origins import entry_passages, is_stale_answer, stale_entries
from faqs.precedence import vouch_for_entries
from faqs.recall import REFUSALS

#: Answers to be read again that one page lists; what lies beyond so many pages comes nearer as they are decided on.
REVIEW_PAGE_ANSWERS = 25

#: What any database takes for a key.
_DATABASE_KEY = re.compile(r"[0-9]{1,18}")
#: Leaves of some rows those that somebody works on.
Narrowing = Callable[[QuerySet[Any]], QuerySet[Any]]
_OVERTAKEN = (StatusReason.CHUNK_CHANGED, StatusReason.REVIEW_DUE)


def _all(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows


def entries_to_review(*, stale: bool | None = None) -> QuerySet[CachedResponse]:
    """Entries of the memory to review; with `stale`, only the outdated ones (`True`) or only the others (`False`)."""
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
    """Whether a valid answer superseded the row, as an SQL condition."""
    return Exists(LearnedResponse.objects.valid().filter(pk=OuterRef("superseded_by")))


@dataclass(frozen=True, slots=True)
class ToReview:
    """An answer to review, from either table."""

    row: CachedResponse | LearnedResponse
    since: datetime
    why: str

    @property
    def is_learned(self) -> bool:
        """Whether the answer is an entry of the memory rather than a validated answer."""
        return isinstance(self.row, CachedResponse)

    @property
    def key(self) -> str:
        """The key of the row in forms, unique across both tables."""
        return f"{'memory' if self.is_learned else 'faq'}-{self.row.pk}"


def page_to_review(
    page: int, *, tables: Collection[str], stale: bool | None = None, among: Narrowing = _all
) -> tuple[list[ToReview], bool]:
    """One page, counted from 1, of the `tables` ("memory", "faq") that its reader may see; and whether more follow.

    `among` leaves of the rows of either table those that the reader works on.
    """
    size = REVIEW_PAGE_ANSWERS
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


def decide(keys: Collection[str], *, is_valid: bool, among: Narrowing = _all) -> int:
    """Validate the answers of these keys, or take them out of service; returns how many changed.

    Left are those deleted, decided or replaced meanwhile, empty or overdue. Raises the errors of the embedder and the
    store.
    """
    entry_ids, answer_ids = _ids(keys, "memory"), _ids(keys, "faq")
    entries = among(entries_to_review()).filter(pk__in=entry_ids)
    answers = list(among(answers_to_review()).filter(pk__in=answer_ids))
    if not is_valid:
        changed = set_entry_status(entries, EntryStatus.OBSOLETE, StatusReason.STAFF)
        return changed + set_answer_status(answers, LearnedStatus.OBSOLETE)
    changed = vouch_for_entries(entries) if entry_ids else 0
    return changed + set_answer_status(answers, LearnedStatus.VALID)


def _ids(keys: Collection[str], table: str) -> list[Any]:
    """The valid primary keys among a form's keys for this table."""
    pairs = (key.partition("-") for key in keys)
    return [int(pk) for name, _dash, pk in pairs if name == table and _DATABASE_KEY.fullmatch(pk)]


#: Why an entry may wait for staff without anything being wrong with it.
_UNREAD = (StatusReason.LEARNED, StatusReason.UNSOURCED, StatusReason.IN_CONTEXT, StatusReason.IMPORTED)


def promote_entry(entry: CachedResponse, *, owner: AbstractBaseUser | None) -> SimilarAnswer | None:
    """Make an entry a validated answer, or return the agent's existing answer to the same question.

    Raises `AnswerRejectedError` with the reason, and the errors of the embedder and of the vector store.
    """
    agent = entry.deployment.agent
    question, answer = one_line(entry.question), clean_answer(without_citations(entry.answer))
    similar = find_similar(agent=agent, questions=[question], answer=answer)
    if similar:
        return similar[0]
    if reason := _why_not(entry):
        raise AnswerRejectedError(_("elle n’est plus donnée (%(reason)s) : validez-la d’abord.") % {"reason": reason})
    response = LearnedResponse(agent=agent, question=question, answer=answer, owner_id=owner.pk if owner else None)
    save_learned(response, passages=entry_passages(entry.pk), by=owner, in_worker=False)
    # At once: the next entry may ask the same in other words, and is compared with what is indexed.
    sync_learned([response.pk])
    return None


def _why_not(entry: CachedResponse) -> str:
    """The reason why the memory does not serve this entry; empty where staff may validate it as it is."""
    unread = entry.status == EntryStatus.TO_REVIEW and entry.status_reason in _UNREAD
    if entry.status != EntryStatus.VALID and not unread:
        if entry.status_reason and entry.status_reason not in _UNREAD:
            return str(entry.get_status_reason_display())
        return str(EntryStatus.OBSOLETE.label)
    if entry.review_on is not None and entry.review_on < timezone.localdate():
        return str(REFUSALS["review_due"])
    max_age_days = effective_config(entry.deployment).memory_max_age_days
    if entry.confirmed_at < timezone.now() - timedelta(days=max_age_days):
        return str(REFUSALS["expired"])
    if stale_entries().filter(pk=entry.pk).exists():
        return str(StatusReason.CHUNK_CHANGED.label)
    return ""
