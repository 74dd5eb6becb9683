"""Validated answers on the path of a question: direct answers, courtesies, priority, and what they cost."""

from typing import Any

from agents.database import in_database
from chat.models import AnswerSource
from chat.turn.prompt import direct_text
from chat.turn.values import DIRECT_MODEL
from faqs.answers import set_status
from faqs.models import LearnedKind, LearnedStatus
from faqs.precedence import recall_learned
from knowledge.search import SearchResult
from knowledge.vectors.payloads import Passage, PointType
from tests.factories import make_learned, make_passage
from tests.integration.chat.turn.test_path import ask, steps
from tests.readers import LibraryCase

QUESTION, ANSWER = "Où garer son vélo devant la bibliothèque ?", "Sous l’abri."


def passage(point: str, score: float, *, is_faq: bool) -> Passage:
    facts: dict[str, Any] = {"type": PointType.QA_PAIR, "question": "Q ?", "document_id": None, "chunk_id": None}
    return make_passage(point, score=score, is_faq=is_faq, **facts)


class LearnedTurnTests(LibraryCase):
    async def test_faq_question_above_the_threshold_gets_a_direct_answer(self) -> None:
        row = await in_database(make_learned, self.deployment.agent, question=QUESTION, answer=ANSWER)
        result, listener = await ask(self.deployment, QUESTION)
        assert (result.answer.source, result.answer.model) == (AnswerSource.DIRECT_QA, DIRECT_MODEL)
        assert listener.text == f"{ANSWER}\n\n*Source : FAQ Validée* [1]"
        assert result.answer.llm_calls == 0
        await row.arefresh_from_db()
        assert (row.times_served, row.last_served_at is not None) == (1, True)
        assert steps(result)["learned"] == "found"

    async def test_other_phrasing_answers_with_both_keys_too(self) -> None:
        await in_database(
            make_learned,
            self.deployment.agent,
            question=QUESTION,
            answer=ANSWER,
            phrasings=["Y a-t-il un abri couvert pour bicyclettes ?"],
        )
        result, _ = await ask(self.deployment, "Y a-t-il un abri couvert pour bicyclettes ?")
        assert ANSWER in result.answer.text
        other, _ = await ask(self.deployment, "N'y a-t-il pas d'abri couvert pour bicyclettes ?")
        assert other.answer.source != AnswerSource.DIRECT_QA

    async def test_greeting_and_thanks_are_answered_at_once_without_a_source_line(self) -> None:
        await in_database(
            make_learned,
            self.deployment.agent,
            question="Bonjour",
            phrasings=["Salut", "Vive le sport"],
            answer="Bonjour ! Que cherchez-vous ?",
            kind=LearnedKind.COURTESY,
        )
        for greeting, step in (("bonjour !", "courtesy"), ("Salut…", "courtesy"), ("VIVE LE SPORT", "learned")):
            result, listener = await ask(self.deployment, greeting)
            assert listener.text == "Bonjour ! Que cherchez-vous ?", greeting
            assert result.answer.sources == []
            assert steps(result)[step] in ("staff", "courtesy")

    async def test_courtesy_is_no_passage_and_opens_no_guard_rail(self) -> None:
        await in_database(
            make_learned, self.deployment.agent, question="Bonjour", answer="Bonjour !", kind=LearnedKind.COURTESY
        )
        result, _ = await ask(self.deployment, "bonjour xylophone kiwi")
        assert result.answer.source == AnswerSource.GUARD_RAIL

    async def test_obsolete_faq_stops_answering_at_once(self) -> None:
        row = await in_database(make_learned, self.deployment.agent, question=QUESTION, answer=ANSWER)
        await in_database(set_status, [row], LearnedStatus.OBSOLETE)
        result, _ = await ask(self.deployment, QUESTION)
        assert ANSWER not in result.answer.text

    def test_priority_holds_only_where_scores_are_equal(self) -> None:
        hits = (passage("a", 0.9, is_faq=False), passage("b", 0.8, is_faq=False), passage("c", 0.8, is_faq=True))
        found = recall_learned(SearchResult(hits), "Q ?").result
        assert [hit.point_id for hit in found.hits] == ["a", "c", "b"]
        candidates = SearchResult(hits).direct_candidates(0.8)
        assert [hit.point_id for hit in candidates] == ["a", "c", "b"]
        assert direct_text(found.hits[0])
