"""A question as it was typed is answered as what it was read as; what was typed is what is stored."""

from django.test import TestCase

from agents.database import in_database
from chat.models import AnswerSource, Message, Role
from chat.staff.explanation import explain_trace
from tests.factories import make_library
from tests.integration.chat.turn.test_path import KNOWN, ask

SHOUTED = "BONJOUR, POUVEZ-VOUS ME DIRE COMBEIN COUTE LA CARTE DE LECTEUR SVP ? MERCI D'AVANCE"
READ = "Combien coûte la carte de lecteur ?"


class ReadingTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library()

    async def test_shouted_misspelt_polite_question_gets_the_stored_answer(self) -> None:
        result, listener = await ask(self.deployment, SHOUTED)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "12 euros" in listener.text
        stored = await in_database(Message.objects.get, role=Role.USER)
        assert stored.content == SHOUTED

    async def test_trace_says_what_was_read(self) -> None:
        result, _listener = await ask(self.deployment, SHOUTED)
        line = next(line for line in result.trace.lines if line["step"] == "reading")
        assert (line["outcome"], line["detail"]) == ("read", READ)
        explained = explain_trace(result.trace.lines)[1]
        assert READ in explained.detail

    async def test_tidy_question_is_read_as_typed(self) -> None:
        result, _listener = await ask(self.deployment, KNOWN)
        line = next(line for line in result.trace.lines if line["step"] == "reading")
        assert (line["outcome"], line["detail"]) == ("as_typed", "")

    async def test_question_of_a_story_is_found_and_its_stored_answer_is_not_given_unseen(
        self,
    ) -> None:
        story = "Mon voisin a perdu son chien dans la forêt hier matin. "
        result, _listener = await ask(self.deployment, story + KNOWN)
        assert result.answer.source == AnswerSource.EXTRACTIVE
        assert result.answer.sources[0]["question"] == KNOWN
