"""What the model wrote becomes an entry of the memory or does not; what persons validated is kept.

Receives plain values from `chat`, never its models. The memory learns (seed 000, section 5) what the model wrote from
passages, finished and shown. A direct answer and a quotation hold nothing that is not in the documents already; an
answer with a tool's result may be true for one person or one moment only.

A validated answer's row is committed first and its points are asked for afterwards (`faqs.indexing`): it is kept
whatever the state of the vector store.
"""

import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.models import Agent, Deployment, MemoryLearning
from faqs.exceptions import AnswerRejectedError
from faqs.indexing import mark_pending, schedule_indexing
from faqs.memory.array import current_audience
from faqs.memory.entries import (
    Draft,
    doubt_entry,
    find_entry,
    project_of,
    report_pair,
    write_entry,
)
from faqs.memory.keys import PHASE, Scope, normalised_question, recipe_key
from faqs.memory.origins import origins_of, stale_entries
from faqs.memory.personal_data import personal_data
from faqs.models import (
    AnswerDoubt,
    CachedResponse,
    EntryStatus,
    LearnedResponse,
    LearnedStatus,
    Phrasing,
    StatusReason,
    WrongPair,
)
from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Vector

NOT_VALID = "<non valide>"

#: Why an answer is not kept.
NOT_LEARNED: dict[str, str | Promise] = {
    "off": gettext_lazy("l’apprentissage est désactivé"),
    "follow_up": gettext_lazy("la question est une suite"),
    "incomplete_question": gettext_lazy("la question ne se comprend pas seule"),
    "question_too_long": gettext_lazy("la question est trop longue"),
    "answer_too_long": gettext_lazy("la réponse est trop longue"),
    "not_valid": gettext_lazy("la réponse est marquée <non valide>"),
    "refusal": gettext_lazy("la réponse dit ne pas savoir"),
    "no_source": gettext_lazy("la réponse n’a pas de source"),
    "tool": gettext_lazy("la réponse vient d’un outil"),
    "personal_data": gettext_lazy("données personnelles"),
    "source_changed": gettext_lazy("une source a changé, ou ne peut pas être suivie"),
    "other_scope": gettext_lazy("une autre phase ou un autre projet a la même clé"),
    "set_aside": gettext_lazy("l’équipe a écarté la réponse à cette question"),
}

_CITATION = re.compile(r"\[\d{1,3}\]")
#: What an answer has for its reader only: its source line and its citations.
_SOURCE_LINE = re.compile(r"\n+\*[^*\n]+\*\s*\[\d+\]\s*$")
_NUMBER = re.compile(r"[ \t\u00a0]*\[\d{1,3}\](?!\()")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_REFUSAL = re.compile(
    r"je ne (?:sais|dispose|trouve|peux|suis)(?: \w+)? pas|je n'ai pas|aucune? (?:information|passage|source|r[ée]ponse)"
    r"|(?:passages?|sources?|documents?|informations?|extraits?|textes?)(?: \S+){0,3} ne "
    r"(?:\w+ )?(?:permet|contien|mentionn|pr[ée]cis|indiqu|donn|r[ée]pond|trait|parl|fourni|figur|dis)\w*"
    r"|n'(?:est|sont) pas (?:pr[ée]cis|indiqu|mentionn|fourni|disponible)\w*"
    r"|(?:i|we) (?:do not|don't|cannot|can't|could not|couldn't|am unable|are unable)\b"
    r"|(?:passages?|sources?|documents?|information|texts?)(?: \S+){0,3} "
    r"(?:do not|does not|don't|doesn't|did not)\b|no (?:information|passage|source|answer)\b"
    r"|(?:is|are) not (?:specified|mentioned|stated|provided|available|covered)",
    re.IGNORECASE,
)
#: A refusal says so at once; later on, « ne précise pas » may well be part of an answer.
_HEAD = 200
_WORD = re.compile(r"\w{2,}")

