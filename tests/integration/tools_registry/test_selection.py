"""Selection by mode: resident tools, top-K, threshold, recent tools, and an index that follows the admin (seed 003)."""

from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management import CommandError, call_command
from django.test import TestCase

from agents.effective import EffectiveConfig, effective_config
from agents.settings import Knobs
from knowledge.embeddings.base import Purpose, embedder
from knowledge.vectors.base import vector_store
from tests.factories import declared_tools, make_deployment, make_tool, make_user
from tests.terminal import run
from tools_registry.catalog import available_tools
from tools_registry.index import sync_index
from tools_registry.models import ToolOverride
from tools_registry.selection import MAX_RESIDENT, SelectedTool, SelectionReason, select_tools

TOOLS = (
    make_tool("convert_currency", "Converts an amount from one currency to another."),
    make_tool("weather_forecast", "Gives the weather forecast of a city."),
    make_tool("find_route", "Finds a route between two places on a map."),
    make_tool("translate_text", "Translates a text into another language."),
    make_tool("delete_user", "Deletes the account of a user.", tags=frozenset({"admin"})),
)
VISITOR: frozenset[str] = frozenset()


class SelectionCase(TestCase):
    mode = "local"

    def setUp(self) -> None:
        self.enterContext(declared_tools(*TOOLS))
        sync_index(external=self.mode == "external")

    def select(
        self,
        question: str,
        *,
        tags: frozenset[str] = VISITOR,
        recent: tuple[str, ...] = (),
        config: EffectiveConfig | None = None,
        **settings: Any,
    ) -> list[SelectedTool]:
        defaults = {"tool_mode": self.mode, "tool_top_k": 2, "tool_threshold": 0.2}
        return select_tools(
            question_vector=embedder().embed_one(question, purpose=Purpose.QUERY),
            question=question,
            candidates=available_tools(user_tags=tags, agent_id=None),
            recent=recent,
            config=config or Knobs(**{**defaults, **settings}),
        )

    def names(self, question: str, **options: Any) -> list[str]:
        return [found.spec.name for found in self.select(question, **options)]


class LocalModeTests(SelectionCase):
    """Mode "Vectoriel Local"."""

    def test_phase_3_step_3_mode_local_offers_the_nearest_tools_only(self) -> None:
        found = self.select("What is the weather forecast for the city of Lyon?", tool_top_k=1)
        assert [(tool.spec.name, tool.reason) for tool in found] == [("weather_forecast", "similar")]

    def test_step_1_forbidden_tool_is_not_selected_however_near(self) -> None:
        question = "Deletes the account of a user"
        assert "delete_user" not in self.names(question, tool_threshold=-1.0, tool_top_k=50)
        assert self.names(question, tags=frozenset({"admin"}))[0] == "delete_user"

    def test_step_2_resident_tools_are_always_there_and_three_at_most(self) -> None:
        residents = [make_tool(f"resident_{n}", "Zzz.", is_always_on=True) for n in range(5)]
        with declared_tools(*residents):
            found = self.select("weather forecast")
        reasons = [tool.reason for tool in found]
        assert reasons.count(SelectionReason.RESIDENT) == MAX_RESIDENT == 3
        assert found[3].spec.name == "weather_forecast"

    def test_risk_2_below_the_threshold_only_resident_tools_remain(self) -> None:
        resident = make_tool("support", "Calls the support.", is_always_on=True)
        with declared_tools(resident):
            assert self.names("Photosynthesis of algae", tool_threshold=0.9) == ["support"]

    def test_threshold_is_inclusive(self) -> None:
        score = self.select("weather forecast", tool_top_k=1)[0].score
        assert score is not None
        assert self.names("weather forecast", tool_top_k=1, tool_threshold=score)
        assert not self.names("weather forecast", tool_top_k=1, tool_threshold=score + 1e-6)

    def test_risk_3_recently_used_tool_stays_available(self) -> None:
        found = self.select("And in Paris?", recent=("find_route",), tool_threshold=0.99)
        assert [(tool.spec.name, tool.reason) for tool in found] == [("find_route", "recent")]

    def test_recently_used_tool_that_is_forbidden_now_does_not_come_back(self) -> None:
        assert self.names("And again?", recent=("delete_user", "gone"), tool_threshold=0.99) == []

    def test_tools_switched_off_are_not_offered(self) -> None:
        assert self.names("weather forecast", tools_enabled=False) == []

    def test_risk_1_override_changes_the_next_selection_without_restart(self) -> None:
        price, rain = "Dit combien coûte un abonnement mensuel.", ["Vais-je être trempé sans parapluie ?"]
        for question, name, field, written in (
            ("Combien coûte mon abonnement mensuel ?", "find_route", "description", price),
            ("Je n’ai pas de parapluie, vais-je être trempé ?", "weather_forecast", "examples", rain),
        ):
            before = self.names(question, tool_threshold=0.1)
            row = ToolOverride.objects.get(tool_name=name)
            setattr(row, field, written)
            with self.captureOnCommitCallbacks(execute=True):
                row.save()
            assert name not in before
            assert self.names(question, tool_threshold=0.1)[0] == name
            sync_index(external=True)
            assert self.names(question, tool_threshold=0.1, tool_mode="external")[0] == name

    def test_tool_declared_after_indexing_asks_for_its_index(self) -> None:
        with (
            declared_tools(make_tool("play_chess", "Plays a game of chess.")),
            self.captureOnCommitCallbacks(execute=True),
        ):
            self.names("Shall we play chess?")
        assert ToolOverride.objects.get(tool_name="play_chess").digest

    def test_unchanged_index_is_not_read_again(self) -> None:
        self.names("weather")
        with self.assertNumQueries(1):  # the tokens
            self.names("weather forecast")


