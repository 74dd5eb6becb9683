"""« Corriger »: what the page shows, what it withdraws, what it closes, and its proof."""

import itertools
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

from django.test import TestCase
from django.utils import timezone

from agents.admin_base import admin_url
from chat.errors import ChatError
from chat.models import AnswerSource, Feedback, FollowUp, Message, Role, Turn, TurnStatus, Verdict
from chat.staff.simulator import Simulated
from chat.thread.verdicts import dismiss_verdicts, give_feedback, settle_verdicts
from faqs.answers import without_citations
from faqs.models import EntryStatus, GroupStatus, LearnedResponse, LearnedStatus, QuestionGroup, UnansweredQuestion
from faqs.unanswered import group_questions
from knowledge.models import Chunk
from tests.admin_pages import client_of, make_staff, run_action, shown_messages, superuser_client
from tests.factories import (
    add_document,
    fresh,
    make_conversation,
    make_entry,
    make_exchange,
    make_learned,
    make_library,
    make_user,
    source_of,
)
from tests.integration.faqs.test_unanswered import make_group
from tests.readers import LibraryCase

RIGHTS = ("chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse")
QUESTION = "Quels sont les horaires de la piscine ?"
WRONG, RIGHT = "De 9 heures à 20 heures.", "De 7 heures à 22 heures."
PASSAGE = {
    "n": 1,
    "title": "Guide des bassins",
    "document_id": None,
    "chunk_id": None,
    "type": "source_material",
    "question": "",
    "score": 0.8,
    "text": "Le bassin ouvre à 7 heures et ferme à 22 heures.",
}


def make_answered(**overrides: Any) -> Turn:
    return make_exchange(
        make_conversation(make_library()),
        "Où garer son vélo ?",
        "Sous l'abri [1], à gauche [2].\n\n*Source : plan.md* [1]",
        answer_source=AnswerSource.LLM,
        **overrides,
    )


