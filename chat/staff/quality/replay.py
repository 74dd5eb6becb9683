"""Questions asked again through the production path, without writing: are they answered now?

`replay` is for staff, who wait for it: a question counts as answered by the very rule that kept it as unanswered
(`TurnResult.unanswered`), and one that no stored answer meets costs a call of the language model. `ask_again` asks no
model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
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
    #: The validated answer that was given, word for word.
    learned_id: int | None = None
    trace: Sequence[dict[str, Any]] = ()


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
        learned_id=_given_id(result),
        trace=result.trace.lines,
    )


def _given_id(result: TurnResult) -> int | None:
    is_given = result.answer.source == AnswerSource.DIRECT_QA and result.error is None
    return result.answer.learned_id if is_given else None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it is asked again: where, and in which scope."""

    deployment_id: int
    text: str
    phase: str = ""
    project: str = ""


def ask_again(asked: Asked) -> ReplayedQuestion:
    """What the question is given now of what is stored, without a model; nothing is stored."""
    result = async_to_sync(run_turn)(_stored_only(asked), _ignore)
    return _outcome(asked.text, result)


def _stored_only(asked: Asked) -> TurnRequest:
    return TurnRequest(
        deployment_id=asked.deployment_id,
        question=asked.text,
        language=settings.LANGUAGE_CODE[:2],
        phase=asked.phase,
        project=asked.project,
        without_model=True,
    )


async def _ignore(event: Event) -> None:
    """Nobody follows a replay."""