class ExternalModeTests(SelectionCase):
    """Mode "Vector Store Externe"."""

    mode = "external"

    def test_mode_external_finds_the_same_tools_as_local(self) -> None:
        for question in ("weather forecast of a city", "translate this text", "route on the map"):
            external = self.select(question)
            local = self.select(question, tool_mode="local")
            assert [found.spec.name for found in external] == [f.spec.name for f in local]
            for one, other in zip(external, local, strict=True):
                assert abs((one.score or 0) - (other.score or 0)) < 0.06

    def test_step_1_wall_holds_whatever_the_store_says(self) -> None:
        names = set(self.names("Deletes the account of a user", tool_threshold=-1.0, tool_top_k=50))
        assert names & {tool.name for tool in TOOLS} == {tool.name for tool in TOOLS[:4]}

    def test_store_that_was_never_filled_leaves_resident_tools(self) -> None:
        store = vector_store()
        collection = store.resolve_alias("tools")
        assert collection is not None
        store.drop(collection)
        assert self.names("weather forecast") == []


class DirectModeTests(SelectionCase):
    """Mode "Direct"."""

    mode = "direct"

    def test_mode_direct_offers_every_permitted_tool_without_an_index(self) -> None:
        ToolOverride.objects.update(digest="", vector=None)
        names = set(self.names("anything"))
        assert {tool.name for tool in TOOLS[:4]} <= names
        assert "delete_user" not in names


class ModeTests(SelectionCase):
    """Phase 5, the modes as settings."""

    def test_phase_5_deployment_chooses_the_mode(self) -> None:
        config = effective_config(make_deployment(config_overlay={"tool_mode": "local", "tool_top_k": 1}))
        assert config.tool_mode == "local"
        assert self.names("weather forecast", config=config) == ["weather_forecast"]

    def test_phase_5_default_mode_is_direct(self) -> None:
        assert effective_config(make_deployment()).tool_mode == "direct"

    def test_mode_external_in_a_deployment_fills_the_store(self) -> None:
        before = sync_index().external
        make_deployment(config_overlay={"tool_mode": "external"})
        assert before is None
        assert sync_index().external == ToolOverride.objects.exclude(digest="").count()


class IndexTests(TestCase):
    def setUp(self) -> None:
        self.enterContext(declared_tools(*TOOLS))

    def test_changed_text_alone_is_embedded_again(self) -> None:
        sync_index()
        assert sync_index().embedded == 0
        ToolOverride.objects.filter(tool_name="find_route").update(description="x")
        ToolOverride.objects.get(tool_name="find_route").save()
        report = sync_index()
        assert (report.embedded, report.changed) == (2, ["find_route"])

    def test_tool_that_is_gone_leaves_the_index(self) -> None:
        with declared_tools(make_tool("short_lived", "Lives briefly.")):
            sync_index()
        report = sync_index()
        assert report.removed == 1
        assert not ToolOverride.objects.get(tool_name="short_lived").digest


