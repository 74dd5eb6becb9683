"""The ambiguous band in the path of a question: asked, chosen, answered without a model."""

from django.test import TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, Message, Role
from chat.protocol import Done, Sources
from chat.turn.clarification import _INTRO
from tests.factories import add_document, make_agent, make_conversation, make_deployment, make_exchange, make_learned
from tests.integration.chat.turn.test_path import ask, model, scripted

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


class ClarificationTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(
            make_agent(), config_overlay={"clarification_band": 0.3, "clarification_margin": 0.3}
        )
        add_document(self.deployment.agent, text=CARDS)

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
        done = listener.events[-1]
        assert isinstance(done, Done)
        assert done.answer_source == "clarification"
        marked = [source for source in result.answer.sources if "option" in source]
        assert [source["option"] for source in marked] == list(range(1, len(marked) + 1))
        saved = await Message.objects.aget(role=Role.ASSISTANT)
        assert [source["question"] for source in saved.sources] == offered

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

    async def test_declining_asks_the_model_the_question_before(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        with scripted(["Douze euros [1]."]):
            await ask(self.deployment, ASKED, conversation)
            result, listener = await ask(self.deployment, "aucune", conversation)
            prompt = model().calls[0].messages[-1].content
        assert result.answer.source == AnswerSource.LLM
        assert prompt.endswith(ASKED)
        assert listener.text == "Douze euros [1]."

    async def test_choice_is_answered_directly(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        with scripted():
            await ask(self.deployment, ASKED, conversation)
            result, listener = await ask(self.deployment, CHOSEN, conversation)
            model().assert_exhausted()
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "6 euros" in listener.text

    async def test_choice_is_no_follow_up_whatever_its_words(self) -> None:
        chosen = "Et pour la carte perdue, combien ?"
        with self.settings(LLMS={}):
            refused, _ = await ask(self.deployment, chosen, await self.asked_before("Autre chose."))
            offered = f"{_INTRO}\n\n- {chosen}\n- {CHOSEN}"
            result, listener = await ask(self.deployment, chosen, await self.asked_before(offered))
        assert refused.answer.source != AnswerSource.DIRECT_QA
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "3 euros" in listener.text

    async def asked_before(self, answer: str) -> Conversation:
        conversation = await in_database(make_conversation, self.deployment)
        await in_database(make_exchange, conversation, ASKED, answer)
        return conversation

    async def test_the_same_question_again_goes_on_along_its_path(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        first, _ = await ask(self.deployment, ASKED, conversation)
        second, _ = await ask(self.deployment, ASKED, conversation)
        assert first.answer.source == AnswerSource.CLARIFICATION
        assert second.answer.source == AnswerSource.EXTRACTIVE

    async def test_follow_up_is_never_met_with_a_choice(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        await ask(self.deployment, "Quels sont vos tarifs ?", conversation)
        result, _ = await ask(self.deployment, f"Et {ASKED.lower()}", conversation)
        assert result.answer.source != AnswerSource.CLARIFICATION

    async def test_staff_can_switch_it_off_or_observe_it(self) -> None:
        for overlay in ({"clarification": False}, {"shadow_mode": True}):
            await in_database(Deployment.objects.update, config_overlay={**self.deployment.config_overlay, **overlay})
            result, _ = await ask(self.deployment, ASKED)
            assert result.answer.source == AnswerSource.EXTRACTIVE