class CorrectingTests(LibraryCase):
    def setUp(self) -> None:
        self.agent = self.deployment.agent
        self.turn = make_exchange(make_conversation(self.deployment), QUESTION, f"{WRONG} [1]", answer_source="llm")
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(sources=[PASSAGE])
        self.address = admin_url(Turn, "correct", self.turn.pk)
        self.user = make_user(is_staff=True, is_superuser=True)
        self.client = client_of(self.user)

    def send(self, **pressed: Any) -> Any:
        form = self.client.get(self.address).context["form"]
        typed = {name: form[name].value() or "" for name in form.fields}
        with self.captureOnCommitCallbacks(execute=True):
            return self.client.post(self.address, {**typed, **pressed})

    def save(self, answer: str = RIGHT) -> LearnedResponse:
        response = self.send(answer=answer, save="1")
        assert response.status_code == 302, response.context["form"].errors
        return LearnedResponse.objects.latest("updated_at")

    # --- What it shows ---------------------------------------------------------------------------

    def test_an_answer_without_passages_shows_those_that_are_found_now(self) -> None:
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(sources=[])
        Message.objects.filter(turn=self.turn, role=Role.USER).update(content="Où est la caisse ?")
        passages = self.client.get(self.address).context["passages"]
        assert passages
        assert [each["n"] for each in passages] == list(range(1, len(passages) + 1))

    def test_a_refusal_is_no_start_and_cannot_be_saved_as_an_answer(self) -> None:
        Turn.objects.filter(pk=self.turn.pk).update(answer_source=AnswerSource.GUARD_RAIL)
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(content="Rien de tel ici.", sources=[])
        assert self.client.get(self.address).context["form"]["answer"].value() == ""
        self.deployment.config_overlay = {"guard_rail_message": "Adressez-vous à l’accueil."}
        self.deployment.save()
        texts = (
            *("Rien de tel ici.", "adressez-vous à l'accueil"),
            "Je n’ai rien trouvé à ce sujet. Essayez avec d’autres mots.",
            "Voici ce que disent les documents les plus proches de votre question :\n\n**Guide**\n\nÀ 7 heures.",
            "I found nothing about this.",
        )
        for text in texts:
            with self.subTest(text):
                assert "rien n’a été trouvé" in shown_messages(self.send(answer=text, save="1"))
                assert not LearnedResponse.objects.exists()
        assert self.save("Je n’ai rien à payer : l’accueil est gratuit.").answer.endswith("gratuit.")

    # --- What it does ----------------------------------------------------------------------------

    def test_older_answers_are_withdrawn_and_named(self) -> None:
        older = make_learned(self.agent, question=QUESTION, answer="Fermée.")
        entry = make_entry(self.deployment, QUESTION, WRONG)
        page = self.client.get(self.send(answer=RIGHT, save="1")["Location"])
        assert [row for row, _url in page.context["withdrawn"]] == [entry, older]
        assert (fresh(entry).status, fresh(older).status) == (EntryStatus.OBSOLETE, LearnedStatus.TO_REVIEW)

    def test_the_report_and_its_group_are_closed_with_their_owner(self) -> None:
        report = give_feedback(self.turn, Verdict.DOWN)
        group_questions()
        row = self.save()
        report.refresh_from_db()
        group = QuestionGroup.objects.get()
        assert (report.follow_up, report.settled_by, report.owner) == (FollowUp.SETTLED, row, self.user)
        assert (group.status, group.response) == (GroupStatus.ANSWERED, row)
        assert UnansweredQuestion.objects.get().answered_by == row
        assert (row.owner, row.source_message) == (self.user, self.turn.pk)

    def test_what_asks_the_same_in_its_group_is_closed_and_nothing_else(self) -> None:
        give_feedback(self.turn, Verdict.DOWN)
        same = make_exchange(make_conversation(self.deployment), f"Bonjour. {QUESTION}", WRONG, answer_source="llm")
        other = make_exchange(make_conversation(self.deployment), QUESTION.replace("?", "en 2031 ?"), WRONG)
        reports = [give_feedback(turn, Verdict.DOWN) for turn in (same, other)]
        group = make_group(self.agent, QUESTION)
        UnansweredQuestion.objects.update(group=group)
        row = self.save()
        waiting = UnansweredQuestion.objects.get(answered_by=None)
        assert (waiting.source_turn, group.questions.filter(answered_by=row).count()) == (other.pk, 3)
        assert [Feedback.objects.get(pk=each.pk).settled_by for each in reports] == [row, None]
        assert fresh(group).status == GroupStatus.OPEN

    def test_a_correction_that_was_replaced_is_no_longer_what_one_starts_from(self) -> None:
        first = self.save("De 6 heures à 23 heures.")
        page = self.client.get(self.address)
        self.assertContains(page, "déjà été corrigée")
        assert page.context["form"]["answer"].value() == first.answer
        LearnedResponse.objects.filter(pk=first.pk).update(status=LearnedStatus.TO_REVIEW)
        page = self.client.get(self.address)
        self.assertNotContains(page, "déjà été corrigée")
        assert page.context["form"]["answer"].value() == WRONG
        assert self.save().pk == first.pk

    def test_a_question_that_is_not_given_it_stays_open_and_the_page_says_so(self) -> None:
        report = give_feedback(self.turn, Verdict.DOWN)
        self.deployment.config_overlay = {"direct_answer_threshold": 1.0, "direct_answers": False}
        self.deployment.save()
        response = self.send(question="Quel âge a la mairie ?", answer="Cent ans.", save="1")
        page = self.client.get(response["Location"])
        assert not page.context["is_right"]
        self.assertContains(page, "Pas encore")
        self.assertNotContains(page, "donnée dès maintenant")
        assert fresh(report).follow_up == FollowUp.TODO

    def test_a_proof_that_fails_says_so(self) -> None:
        row, failed = self.save(), mock.Mock(error=ChatError(public_message="La recherche échoue."))
        failed.answer.text, failed.trace.lines = "", []
        with mock.patch("chat.staff.corrections.ask_again", return_value=Simulated(QUESTION, failed)):
            page = self.client.get(admin_url(Turn, "correct", self.turn.pk, saved=row.pk))
        self.assertContains(page, "La recherche échoue.")

    def test_a_follow_up_is_proven_by_the_question_that_stands_alone(self) -> None:
        Turn.objects.filter(pk=self.turn.pk).update(trace=[{"step": "standalone", "outcome": "follow_up"}])
        Message.objects.filter(turn=self.turn, role=Role.USER).update(content="Et le dimanche ?")
        alone = "Quels sont les horaires de la piscine le dimanche ?"
        response = self.send(question=alone, answer="De 8 heures à 13 heures.", save="1")
        shown = self.client.get(response["Location"]).context
        assert (shown["given"].question, shown["is_right"]) == (alone, True)

    def test_the_text_of_a_passage_is_followed_from_then_on(self) -> None:
        chunk = self.agent.documents.get().chunks.earliest("pk")
        source = {**PASSAGE, "chunk_id": chunk.pk, "text": chunk.content}
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(sources=[source])
        taken = self.send(take="1").context["form"]
        response = self.send(answer=taken["answer"].value(), taken=taken["taken"].value(), save="1")
        assert response.status_code == 302
        assert list(LearnedResponse.objects.get().origins.values_list("chunk", flat=True)) == [chunk.pk]

    def test_empty_and_endless_texts_are_refused_in_words(self) -> None:
        for answer in ("", "x" * 100_000):
            response = self.send(answer=answer, save="1")
            assert response.status_code == 200
            assert response.context["form"].errors or "dépasse" in shown_messages(response)
        assert not LearnedResponse.objects.exists()

    # --- Who, and from where ---------------------------------------------------------------------

    def test_every_right_is_asked_for_and_without_them_no_link_leads_here(self) -> None:
        give_feedback(self.turn, Verdict.DOWN)
        pages = (
            admin_url(Turn, "change", self.turn.pk),
            admin_url("chat.conversation", "change", self.turn.conversation_id),
            admin_url(Feedback, "changelist"),
        )
        viewer = client_of(make_staff("chat.view_turn"))
        for page in pages:
            self.assertContains(self.client.get(page), self.address)
            self.assertNotContains(viewer.get(page), self.address)
        for missing in RIGHTS:
            staff = make_staff(*(right for right in RIGHTS if right != missing))
            assert client_of(staff).get(self.address).status_code == 403