Outcome = Literal["stored", "to_review", "known", "refused"]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A question and the answer that the model wrote to it. `sources` are those of the answer, as they are saved."""

    deployment_id: int
    question: str
    answer: str
    vector: Vector
    recipe: Recipe
    sources: Sequence[Mapping[str, Any]]
    language: str
    author: str
    score: float | None = None
    is_follow_up: bool = False
    #: Earlier exchanges stood in the prompt: the answer may lean on them, though the question does not.
    had_context: bool = False
    used_tools: bool = False
    source_turn: uuid.UUID | None = None
    #: Of a conversation with a phase or a project.
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    outcome: Outcome
    reason: str = ""
    entry_id: int | None = None


def reason_not_to_learn(lesson: Lesson, mode: str) -> str:
    """A key of `NOT_LEARNED`, or an empty string where the answer may be kept. Pure."""
    public = [str(source.get("text", "")) for source in lesson.sources]
    reasons = (
        ("off", mode not in (MemoryLearning.REVIEW, MemoryLearning.VALID)),
        ("follow_up", lesson.is_follow_up),
        ("tool", lesson.used_tools),
        ("question_too_long", len(lesson.question) > settings.MEMORY_MAX_QUESTION_CHARACTERS),
        ("answer_too_long", len(lesson.answer) > settings.MEMORY_MAX_ANSWER_CHARACTERS),
        ("incomplete_question", len(_WORD.findall(lesson.question)) < 2),
        ("no_source", not lesson.sources or not lesson.answer.strip()),
    )
    # The length is checked first: what follows reads the whole texts.
    for reason, holds in reasons:
        if holds:
            return reason
    if NOT_VALID in f"{lesson.question}\n{lesson.answer}".casefold():
        return "not_valid"
    if is_refusal(lesson.answer):
        return "refusal"
    if personal_data(lesson.question) or personal_data(lesson.answer, public_texts=public):
        return "personal_data"
    return ""


def is_refusal(answer: str) -> bool:
    """Whether the answer says that it does not know."""
    return _REFUSAL.search(answer[:_HEAD].replace("’", "'")) is not None


def remember_answer(lesson: Lesson, *, mode: str, max_age_days: int) -> Learned:
    """Keep an answer as an entry: valid at once, or waiting for staff, as the mode and the answer allow.

    An answer that cites nothing, or that was written after other exchanges, waits for staff in every mode. What staff
    have set aside (marked obsolete, or reported as wrong) is never overwritten.
    """
    if reason := reason_not_to_learn(lesson, mode):
        return Learned("refused", reason)
    origins = origins_of(lesson.sources)
    if origins is None:
        return Learned("refused", "source_changed")
    deployment = Deployment.objects.get(pk=lesson.deployment_id)
    waiting = _why_to_review(lesson, mode)
    scope = lesson.scope or Scope(PHASE, project_of(deployment))
    draft = Draft(
        deployment_id=deployment.pk,
        audience=current_audience(deployment),
        question=lesson.question,
        answer=lesson.answer,
        vector=lesson.vector,
        recipe=lesson.recipe,
        phase=scope.phase,
        project=scope.project,
        is_scoped=lesson.scope is not None,
        status=EntryStatus.TO_REVIEW if waiting else EntryStatus.VALID,
        status_reason=waiting,
        language=lesson.language,
        authors=[lesson.author] if lesson.author else [],
        initial_score=lesson.score,
        sources=[dict(source) for source in lesson.sources],
        origins=origins,
        source_turn=lesson.source_turn,
    )
    existing = find_entry(draft)
    if existing is not None:
        if existing.status == EntryStatus.OBSOLETE or existing.wrong_pairs.exists():
            return Learned("refused", "set_aside", existing.pk)
        if not _is_same_scope(existing, scope):
            return Learned("refused", "other_scope", existing.pk)
        if _still_answers(existing, lesson.recipe, max_age_days):
            return Learned("known", entry_id=existing.pk)
    entry = write_entry(draft)
    return Learned("to_review" if waiting else "stored", waiting, entry.pk)


def report_wrong(
    *,
    entry_id: int,
    question: str,
    reason: str = "",
    source_turn: uuid.UUID | None = None,
    visitor: uuid.UUID | None = None,
) -> bool:
    """A person says that this entry is wrong for this question: the pair is never served again.

    The entry goes to *to review* and answers nobody until staff have looked at it. Of anonymous visitors it takes
    `ANONYMOUS_REPORTS_TO_WITHDRAW` different ones, unless the entry was learned from this very turn and no member of
    staff has vouched for it since. `False` if nothing was withdrawn.
    """
    if visitor is not None and source_turn is not None:
        own = CachedResponse.objects.filter(pk=entry_id, source_turn=source_turn)
        if not own.filter(confirmed_at=F("created_at")).exists():
            return doubt_entry(
                entry_id=entry_id,
                visitor=visitor,
                question=question,
                reason=reason,
                source_turn=source_turn,
            )
    return report_pair(entry_id=entry_id, question=question, reason=reason, source_turn=source_turn)


def withdraw_doubts(turn_id: uuid.UUID) -> bool:
    """The visitor takes a report back that has withdrawn nothing yet; `False` where there was none."""
    gone, _rows = AnswerDoubt.objects.filter(source_turn=turn_id).delete()
    return bool(gone)


def entries_of_turn(turn_id: uuid.UUID) -> list[int]:
    """The entries that were learned from the answer of this turn."""
    return list(CachedResponse.objects.filter(source_turn=turn_id).values_list("pk", flat=True))


def unlink_turns(turn_ids: Collection[uuid.UUID]) -> None:
    """The conversation of these turns is deleted: what was learned from them stays, and no longer says from whom.

    So does the bar of a reported answer, without the words of whoever reported it.
    """
    CachedResponse.objects.filter(source_turn__in=turn_ids).update(source_turn=None)
    reported = WrongPair.objects.filter(source_turn__in=turn_ids)
    for entry_id, note in reported.exclude(reason="").values_list("response", "reason"):
        noted = CachedResponse.objects.filter(pk=entry_id, status_reason=StatusReason.REPORTED)
        noted.filter(status_note=note).update(status_note="")
    # One that asks what the entry asks has no words of its own.
    reported.filter(answer_digest="").update(question="")
    reported.update(source_turn=None, reason="")
    AnswerDoubt.objects.filter(source_turn__in=turn_ids).delete()
    LearnedResponse.objects.filter(source_message__in=turn_ids).update(source_message=None)


def _why_to_review(lesson: Lesson, mode: str) -> str:
    if mode != MemoryLearning.VALID:
        return StatusReason.LEARNED
    if not _CITATION.search(lesson.answer):
        return StatusReason.UNSOURCED
    return StatusReason.IN_CONTEXT if lesson.had_context else ""


def _is_same_scope(entry: CachedResponse, scope: Scope) -> bool:
    """A key joins phase, project and question without a mark between them: two scopes may have one."""
    found = (entry.metadata.get("phase"), entry.metadata.get("project"))
    return found == (scope.phase, scope.project)


def _still_answers(entry: CachedResponse, recipe: Recipe, max_age_days: int) -> bool:
    """Valid, neither too old nor overdue, with vectors of this model and its passages unchanged."""
    if entry.status != EntryStatus.VALID or entry.recipe_key != recipe_key(recipe):
        return False
    overdue = entry.review_on is not None and entry.review_on < timezone.localdate()
    expired = entry.confirmed_at < timezone.now() - timedelta(days=max_age_days)
    return not overdue and not expired and not stale_entries().filter(pk=entry.pk).exists()


DEFAULT_CATEGORY = "FAQ"


def add_manual_faq(
    *,
    agent: Agent,
    question: str,
    answer: str,
    phrasings: Sequence[str] = (),
    owner: AbstractBaseUser | None = None,
    in_worker: bool = True,
) -> LearnedResponse:
    """Keep a validated answer and have it indexed, as `save_learned` does a row that has more than these."""
    response = LearnedResponse(
        agent=agent, question=question, answer=answer, owner_id=owner.pk if owner else None
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
    save_learned(response)
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

    Raises `AnswerRejectedError` with what is wrong. With `in_worker` off the caller calls `sync_learned` after the commit.
    """
    response.question = one_line(response.question)
    response.question_key = normalised_question(response.question)
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


