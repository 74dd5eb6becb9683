"""Decides whether an answer that the model wrote becomes an entry of the memory. Receives values from `chat`, no models.

Only an answer written from passages, finished and shown is learned (seed 000, section 5); never a quotation, nor what a
tool found, which may be true for one person or one moment only.
"""

import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from agents.models import Deployment
from agents.settings import MemoryLearning
from faqs.answers import cited_sources
from faqs.memory import (
    PHASE,
    Scope,
    answer_digest,
    current_audience,
    find_entry,
    holding_memory,
    new_entry,
    put_entry,
    question_hash,
    recipe_key,
    writing,
)
from faqs.models import CachedResponse, EntryStatus, LearnedResponse, StatusReason, WrongPair
from faqs.origins import origins_of
from faqs.precedence import is_answered_since
from faqs.recall import why_not_served
from faqs.second_key.same_question import ask_the_same
from knowledge.acronyms import NO_FORMS, Forms
from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Vector

#: A longer question or answer is not kept in memory: nobody asks it twice.
MEMORY_MAX_QUESTION_CHARACTERS = 500
MEMORY_MAX_ANSWER_CHARACTERS = 20_000

_SPACE = r"[ \u00a0\u202f.\-]?"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")),
    ("iban", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")),
    # A French social security number: sex, year, month, department, commune, order, key.
    (
        "social_security",
        re.compile(
            rf"\b[12]{_SPACE}\d{{2}}{_SPACE}(?:0[1-9]|1[0-2]|[2-9]\d){_SPACE}(?:\d{{2}}|2[AB]){_SPACE}"
            rf"\d{{3}}{_SPACE}\d{{3}}(?:{_SPACE}\d{{2}})?\b",
            re.IGNORECASE,
        ),
    ),
    ("card", re.compile(rf"\b\d{{4}}(?:{_SPACE}\d{{4}}){{3}}\b")),
    # A French number has ten digits in pairs, or its country's code; another country's opens with + or 00.
    ("phone", re.compile(rf"(?<![\w+])0[1-9](?:{_SPACE}\d{{2}}){{4}}(?!\d)")),
    ("phone", re.compile(rf"(?<!\w)(?:\+|00)[1-9]\d{{0,2}}(?:{_SPACE}\(?\d{{1,4}}\)?){{2,6}}")),
    ("phone", re.compile(r"(?<![\w.])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)")),
    ("ip_address", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    (
        "own_number",
        re.compile(
            r"\b(?:mon|ma|my|son|sa|his|her|notre|our)\b[^\n.?!]{0,40}?(?:num[ée]ro|n°|nº|number|no\.|#|"
            r"dossier|compte|account|contrat|contract|matricule|r[ée]f[ée]rence|reference|file)[^\n.?!]{0,15}?"
            r"[A-Z]{0,4}[ -]?\d{4,}",
            re.IGNORECASE,
        ),
    ),
    (
        "name",
        re.compile(
            r"\b(?:je m'appelle|je me nomme|mon nom est|my name is|je suis (?:m\.|mme|monsieur|madame)|"
            r"i am (?:mr|mrs|ms)\b\.?)[ ]{0,3}\w",
            re.IGNORECASE,
        ),
    ),
    (
        "birth_date",
        re.compile(
            r"\b(?:n[ée]e?(?:\(e\))? le|born on(?: the)?|date de naissance|date of birth)\b"
            r"[^\n?!]{0,20}\d{1,4}[ /.-](?:\d{1,2}|\w{3,9})[ /.-]\d{2,4}",
            re.IGNORECASE,
        ),
    ),
    (
        "address",
        re.compile(
            r"\b(?:j'habite|je r[ée]side|i live|mon adresse|my address)\b[^\n?!]{0,30}?\d{1,4}[ ,]", re.IGNORECASE
        ),
    ),
)


def personal_data(text: str, *, public_texts: Iterable[str] = ()) -> str:
    """The kind of the first personal data found, or an empty string."""
    straight = text.replace("’", "'")
    public = [_squeezed(each) for each in public_texts]
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(straight):
            if not any(_squeezed(match[0]) in each for each in public):
                return kind
    return ""


def _squeezed(text: str) -> str:
    return re.sub(r"[\s.\-]", "", text.replace("’", "'")).casefold()


NOT_VALID = "<non valide>"

#: Why an answer is not kept.
NOT_LEARNED: dict[str, str | Promise] = {
    "off": gettext_lazy("l’apprentissage est désactivé"),
    "follow_up": gettext_lazy("la question est une suite"),
    "incomplete_question": gettext_lazy("la question ne se comprend pas seule"),
    "question_too_long": gettext_lazy("la question est trop longue"),
    "answer_too_long": gettext_lazy("la réponse est trop longue"),
    "cut": gettext_lazy("la réponse est coupée"),
    "failed_check": gettext_lazy("la réponse n’a pas passé la vérification"),
    "unsupported": gettext_lazy("un nombre n’est pas dans le passage cité"),
    "other_subject": gettext_lazy("les passages cités ne nomment pas ce qui est demandé"),
    "not_valid": gettext_lazy("la réponse est marquée <non valide>"),
    "refusal": gettext_lazy("la réponse dit ne pas savoir"),
    "no_source": gettext_lazy("la réponse n’a pas de source"),
    "tool": gettext_lazy("la réponse vient d’un outil"),
    "personal_data": gettext_lazy("données personnelles"),
    "source_changed": gettext_lazy("une source a changé, ou ne peut pas être suivie"),
    "other_scope": gettext_lazy("une autre phase ou un autre projet a la même clé"),
    "set_aside": gettext_lazy("l’équipe a écarté la réponse à cette question"),
    "answered": gettext_lazy("la question a une réponse validée"),
}

_CITATION = re.compile(r"\[\d{1,3}\]")
#: How far the clocks of two machines may differ, and how long the transaction of a validated answer may take.
_CLOCK_SLACK = timedelta(seconds=60)
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
    #: The agents of the deployment, and when the question was asked: what staff have validated since stands over this.
    agent_ids: Sequence[int] = ()
    asked_at: datetime | None = None
    #: The questions of the validated answers that were found, by number of source where one was given to the model.
    validated: Sequence[tuple[int | None, str]] = ()
    #: The acronyms and synonyms by which two questions are one.
    forms: Forms = NO_FORMS


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
        ("question_too_long", len(lesson.question) > MEMORY_MAX_QUESTION_CHARACTERS),
        ("answer_too_long", len(lesson.answer) > MEMORY_MAX_ANSWER_CHARACTERS),
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
    if _is_answered(lesson):
        return "answered"
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
    sources = cited_sources(lesson.answer, lesson.sources)
    origins = origins_of(sources)
    if origins is None:
        return Learned("refused", "source_changed")
    deployment = Deployment.objects.get(pk=lesson.deployment_id)
    waiting = _why_to_review(lesson, mode)
    scope = lesson.scope or Scope(PHASE, deployment.slug)
    entry = new_entry(
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
        sources=[dict(source) for source in sources],
        source_turn=lesson.source_turn,
    )
    # With the memory held: a validated answer that is committed now withdraws this entry, or is seen here.
    with holding_memory(deployment.pk) as memory:
        existing = find_entry(entry)
        if existing is not None:
            if _is_set_aside(existing):
                return Learned("refused", "set_aside", existing.pk)
            # A key joins phase, project and question without a mark between them: two scopes may have one.
            if (existing.metadata.get("phase"), existing.metadata.get("project")) != (scope.phase, scope.project):
                return Learned("refused", "other_scope", existing.pk)
            is_comparable = existing.recipe_key == recipe_key(lesson.recipe)
            if is_comparable and not why_not_served(existing, max_age_days=max_age_days):
                return Learned("known", entry_id=existing.pk)
        since = (lesson.asked_at or timezone.now()) - _CLOCK_SLACK
        if is_answered_since(lesson.agent_ids, [lesson.question], since=since):
            return Learned("refused", "answered")
        put_entry(entry, origins, existing, memory)
    return Learned("to_review" if waiting else "stored", waiting, entry.pk)


def _is_answered(lesson: Lesson) -> bool:
    """Whether a validated answer, other than the lesson's own source, answers the same question."""
    cited = {source.get("n") for source in cited_sources(lesson.answer, lesson.sources)}
    return any(
        number not in cited and ask_the_same(question, lesson.question, lesson.forms)
        for number, question in lesson.validated
    )


def _is_set_aside(entry: CachedResponse) -> bool:
    """Whether the entry was marked obsolete, reported as wrong, or superseded by a validated answer."""
    return (
        entry.status == EntryStatus.OBSOLETE
        or entry.status_reason == StatusReason.SUPERSEDED
        or entry.wrong_pairs.exists()
    )


def report_wrong(*, entry_id: int, question: str, reason: str = "", source_turn: uuid.UUID | None = None) -> bool:
    """Never give this entry to this question again, and have staff review it; `False` where it is deleted."""
    entry = CachedResponse.objects.filter(pk=entry_id).first()
    if entry is None:
        return False
    same = question_hash(question) == question_hash(entry.question)
    with writing(entry.deployment_id) as memory:
        WrongPair.objects.get_or_create(
            response=entry,
            question_hash=question_hash(question),
            answer_digest=answer_digest(entry.answer) if same else "",
            defaults={"question": question, "reason": reason, "source_turn": source_turn},
        )
        # An entry that staff have set aside stays so.
        CachedResponse.objects.filter(pk=entry_id, status=EntryStatus.VALID).update(
            status=EntryStatus.TO_REVIEW,
            status_reason=StatusReason.REPORTED,
            status_note=reason,
            version=memory.version,
        )
    return True


def entries_of_turn(turn_id: uuid.UUID) -> list[int]:
    """The entries that were learned from the answer of this turn."""
    return list(CachedResponse.objects.filter(source_turn=turn_id).values_list("pk", flat=True))


def unlink_turns(turn_ids: Collection[uuid.UUID]) -> None:
    """Remove the references to these turns, whose conversation is deleted, from what was learned from them."""
    CachedResponse.objects.filter(source_turn__in=turn_ids).update(source_turn=None)
    reported = WrongPair.objects.filter(source_turn__in=turn_ids)
    for entry_id, note in reported.exclude(reason="").values_list("response", "reason"):
        noted = CachedResponse.objects.filter(pk=entry_id, status_reason=StatusReason.REPORTED)
        noted.filter(status_note=note).update(status_note="")
    # One that asks what the entry asks has no words of its own.
    reported.filter(answer_digest="").update(question="")
    reported.update(source_turn=None, reason="")
    LearnedResponse.objects.filter(source_message__in=turn_ids).update(source_message=None)


def _why_to_review(lesson: Lesson, mode: str) -> str:
    if mode != MemoryLearning.VALID:
        return StatusReason.LEARNED
    if not _CITATION.search(lesson.answer):
        return StatusReason.UNSOURCED
    return StatusReason.IN_CONTEXT if lesson.had_context else ""
