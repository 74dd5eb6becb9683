"""Questions asked again through the production path, without writing: are they answered now?

A question counts as answered by the very rule that kept it as unanswered (`TurnResult.unanswered`). With a language
model this costs one call a question that no stored answer meets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.utils.translation import get_language

from agents.models import Deployment
from chat.models import AnswerSource, TurnStatus
from chat.protocol import Event
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult


@dataclass(frozen=True, slots=True)
class ReplayedQuestion:
    """One question and how its replay ended; `error` is the message of a turn that failed."""

    question: str
    is_answered: bool
    source: str
    score: float | None
    answer: str
    error: str = ""


def replay(deployment: Deployment, questions: Sequence[str]) -> list[ReplayedQuestion]:
    """Ask each question on its own, one after the other; nothing is stored."""
    return async_to_sync(_replay)(deployment, questions)


async def _replay(deployment: Deployment, questions: Sequence[str]) -> list[ReplayedQuestion]:
    language = get_language() or "fr"
    results = []
    for question in questions:
        request = TurnRequest(deployment_id=deployment.pk, question=question, language=language[:2])
        results.append(_outcome(question, await run_turn(request, _ignore)))
    return results


def _outcome(question: str, result: TurnResult) -> ReplayedQuestion:
    source = result.answer.source
    error = str(result.error.public_message) if result.error is not None else ""
    return ReplayedQuestion(
        question=question,
        is_answered=result.status is TurnStatus.DONE and result.unanswered is None,
        source=str(AnswerSource(source).label) if source in AnswerSource.values else source,
        score=result.answer.score,
        answer=result.answer.text,
        error=error,
    )


async def _ignore(event: Event) -> None:
    """Nobody follows a replay."""
