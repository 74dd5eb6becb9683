"""The guard rail: refuses a question that no passage is near enough to answer, and offers what is nearest."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from agents.database import in_database
from agents.effective import EffectiveConfig, own_refusal
from chat.models import AnswerSource
from chat.turn.prompt import number_sources
from chat.turn.quoting import named_place, without_twins
from chat.turn.stored_answers import REFUSAL_OFFER
from chat.turn.values import TurnInProgress
from faqs.models import UnansweredReason
from faqs.neighbours import starter_questions
from faqs.unanswered import Unanswered
from knowledge.language.words import passage_language
from knowledge.search import Passage

#: Questions that a refusal offers, and passages that it names.
MOST_OFFERED = 3
#: A stored question is offered, and a passage named, from this share of its guard rail on.
_NEAR = 0.6


async def refuse_outside(turn: TurnInProgress) -> bool:
    """Give the out-of-domain message where no passage is near enough and no tool was found for the question."""
    inside = turn.found.in_domain(turn.thresholds)
    turn.by_tool = turn.toolbox is not None and turn.toolbox.fits_the_question and not inside.hits
    _trace(turn, is_inside=bool(inside.hits))
    _note_unanswered(turn)
    if inside.hits or turn.by_tool:
        return False
    turn.answer.source = AnswerSource.GUARD_RAIL
    text, near = turn.config.guard_rail_message, _near(turn)
    if text == own_refusal(turn.config):
        questions = list(dict.fromkeys(hit.question for hit in near if hit.question))[:MOST_OFFERED]
        passages = without_twins([hit for hit in near if not hit.question], MOST_OFFERED)
        await turn.show(number_sources(passages))
        text = "\n\n".join([text, *await in_database(_offers, turn.config, questions, passages)])
    # The refusal that staff wrote is given as it is.
    await turn.say(text)
    return True


def _near(turn: TurnInProgress) -> list[Passage]:
    """The hits under the guard rail that are not far from it: of the reader's language, then closest first."""
    thresholds, language = turn.thresholds, turn.result.language
    hits = [
        hit for hit in turn.found.hits if thresholds.closeness(hit) >= _NEAR * (thresholds.guard_rail_for(hit) or 0)
    ]

    def place(hit: Passage) -> tuple[bool, float]:
        return passage_language(hit.question or hit.content) not in ("", language), -thresholds.closeness(hit)

    return sorted(hits, key=place)


def _offers(config: EffectiveConfig, questions: Sequence[str], passages: Sequence[Passage]) -> list[str]:
    """What a refusal offers: the nearest questions and passages, or the questions that this desk begins with."""
    if not questions and not passages:
        questions = starter_questions(config.deployment, MOST_OFFERED)
    asked = [_(REFUSAL_OFFER), "\n".join(f"- {question}" for question in questions)] if questions else []
    named = [f"- {named_place(passage)} [{number}]" for number, passage in enumerate(passages, start=1)]
    return [*asked, *([_("Le plus proche dans les documents :"), "\n".join(named)] if named else [])]


def _trace(turn: TurnInProgress, *, is_inside: bool) -> None:
    """The guard rail's line: the closest hit; where all were refused, what was considered, best first."""
    thresholds = turn.thresholds
    hits = sorted(turn.found.hits, key=lambda hit: (not thresholds.lets_in(hit), -thresholds.closeness(hit)))
    best = hits[0] if hits else None
    detail = ""
    if best is not None and is_inside:
        detail = f"{best.score:.2f} {best.coverage:.2f}"
    elif best is not None:
        detail = "\n".join(
            f"{thresholds.closeness(hit):.2f} {hit.question or hit.place()}" for hit in hits[:MOST_OFFERED]
        )
    turn.trace.step(
        "guard_rail",
        "passed" if is_inside else "passed_by_tool" if turn.by_tool else "refused",
        score=thresholds.closeness(best) if best else 0.0,
        threshold=thresholds.guard_rail_for(best) if best else None,
        detail=detail,
    )


def _note_unanswered(turn: TurnInProgress) -> None:
    """Record the question as unanswered for staff, where nothing was near enough."""
    if not turn.found.is_out_of_domain(turn.thresholds) or not turn.config.record_unanswered or turn.by_tool:
        return
    turn.result.unanswered = Unanswered(
        agent_id=turn.config.agent.pk,
        question=turn.question.text,
        vector=turn.question.vector,
        recipe=turn.question.recipe,
        reason=UnansweredReason.REFUSED,
        score=turn.found.best_score if turn.found.hits else None,
    )
