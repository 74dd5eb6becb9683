"""A question as it was typed is answered as what it was read as; what was typed is what is stored."""

from django.test import TestCase

from agents.database import in_database
from chat.models import AnswerSource, Message, Role
from chat.protocol import Done
from chat.staff.explanation import explain_trace
from tests.factories import make_library, make_synonym
from tests.integration.chat.turn.test_path import KNOWN, Listener, ask

SHOUTED = "BONJOUR, POUVEZ-VOUS ME DIRE COMBEIN COUTE LA CARTE DE LECTEUR SVP ? MERCI D'AVANCE"
READ = "Combien coûte la carte de lecteur ?"


def told(listener: Listener) -> str:
    done = listener.events[-1]
    assert isinstance(done, Done)
    return str(done.as_json()["readAs"])


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

    async def test_reader_is_told_what_was_read_and_may_have_it_as_typed(self) -> None:
        _result, listener = await ask(self.deployment, SHOUTED)
        assert told(listener) == READ
        result, listener = await ask(self.deployment, SHOUTED, as_typed=True)
        assert told(listener) == ""
        line = next(line for line in result.trace.lines if line["step"] == "reading")
        assert (line["outcome"], line["detail"]) == ("as_typed", "")

    async def test_greeting_that_is_left_out_is_not_told(self) -> None:
        result, listener = await ask(self.deployment, f"Bonjour, {KNOWN} Merci !")
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert told(listener) == ""

    async def test_other_form_of_an_acronym_is_told(self) -> None:
        agent = self.deployment.agent
        await in_database(make_synonym, agent, "BM", "bibliothèque municipale")
        asked = "Quels sont les horaires d'ouverture de la BM ?"
        _result, listener = await ask(self.deployment, asked)
        assert "bibliothèque municipale" in told(listener)
        _result, listener = await ask(self.deployment, asked, as_typed=True)
        assert told(listener) == ""

    async def test_tidy_question_is_read_as_typed(self) -> None:
        result, _listener = await ask(self.deployment, KNOWN)
        line = next(line for line in result.trace.lines if line["step"] == "reading")
        assert (line["outcome"], line["detail"]) == ("as_typed", "")

    async def test_question_of_a_story_is_found_and_its_stored_answer_is_not_given_unseen(self) -> None:
        story = "Mon voisin a perdu son chien dans la forêt hier matin. "
        result, _listener = await ask(self.deployment, story + KNOWN)
        assert result.answer.source == AnswerSource.EXTRACTIVE
        assert result.answer.sources[0]["question"] == KNOWN
