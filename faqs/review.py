"""Answers that wait for a person to read them, and entries of the memory that a person makes validated answers of.

A promoted entry becomes an answer of every deployment and audience of its agent. One that is no longer given is validated
in the memory first; an answer that exists already is reported and never doubled. The entry stays.
"""

from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.effective import effective_config
from faqs.answer_points import sync_learned
from faqs.answers import clean_answer, one_line, save_learned, without_citations
from faqs.errors import AnswerRejectedError
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
from faqs.origins import entry_passages, stale_entries
from faqs.recall import REFUSALS


def entries_to_review() -> QuerySet[CachedResponse]:
    """Entries of the memory to review, without those that a valid answer replaced."""
    return CachedResponse.objects.filter(~_newer_answer(), status=EntryStatus.TO_REVIEW)


def answers_to_review() -> QuerySet[LearnedResponse]:
    """Validated answers and drafts to review, without those that a valid answer or entry replaced.

    A draft of unanswered questions waits with its group, until a person has validated it once.
    """
    newer_entry = CachedResponse.objects.filter(pk=OuterRef("superseded_by_entry"), status=EntryStatus.VALID)
    group = QuestionGroup.objects.filter(response=OuterRef("pk"), status=GroupStatus.DRAFTED)
    return LearnedResponse.objects.filter(
        ~_newer_answer(),
        ~Exists(newer_entry),
        ~Exists(group) | Q(validated_at__isnull=False),
        status=LearnedStatus.TO_REVIEW,
    )


def _newer_answer() -> Exists:
    """Whether a valid answer superseded the row, as an SQL condition."""
    return Exists(LearnedResponse.objects.valid().filter(pk=OuterRef("superseded_by")))


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
