"""The guard rail, and what is said where no model writes: the refusal, or the best passages quoted."""

from django.utils.translation import gettext as _

from agents.database import in_database
from agents.effective import EffectiveConfig, own_refusal
from agents.models import Deployment
from chat.models import AnswerSource
from chat.turn.clarification import REFUSAL_OFFER
from chat.turn.prompt import number_sources
from chat.turn.quoting import quoted_text, without_twins
from chat.turn.values import TurnInProgress
from faqs.unanswered import Unanswered, unanswered_reason
from faqs.validity import starter_questions
from knowledge.search import Passage, SearchResult

#: Questions that a refusal offers.
MOST_OFFERED = 3


async def refuse_outside(turn: TurnInProgress) -> bool:
    """Give the out-of-domain message where no passage is near enough and no tool was found for the question."""
    inside = turn.found.in_domain(turn.thresholds)
    turn.by_tool = turn.toolbox is not None and turn.toolbox.fits_the_question and not inside.hits
    _trace(turn, is_inside=bool(inside.hits))
    _note_unanswered(turn)
    if inside.hits or turn.by_tool:
        return False
    turn.answer.source = AnswerSource.GUARD_RAIL
    await turn.say(await in_database(_refusal, turn.config))
    return True


def _refusal(config: EffectiveConfig) -> str:
    """Staff's words as they wrote them; the product's own, with some questions that this desk answers."""
    text = config.guard_rail_message
    if text != own_refusal(config):
        return text
    deployment = Deployment.objects.get(pk=config.deployment_id)
    questions = starter_questions(deployment, MOST_OFFERED)
    if not questions:
        return text
    listed = "\n".join(f"- {question}" for question in questions)
    return "\n\n".join([text, _(REFUSAL_OFFER), listed])


def _trace(turn: TurnInProgress, *, is_inside: bool) -> None:
    best = turn.found.hits[0] if turn.found.hits else None
    turn.trace.step(
        "guard_rail",
        "passed" if is_inside else "passed_by_tool" if turn.by_tool else "refused",
        score=turn.found.nearness(best) if best else 0.0,
        threshold=turn.thresholds.guard_rail_for(best) if best else None,
        detail=nearness_parts(turn.found, best) if best else "",
    )


def nearness_parts(found: SearchResult, best: Passage) -> str:
    """What the score is made of, for `chat.staff.explanation`; nothing where it is a cosine alone."""
    parts = [best.score, best.overlap]
    if best.has_questions and found.nearest_question is not None:
        parts.append(found.nearest_question)
    return " ".join(f"{part:.2f}" for part in parts) if best.lift else ""


def _note_unanswered(turn: TurnInProgress) -> None:
    """Keep the question for staff, where nothing stored met it well."""
    reason = unanswered_reason(turn.found, turn.thresholds, turn.config)
    if reason is None or not turn.config.record_unanswered or turn.by_tool:
        return
    turn.result.unanswered = Unanswered(
        agent_id=turn.config.agent_id,
        question=turn.question.text,
        vector=turn.question.vector,
        recipe=turn.question.recipe,
        reason=reason,
        score=turn.found.best_score if turn.found.hits else None,
    )


async def quote_passages(turn: TurnInProgress) -> None:
    """Without a model: the best passages inside the guard rail, quoted with their source."""
    inside = turn.found.in_domain(turn.thresholds)
    passages = without_twins(inside.passages(len(inside.hits)), turn.config.extractive_passages)
    answer = turn.answer
    answer.source, answer.score = AnswerSource.EXTRACTIVE, passages[0].score
    turn.trace.step("extractive", "quoted", score=answer.score, detail=f"{len(passages)} passages")
    await turn.show(number_sources(passages))
    await turn.say(quoted_text(passages, turn.asked.text))