class CommandTests(TestCase):
    def setUp(self) -> None:
        self.enterContext(declared_tools(*TOOLS))

    def test_phase_3_index_tools_reports_what_it_did(self) -> None:
        report = run("index_tools")
        assert report["tools"] >= len(TOOLS)
        assert report["embedded"] >= 2 * len(TOOLS)

    def test_select_tools_prints_name_score_and_reason(self) -> None:
        found = run("select_tools", "the weather forecast of a city", "--mode", "local", "--limit", "1")["tools"]
        [tool] = [row for row in found if row["reason"] == "similar"]
        assert tool["name"] == "weather_forecast"
        assert 0 < tool["score"]

    def test_select_tools_obeys_the_wall_of_the_named_user(self) -> None:
        make_user(username="boss", is_superuser=True)
        question = "Deletes the account of a user"
        visitor = run("select_tools", question, "--mode", "local")["tools"]
        boss = run("select_tools", question, "--mode", "local", "--user", "boss")
        assert "delete_user" not in {row["name"] for row in visitor}
        assert "delete_user" in {row["name"] for row in boss["tools"]}

    def test_unknown_user_is_an_error_that_says_so(self) -> None:
        with self.assertRaisesMessage(CommandError, "no user 'nobody'"):
            run("select_tools", "q", "--user", "nobody")


def evaluate(folder: Path, tools: str, queries: str) -> dict[str, Any]:
    paths = {"tools": folder / "tools.jsonl", "queries": folder / "queries.jsonl"}
    paths["tools"].write_text(tools, encoding="utf-8", newline="")
    paths["queries"].write_text(queries, encoding="utf-8", newline="")
    found: dict[str, Any] = run("evaluate_tools", *(f"--{name}={path}" for name, path in paths.items()))
    return found


class EvaluationTests(TestCase):
    tools = (
        '{"name": "a b", "description": "weather forecast"}\n'
        '{"name": "c", "description": "chess", "examples": ["move my rook"]}\n'
    )

    query = '{"query": "move the rook", "tool": "c"}'

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))

    def test_evaluate_tools_gives_recall_by_k(self) -> None:
        both = '{"query": "forecast of the weather, then chess", "tool": ["a b", "c"]}'
        unknown = '{"query": "q", "tool": "z"}'
        report = evaluate(self.folder, self.tools, "\n".join([self.query, both, unknown, unknown]))
        assert report["queries"] == 4
        assert report["recall"] == {"1": 0.375, "3": 0.5, "5": 0.5, "10": 0.5}

    def test_file_that_cannot_be_read_is_refused_with_its_line(self) -> None:
        good = self.query + "\n"
        for tools, queries, message in (
            (self.tools + "{", good, "tools.jsonl, line 3: not JSON"),
            (self.tools + "[1]", good, "tools.jsonl, line 3: not a JSON object"),
            (self.tools + '{"description": "x"}', good, "tools.jsonl, line 3: a tool without a name"),
            (self.tools, good + '{"query": ""}', "queries.jsonl, line 2: 'query' and 'tool' are needed"),
            (self.tools, good + '{"query": "q", "tool": 7}', "queries.jsonl, line 2: 'query' and 'tool' are needed"),
            ("", "", "tools.jsonl holds no tool"),
            (self.tools, "", "queries.jsonl holds no query"),
        ):
            with self.assertRaisesMessage(CommandError, message):
                evaluate(self.folder, tools, queries)
        (self.folder / "tools.jsonl").write_bytes(b"\xff\xfe\x00")
        with self.assertRaisesMessage(CommandError, "cannot be read"):
            call_command("evaluate_tools", tools=self.folder / "tools.jsonl", queries=self.folder / "queries.jsonl")

    def test_examples_of_a_tool_that_stands_twice_are_put_together(self) -> None:
        twice = '{"name": "c", "description": "board", "examples": ["castle to the left"]}\n'
        report = evaluate(self.folder, self.tools + twice, '{"query": "castle to the left", "tool": "c"}')
        assert report["tools"] == 2
        assert report["recall"]["1"] == 1.0

    def test_texts_in_any_script_and_with_any_separator_are_read(self) -> None:
        separators = "\u2028 \x85 \u2029"
        given: list[dict[str, Any]] = [{"name": "météo", "description": f"Le temps{separators}"}, {"name": "天気"}]
        given.append({"name": "🎲", "parameters": {"properties": {"n": 3}}, "keywords": "dés"})
        tools = "\ufeff" + "\r\n".join(dumps(tool, ensure_ascii=False) for tool in given)
        queries = dumps({"query": f"le temps {separators}", "tools": ["météo"]}, ensure_ascii=False)
        report = evaluate(self.folder, tools, queries + "\n\n")
        assert (report["tools"], report["queries"]) == (3, 1)
        assert report["recall"]["1"] == 1.0
