"""What people chose where two stored questions were close: kept for staff, who may have it answered from then on.

A choice says what one person meant, so nothing is answered from it until staff accept it. Accepted, the question
becomes a phrasing of the validated answer that was chosen; where the answer is a document's, an entry of the
deployment's memory, which is withdrawn when the passage changes. The same question in the same words is answered from
then on. Of several people who accept options of one question at once, one does (`ChoiceClaim`) and the others are told;
a claim that is not given back ends with its time.

Personal data: who chose is not kept, a question with personal data is not kept at all, one that was asked in one
conversation only goes with it, and a choice that nobody makes any more is forgotten like an unanswered question.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.effective import effective_config
from agents.models import Agent
from faqs.answers.duplicates import find_similar
from faqs.answers.indexing import sync_learned
from faqs.answers.precedence import find_older, supersede_with_entry
from faqs.answers.texts import one_line
from faqs.answers.writing import save_learned
from faqs.exceptions import AnswerRejectedError
from faqs.memory.array import current_audience
from faqs.memory.entries import Draft, find_entry, project_of, write_entry
from faqs.memory.keys import PHASE, key_hash, question_hash
from faqs.memory.origins import origins_of
from faqs.memory.personal_data import personal_data
from faqs.models import (
    CachedResponse,
    ChoiceClaim,
    ChoiceStatus,
    EntryStatus,
    LearnedResponse,
    OptionChoice,
    WrittenHow,
)
from faqs.recall import memory_threshold
from faqs.unanswered import delete_beyond
from knowledge.embeddings.base import Purpose, embedder
from knowledge.models import Chunk


@dataclass(frozen=True, slots=True)
class Choice:
    """An option that was picked, with the answer that it was given. One of `learned_id` and `chunk_id` is there."""

    deployment_id: int
    question: str
    option: str
    answer: str
    sources: Sequence[dict[str, Any]]
    language: str
    learned_id: int | None = None
    chunk_id: int | None = None


def keep_choice(choice: Choice, *, turn_id: uuid.UUID, earlier: Collection[uuid.UUID] = ()) -> bool:
    """Count a choice, once for a turn and the `earlier` ones that it repeats; `False` where it is not kept."""
    question, option = one_line(choice.question), one_line(choice.option)
    if personal_data(question) or len(question) > settings.QA_MAX_QUESTION_CHARACTERS:
        return False
    answered: dict[str, Any] = {
        "response_id": choice.learned_id,
        "chunk_id": choice.chunk_id,
        "answer": choice.answer,
        "sources": list(choice.sources),
        "language": choice.language,
    }
    row, _is_new = OptionChoice.objects.get_or_create(
        deployment_id=choice.deployment_id,
        question_hash=question_hash(question),
        option_hash=question_hash(option),
        defaults={"question": question, "option": option, **answered},
    )
    same = OptionChoice.objects.filter(pk=row.pk).exclude(last_turn__in=[turn_id, *earlier])
    counted = same.update(times_chosen=F("times_chosen") + 1, last_chosen_at=timezone.now(), last_turn=turn_id)
    # What staff would accept is what was given last; what they have decided on stays what they saw.
    OptionChoice.objects.filter(pk=row.pk, status=ChoiceStatus.OPEN).update(**answered)
    return bool(counted)


def accept_choice(choice: OptionChoice, *, by: AbstractBaseUser | None = None) -> None:
    """Have the question answered as it was chosen, from now on, on a person's word.

    Raises `AnswerRejectedError` with what is wrong, and the errors of the embedder and of the vector store.
    """
    holder = claim_question(choice)
    try:
        _require_no_other_answer(choice)
        if choice.response is None:
            _remember(choice, holder)
        else:
            _phrase(choice, choice.response, by, holder)
    finally:
        _claims_of(choice).filter(holder=holder).delete()


def claim_question(choice: OptionChoice) -> uuid.UUID:
    """Whoever accepts an option of a question is the only one meanwhile; the result names this try.

    Raises `AnswerRejectedError` where somebody else is at it.
    """
    now, holder = timezone.now(), uuid.uuid4()
    held = {"holder": holder, "expires_at": now + timedelta(seconds=settings.CHOICE_CLAIM_SECONDS)}
    _claim, is_new = ChoiceClaim.objects.get_or_create(
        deployment_id=choice.deployment_id, question_hash=choice.question_hash, defaults=held
    )
    # Left by somebody who died, or who took too long and will find so.
    if not is_new and not _claims_of(choice).filter(expires_at__lte=now).update(**held):
        raise AnswerRejectedError(_("quelqu’un d’autre accepte en ce moment une réponse à cette question."))
    return holder


def _claims_of(choice: OptionChoice) -> "QuerySet[ChoiceClaim]":
    return ChoiceClaim.objects.filter(deployment=choice.deployment_id, question_hash=choice.question_hash)


def _settle(choice: OptionChoice, holder: uuid.UUID) -> None:
    """The choice as accepted, in the transaction that has it answered: both stand, or neither.

    Raises `AnswerRejectedError` where the time was over and somebody else has begun.
    """
    if not _claims_of(choice).select_for_update().filter(holder=holder).exists():
        raise AnswerRejectedError(
            _("cela a duré trop longtemps, et d’autres ont pu répondre à la question : recommencez.")
        )
    same_question = OptionChoice.objects.filter(deployment=choice.deployment_id, question_hash=choice.question_hash)
    # One that was accepted before does not answer any more: its answer would have stood in the way.
    same_question.filter(status=ChoiceStatus.ACCEPTED).update(status=ChoiceStatus.DISMISSED)
    same_question.filter(pk=choice.pk).update(status=ChoiceStatus.ACCEPTED)


def dismiss_choices(choices: "QuerySet[OptionChoice]") -> int:
    """Staff have decided: more of the same choice is counted, and asks for nothing."""
    return choices.exclude(status=ChoiceStatus.ACCEPTED).update(status=ChoiceStatus.DISMISSED)


def forget_choices(turn_ids: Collection[uuid.UUID]) -> None:
    """The conversation of these turns is deleted: a question that nobody else asked, and staff have not accepted, goes
    too.

    What others chose as well stays, and no longer says where.
    """
    made = OptionChoice.objects.filter(last_turn__in=turn_ids)
    made.filter(times_chosen__lte=1).exclude(status=ChoiceStatus.ACCEPTED).delete()
    made.update(last_turn=None)


def purge_choices() -> int:
    """Forget what nobody chose for as long as an unanswered question is kept, or is beyond what a deployment keeps."""
    limit = timezone.now() - timedelta(days=settings.UNANSWERED_RETENTION_DAYS)
    gone, _rows = OptionChoice.objects.filter(last_chosen_at__lt=limit).delete()
    ChoiceClaim.objects.filter(expires_at__lte=timezone.now()).delete()
    rows = OptionChoice.objects.order_by("-last_chosen_at")
    return gone + delete_beyond(rows, of_each="deployment", most=settings.CLARIFICATION_MAX_CHOICES)


def _require_no_other_answer(choice: OptionChoice) -> None:
    """A choice may be old: the question may have been answered since, by a validated answer or in the memory."""
    deployment = choice.deployment
    offered = [deployment.agent_id, *deployment.specialists.values_list("agent", flat=True)]
    if choice.response is not None:
        offered.append(choice.response.agent_id)
    for agent in Agent.objects.filter(pk__in=offered):
        similar = find_similar(
            agent=agent, questions=[choice.question], answer=choice.answer, exclude=choice.response_id
        )
        if similar:
            raise AnswerRejectedError(
                _("une autre réponse validée répond déjà à « %(question)s ».") % {"question": similar[0].question}
            )
    # What was only learned does not stand in a person's way.
    remembered = CachedResponse.objects.filter(
        deployment=deployment,
        audience=current_audience(deployment),
        key_hash=key_hash(phase=PHASE, project=project_of(deployment), question=choice.question),
        status=EntryStatus.VALID,
        validated_at__isnull=False,
    )
    if remembered.exclude(answer=choice.answer).exists():
        raise AnswerRejectedError(_("la mémoire a déjà une autre réponse à cette question."))


def _phrase(choice: OptionChoice, response: LearnedResponse, by: AbstractBaseUser | None, holder: uuid.UUID) -> None:
    """The question as another phrasing of the validated answer, in every deployment of its agent."""
    with transaction.atomic():
        stored = LearnedResponse.objects.select_for_update().get(pk=response.pk)
        if not stored.is_standing:
            raise AnswerRejectedError(_("la réponse validée n’est plus servie."))
        known = [phrasing.text for phrasing in stored.phrasings.all()]
        if choice.option_hash not in map(question_hash, [stored.question, *known]):
            raise AnswerRejectedError(_("la réponse validée ne répond plus à la question choisie."))
        save_learned(stored, phrasings=[*known, choice.question], how=WrittenHow.CHOICE, by=by, in_worker=False)
        _settle(choice, holder)
    # At once: the next choice that staff accept may ask the same, and is compared with what is indexed.
    sync_learned([response.pk])


def _remember(choice: OptionChoice, holder: uuid.UUID) -> None:
    """The question in the memory, with the passage that answers it.

    The entry names no turn: staff vouch for it, and whoever chose last has no more to say of it than others.
    """
    deployment = choice.deployment
    model = embedder()
    each = effective_config(deployment).of_each_agent
    if all(memory_threshold(agent, model=model.recipe.model) is None for agent in each):
        raise AnswerRejectedError(_("la mémoire du déploiement est désactivée."))
    origins = origins_of(choice.sources)
    if not origins or choice.chunk is None or not _still_asks(choice.chunk, choice):
        raise AnswerRejectedError(_("le passage a changé depuis, ou n’est plus servi."))
    draft = Draft(
        deployment_id=deployment.pk,
        audience=current_audience(deployment),
        question=choice.question,
        answer=choice.answer,
        vector=model.embed_one(choice.question, purpose=Purpose.QUERY),
        recipe=model.recipe,
        phase=PHASE,
        project=project_of(deployment),
        status=EntryStatus.VALID,
        validated_at=timezone.now(),
        language=choice.language,
        extra={"option": choice.option},
        sources=choice.sources,
        origins=origins,
    )
    existing = find_entry(draft)
    if existing is not None and (existing.status == EntryStatus.OBSOLETE or existing.wrong_pairs.exists()):
        raise AnswerRejectedError(_("une réponse à cette question a été écartée de la mémoire."))
    older = find_older(deployment, draft.question, draft.vector)
    with short_write():
        supersede_with_entry(write_entry(draft), older)
        _settle(choice, holder)


def _still_asks(chunk: Chunk, choice: OptionChoice) -> bool:
    """Whether the chosen question is still one of the passage."""
    asked = {question_hash(str(unit.get("question", ""))) for unit in chunk.knowledge_units}
    return choice.option_hash in asked
