"""What an answer has yet to leave behind, as the row of its turn keeps it until it is done: a process that is killed
loses none of it.

It is written with the answer itself, in the same statement, and taken away with what it says (`chat.runs.afterwards`).
What the thread holds anyway (the answer and its sources) and what is computed (vectors) is not written twice.
"""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from chat.models import Message, Role, Turn, TurnStatus
from chat.turn.trace import Trace
from chat.turn.values import Learning, TurnResult
from faqs.learning import Lesson
from faqs.models import UnansweredReason
from faqs.recall import Scope
from faqs.unanswered import Unanswered
from knowledge.embeddings.base import Purpose, embedder
from knowledge.synonyms import forms_of

#: Of a lesson, what is read or made anew.
_LESSON_READ_ANEW = ("answer", "sources", "vector", "recipe", "forms", "source_turn")
_QUESTION_READ_ANEW = ("vector", "recipe")


def unsettled(result: TurnResult) -> str:
    """JSON; empty where the turn leaves nothing, or is not over."""
    if result.status is not TurnStatus.DONE:
        return ""
    kept: dict[str, Any] = {}
    if (learning := result.learning) is not None:
        kept["learning"] = {"mode": learning.mode, "max_age_days": learning.max_age_days}
        kept["lesson"] = _of(learning.lesson, *_LESSON_READ_ANEW)
    if result.unanswered is not None:
        kept["unanswered"] = _of(result.unanswered, *_QUESTION_READ_ANEW)
    return json.dumps(kept, ensure_ascii=False, default=_plain) if kept else ""


def left_behind(turn: Turn) -> TurnResult:
    """What the row says, once more. Touches the database, and the embedder; raises its errors."""
    kept = json.loads(turn.unsettled)
    result = TurnResult(trace=Trace(lines=list(turn.trace)), language=turn.language)
    if (lesson := kept.get("lesson")) is not None:
        answer = Message.objects.filter(turn=turn, role=Role.ASSISTANT).last()
        if answer is not None:
            lesson["scope"] = Scope(**lesson["scope"]) if lesson["scope"] else None
            lesson["validated"] = [(number, text) for number, text in lesson["validated"]]
            if lesson["asked_at"]:
                lesson["asked_at"] = datetime.fromisoformat(lesson["asked_at"])
            restored = Lesson(
                **lesson,
                **_embedded(lesson["question"]),
                answer=answer.content,
                sources=answer.sources,
                forms=forms_of(lesson["agent_ids"]),
                source_turn=turn.pk,
            )
            result.learning = Learning(restored, **kept["learning"])
    if (question := kept.get("unanswered")) is not None:
        question["reason"] = UnansweredReason(question["reason"])
        result.unanswered = Unanswered(**question, **_embedded(question["question"]))
    return result


def _embedded(question: str) -> dict[str, Any]:
    model = embedder()
    return {"vector": model.embed_one(question, purpose=Purpose.QUERY), "recipe": model.recipe}


def _of(value: Any, *but: str) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value) if f.name not in but}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Scope):
        return _of(value)
    return str(value) if not isinstance(value, tuple) else list(value)
