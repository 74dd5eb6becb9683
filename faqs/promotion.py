"""From the memory to the FAQ: an entry that staff vouch for becomes a validated answer of its agent.

A validated answer is given by every deployment of the agent, to every audience, and no longer depends on passages: an
entry that was taken out of service, grew too old or lost a passage is validated in the memory first. An answer that
exists already is reported and never doubled, so an entry that cannot be compared is not promoted either. The entry
stays.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.effective import effective_config
from faqs.answers.duplicates import SimilarAnswer, find_similar
from faqs.answers.indexing import sync_learned
from faqs.answers.texts import clean_answer, one_line, without_citations
from faqs.answers.writing import save_learned
from faqs.exceptions import AnswerRejectedError
from faqs.memory.origins import entry_passages, stale_entries
from faqs.models import CachedResponse, EntryStatus, LearnedResponse, StatusReason, WrittenHow
from faqs.recall import REFUSALS

#: Why an entry may wait for staff without anything being wrong with it.
_UNREAD = (StatusReason.LEARNED, StatusReason.UNSOURCED, StatusReason.IN_CONTEXT, StatusReason.IMPORTED)


@dataclass(frozen=True, slots=True)
class Promotion:
    """The new validated answer, or the one that answers this question already."""

    response: LearnedResponse | None = None
    similar: SimilarAnswer | None = None


def promote_entry(entry: CachedResponse, *, owner: AbstractBaseUser | None) -> Promotion:
    """Make a validated answer of an entry, unless its agent has one to this question.

    Raises `AnswerRejectedError` with what is wrong, and the errors of the embedder and of the vector store.
    """
    agent = entry.deployment.agent
    question, answer = one_line(entry.question), clean_answer(without_citations(entry.answer))
    similar = find_similar(agent=agent, questions=[question], answer=answer)
    if similar:
        return Promotion(similar=similar[0])
    if reason := _why_not(entry):
        raise AnswerRejectedError(_("elle n’est plus donnée (%(reason)s) : validez-la d’abord.") % {"reason": reason})
    response = LearnedResponse(agent=agent, question=question, answer=answer, owner_id=owner.pk if owner else None)
    passages = entry_passages(entry.pk)
    save_learned(response, passages=passages, how=WrittenHow.PROMOTED, by=owner, in_worker=False)
    # At once: the next entry may ask the same in other words, and is compared with what is indexed.
    sync_learned([response.pk])
    return Promotion(response=response)


def _why_not(entry: CachedResponse) -> str:
    """What keeps the memory from giving this entry, in words; empty where staff may vouch for it as it is."""
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
