"""What readers say of answers: stored at once, then told to whoever can make it better.

A thumb down bars the stored or learned answer from this question (`report_wrong`) and keeps the question for staff,
once a turn; a failure there costs the reader nothing. A verdict that is taken back stays for staff, marked.
"""

import logging
import uuid

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from agents.database import short_write
from agents.effective import effective_config
from agents.errors import ApplicationError
from chat.models import AnswerSource, Feedback, FeedbackQuerySet, Message, Role, Turn, Verdict
from chat.thread.messages import branch_turns, earlier_versions
from faqs.learning import entries_of_turn, report_wrong
from faqs.models import UnansweredReason
from faqs.unanswered import Unanswered, is_kept, keep_unanswered
from knowledge.embeddings.base import Purpose, embedder

logger = logging.getLogger(__name__)


def give_feedback(turn: Turn, verdict: Verdict, *, reason: str = "", comment: str = "") -> Feedback:
    """Store the verdict on a turn's answer, in the place of an earlier one; a thumb down is reported, once."""
    with short_write():
        feedback, _is_new = Feedback.objects.update_or_create(
            turn=turn,
            defaults={
                "verdict": verdict,
                "reason": reason if verdict == Verdict.DOWN else "",
                "comment": comment,
                "withdrawn_at": None,
            },
        )
        if verdict == Verdict.DOWN and (feedback.settled_at or feedback.dismissed_at):
            # Said again, it is for staff again.
            feedback.owner = feedback.settled_by = None
            feedback.settled_at = feedback.dismissed_at = None
            feedback.save()
    if verdict == Verdict.DOWN and feedback.reported_at is None:
        _report(feedback)
    return feedback


def withdraw_feedback(turn: Turn) -> bool:
    """Take a verdict back; `False` where there was none. Staff still see it, marked."""
    standing = Feedback.objects.filter(turn=turn, withdrawn_at=None)
    with short_write():
        changed = standing.update(withdrawn_at=timezone.now(), updated_at=timezone.now())
    return bool(changed)


def reopen_verdicts(verdicts: FeedbackQuerySet) -> int:
    """Thumbs down that somebody dismissed are open again; what an answer settled stays so."""
    return verdicts.standing().filter(settled_at=None).update(owner=None, dismissed_at=None)


def dismiss_verdicts(verdicts: FeedbackQuerySet, owner: AbstractBaseUser | None) -> int:
    """Staff find nothing to correct in what open thumbs down complain of; returns how many."""
    return verdicts.open().update(owner=owner, dismissed_at=timezone.now())


def settle_verdicts(verdicts: FeedbackQuerySet, learned_id: int, owner: AbstractBaseUser | None) -> int:
    """Record which validated answer the questions of standing thumbs down are given now; returns how many."""
    return verdicts.standing().update(owner=owner, settled_at=timezone.now(), settled_by=learned_id)


def report_again(turn_id: uuid.UUID) -> None:
    """A thumb down may come before what the answer teaches is kept: then that is barred now."""
    for feedback in Feedback.objects.standing().filter(turn=turn_id):
        _report(feedback)


def _report(feedback: Feedback) -> None:
    """Both verbs change nothing the second time, so two reports at once do no harm."""
    turn = Turn.objects.select_related("conversation__deployment__agent").get(pk=feedback.turn_id)
    question = asked_question(turn)
    try:
        for entry_id in _stored_answers(turn):
            report_wrong(entry_id=entry_id, question=question, reason=_note(feedback), source_turn=turn.pk)
        _keep_question(turn, question)
    except ApplicationError as error:
        logger.warning("a thumb down could not be reported round_id=%s: %s", turn.pk, error)
        return
    Feedback.objects.filter(pk=feedback.pk).update(reported_at=timezone.now())


def _stored_answers(turn: Turn) -> set[int]:
    """Return the ids of memory entries behind a turn: the one that answered it, and those learned from it."""
    entries = set(entries_of_turn(turn.pk))
    if turn.answer_source == AnswerSource.MEMORY_GUARD:
        given = (line.get("entry") for line in turn.trace if isinstance(line, dict))
        entries |= {entry for entry in given if isinstance(entry, int)}
    return entries


def _note(feedback: Feedback) -> str:
    """Why, for staff."""
    parts = [feedback.get_reason_display() if feedback.reason else "", feedback.comment]
    return " – ".join(str(part) for part in parts if part)


def _keep_question(turn: Turn, question: str) -> None:
    config = effective_config(turn.conversation.deployment)
    earlier = earlier_versions(turn.pk)
    if not question or not config.record_unanswered or is_kept([turn.pk, *earlier]):
        return
    model = embedder()
    keep_unanswered(
        Unanswered(
            agent_id=config.agent.pk,
            question=question,
            vector=model.embed_one(question, purpose=Purpose.QUERY),
            recipe=model.recipe,
            reason=UnansweredReason.REPORTED,
            score=turn.best_score,
        ),
        turn_id=turn.pk,
        earlier=earlier,
    )


def asked_question(turn: Turn) -> str:
    """The question of a turn; a follow-up together with the one it leans on, as it was searched."""
    stored = Message.objects.for_conversation(turn.conversation_id).filter(role=Role.USER)
    own = stored.filter(turn=turn).first()
    if own is None:
        return ""
    if not turn.is_follow_up:
        return own.content
    has_branches = turn.conversation.leaf is not None
    line = branch_turns(turn.conversation_id, turn.pk if has_branches else None)
    before = stored.on_branch(line).filter(pk__lt=own.pk).order_by("-id").first()
    return own.content if before is None else f"{before.content}\n{own.content}"
