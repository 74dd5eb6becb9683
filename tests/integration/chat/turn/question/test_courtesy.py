"""Greetings, thanks and a bare sign on any desk: answered at once, in staff's words where they wrote some."""

from unittest import mock

from django.test import TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.models import AnswerSource
from faqs.models import LearnedKind, LearnedResponse
from tests.factories import add_document, make_agent, make_deployment, make_learned
from tests.integration.chat.turn.test_learned import steps
from tests.integration.chat.turn.test_path import ask, model, scripted


class CourtesyTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent(), name="Piscine municipale")

    async def test_any_desk_answers_a_greeting_without_search_or_model(self) -> None:
        """Not even an index is needed: there is none here."""
        with scripted(), mock.patch("chat.turn.path.embed_question") as embedding:
            result, listener = await ask(self.deployment, "Bonjour !")
            model().assert_exhausted()
        embedding.assert_not_called()
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert result.answer.sources == []
        assert listener.text.startswith("Bonjour !")
        assert "Piscine municipale" in listener.text
        assert [*steps(result.trace.lines)] == ["receive", "courtesy", "save"]

    async def test_bare_sign_is_asked_to_say_more(self) -> None:
        for said in ("?", "??", "😀", "x"):
            result, listener = await ask(self.deployment, said)
            assert result.answer.source == AnswerSource.CLARIFICATION
            assert listener.text.startswith("Pouvez-vous préciser")

    async def test_signs_find_nothing_where_courtesies_are_switched_off(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"courtesies": False})
        await in_database(add_document, self.deployment.agent)
        for said in ("??", "😀", "?" * 500):
            result, _listener = await ask(self.deployment, said)
            assert result.error is None
            assert result.answer.source != AnswerSource.DIRECT_QA

    async def test_desk_presents_itself_in_the_words_of_staff(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"presentation": "Je connais le bassin."})
        _result, listener = await ask(self.deployment, "Qui es-tu ?")
        assert "Je connais le bassin." in listener.text

    async def test_reply_that_staff_wrote_goes_before_and_is_counted(self) -> None:
        agent = self.deployment.agent
        await in_database(
            make_learned,
            agent,
            question="Salut",
            phrasings=["Bonjour à tous"],
            answer="Bienvenue au bassin.",
            kind=LearnedKind.COURTESY,
        )
        result, listener = await ask(self.deployment, "BONJOUR A TOUS")
        assert listener.text == "Bienvenue au bassin."
        assert steps(result.trace.lines)["courtesy"] == "staff"
        assert result.answer.learned_id == (await LearnedResponse.objects.aget()).pk
        _result, other = await ask(self.deployment, "Bonsoir")
        assert other.text.startswith("Bonjour !")

    async def test_staff_may_switch_it_off(self) -> None:
        await in_database(add_document, self.deployment.agent, text="# Bassin\n\nIl est ouvert.\n")
        await in_database(Deployment.objects.update, config_overlay={"courtesies": False})
        result, _listener = await ask(self.deployment, "Bonjour")
        assert "courtesy" not in steps(result.trace.lines)
