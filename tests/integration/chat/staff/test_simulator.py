"""The simulator: a question tried with other settings and nothing written, groups asked again, answers that were refused."""

from dataclasses import replace
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.test import Client

from agents.admin_base import admin_url
from agents.effective import effective_config, with_settings
from chat.models import AnswerSource, Conversation, Turn
from chat.staff.admin.simulator import TRYING
from faqs.models import GroupStatus, LearnedResponse, LearnedStatus, QuestionGroup, UnansweredQuestion
from faqs.unanswered import draft_from_group, group_questions
from knowledge import search as search_module
from knowledge.thresholds import threshold_profile
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.factories import (
    declared_tools,
    fresh,
    make_agent,
    make_deployment,
    make_entry,
    make_learned,
    make_tool,
    set_settings,
)
from tests.integration.chat.turn.test_path import FAR, ask
from tests.readers import LibraryCase
from tools_registry.models import ToolOverride

UNKNOWN = "Peut-on louer un xylophone quelconque ?"
ADDRESS = admin_url(Turn, "try")
KNOWN = "Combien coûte la carte de lecteur ?"
POOL = "Quels sont les horaires de la piscine ?"


class TryingCase(LibraryCase):
    def setUp(self) -> None:
        self.client = superuser_client()

    def ask(self, question: str, client: Client | None = None, **fields: Any) -> Any:
        data = {"deployment": self.deployment.pk, "question": question, **fields}
        return (client or self.client).post(ADDRESS, data)

    def way(self, question: str, **settings: Any) -> str:
        fields = {f"setting_{name}": value for name, value in settings.items()}
        page = self.ask(question, **fields)
        assert page.status_code == 200
        assert not page.context["form"].errors, page.context["form"].errors
        return str(page.context["result"].answer.source)


class TryingTests(TryingCase):
    def test_nothing_is_written_or_counted(self) -> None:
        make_learned(self.deployment.agent, question=POOL, answer="À 7 heures.")
        entry = make_entry(self.deployment, "Où est la gare ?")
        for question in (KNOWN, POOL, FAR, "Où est la gare ?"):
            assert self.ask(question).status_code == 200
        assert fresh(entry).usage_count == 0
        assert LearnedResponse.objects.get().times_served == 0
        for model in (Conversation, Turn, UnansweredQuestion):
            assert not model._default_manager.exists()

    def test_a_missing_index_is_said_in_words(self) -> None:
        self.deployment = make_deployment()
        self.assertContains(self.ask("Prix ?"), "pas encore d’index")


class ChangedSettingsTests(TryingCase):
    def test_a_setting_changes_the_try_and_nothing_else(self) -> None:
        assert self.way(KNOWN) == AnswerSource.DIRECT_QA
        assert self.way(KNOWN, direct_answers="false") != AnswerSource.DIRECT_QA
        assert self.way(KNOWN) == AnswerSource.DIRECT_QA
        assert fresh(self.deployment).config_overlay == {}

    def test_a_number_is_taken_in_the_reader_s_notation(self) -> None:
        for written in ("0,999", "0.999"):
            page = self.ask(KNOWN, setting_guard_rail_threshold=written)
            assert page.context["changed"] == {"guard_rail_threshold": 0.999}

    def test_what_is_out_of_bounds_is_an_error_of_its_field(self) -> None:
        page = self.ask(KNOWN, setting_match_count="100000")
        assert "setting_match_count" in page.context["form"].errors
        assert "result" not in page.context

    def test_a_setting_holds_for_every_agent_of_the_deployment(self) -> None:
        self.deployment.specialists.create(agent=make_agent())
        config = with_settings(effective_config(self.deployment), {"match_count": 3})
        assert [each.match_count for each in (config, *config.of_each_agent)] == [3, 3, 3]

    def test_setting_that_is_no_more_changes_nothing(self) -> None:
        config = effective_config(self.deployment)
        assert with_settings(config, {"shadow_mode": True, "extractive_passages": 3}) == config

    def test_the_refusal_follows_a_presentation_that_is_tried(self) -> None:
        page = self.ask(FAR, setting_presentation="Ici, les vélos seulement.")
        assert "Ici, les vélos seulement." in page.context["result"].answer.text

    def test_the_memory_may_be_switched_off(self) -> None:
        set_settings(memory_threshold=0.7)
        make_entry(self.deployment, POOL)
        assert self.way(POOL) == AnswerSource.MEMORY_GUARD
        page = self.ask(POOL, setting_memory="false")
        assert page.context["result"].answer.source != AnswerSource.MEMORY_GUARD
        self.assertContains(page, "La mémoire ne répond pas")


