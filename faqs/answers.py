"""Validated answers as persons write them: corrected, drafted, put in and out of service, promoted from the memory.

A row is committed first and counts from then on; its points, and what it supersedes, follow (`faqs.answer_points`).
"""

import re
import unicodedata
import uuid
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.effective import agent_setting, effective_config
from agents.errors import ApplicationError
from agents.history import PHRASINGS, acting, log_event
from agents.models import Agent
from faqs.answer_points import mark_pending, schedule_indexing, sync_learned, take_effect
from faqs.memory import normalised_question
from faqs.models import (
    CachedResponse,
    EntryStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    Origin,
    Phrasing,
    QuestionGroup,
    StatusReason,
)
from faqs.neighbours import SimilarAnswer, find_similar
from faqs.origins import accept_origins, bears_on, keep_passages, origins_of, stale_answers
from faqs.recall import REFUSALS, why_not_served
from knowledge.models import QA_MAX_ANSWER_CHARACTERS, QA_MAX_QUESTION_CHARACTERS

FAQ_MAX_PHRASINGS = 30

DEFAULT_CATEGORY = "FAQ"
_CITED = re.compile(r"\[(\d{1,3})\]")
#: What an answer has for its reader only: its source line and its citations.
_SOURCE_LINE = re.compile(r"\n+\*[^*\n]+\*\s*\[\d+\]\s*$")
_NUMBER = re.compile(r"[ \t\u00a0]*\[\d{1,3}\](?!\()")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


class AnswerRejectedError(ApplicationError):
    """A question or an answer that cannot be kept, with the reason that people read."""

    code = "answer_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(public_message=reason)


def one_line(text: str) -> str:
    """A question on one line, without characters that cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def clean_answer(text: str) -> str:
    """Return an answer with unix line ends, trimmed, without control characters and halves of characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()


def without_citations(answer: str) -> str:
    """The text of an answer without its source line and its numbers of sources; brackets in code are code."""
    text = _SOURCE_LINE.sub("", answer)
    pieces, position = [], 0
    for code in _CODE.finditer(text):
        pieces += [_NUMBER.sub("", text[position : code.start()]), code[0]]
        position = code.end()
    return "".join([*pieces, _NUMBER.sub("", text[position:])]).strip()


def other_phrasings(question: str, phrasings: Iterable[str]) -> list[str]:
    """The phrasings that differ from the question and from one another, in their order."""
    seen, kept = {normalised_question(question)}, []
    for text in map(one_line, phrasings):
        if text and (key := normalised_question(text)) not in seen:
            seen.add(key)
            kept.append(text)
    return kept


def check_texts(question: str, answer: str, phrasings: Sequence[str] = (), *, needs_answer: bool = True) -> None:
    """Raise `AnswerRejectedError` for texts that are empty, too long or too many."""
    longest, most = QA_MAX_QUESTION_CHARACTERS, FAQ_MAX_PHRASINGS
    if not any(c.isalnum() for c in question):
        raise AnswerRejectedError(_("La question est vide."))
    if needs_answer and not answer:
        raise AnswerRejectedError(_("La réponse est vide."))
    if any(len(text) > longest for text in (question, *phrasings)):
        raise AnswerRejectedError(_("Une question dépasse %(limit)d caractères.") % {"limit": longest})
    if len(answer) > QA_MAX_ANSWER_CHARACTERS:
        raise AnswerRejectedError(_("La réponse dépasse %(limit)d caractères.") % {"limit": QA_MAX_ANSWER_CHARACTERS})
    if len(phrasings) > most:
        raise AnswerRejectedError(_("Il y a plus de %(limit)d formulations.") % {"limit": most})
    if any(not any(c.isalnum() for c in text) for text in phrasings):
        raise AnswerRejectedError(_("Une formulation est vide."))


