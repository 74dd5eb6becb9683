"""A question as it was typed: greetings, what was read, and the choice between two stored questions."""

from unittest import mock

from django.test import TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, Message, Role
from chat.protocol import Sources
from chat.staff.explanation import explain_trace
from chat.turn import stored_answers
from chat.turn.stored_answers import CLARIFICATION_INTRO
from tests.factories import (
    add_document,
    make_agent,
    make_conversation,
    make_deployment,
    make_exchange,
    make_learned,
    make_synonym,
)
from tests.integration.chat.turn.test_path import KNOWN, Listener, ask, model, scripted, steps
from tests.readers import LibraryCase


class CourtesyTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent(), name="Piscine municipale")

    async def test_any_desk_answers_a_greeting_without_search_or_model(self) -> None:
        with scripted(), mock.patch("chat.turn.path.embed_question") as embedding:
            result, listener = await ask(self.deployment, "Bonjour !")
            model().assert_exhausted()
        embedding.assert_not_called()
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert result.answer.sources == []
        assert listener.text.startswith("Bonjour !")
        assert "Piscine municipale" in listener.text
        assert [*steps(result)] == ["receive", "courtesy", "save"]

    async def test_bare_sign_is_asked_to_say_more(self) -> None:
        for said in ("?", "??", "😀", "x"):
            result, listener = await ask(self.deployment, said)
            assert result.answer.source == AnswerSource.CLARIFICATION
            assert listener.text.startswith("Pouvez-vous préciser")

    async def test_desk_presents_itself_in_the_words_of_staff(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"presentation": "Je connais le bassin."})
        _result, listener = await ask(self.deployment, "Qui es-tu ?")
        assert "Je connais le bassin." in listener.text

    async def test_staff_may_switch_it_off_and_bare_signs_find_nothing(self) -> None:
        await in_database(add_document, self.deployment.agent)
        await in_database(Deployment.objects.update, config_overlay={"courtesies": False})
        for said in ("Bonjour", "??", "😀", "?" * 500):
            result, _listener = await ask(self.deployment, said)
            assert (result.error, "courtesy" in steps(result)) == (None, False)
            assert result.answer.source != AnswerSource.DIRECT_QA


SHOUTED = "BONJOUR, POUVEZ-VOUS ME DIRE COMBEIN COUTE LA CARTE DE LECTEUR SVP ? MERCI D'AVANCE"
READ = "Combien coûte la carte de lecteur ?"


def told(listener: Listener) -> str:
    done = listener.done
    return str(done.as_json()["readAs"])


class ReadingTests(LibraryCase):
    async def test_shouted_misspelt_polite_question_is_read_and_may_be_asked_as_typed(self) -> None:
        result, listener = await ask(self.deployment, SHOUTED)
        assert (result.answer.source, told(listener)) == (AnswerSource.DIRECT_QA, READ)
        assert (await Message.objects.aget(role=Role.USER)).content == SHOUTED
        line = next(line for line in result.trace.lines if line["step"] == "reading")
        assert (line["outcome"], line["detail"]) == ("read", READ)
        assert READ in explain_trace(result.trace.lines)[1].detail
        result, listener = await ask(self.deployment, SHOUTED, as_typed=True)
        assert told(listener) == ""
        line = next(line for line in result.trace.lines if line["step"] == "reading")
        assert (line["outcome"], line["detail"]) == ("as_typed", "")

    async def test_other_form_of_an_acronym_is_told(self) -> None:
        agent = self.deployment.agent
        await in_database(make_synonym, agent, "BM", "bibliothèque municipale")
        asked = "Quels sont les horaires d'ouverture de la BM ?"
        _result, listener = await ask(self.deployment, asked)
        assert "bibliothèque municipale" in told(listener)
        _result, listener = await ask(self.deployment, asked, as_typed=True)
        assert told(listener) == ""

    async def test_question_of_a_story_is_found_and_its_stored_answer_is_not_given_unseen(self) -> None:
        story = "Mon voisin a perdu son chien dans la forêt hier matin. "
        result, _listener = await ask(self.deployment, story + KNOWN)
        assert result.answer.source == AnswerSource.EXTRACTIVE
        assert result.answer.sources[0]["question"] == KNOWN


CARDS = """# Cartes

## Combien coûte la carte de lecteur adulte ?

La carte adulte coûte 12 euros.

## Combien coûte la carte de lecteur étudiant ?

La carte étudiant coûte 6 euros.

## Et pour la carte perdue, combien ?

Une carte perdue se paie 3 euros.
"""
ASKED = "Combien coûte la carte de lecteur ?"
CHOSEN = "Combien coûte la carte de lecteur étudiant ?"


