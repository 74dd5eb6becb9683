"""The simulator: a question tried with other settings and nothing written, groups asked again, answers that were refused."""

from dataclasses import replace
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.test import Client, TestCase
from django.urls import reverse
from django.utils import translation

from agents.admin_base import admin_url
from agents.effective import effective_config, with_settings
from chat import telemetry
from chat.models import AnswerSource, Conversation, Turn
from chat.staff import simulator
from chat.staff.explanation import recent_refusals
from faqs.models import CachedResponse, GroupStatus, LearnedResponse, LearnedStatus, QuestionGroup, UnansweredQuestion
from faqs.recall import stored_refusal
from faqs.second_key.agreement import compare_questions
from faqs.unanswered import draft_from_group, group_questions
from knowledge import search as search_module
from knowledge.thresholds import threshold_profile
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, superuser_client
from tests.constants import override
from tests.factories import (
    declared_tools,
    fresh,
    make_agent,
    make_conversation,
    make_deployment,
    make_entry,
    make_exchange,
    make_learned,
    make_library,
    make_tool,
    make_user,
    set_settings,
)
from tests.integration.chat.turn.test_path import FAR, ask, scripted
from tools_registry.models import ToolOverride

UNKNOWN = "Peut-on louer un xylophone quelconque ?"
ADDRESS = admin_url(Turn, "try")
KNOWN = "Combien coûte la carte de lecteur ?"
POOL = "Quels sont les horaires de la piscine ?"


