"""What the memory learns (seed 000, section 5), and what it must never keep."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase
from django.utils import timezone

from agents.settings import MemoryLearning
from faqs.learning import NOT_LEARNED, Learned, is_refusal, reason_not_to_learn, remember_answer, report_wrong
from faqs.memory import delete_entries, expired_entries, set_status
from faqs.models import CachedResponse, EntryStatus, Origin, StatusReason
from knowledge.models import Chunk
from tests.factories import make_deployment, make_entry, make_lesson, recall, source_of
from tests.readers import LibraryCase

QUESTION = "Que se passe-t-il en cas de retard d'un livre ?"
ANSWER = "Un retard bloque tout nouvel emprunt [1]."


class LearningTestCase(LibraryCase):
    def learn(self, *, mode: str = MemoryLearning.VALID, question: str = QUESTION, **overrides: Any) -> Learned:
        answer = overrides.pop("answer", ANSWER)
        lesson = make_lesson(self.deployment, question, answer, **overrides)
        return remember_answer(lesson, mode=mode, max_age_days=180)


class SeedSection5AcquisitionTests(LearningTestCase):
    """5. Politique d’apprentissage: acquisition, question sauvegardée, filtrage."""

    def test_acquisition_keeps_the_question_as_it_was_asked_phase_project_author_and_initial_score(self) -> None:
        self.learn(question=f"{QUESTION}  ", author="gpt", score=0.83)
        entry = CachedResponse.objects.get()
        assert entry.question == f"{QUESTION}  "
        assert entry.metadata == {
            "phase": "summary",
            "project": self.deployment.slug,
            "authors": ["gpt"],
            "initial_score": 0.83,
            "tags": [],
        }

    def test_acquisition_keeps_the_passages_it_came_from(self) -> None:
        chunks = list(Chunk.objects.order_by("pk")[:2])
        self.learn(sources=[source_of(chunk) for chunk in chunks])
        kept = Origin.objects.values_list("chunk_id", flat=True)
        assert sorted(kept) == [chunk.pk for chunk in chunks]

    def test_filtrage_an_answer_marked_non_valide_is_not_kept(self) -> None:
        for answer in (f"{ANSWER} <non valide>", f"<NON VALIDE> {ANSWER}"):
            assert self.learn(answer=answer) == Learned("refused", "not_valid")
        assert not CachedResponse.objects.exists()


class RefusedLessonTests(LearningTestCase):
    def test_every_reason_has_words(self) -> None:
        cases: list[dict[str, Any]] = [
            {"is_follow_up": True},
            {"used_tools": True},
            {"question": "mot " * 400},
            {"answer": "mot " * 40_000},
            {"question": "?"},
            {"sources": []},
            {"answer": "Je ne sais pas."},
            {"question": "Écrivez-moi à jeanne@exemple.fr, combien coûte la carte ?"},
        ]
        reasons = [self.learn(**case).reason for case in cases]
        assert len(set(reasons)) == len(cases)
        assert set(reasons) <= set(NOT_LEARNED)
        assert not CachedResponse.objects.exists()

    def test_mode_off_learns_nothing(self) -> None:
        assert self.learn(mode=MemoryLearning.OFF) == Learned("refused", "off")

    def test_answer_whose_source_changed_meanwhile_is_not_kept(self) -> None:
        chunk = Chunk.objects.order_by("pk")[0]
        source = source_of(chunk)
        for changed in ({"content": "Autre chose."}, {"content": chunk.content, "enabled": False}):
            Chunk.objects.filter(pk=chunk.pk).update(**changed)
            assert self.learn(sources=[source]).reason == "source_changed"
        chunk.delete()
        assert self.learn(sources=[source]).reason == "source_changed"

    def test_answer_with_a_source_that_cannot_be_followed_is_not_kept(self) -> None:
        source = {"n": 1, "chunk_id": None, "text": "Une réponse validée."}
        assert self.learn(sources=[source]).reason == "source_changed"

    def test_personal_data_in_the_answer_is_not_kept_unless_a_source_says_it(self) -> None:
        answer = "Appelez le 01 23 45 67 89 [1]."
        lesson = make_lesson(self.deployment, QUESTION, answer)
        assert reason_not_to_learn(lesson, "valid") == "personal_data"
        said = make_lesson(self.deployment, QUESTION, answer, sources=[{"text": "Accueil : 01.23.45.67.89"}])
        assert reason_not_to_learn(said, "valid") == ""


class ModeTests(LearningTestCase):
    def state(self) -> tuple[str, str]:
        entry = CachedResponse.objects.get()
        return entry.status, entry.status_reason

    def test_mode_review_keeps_the_answer_for_staff(self) -> None:
        assert self.learn(mode=MemoryLearning.REVIEW).outcome == "to_review"
        assert self.state() == (EntryStatus.TO_REVIEW, StatusReason.LEARNED)
        assert recall(self.deployment, QUESTION).answer is None

    def test_answer_without_citation_waits_for_staff_in_every_mode(self) -> None:
        self.learn(answer="Un retard bloque tout nouvel emprunt.")
        assert self.state() == (EntryStatus.TO_REVIEW, StatusReason.UNSOURCED)


class AgainTests(LearningTestCase):
    def test_question_that_is_answered_from_memory_is_not_learned_again(self) -> None:
        self.learn()
        assert self.learn(answer="Autre réponse [1].").outcome == "known"
        assert CachedResponse.objects.get().answer == ANSWER

    def test_expired_answer_and_that_of_a_changed_passage_are_replaced(self) -> None:
        self.learn()
        expired = {"confirmed_at": timezone.now() - timedelta(days=181)}
        for rows, change in ((CachedResponse.objects, expired), (Chunk.objects, {"content": "Tout nouveau."})):
            rows.update(**change)
            assert self.learn(answer=f"Réponse {rows.model.__name__} [1].").outcome == "stored"
            found = recall(self.deployment, QUESTION)
            assert found.answer is not None
            assert found.answer.text == f"Réponse {rows.model.__name__} [1]."

    def test_what_staff_set_aside_is_not_overwritten(self) -> None:
        learned = self.learn()
        set_status(CachedResponse.objects.all(), EntryStatus.OBSOLETE, StatusReason.STAFF)
        assert self.learn().reason == "set_aside"
        assert CachedResponse.objects.get().status == EntryStatus.OBSOLETE
        assert learned.entry_id == CachedResponse.objects.get().pk

    def test_reported_answer_does_not_come_back_by_learning(self) -> None:
        learned = self.learn()
        assert learned.entry_id is not None
        report_wrong(entry_id=learned.entry_id, question=QUESTION)
        assert self.learn().reason == "set_aside"
        assert recall(self.deployment, QUESTION).answer is None


@pytest.mark.parametrize(
    "answer",
    [
        "Je ne sais pas.",
        "Je n’ai pas trouvé de réponse dans les passages.",
        "Les passages fournis ne permettent pas de répondre à cette question [1].",
        "Les documents ne mentionnent pas ce point.",
        "Aucune information ne traite de ce sujet.",
        "I don't know.",
        "The passages do not contain the answer.",
        "The documents provided don't mention it.",
        "I cannot answer this question from the passages.",
    ],
)
def test_refusal_is_seen(answer: str) -> None:
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "La carte coûte 12 euros par an [1].",
        "Non, les livres ne peuvent pas être prolongés [1].",
        "You cannot renew the card online [2].",
        "Il ne faut pas oublier votre carte [1].",
    ],
)
def test_answer_that_says_no_is_no_refusal(answer: str) -> None:
    assert not is_refusal(answer)


class PruneTests(TestCase):
    def test_what_staff_set_aside_or_somebody_reported_outlives_its_age(self) -> None:
        deployment = make_deployment()
        old = timezone.now() - timedelta(days=400)
        kept = make_entry(deployment, "Que coûte la carte ?", status=EntryStatus.OBSOLETE)
        reported = make_entry(deployment, "Où est la gare ?")
        report_wrong(entry_id=reported.pk, question="Où est le parking ?")
        gone = make_entry(deployment, "Quand ouvre la piscine ?")
        CachedResponse.objects.update(confirmed_at=old)
        assert delete_entries(expired_entries(deployment.pk, 180)) == 1
        left = set(CachedResponse.objects.values_list("pk", flat=True))
        assert left == {kept.pk, reported.pk}
        assert gone.pk not in left