PLACES = """# Piscine

## Quels sont les horaires d'ouverture ?

De 7 heures à 21 heures, sauf le lundi.

# Médiathèque

## Quels sont les horaires d'ouverture ?

De 10 heures à 18 heures du mardi au samedi.
"""
OPENING = "Quels sont les horaires d'ouverture ?"


class SameQuestionTests(TestCase):
    """A question that stands in two places with two answers: its words do not say which place is meant."""

    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent())
        add_document(self.deployment.agent, text=PLACES)

    async def test_neither_answer_is_given_alone_and_both_are_quoted_with_their_place(self) -> None:
        with self.settings(LLMS={}):
            result, listener = await ask(self.deployment, OPENING)
        assert result.answer.source == AnswerSource.EXTRACTIVE
        (line,) = [line for line in result.trace.lines if line["step"] == "direct_answer"]
        assert line["outcome"] == "contradicted"
        assert "Piscine" in line["detail"]
        assert "Médiathèque" in line["detail"]
        assert "**Piscine › Quels sont" in listener.text
        assert "› Médiathèque › Quels sont" in listener.text

    async def test_no_choice_is_offered_between_the_same_words(self) -> None:
        with self.settings(LLMS={}):
            result, _ = await ask(self.deployment, "Quels sont les horaires d'ouverture de la médiathèque ?")
        assert result.answer.source == AnswerSource.EXTRACTIVE

    async def test_validated_answer_of_staff_is_given(self) -> None:
        await in_database(make_learned, self.deployment.agent, question=OPENING, answer="Voyez chaque lieu.")
        result, listener = await ask(self.deployment, OPENING)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "Voyez chaque lieu." in listener.text


@mock.patch.multiple(stored_answers, OPTIONS_BAND=0.3, OPTIONS_MARGIN=0.3)
class ClarificationTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent())
        add_document(self.deployment.agent, text=CARDS)
        self.conversation = make_conversation(self.deployment)

    async def test_two_close_answers_are_offered_and_none_is_given(self) -> None:
        with scripted():
            result, listener = await ask(self.deployment, ASKED)
            model().assert_exhausted()
        assert result.answer.source == AnswerSource.CLARIFICATION
        assert result.answer.llm_calls == 0
        offered = [source["question"] for source in result.answer.sources]
        assert CHOSEN in offered
        assert 2 <= len(offered) <= 4
        assert isinstance(listener.events[0], Sources)
        done = listener.done
        assert done.answer_source == "clarification"
        marked = [source for source in result.answer.sources if "option" in source]
        assert [source["option"] for source in marked] == list(range(1, len(marked) + 1))
        saved = await Message.objects.aget(role=Role.ASSISTANT)
        assert [source["question"] for source in saved.sources] == offered

    async def test_staff_can_switch_it_off(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"clarification": False})
        result, _ = await ask(self.deployment, ASKED)
        assert result.answer.source == AnswerSource.EXTRACTIVE

    async def test_offer_stands_beside_the_passages(self) -> None:
        result, listener = await ask(self.deployment, ASKED)
        assert result.answer.source == AnswerSource.CLARIFICATION
        quoted, _ = await ask(
            self.deployment, "Aucune : chercher dans les documents", await self.asked_before(listener.text)
        )
        assert quoted.answer.source == AnswerSource.EXTRACTIVE
        passages = [source["chunk_id"] for source in quoted.answer.sources]
        assert [source["chunk_id"] for source in result.answer.sources][: len(passages)] == passages
        assert all(source["text"] for source in result.answer.sources)
        assert quoted.answer.text in listener.text

    async def test_choice_is_no_follow_up_whatever_its_words(self) -> None:
        chosen = "Et pour la carte perdue, combien ?"
        with self.settings(LLMS={}):
            refused, _ = await ask(self.deployment, chosen, await self.asked_before("Autre chose."))
            offered = f"{CLARIFICATION_INTRO}\n\n- {chosen}\n- {CHOSEN}"
            result, listener = await ask(self.deployment, chosen, await self.asked_before(offered))
        assert refused.answer.source != AnswerSource.DIRECT_QA
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "3 euros" in listener.text

    async def asked_before(self, answer: str) -> Conversation:
        await in_database(make_exchange, self.conversation, ASKED, answer)
        return self.conversation

    async def test_the_same_question_again_goes_on_along_its_path(self) -> None:
        first, _ = await ask(self.deployment, ASKED, self.conversation)
        second, _ = await ask(self.deployment, ASKED, self.conversation)
        assert first.answer.source == AnswerSource.CLARIFICATION
        assert second.answer.source == AnswerSource.EXTRACTIVE

    async def test_follow_up_is_never_met_with_a_choice(self) -> None:
        await ask(self.deployment, "Quels sont vos tarifs ?", self.conversation)
        result, _ = await ask(self.deployment, f"Et {ASKED.lower()}", self.conversation)
        assert result.answer.source != AnswerSource.CLARIFICATION