class NeighboursTests(TryingCase):
    """What the question was decided among: the three testers that this page replaced."""

    def test_memory_shows_scores_verdicts_and_reasons(self) -> None:
        set_settings(memory_threshold=0.7)
        make_entry(self.deployment, "Combien coûte la carte en 2023 ?", "12 euros.")
        make_entry(self.deployment, "Où est la gare ?")
        page = self.ask("Combien coûte la carte en 2024 ?")
        for text in ("Aucune réponse ne serait donnée", "2023 ≠ 2024", "sous le seuil"):
            self.assertContains(page, text)
        page = self.ask("Combien coûte la carte en 2023 ?")
        self.assertContains(page, "Une réponse serait donnée")

    def test_the_guard_rail_is_held_against_the_closeness(self) -> None:
        set_settings(guard_rail_threshold=1.5)
        known = threshold_profile("universal-sentence-encoder-multilingual-3")
        assert known is not None
        profile = replace(known, coverage_weight=5.0)
        with mock.patch.object(search_module, "threshold_profile", return_value=profile):
            page = self.ask(KNOWN)
        self.assertNotContains(page, "Le garde-fou refuserait")
        self.assertContains(page, "≥ 1,500 : passe")

    def test_phase_4_tools_are_ranked_for_a_visitor_with_what_would_be_sent(self) -> None:
        weather = make_tool("weather_forecast", "Gives the weather forecast of a city.")
        route = make_tool("find_route", "Finds a route.", tags=frozenset({"drivers"}))
        settings: dict[str, Any] = {"setting_tool_mode": "local", "setting_tool_threshold": "0,05"}
        with declared_tools(weather, route):
            page = self.ask("weather forecast", **settings, setting_tool_top_k="1")
            found = page.context["tools"]
            assert (found.scored[0].spec.name, found.scored[0].reason) == ("weather_forecast", "similar")
            assert [spec.name for spec, _missing in found.walled] == ["find_route"]
            assert '"name": "weather_forecast"' in found.sent
            for mode in ("direct", "local", "external"):
                page = self.ask("route", setting_tool_mode=mode)
                assert page.context["tools"].mode == mode
        assert not ToolOverride.objects.exclude(selected=0).exists()


class TryingRightsTests(TryingCase):
    def test_page_asks_for_the_rights_of_all_that_it_shows(self) -> None:
        for at in range(len(TRYING)):
            assert self.ask(KNOWN, client_of(make_staff(*TRYING[:at], *TRYING[at + 1 :]))).status_code == 403
        assert self.ask(KNOWN, client_of(make_staff(*TRYING))).status_code == 200


class ReplayTests(LibraryCase):
    def setUp(self) -> None:
        self.client = superuser_client()

    async def _ask(self, question: str) -> None:
        await ask(self.deployment, question)

    def make_group(self) -> QuestionGroup:
        async_to_sync(self._ask)(UNKNOWN)
        group_questions()
        return QuestionGroup.objects.get()

    def replay(self, group: QuestionGroup) -> str:
        address = admin_url(Turn, "replay_group", group.pk)
        response = self.client.post(address)
        return response.content.decode()

    def test_group_is_drafted_approved_and_its_replay_shows_it_answered(self) -> None:
        group = self.make_group()
        before = Turn.objects.count()
        assert "0 question" in self.replay(group)
        draft = draft_from_group(group)
        form = {"kind": "faq", "question": draft.question, "answer": "Oui, à l'accueil.", "status": "to_review"}
        with self.captureOnCommitCallbacks(execute=True):
            response = self.client.post(admin_url(LearnedResponse, "change", draft.pk), {**form, "_approve": "1"})
        assert response["Location"] == admin_url(Turn, "replay_group", group.pk)
        page = self.replay(group)
        assert "1 question sur 1 a maintenant une réponse" in page
        group.refresh_from_db()
        draft.refresh_from_db()
        assert (group.status, draft.status) == (GroupStatus.ANSWERED, LearnedStatus.VALID)
        assert (Turn.objects.count(), draft.times_served) == (before, 0)
        assert UnansweredQuestion.objects.get().answered_by == draft

    def test_page_says_what_it_will_do_and_asks_for_its_rights(self) -> None:
        group = self.make_group()
        address = admin_url(Turn, "replay_group", group.pk)
        assert "rien n’est enregistré" in self.client.get(address).content.decode()
        for right in ("chat.view_turn", "faqs.view_questiongroup"):
            assert client_of(make_staff(right)).get(address).status_code == 403
