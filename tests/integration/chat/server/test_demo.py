"""What a newcomer types first in the demonstration."""

from django.test import TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.management.commands.demo import add_courtesies, make_agent
from chat.models import AnswerSource
from faqs.models import LearnedResponse
from tests.factories import add_document
from tests.integration.chat.turn.test_path import FAR, ask

#: The guide speaks of greetings, so that one is not out of its domain.
GUIDE = (
    "# Politesse\n\nUne formule de politesse (bonjour, merci) reçoit sa réponse sans recherche.\n"
)


class DemoTests(TestCase):
    async def test_greetings_and_thanks_are_answered_in_their_language(self) -> None:
        agent = await in_database(make_agent)
        await in_database(add_document, agent, text=GUIDE)
        await in_database(add_courtesies, agent)
        await in_database(Deployment.objects.update, config_overlay={"guard_rail_threshold": 0.1})
        deployment = await Deployment.objects.aget()
        for said, reply in (("Bonjour !", "Bonjour"), ("hello", "Hello"), ("Merci.", "plaisir")):
            result, listener = await ask(deployment, said)
            assert result.answer.source == AnswerSource.DIRECT_QA, said
            assert reply in listener.text
            assert result.answer.sources == []

    async def test_refusal_is_in_one_language(self) -> None:
        await in_database(add_document, await in_database(make_agent), text=GUIDE)
        await in_database(Deployment.objects.update, config_overlay={"guard_rail_threshold": 0.99})
        _result, listener = await ask(await Deployment.objects.aget(), FAR)
        assert listener.text.startswith("Je ne trouve rien")
        assert "find nothing" not in listener.text

    def test_what_staff_changed_stays(self) -> None:
        agent = make_agent()
        add_courtesies(agent)
        count = LearnedResponse.objects.count()
        LearnedResponse.objects.all()[0].delete()
        add_courtesies(agent)
        assert LearnedResponse.objects.count() == count - 1