def cited_sources(answer: str, sources: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The sources that the answer cites; all of them where it cites none."""
    cited = {int(number) for number in _CITED.findall(_CODE.sub("", answer))}
    return [source for source in sources if source.get("n") in cited] or sources


def learn_from_message(
    *,
    agent: Agent,
    message_uuid: uuid.UUID,
    question: str,
    answer: str,
    sources: Sequence[Mapping[str, Any]] = (),
    owner: AbstractBaseUser | None = None,
) -> LearnedResponse:
    """Store a message's answer that a person validated, or its correction; the same message again updates the row."""
    response = LearnedResponse.objects.filter(agent=agent, source_message=message_uuid).first()
    if response is None:
        response = LearnedResponse(agent=agent, source_message=message_uuid)
        response.owner_id = owner.pk if owner else None
    response.question = question
    response.answer = answer
    validate(response)
    passages = origins_of(sources) or ()
    save_learned(response, passages=passages, by=owner)
    return response


def save_learned(
    response: LearnedResponse,
    *,
    phrasings: Sequence[str] | None = None,
    passages: Iterable[Origin] | None = None,
    by: AbstractBaseUser | None = None,
    in_worker: bool = True,
) -> None:
    """Check and store a row with its phrasings and its passages (`None` leaves them alone), then have it take effect.

    A valid row is a person's word of now, and takes its passages as they stand. Raises `AnswerRejectedError` with what
    is wrong. With `in_worker` off the caller calls `sync_learned` after the commit.
    """
    response.question = one_line(response.question)
    response.question_key = normalised_question(response.question)
    response.answer = clean_answer(response.answer)
    response.category = one_line(response.category)[:200] or DEFAULT_CATEGORY
    others = None if phrasings is None else other_phrasings(response.question, phrasings)
    check_texts(response.question, response.answer, others or (), needs_answer=response.status == LearnedStatus.VALID)
    response.is_given_in_review = False
    if response.status == LearnedStatus.VALID:
        response.validated_at = timezone.now()
        response.superseded_by = response.superseded_by_entry = None
    is_new = response.pk is None
    with transaction.atomic(), acting(by):
        response.save()
        if others is not None:
            _store_phrasings(response, others)
        if passages is not None:
            keep_passages(response, passages)
        elif response.status == LearnedStatus.VALID and not is_new:
            accept_origins(answers=[response.pk])
        if response.status == LearnedStatus.OBSOLETE:
            _release_groups([response.pk])
        (take_effect if in_worker else mark_pending)([response.pk])
    response.refresh_from_db()


def restore_answer(response: LearnedResponse, values: dict[str, Any], by: AbstractBaseUser | None) -> None:
    """Store values of the journal as the form does; a review date in the past does not come back."""
    phrasings = values.pop(PHRASINGS, None)
    for name, value in values.items():
        setattr(response, name, value)
    if response.status == LearnedStatus.VALID:
        validate(response)
    save_learned(response, phrasings=phrasings, by=by)


def validate(response: LearnedResponse) -> None:
    """Make a row valid as of now; a review date in the past is cleared."""
    response.status, response.status_reason = LearnedStatus.VALID, ""
    if _is_overdue(response):
        response.review_date = None


def set_status(rows: Iterable[LearnedResponse], status: LearnedStatus, *, reason: str = "") -> int:
    """Put rows in service or take them out; their points follow. Rows without an answer are never made valid."""
    keys = [row.pk for row in rows if status is not LearnedStatus.VALID or (row.answer and not _is_overdue(row))]
    now = timezone.now()
    vouched_for: dict[str, Any] = {"superseded_by": None, "superseded_by_entry": None}
    if status is LearnedStatus.VALID:
        vouched_for["validated_at"] = now
    with transaction.atomic():
        LearnedResponse.objects.filter(pk__in=keys).update(
            status=status, status_reason=reason[:500], is_given_in_review=False, updated_at=now, **vouched_for
        )
        if status is LearnedStatus.VALID:
            accept_origins(answers=keys)
        elif status is LearnedStatus.OBSOLETE:
            _release_groups(keys)
        take_effect(keys)
    return len(keys)


def review_stale_answers(before: Mapping[int, tuple[int, str]]) -> int:
    """Move the validated answers of which a passage changed or went to *to review*; how many.

    `before`: of each passage its document, and what it said. An answer is given meanwhile where no sentence that it
    stands on changed, or where its agent wants that (`withhold_stale_answers`).
    """
    stale, count = stale_answers(before).valid(), 0
    for agent in Agent.objects.filter(learned_responses__in=stale).distinct():
        is_withheld = bool(agent_setting(agent, "withhold_stale_answers"))
        with transaction.atomic():
            # Locked with the condition: a person may have put one right meanwhile.
            rows = list(stale.filter(agent=agent).order_by("pk").select_for_update())
            touched = {
                row.pk
                for row in rows
                for key in row.origins.filter(chunk__in=list(before)).values_list("chunk_id", flat=True)
                if bears_on(row, key, *before[key])
            }
            for bears, reason in (
                (True, _("Un passage dont elle est tirée a changé, a été désactivé ou supprimé.")),
                (False, _("Un passage dont elle est tirée a changé ailleurs : elle reste donnée.")),
            ):
                keys = [row.pk for row in rows if (row.pk in touched) is bears]
                count += LearnedResponse.objects.filter(pk__in=keys).update(
                    status=LearnedStatus.TO_REVIEW,
                    status_reason=reason,
                    is_given_in_review=not (bears and is_withheld),
                    updated_at=timezone.now(),
                )
            schedule_indexing(sorted(touched))
    return count


def record_served(learned_id: int) -> None:
    """Count an answer that was given."""
    served = LearnedResponse.objects.filter(pk=learned_id)
    served.update(times_served=F("times_served") + 1, last_served_at=timezone.now())


def _release_groups(keys: Iterable[int]) -> None:
    """Reopen the groups of questions whose draft is withdrawn."""
    drafted = QuestionGroup.objects.filter(response__in=keys, status=GroupStatus.DRAFTED)
    drafted.update(status=GroupStatus.OPEN, response=None)


def _is_overdue(row: LearnedResponse) -> bool:
    return row.review_date is not None and row.review_date < timezone.localdate()


def _store_phrasings(response: LearnedResponse, texts: Sequence[str]) -> None:
    """Store the phrasings; an unchanged one keeps its row, point and vector."""
    stored = {phrasing.text: phrasing for phrasing in response.phrasings.all()}
    removed = [phrasing.pk for text, phrasing in stored.items() if text not in texts]
    if removed or len(stored) != len(texts):
        log_event(response, PHRASINGS, list(stored), list(texts))
    Phrasing.objects.filter(pk__in=removed).delete()
    Phrasing.objects.bulk_create(Phrasing(response=response, text=text) for text in texts if text not in stored)


def entries_to_review() -> QuerySet[CachedResponse]:
    """Entries of the memory to review, without those that a valid answer replaced."""
    return CachedResponse.objects.filter(~_newer_answer(), status=EntryStatus.TO_REVIEW)


def answers_to_review() -> QuerySet[LearnedResponse]:
    """Validated answers and drafts to review, without those that a valid answer or entry replaced."""
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
    """Make an entry a validated answer, or return the agent's existing answer to the same question."""
    agent = entry.deployment.agent
    question, answer = one_line(entry.question), clean_answer(without_citations(entry.answer))
    similar = find_similar(agent=agent, questions=[question], answer=answer)
    if similar:
        return similar[0]
    if reason := _why_not(entry):
        raise AnswerRejectedError(_("elle n’est plus donnée (%(reason)s) : validez-la d’abord.") % {"reason": reason})
    response = LearnedResponse(agent=agent, question=question, answer=answer, owner_id=owner.pk if owner else None)
    passages = Origin.objects.filter(entry=entry, learned=None)
    save_learned(response, passages=passages, by=owner, in_worker=False)
    # At once: the next entry may ask the same in other words, and is compared with what is indexed.
    sync_learned([response.pk])
    return None


def _why_not(entry: CachedResponse) -> str:
    """The reason why the memory does not serve this entry; empty where staff may validate it as it is."""
    if entry.status == EntryStatus.TO_REVIEW and entry.status_reason in _UNREAD:
        entry = copy(entry)
        entry.status = EntryStatus.VALID
    refusal = why_not_served(entry, max_age_days=effective_config(entry.deployment).memory_max_age_days)
    if refusal == "not_valid" and entry.status_reason and entry.status_reason not in _UNREAD:
        return str(entry.get_status_reason_display())
    return str(EntryStatus.OBSOLETE.label if refusal == "not_valid" else REFUSALS.get(refusal, ""))
