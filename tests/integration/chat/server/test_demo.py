"""What a newcomer types first in the demonstration."""

from django.test import TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.management.commands.demo import make_agent
from chat.models import AnswerSource
from tests.factories import add_document
from tests.integration.chat.turn.test_path import FAR, ask

#: The guide speaks of greetings, so that one is not out of its domain.
GUIDE = "# Politesse\n\nUne formule de politesse (bonjour, merci) reçoit sa réponse sans recherche.\n"


class DemoTests(TestCase):
    async def test_greeting_and_refusal_say_what_the_desk_answers(self) -> None:
        await in_database(add_document, await in_database(make_agent), text=GUIDE)
        await in_database(Deployment.objects.update, config_overlay={"guard_rail_threshold": 0.99})
        deployment = await Deployment.objects.aget()
        for said, source in (("Bonjour !", AnswerSource.DIRECT_QA), (FAR, AnswerSource.GUARD_RAIL)):
            result, listener = await ask(deployment, said)
            assert result.answer.source == source, said
            assert "Je réponds aux questions sur Répondant" in listener.text
            assert result.answer.sources == []
