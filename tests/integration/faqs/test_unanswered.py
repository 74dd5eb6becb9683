"""Unanswered questions: kept with care, grouped by meaning, drafted, approved, replayed."""

import uuid
from datetime import timedelta
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.admin_base import admin_url
from agents.models import Agent
from faqs.models import GroupStatus, LearnedResponse, LearnedStatus, QuestionGroup, UnansweredQuestion, UnansweredReason
from faqs.unanswered import (
    Unanswered,
    draft_from_group,
    forget_turns,
    group_questions,
    keep_unanswered,
    purge_unanswered,
    ranked_groups,
)
from knowledge.embeddings.base import Purpose, embedder
from tests.admin_pages import client_of, make_staff, run_action, superuser_client
from tests.constants import override
from tests.factories import fresh, make_agent


def keep(agent: Agent, question: str, **overrides: Any) -> UnansweredQuestion:
    model = embedder()
    turn = overrides.pop("turn", uuid.uuid4())
    unanswered = Unanswered(
        agent_id=agent.pk,
        question=question,
        vector=model.embed_one(question, purpose=Purpose.QUERY),
        recipe=model.recipe,
        reason=overrides.pop("reason", UnansweredReason.REFUSED),
        score=0.1,
    )
    keep_unanswered(unanswered, turn_id=turn)
    UnansweredQuestion.objects.filter(source_turn=turn).update(**overrides)
    return UnansweredQuestion.objects.get(source_turn=turn)


def make_group(agent: Agent | None = None, question: str = "", times: int = 1) -> QuestionGroup:
    agent = agent or make_agent()
    question = question or f"{uuid.uuid4().hex} {uuid.uuid4().hex} ?"
    kept = [keep(agent, question) for _ in range(times)]
    group_questions()
    group = fresh(kept[0]).group
    assert group is not None
    return group


class GroupingTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def test_questions_that_mean_the_same_share_a_group(self) -> None:
        for text in (
            "Peut-on louer un vélo électrique ici ?",
            "Peut on louer un vélo électrique ici",
            "Où déclarer un nuisible dans le jardin ?",
        ):
            keep(self.agent, text)
        assert group_questions() == 3
        sizes = [group.questions.count() for group in ranked_groups()]
        assert sizes == [2, 1]

    def test_groups_are_ranked_by_count_and_then_by_recency(self) -> None:
        old, new = make_group(self.agent, "alpha beta ?"), make_group(self.agent, "gamma delta ?")
        often = make_group(self.agent, "epsilon zeta ?", times=2)
        yesterday = timezone.now() - timedelta(days=1)
        UnansweredQuestion.objects.filter(group=old).update(asked_at=yesterday)
        assert list(ranked_groups()) == [often, new, old]

    def test_agents_and_embedding_models_are_never_mixed(self) -> None:
        make_group(self.agent, "même question ?")
        make_group(make_agent(), "même question ?")
        keep(self.agent, "même question ?", recipe="other")
        group_questions()
        assert QuestionGroup.objects.count() == 3

    def test_question_asked_again_begins_a_group_beside_one_that_is_answered(self) -> None:
        group = make_group(self.agent, "même question ?")
        QuestionGroup.objects.filter(pk=group.pk).update(status=GroupStatus.ANSWERED)
        keep(self.agent, "même question ?")
        group_questions()
        assert [each.status for each in ranked_groups()] == [GroupStatus.OPEN, GroupStatus.ANSWERED]

    @mock.patch("faqs.unanswered.GROUP_BATCH", 2)
    def test_work_of_one_run_is_bounded(self) -> None:
        for number in range(3):
            keep(self.agent, f"question {number}")
        assert (group_questions(), group_questions(), group_questions()) == (2, 1, 0)


class PrivacyTests(TestCase):
    def test_same_turn_is_kept_once_and_masked(self) -> None:
        agent, turn = make_agent(), uuid.uuid4()
        for _ in range(2):
            keep(agent, "Je suis a@b.fr, et alors ?", turn=turn)
        assert UnansweredQuestion.objects.get().question == "Je suis [@], et alors ?"

    @override_settings(UNANSWERED_RETENTION_DAYS=30)
    def test_old_questions_and_their_empty_groups_are_forgotten(self) -> None:
        agent = make_agent()
        make_group(agent, "vieille question ?")
        UnansweredQuestion.objects.update(asked_at=timezone.now() - timedelta(days=31))
        make_group(agent, "récente demande ?")
        assert purge_unanswered() == 1
        assert [group.question for group in QuestionGroup.objects.all()] == ["récente demande ?"]

    @override(UNANSWERED_MAX_QUESTIONS=2)
    def test_an_agent_keeps_the_newest_questions_only(self) -> None:
        agent = make_agent()
        for number in range(4):
            keep(agent, f"q{number}", asked_at=timezone.now() - timedelta(hours=number))
        purge_unanswered()
        assert set(UnansweredQuestion.objects.values_list("question", flat=True)) == {"q0", "q1"}

    def test_forgotten_turns_take_their_groups_along(self) -> None:
        make_group()
        forget_turns(list(UnansweredQuestion.objects.values_list("source_turn", flat=True)))
        assert not UnansweredQuestion.objects.exists()
        assert not QuestionGroup.objects.exists()


class DraftTests(TestCase):
    def test_draft_takes_the_phrasings_that_may_share_its_answer(self) -> None:
        agent = make_agent()
        group = make_group(agent, "Quel est le tarif de la piscine en 2024 ?")
        for text in (
            "quel est le tarif de la piscine en 2024",
            "Quel tarif pour la piscine en 2024 ?",
            "Quel est le tarif de la piscine en 2023 ?",
            "Quel est le tarif de la piscine pour a@b.fr en 2024 ?",
        ):
            UnansweredQuestion.objects.filter(pk=keep(agent, text).pk).update(group=group)
        draft = draft_from_group(group)
        assert [phrasing.text for phrasing in draft.phrasings.all()] == ["Quel tarif pour la piscine en 2024 ?"]
        assert (draft.status, draft.answer) == (LearnedStatus.TO_REVIEW, "")
        assert draft_from_group(group) == draft

    def test_two_who_draft_at_once_get_one_draft(self) -> None:
        group = make_group()
        other = QuestionGroup.objects.get(pk=group.pk)
        draft = draft_from_group(group)
        other.response = None
        assert draft_from_group(other) == draft
        assert LearnedResponse.objects.count() == 1


class AdminTests(TestCase):
    def test_group_is_deleted_with_its_questions_by_whoever_may(self) -> None:
        one, other = make_group(times=2), make_group()
        run_action(client_of(make_staff("faqs.view_questiongroup")), "delete_selected", other, post="yes")
        assert QuestionGroup.objects.count() == 2
        client = superuser_client()
        run_action(client, "delete_selected", other, post="yes")
        client.post(admin_url(QuestionGroup, "delete", one.pk), {"post": "yes"})
        assert not UnansweredQuestion.objects.exists()

    def test_one_click_makes_a_draft_and_opens_it(self) -> None:
        group, user = make_group(), User.objects.create_superuser("chef")
        response = client_of(user).post(admin_url(QuestionGroup, "draft", group.pk))
        draft = LearnedResponse.objects.get()
        assert response["Location"] == admin_url(LearnedResponse, "change", draft.pk)
        assert draft.owner == user
        assert (fresh(group).status, group.response) == (GroupStatus.DRAFTED, draft)

    def test_groups_are_dismissed_in_bulk(self) -> None:
        group = make_group()
        run_action(superuser_client(), "dismiss_groups", group)
        assert fresh(group).status == GroupStatus.DISMISSED
