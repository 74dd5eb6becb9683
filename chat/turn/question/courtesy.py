"""Greetings, thanks, "who are you?" and a bare sign are answered at once, on every desk: no search, no model.

The reply is the one that staff wrote for these words (a validated answer that is a courtesy), else the product's own,
in the language of the words, with what this desk answers (`presentation_of`). Staff switch the product's own off by a
setting; their own are then found by search, as any validated answer.
"""

from django.utils.translation import get_language, gettext_noop, override
from django.utils.translation import gettext as _

from agents.database import in_database
from agents.effective import EffectiveConfig, presentation_of
from chat.models import AnswerSource
from chat.turn.stored_answers import DIRECT_MODEL
from chat.turn.values import TurnInProgress
from faqs.validity import staff_reply
from knowledge.language.typed import Courtesy, Kind, courtesy_in

_REPLIES: dict[Kind, str] = {
    "greeting": gettext_noop("Bonjour ! %(presentation)s Que cherchez-vous ?"),
    "thanks": gettext_noop("Avec plaisir. Si vous avez une autre question, je suis là."),
    "farewell": gettext_noop("Au revoir, et à bientôt."),
    "well_being": gettext_noop("Tout va bien, merci ! %(presentation)s Quelle est votre question ?"),
    "presentation": gettext_noop(
        "Je suis un assistant automatique. %(presentation)s Je cite mes sources, et je le dis quand je ne trouve pas."
    ),
    "unclear": gettext_noop("Pouvez-vous préciser votre question ? %(presentation)s"),
}


async def answer_courtesy(turn: TurnInProgress) -> bool:
    """Reply where the message is a courtesy and nothing else; `False` where it asks something."""
    config = turn.config
    found = courtesy_in(turn.request.question) if config.courtesies else None
    if found is None:
        return False
    agents = [each.agent_id for each in config.of_each_agent]
    own = await in_database(staff_reply, agents, turn.request.question)
    answer = turn.answer
    answer.source, answer.model = AnswerSource.DIRECT_QA, DIRECT_MODEL
    if found.kind == "unclear":
        answer.source, answer.model = AnswerSource.CLARIFICATION, ""
    turn.trace.step("courtesy", "staff" if own else found.kind)
    if own is not None:
        answer.learned_id = own.learned_id
    await turn.show([])
    await turn.say(own.text if own is not None else _reply(found, config))
    return True


def _reply(found: Courtesy, config: EffectiveConfig) -> str:
    with override(found.language or get_language()):
        return _(_REPLIES[found.kind]) % {"presentation": presentation_of(config)}