class TryingCase(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library()
        self.client = superuser_client()

    def ask(self, question: str, client: Client | None = None, **fields: Any) -> Any:
        data = {"deployment": self.deployment.pk, "question": question, "user": "", **fields}
        return (client or self.client).post(ADDRESS, data)

    def way(self, question: str, **settings: Any) -> str:
        fields = {f"setting_{name}": value for name, value in settings.items()}
        page = self.ask(question, **fields)
        assert page.status_code == 200
        assert not page.context["form"].errors, page.context["form"].errors
        return str(page.context["result"].answer.source)


class TryingTests(TryingCase):
    def test_it_is_answered_as_in_a_conversation_with_its_story(self) -> None:
        page = self.ask(KNOWN)
        self.assertContains(page, "12 euros")
        self.assertContains(page, "Le chemin de la question")
        self.assertContains(page, "Réponse directe")

    def test_nothing_is_written_or_counted(self) -> None:
        make_learned(self.deployment.agent, question=POOL, answer="À 7 heures.")
        entry = make_entry(self.deployment, "Où est la gare ?")
        for question in (KNOWN, POOL, FAR, "Où est la gare ?"):
            assert self.ask(question).status_code == 200
        assert fresh(entry).usage_count == 0
        assert LearnedResponse.objects.get().times_served == 0
        for model in (Conversation, Turn, UnansweredQuestion):
            assert not model._default_manager.exists()

    def test_it_is_in_no_figure_of_answers(self) -> None:
        with mock.patch.object(telemetry.TurnClock, "ended") as ended:
            assert self.way(KNOWN) == AnswerSource.DIRECT_QA
        ended.assert_not_called()

    def test_every_setting_that_is_offered_is_read_on_the_path(self) -> None:
        assert "setting_show_cited_pages" not in self.client.get(ADDRESS).context["form"].fields

    def test_a_model_is_asked_where_a_reader_s_question_would_be(self) -> None:
        with scripted(["Une réponse du modèle."]):
            page = self.ask("Que prévoit la bibliothèque pour la carte perdue ?")
        assert page.context["result"].answer.source in (AnswerSource.LLM, AnswerSource.GUARD_RAIL)

    def test_it_opens_filled_in_from_an_address(self) -> None:
        page = self.client.get(ADDRESS, {"deployment": str(self.deployment.pk), "question": KNOWN})
        self.assertContains(page, KNOWN)
        assert "result" not in page.context

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

    def test_the_guard_rail_is_held_against_the_relevance(self) -> None:
        set_settings(guard_rail_threshold=1.5)
        known = threshold_profile("universal-sentence-encoder-multilingual-3")
        assert known is not None
        profile = replace(known, lexical_weight=5.0)
        with mock.patch.object(search_module, "threshold_profile", return_value=profile):
            page = self.ask(KNOWN)
        self.assertNotContains(page, "Le garde-fou refuserait")
        self.assertContains(page, "≥ 1,500 : passe")

    def test_phase_4_tools_are_ranked_for_whom_they_are_with_what_would_be_sent(self) -> None:
        weather = make_tool("weather_forecast", "Gives the weather forecast of a city.")
        route = make_tool("find_route", "Finds a route.", tags=frozenset({"drivers"}))
        driver = make_user(username="driver")
        driver.groups.add(Group.objects.create(name="drivers"))
        settings: dict[str, Any] = {"setting_tool_mode": "local", "setting_tool_threshold": "0,2"}
        with declared_tools(weather, route):
            page = self.ask("weather forecast", **settings, setting_tool_top_k="1")
            found = page.context["tools"]
            assert (found.scored[0].spec.name, found.scored[0].reason) == ("weather_forecast", "similar")
            assert [spec.name for spec, _missing in found.walled] == ["find_route"]
            assert '"name": "weather_forecast"' in found.sent
            for mode in ("direct", "local", "external"):
                page = self.ask("route", user="driver", setting_tool_mode=mode)
                assert page.context["tools"].mode == mode
                assert page.context["tools"].walled == []
        assert not ToolOverride.objects.exclude(selected=0).exists()


class TryingRightsTests(TryingCase):
    def test_each_part_asks_for_its_own_right(self) -> None:
        make_entry(self.deployment, POOL)
        for right, shown in (
            ("chat.view_turn", "steps"),
            ("faqs.view_cachedresponse", "memory"),
            ("knowledge.view_chunk", "passages"),
            ("tools_registry.view_tooloverride", "tools"),
        ):
            page = self.ask(KNOWN, client_of(make_staff(right)))
            parts = {name for name in ("steps", "memory", "passages", "tools") if name in page.context}
            assert parts == {shown}
            assert ("result" in page.context) == (shown == "steps")
        assert self.ask(KNOWN, client_of(make_staff("agents.view_agent"))).status_code == 403
        assert CachedResponse.objects.count() == 1

    def test_who_may_not_read_conversations_gets_no_answer_and_asks_no_model(self) -> None:
        rights = ("knowledge.view_chunk", "faqs.view_cachedresponse")
        client = client_of(make_staff(*rights, "tools_registry.view_tooloverride"))
        with mock.patch.object(simulator, "run_turn", side_effect=AssertionError):
            page = self.ask(KNOWN, client, setting_llm_model="dearest", setting_match_count="2")
        assert page.context["changed"] == {"match_count": 2}
        assert len(page.context["passages"].rows) == 2
        self.assertNotContains(page, "rp-prose")
        fields = {each.name for each in page.context["form"].setting_fields}
        assert not fields & {"setting_system_prompt", "setting_max_answer_tokens"}

    def test_nobody_takes_the_place_of_a_user_they_may_not_see_or_learns_that_there_is_one(self) -> None:
        client = client_of(make_staff("tools_registry.view_tooloverride"))
        user = make_user(username="quelqu.un")
        for name in (user.username, "personne"):
            assert self.ask(KNOWN, client, user=name).status_code == 403
        assert "user" in self.ask(KNOWN, user="personne").context["form"].errors


class ReplayTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library()
        self.client = superuser_client()

    async def _ask(self, question: str) -> None:
        await ask(self.deployment, question)

    def make_group(self) -> QuestionGroup:
        async_to_sync(self._ask)(UNKNOWN)
        group_questions()
        return QuestionGroup.objects.get()

    def replay(self, group: QuestionGroup) -> str:
        address = admin_url(Turn, "replay_group", group.pk)
        response = self.client.post(address, {"deployment": self.deployment.pk})
        return response.content.decode()

    def test_group_is_drafted_approved_and_its_replay_shows_it_answered(self) -> None:
        group = self.make_group()
        before = Turn.objects.count()
        assert "0 question" in self.replay(group)
        draft = draft_from_group(group)
        LearnedResponse.objects.filter(pk=draft.pk).update(answer="Oui, à l'accueil.")
        response = self.client.post(admin_url(QuestionGroup, "approve", group.pk))
        assert response["Location"] == admin_url(Turn, "replay_group", group.pk)
        page = self.replay(group)
        assert "1 question sur 1 a maintenant une réponse" in page
        group.refresh_from_db()
        draft.refresh_from_db()
        assert (group.status, draft.status) == (GroupStatus.ANSWERED, LearnedStatus.VALID)
        assert (Turn.objects.count(), draft.times_served) == (before, 0)
        assert UnansweredQuestion.objects.count() == 1

    def test_page_says_what_it_will_do_and_asks_for_its_rights(self) -> None:
        group = self.make_group()
        address = admin_url(Turn, "replay_group", group.pk)
        assert "rien n’est enregistré" in self.client.get(address).content.decode()
        for right in ("chat.view_turn", "faqs.view_questiongroup"):
            assert client_of(make_staff(right)).get(address).status_code == 403


PAGE = "admin:chat_turn_refusals"
ASKED = "Quel est le tarif en 2024 ?"


def refused(step: str = "direct_answer", reason: str = "nombre : 2023 ≠ 2024") -> dict[str, Any]:
    outcome = {"direct_answer": "second_key_refused", "memory_guard": "refused"}[step]
    detail = f"Quel est le tarif en 2023 ? : Les deux questions diffèrent ({reason})."
    return {"step": step, "outcome": outcome, "score": 0.97, "detail": detail}


class RefusalsTests(TestCase):
    def setUp(self) -> None:
        cache.clear()
        self.conversation = make_conversation()

    def page(self, **query: str) -> str:
        response = superuser_client().get(reverse(PAGE), query)
        assert response.status_code == 200
        return response.content.decode()

    def test_both_questions_and_the_reason_are_shown(self) -> None:
        turn = make_exchange(self.conversation, ASKED, "…", trace=[refused()])
        page = self.page()
        assert ASKED in page
        assert "Quel est le tarif en 2023 ?" in page
        assert "nombre : 2023 ≠ 2024" in page
        assert reverse("admin:chat_turn_change", args=[turn.pk]) in page

    def test_a_reason_is_read_in_the_language_of_its_reader(self) -> None:
        stored = "Peut-on payer par carte ?"
        clashes = compare_questions(stored, "Comment payer par carte ?").disagreements
        line = {**refused(), "detail": "", "refused": [stored_refusal(stored, 0.97, "second_key", clashes)]}
        make_exchange(self.conversation, "Comment payer par carte ?", "…", trace=[line])
        [french] = recent_refusals(Turn.objects.all())[0].reasons
        assert french == (
            "Peut-on payer par carte ? (0,970) : Les deux questions diffèrent "
            "(type de question : oui ou non ≠ comment)."
        )
        with translation.override("en"):
            [english] = recent_refusals(Turn.objects.all())[0].reasons
        assert "The two questions differ" in english
        assert "(0.970)" in english

    def test_served_and_far_questions_are_no_refusals(self) -> None:
        for outcome in ("served", "no_candidate"):
            line = {**refused(), "outcome": outcome}
            make_exchange(self.conversation, f"{outcome} ?", "…", trace=[line])
        assert recent_refusals(Turn.objects.all()) == []
        assert "Aucun refus." in self.page()

    def test_refusals_are_filtered_by_text_and_by_step(self) -> None:
        make_exchange(self.conversation, ASKED, "…", trace=[refused()])
        other = [refused("memory_guard", "négation : ∅ ≠ pas")]
        make_exchange(self.conversation, "Faut-il ne pas payer ?", "…", trace=other)
        assert [each.question for each in recent_refusals(Turn.objects.all(), text="2023 ≠ 2024")] == [ASKED]
        assert [each.step for each in recent_refusals(Turn.objects.all(), step="memory_guard")] == ["memory_guard"]
        assert [each.step for each in recent_refusals(Turn.objects.all(), text="NÉGATION")] == ["memory_guard"]
        page = self.page(text="négation", step="memory_guard")
        assert "ne pas payer" in page
        assert ASKED not in page

    @override(REFUSALS_MAX_TURNS=3)
    def test_only_the_latest_turns_are_read(self) -> None:
        for number in range(5):
            make_exchange(self.conversation, f"Numéro {number} ?", "…", trace=[refused()])
        assert [each.question for each in recent_refusals(Turn.objects.all())] == [
            "Numéro 4 ?",
            "Numéro 3 ?",
            "Numéro 2 ?",
        ]

    def test_page_needs_the_right_to_read_conversations(self) -> None:
        stranger = client_of(make_staff("faqs.view_cachedresponse"))
        assert stranger.get(reverse(PAGE)).status_code == 403
        memory = reverse("admin:faqs_cachedresponse_changelist")
        assert reverse(PAGE) not in stranger.get(memory).content.decode()
        assert reverse(PAGE) in superuser_client().get(memory).content.decode()

    def test_what_people_wrote_is_escaped(self) -> None:
        make_exchange(self.conversation, "<script>x</script> ?", "…", trace=[refused()])
        assert "<script>x</script>" not in self.page()

    def test_number_of_queries_does_not_grow(self) -> None:
        client = superuser_client()

        def add() -> None:
            make_exchange(make_conversation(), ASKED, "…", trace=[refused()])

        one, ten = queries_with_one_and_ten_rows(client, reverse(PAGE), add)
        assert one == ten
