"""Answers that a person validated: added by hand, learned from a message, changed, taken out of service.

Each verb commits the row first and asks for its points after the commit (`faqs.indexing`), so an answer is kept
whatever the state of the vector store. Learning from a message receives plain values and an identifier: this app
knows nothing of conversations.
"""

import unicodedata
import uuid
from collections.abc import Iterable, Sequence
from datetime import date

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.models import Agent
from faqs.exceptions import AnswerRejectedError
from faqs.indexing import mark_pending, schedule_indexing
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus, Phrasing

DEFAULT_CATEGORY = "FAQ"
_CLOSING = " ?!.…,;:\u00a0\u202f"


def add_manual_faq(
    *,
    agent: Agent,
    question: str,
    answer: str,
    phrasings: Sequence[str] = (),
    category: str = DEFAULT_CATEGORY,
    owner: AbstractBaseUser | None = None,
    review_date: date | None = None,
    kind: LearnedKind = LearnedKind.FAQ,
    in_worker: bool = True,
) -> LearnedResponse:
    """Keep a validated answer and have it indexed; raises `AnswerRejectedError` with what is wrong.

    With `in_worker` off the caller calls `sync_learned` after the commit.
    """
    response = LearnedResponse(
        agent=agent,
        question=question,
        answer=answer,
        category=category,
        kind=kind,
        owner_id=owner.pk if owner else None,
        review_date=review_date,
    )
    save_learned(response, phrasings=phrasings, in_worker=in_worker)
    return response


def learn_from_message(
    *,
    agent: Agent,
    message_uuid: uuid.UUID,
    question: str,
    answer: str,
    corrected_answer: str = "",
    phrasings: Sequence[str] = (),
    owner: AbstractBaseUser | None = None,
) -> LearnedResponse:
    """Keep the answer of a message that a person validated, or its correction. The same message again updates."""
    response = LearnedResponse.objects.filter(agent=agent, source_message=message_uuid).first()
    if response is None:
        response = LearnedResponse(agent=agent, source_message=message_uuid)
        response.owner_id = owner.pk if owner else None
    response.question = question
    response.answer = corrected_answer.strip() or answer
    validate(response)
    save_learned(response, phrasings=phrasings if phrasings or not response.pk else None)
    return response


def draft_faq(
    *,
    agent: Agent,
    question: str,
    phrasings: Sequence[str] = (),
    answer: str = "",
    reason: str = "",
    owner: AbstractBaseUser | None = None,
) -> LearnedResponse:
    """An answer to be written or approved: kept in *to review*, not served."""
    response = LearnedResponse(
        agent=agent,
        question=question,
        answer=answer,
        status=LearnedStatus.TO_REVIEW,
        status_reason=reason or _("Brouillon à relire."),
        owner_id=owner.pk if owner else None,
    )
    save_learned(response, phrasings=phrasings)
    return response


def save_learned(
    response: LearnedResponse, *, phrasings: Sequence[str] | None = None, in_worker: bool = True
) -> None:
    """Check and store a row with its phrasings (`None` leaves them alone), then have its points follow.

    With `in_worker` off the caller calls `sync_learned` after the commit.
    """
    response.question = one_line(response.question)
    response.question_key = question_key(response.question)
    response.answer = clean_answer(response.answer)
    response.category = one_line(response.category)[:200] or DEFAULT_CATEGORY
    others = None if phrasings is None else other_phrasings(response.question, phrasings)
    check_texts(
        response.question,
        response.answer,
        others or (),
        needs_answer=response.status == LearnedStatus.VALID,
    )
    with transaction.atomic():
        response.save()
        if others is not None:
            _store_phrasings(response, others)
        (schedule_indexing if in_worker else mark_pending)([response.pk])
    response.refresh_from_db()


def validate(response: LearnedResponse) -> None:
    """Make a row valid as of now: a review date that has passed has been met."""
    response.status, response.status_reason = LearnedStatus.VALID, ""
    if _is_overdue(response):
        response.review_date = None


def set_status(rows: Iterable[LearnedResponse], status: LearnedStatus, *, reason: str = "") -> int:
    """Put rows in service or take them out; their points follow. Rows without an answer are never made valid."""
    keys = [
        row.pk
        for row in rows
        if status is not LearnedStatus.VALID or (row.answer and not _is_overdue(row))
    ]
    with transaction.atomic():
        LearnedResponse.objects.filter(pk__in=keys).update(
            status=status, status_reason=reason[:500], updated_at=timezone.now()
        )
        schedule_indexing(keys)
    return len(keys)


def record_served(learned_id: int) -> None:
    """Count an answer that was given."""
    LearnedResponse.objects.filter(pk=learned_id).update(
        times_served=F("times_served") + 1, last_served_at=timezone.now()
    )


def question_key(text: str) -> str:
    """A question without case, spacing and closing punctuation: two that share it are the same question."""
    folded = unicodedata.normalize("NFKC", one_line(text)).casefold().replace("’", "'")
    return folded.strip(_CLOSING) or folded


def one_line(text: str) -> str:
    """A question on one line, without characters that cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def clean_answer(text: str) -> str:
    """An answer with unix line ends and without control characters, at both ends without blanks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c.isprintable() or c in "\n\t").strip()


def other_phrasings(question: str, phrasings: Iterable[str]) -> list[str]:
    """The phrasings that say anything new, each once, in their order."""
    seen, kept = {question_key(question)}, []
    for text in map(one_line, phrasings):
        if text and (key := question_key(text)) not in seen:
            seen.add(key)
            kept.append(text)
    return kept


def check_texts(
    question: str, answer: str, phrasings: Sequence[str] = (), *, needs_answer: bool = True
) -> None:
    """Raise `AnswerRejectedError` for what is empty or longer than the settings allow."""
    longest, most = settings.QA_MAX_QUESTION_CHARACTERS, settings.FAQ_MAX_PHRASINGS
    if not any(c.isalnum() for c in question):
        raise _rejected(_("La question est vide."))
    if needs_answer and not answer:
        raise _rejected(_("La réponse est vide."))
    if any(len(text) > longest for text in (question, *phrasings)):
        raise _rejected(
            _("Une question dépasse %(limit)d caractères.") % {"limit": longest},
        )
    if len(answer) > settings.QA_MAX_ANSWER_CHARACTERS:
        raise _rejected(
            _("La réponse dépasse %(limit)d caractères.")
            % {"limit": settings.QA_MAX_ANSWER_CHARACTERS},
        )
    if len(phrasings) > most:
        raise _rejected(_("Il y a plus de %(limit)d formulations.") % {"limit": most})
    if any(not any(c.isalnum() for c in text) for text in phrasings):
        raise _rejected(_("Une formulation est vide."))


def _rejected(message: str) -> AnswerRejectedError:
    return AnswerRejectedError(public_message=message)


def _is_overdue(row: LearnedResponse) -> bool:
    return row.review_date is not None and row.review_date < timezone.localdate()


def _store_phrasings(response: LearnedResponse, texts: Sequence[str]) -> None:
    """A phrasing that stays keeps its row, and so its point and its vector."""
    stored = {phrasing.text: phrasing for phrasing in response.phrasings.all()}
    gone = [phrasing.pk for text, phrasing in stored.items() if text not in texts]
    Phrasing.objects.filter(pk__in=gone).delete()
    Phrasing.objects.bulk_create(
        Phrasing(response=response, text=text) for text in texts if text not in stored
    )