def one_line(text: str) -> str:
    """A question on one line, without characters that cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def clean_answer(text: str) -> str:
    """An answer with unix line ends and without control characters, at both ends without blanks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c.isprintable() or c in "\n\t").strip()


def without_citations(answer: str) -> str:
    """The text of an answer without its source line and its numbers of sources; brackets in code are code."""
    text = _SOURCE_LINE.sub("", answer)
    pieces, position = [], 0
    for code in _CODE.finditer(text):
        pieces += [_NUMBER.sub("", text[position : code.start()]), code[0]]
        position = code.end()
    return "".join([*pieces, _NUMBER.sub("", text[position:])]).strip()


def other_phrasings(question: str, phrasings: Iterable[str]) -> list[str]:
    """The phrasings that say anything new, each once, in their order."""
    seen, kept = {normalised_question(question)}, []
    for text in map(one_line, phrasings):
        if text and (key := normalised_question(text)) not in seen:
            seen.add(key)
            kept.append(text)
    return kept


def check_texts(
    question: str, answer: str, phrasings: Sequence[str] = (), *, needs_answer: bool = True
) -> None:
    """Raise `AnswerRejectedError` for what is empty or longer than the settings allow."""
    longest, most = settings.QA_MAX_QUESTION_CHARACTERS, settings.FAQ_MAX_PHRASINGS
    if not any(c.isalnum() for c in question):
        raise AnswerRejectedError(_("La question est vide."))
    if needs_answer and not answer:
        raise AnswerRejectedError(_("La réponse est vide."))
    if any(len(text) > longest for text in (question, *phrasings)):
        raise AnswerRejectedError(
            _("Une question dépasse %(limit)d caractères.") % {"limit": longest},
        )
    if len(answer) > settings.QA_MAX_ANSWER_CHARACTERS:
        raise AnswerRejectedError(
            _("La réponse dépasse %(limit)d caractères.")
            % {"limit": settings.QA_MAX_ANSWER_CHARACTERS},
        )
    if len(phrasings) > most:
        raise AnswerRejectedError(_("Il y a plus de %(limit)d formulations.") % {"limit": most})
    if any(not any(c.isalnum() for c in text) for text in phrasings):
        raise AnswerRejectedError(_("Une formulation est vide."))


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
