"""What to ask next: only what the desk answers with certainty, in the language of the question."""

from typing import Any

from django.test import AsyncClient, TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, Message, Role, Turn
from chat.runs.suggestions import suggest_next
from faqs.models import LearnedKind, LearnedStatus
from tests.factories import add_document, make_conversation, make_deployment, make_exchange, make_learned, make_library

HOURS = "Quels sont les horaires d'ouverture de la bibliothèque ?"
CARD = "Combien coûte la carte de lecteur ?"
LOAN = "Combien de temps dure le prêt d’un livre ?"
ENGLISH = "How much does the library card cost for the reader?"


class SuggestionTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library()
        self.agent = self.deployment.agent
        self.conversation = make_conversation(self.deployment)

    def asked(self, question: str, answer: str = "Oui.", **turn: Any) -> Turn:
        fields = {"answer_source": AnswerSource.LLM, "language": "fr", **turn}
        return make_exchange(self.conversation, question, answer, **fields)

    async def suggested(self, question: str, *answer: str, **turn: Any) -> list[str]:
        made = await in_database(self.asked, question, *answer, **turn)
        before = await in_database(_rows)
        found = await suggest_next(made)
        assert await in_database(_rows) == before
        return found

    async def test_near_questions_with_a_standing_answer_are_offered(self) -> None:
        await in_database(make_learned, self.agent, question=LOAN)
        found = await self.suggested("Quels sont les tarifs de la bibliothèque pour un livre ?")
        assert set(found) == {HOURS, CARD, LOAN}

    async def test_what_was_asked_or_answered_is_not_offered_again(self) -> None:
        await in_database(self.asked, CARD)
        found = await self.suggested("Quels sont les horaires d'ouverture de la bibliothèque")
        assert found == []

    async def test_another_phrasing_of_the_answer_given_is_not_offered(self) -> None:
        given = "La carte de lecteur coûte 12 euros par an ; elle est gratuite avant 18 ans."
        assert CARD not in await self.suggested("Et le prix de la carte de lecteur ?", given)

    async def test_no_withdrawn_answer_no_other_desk_no_courtesy(self) -> None:
        def stored() -> None:
            make_learned(self.agent, question=LOAN, status=LearnedStatus.OBSOLETE)
            make_learned(self.agent, question="Merci pour le livre !", kind=LearnedKind.COURTESY)
            make_learned(make_deployment().agent, question="Où rendre un livre emprunté ?")

        await in_database(stored)
        found = await self.suggested("Comment emprunter un livre de la bibliothèque ?")
        assert set(found) == {HOURS, CARD}

    async def test_answer_withdrawn_from_the_index_only_later_is_not_offered(self) -> None:
        row = await in_database(make_learned, self.agent, question=LOAN)
        await in_database(type(row).objects.filter(pk=row.pk).update, status=LearnedStatus.OBSOLETE)
        assert LOAN not in await self.suggested("Comment emprunter un livre de la bibliothèque ?")

    async def test_same_question_with_two_answers_is_not_offered(self) -> None:
        other = f"# Annexe\n\n## {CARD}\n\nLa carte de lecteur coûte 15 euros.\n"
        await in_database(lambda: add_document(self.agent, name="annexe.md", text=other))
        assert CARD not in await self.suggested("Et le prix de la carte pour un lecteur ?")

    async def test_only_the_language_of_the_question_is_offered(self) -> None:
        await in_database(make_learned, self.agent, question=ENGLISH)
        found = await self.suggested("Quel est le prix de la carte pour les lecteurs ?")
        assert ENGLISH not in found
        found = await self.suggested("What is the price of the card for the readers?", language="en")
        assert found == [ENGLISH]

    async def test_what_is_far_from_the_question_is_offered_after_a_refusal_only(self) -> None:
        far = "xylophone zygote kiwi dans la mer"
        assert await self.suggested(far) == []
        assert await self.suggested(far, answer_source=AnswerSource.GUARD_RAIL) != []

    async def test_refusal_has_some_unless_it_lists_its_own(self) -> None:
        refused = {"answer_source": AnswerSource.GUARD_RAIL}
        assert await self.suggested("La piscine est-elle ouverte ?", "Non.", **refused)
        own = f"Non. Essayez :\n\n- {HOURS}"
        assert await self.suggested("La piscine est-elle ouverte ?", own, **refused) == []

    async def test_only_the_reader_of_the_turn_is_told(self) -> None:
        turn = await in_database(self.asked, "Quel est le prix de la carte pour les lecteurs ?")
        client = AsyncClient()
        assert (await client.get(f"/api/rag/turns/{turn.pk}/suggestions")).status_code == 404
        body = {"deployment": self.deployment.slug}
        made = await client.post("/api/conversations/", body, "application/json")
        mine = await Conversation.objects.aget(pk=made.json()["id"])
        self.conversation = mine
        turn = await in_database(self.asked, "Quel est le prix de la carte pour les lecteurs ?")
        told = await client.get(f"/api/rag/turns/{turn.pk}/suggestions")
        assert HOURS in told.json()["suggestions"]
        await Deployment.objects.filter(pk=self.deployment.pk).aupdate(is_active=False)
        assert (await client.get(f"/api/rag/turns/{turn.pk}/suggestions")).status_code == 404


def _rows() -> tuple[int, int]:
    return Turn.objects.count(), Message.objects.exclude(role=Role.TOOL).count()