class StartingTextTests(TestCase):
    """What staff start from, and what is no start."""

    def test_the_first_quoted_passage_is_proposed_as_the_answer(self) -> None:
        turn = make_answered()
        Turn.objects.filter(pk=turn.pk).update(answer_source=AnswerSource.EXTRACTIVE)
        sources = [{"n": 1, "text": "Le premier passage."}, {"n": 2, "text": "Le second."}]
        turn.messages.filter(role=Role.ASSISTANT).update(sources=sources)
        client, address = superuser_client(), admin_url(Turn, "correct", turn.pk)
        assert client.get(address).context["form"]["answer"].value() == "Le premier passage."

    def test_passage_that_was_replaced_since_is_offered_as_it_reads_now(self) -> None:
        turn = make_answered()
        Turn.objects.filter(pk=turn.pk).update(answer_source=AnswerSource.EXTRACTIVE)
        add_document(turn.conversation.deployment.agent)
        chunk, other = Chunk.objects.order_by("pk")[:2]
        turn.messages.filter(role=Role.ASSISTANT).update(sources=[source_of(chunk), source_of(other, n=2)])
        Chunk.objects.filter(pk=chunk.pk).update(content="La carte coûte 45 €.")
        page = superuser_client().get(admin_url(Turn, "correct", turn.pk))
        assert page.context["form"]["answer"].value() == page.context["passages"][0]["text"] == "La carte coûte 45 €."
        chunk.delete()
        page = superuser_client().get(admin_url(Turn, "correct", turn.pk))
        assert not page.context["form"]["answer"].value()

    def test_exchange_without_an_answer_is_not_validated(self) -> None:
        turn = make_answered(status=TurnStatus.INTERRUPTED)
        response = superuser_client().get(admin_url(Turn, "correct", turn.pk), follow=True)
        assert "pas de réponse à valider" in shown_messages(response)

    def test_links_words_and_code_in_brackets_stay(self) -> None:
        text = "Voir [1](https://a.fr), `row[0]` et [annexe] [2]."
        assert without_citations(text) == "Voir [1](https://a.fr), `row[0]` et [annexe]."


class FollowUpTests(TestCase):
    """A thumb down has a state and an owner."""

    def setUp(self) -> None:
        self.user = make_user(is_staff=True, is_superuser=True)
        self.client = client_of(self.user)
        self.report = self.make_report()

    def make_report(self, verdict: Verdict = Verdict.DOWN) -> Feedback:
        turn = make_exchange(make_conversation(), f"Question {uuid.uuid4().hex} ?", "Non.")
        return Feedback.objects.create(turn=turn, verdict=verdict)

    def act(self, action: str, *reports: Feedback) -> Any:
        response = run_action(self.client, action, *(reports or (self.report,)))
        self.report.refresh_from_db()
        return response

    def test_it_is_dismissed_and_given_back(self) -> None:
        assert self.report.follow_up == FollowUp.TODO
        for action, state, owner in (("dismiss", FollowUp.DISMISSED, self.user), ("give_back", FollowUp.TODO, None)):
            self.act(action)
            assert (self.report.follow_up, self.report.owner) == (state, owner)

    def test_a_thumb_up_asks_for_nothing(self) -> None:
        up = self.make_report(Verdict.UP)
        assert "n’attendent rien" in shown_messages(self.act("dismiss", up))
        assert (fresh(up).follow_up, up.dismissed_at) == (None, None)

    def test_said_again_it_is_for_staff_again(self) -> None:
        answer = make_learned(self.report.turn.conversation.deployment.agent)
        ends: tuple[Callable[[], int], ...] = (
            lambda: dismiss_verdicts(Feedback.objects.all(), self.user),
            lambda: settle_verdicts(Feedback.objects.all(), answer.pk, self.user),
        )
        for end in ends:
            assert end()
            give_feedback(self.report.turn, Verdict.DOWN, comment="Toujours faux.")
            assert (fresh(self.report).follow_up, self.report.owner) == (FollowUp.TODO, None)
            assert self.report.settled_by is None

    def test_each_report_is_in_one_state_and_found_by_it(self) -> None:
        now = timezone.now()
        for columns in itertools.product((None, now), repeat=3):
            names = ("settled_at", "dismissed_at", "withdrawn_at")
            for verdict in Verdict:
                report = self.make_report(verdict)
                Feedback.objects.filter(pk=report.pk).update(**dict(zip(names, columns, strict=True)))
        for state, value in ((FollowUp.TODO, "open"), (FollowUp.SETTLED, "settled"), (FollowUp.DISMISSED, "dismissed")):
            page = self.client.get(admin_url(Feedback, "changelist", follow_up=value))
            found = set(page.context["cl"].queryset)
            assert found == {each for each in Feedback.objects.all() if each.follow_up == state}
