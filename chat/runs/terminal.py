"""One turn from the terminal, as the JSON object that `ask` prints and that is a row of `evaluate`."""

import asyncio
import itertools
import sys
import uuid
from typing import Any

from django.conf import settings
from django.utils.translation import get_language

from agents.llm.base import language_model
from agents.models import Deployment
from chat.errors import ConversationNotFoundError
from chat.models import Conversation
from chat.protocol import Event, valid_question
from chat.runs.afterwards import settle, write_with_model
from chat.runs.runner import BEAT_SECONDS
from chat.thread.rounds import TURN_LEASE_SECONDS
from chat.thread.turns import claim_turn, interrupt_stale_turns
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult


def ask(
    deployment: Deployment, question: str, *, conversation_id: uuid.UUID | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """Answer one question; raises the turn's error where it failed. A dry run stores nothing."""
    request = _request(deployment, valid_question(question), conversation_id, dry_run)
    result = asyncio.run(_run(request))
    if result.error is not None:
        raise result.error
    return answer_row(request, result)


async def _run(request: TurnRequest) -> TurnResult:
    waiting = asyncio.create_task(_tell_waiting())
    try:
        try:
            result = await run_turn(request, _ignore)
        finally:
            waiting.cancel()
        await settle(request, result)
        await write_with_model(request, result)
        return result
    finally:
        if (model := language_model()) is not None:
            await model.aclose()


async def _tell_waiting() -> None:
    """Say on standard error how long it has lasted: a terminal counts the seconds, a log has a line now and then."""
    is_live = sys.stderr.isatty()
    step = 1.0 if is_live else BEAT_SECONDS
    begin, end = ("\r", " ") if is_live else ("", "\n")
    try:
        for times in itertools.count(1):
            await asyncio.sleep(step)
            sys.stderr.write(f"{begin}waiting for the answer: {times * step:.0f} s{end}")
            sys.stderr.flush()
    finally:
        if is_live:
            sys.stderr.write("\r\x1b[K")


def answer_row(request: TurnRequest, result: TurnResult) -> dict[str, Any]:
    answer = result.answer
    return {
        "question": request.question,
        "answer": answer.text,
        "answer_source": str(answer.source),
        "model": answer.model,
        "score": answer.score,
        "best_score": answer.best_score,
        "sources": answer.sources,
        "llm_calls": answer.llm_calls,
        "rounds": answer.rounds,
        "efficiency": answer.efficiency,
        "trace": result.trace.lines,
        "conversation_id": str(request.conversation_id) if request.conversation_id else None,
        "turn_id": str(request.turn_id) if request.turn_id else None,
    }


def _request(deployment: Deployment, question: str, conversation_id: uuid.UUID | None, dry_run: bool) -> TurnRequest:
    found = None
    if conversation_id is not None:
        found = Conversation.objects.filter(pk=conversation_id, deployment=deployment).first()
        if found is None:
            raise ConversationNotFoundError(f"{deployment.slug} has no conversation {conversation_id}.")
    language = get_language() or settings.LANGUAGE_CODE
    if dry_run:
        unstored = TurnRequest(deployment.pk, question, language)
        return TurnRequest.of(found, question, language) if found else unstored
    conversation = found or Conversation.objects.create(deployment=deployment)
    interrupt_stale_turns(conversation.pk)
    claimed = claim_turn(
        conversation_id=conversation.pk,
        client_message_id=str(uuid.uuid4()),
        question=question,
        lease_seconds=settings.TURN_TIMEOUT_SECONDS + TURN_LEASE_SECONDS,
    )
    return TurnRequest.of(conversation, question, language, claimed)


async def _ignore(event: Event) -> None:
    """Discard the event: a command has no reader of a stream."""
