"""What the choice of tools costs a turn, and how soon a change is seen in it."""

import time
import uuid
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import TestCase, override_settings

from agents.database import in_database, in_thread
from agents.effective import effective_config
from agents.models import Deployment
from chat.models import Message, Role
from chat.turn.toolbox import Toolbox, ToolGround, choose_tools, load_tool_ground
from knowledge.embeddings.base import Purpose, embedder
from tests.factories import declared_tools, make_agent, make_conversation, make_deployment, make_tool, make_user
from tools_registry.catalog import forget_recent, permitted_now
from tools_registry.index import sync_index
from tools_registry.models import CatalogueState, ToolOverride

TOOLS = (
    make_tool("weather_forecast", "Gives the weather forecast of a city."),
    make_tool("find_route", "Finds a route between two places on a map."),
    make_tool("delete_user", "Deletes the account of a user.", tags=frozenset({"admin"})),
)
QUESTION = "What will the weather be?"


@override_settings(CONFIG_CACHE_SECONDS=60.0)
class ToolboxCase(TestCase):
    def setUp(self) -> None:
        self.enterContext(declared_tools(*TOOLS))

    def ground(self, deployment: Deployment, **options: Any) -> ToolGround:
        defaults = {"conversation_id": uuid.uuid4(), "user_id": None, "is_first": True}
        return load_tool_ground(config=effective_config(deployment), **{**defaults, **options})

    def names(self, deployment: Deployment, **options: Any) -> set[str]:
        offered = {spec.name for spec in self.ground(deployment, **options).candidates}
        return offered & {spec.name for spec in TOOLS}

    def choose(self, ground: ToolGround, deployment: Deployment) -> Toolbox:
        vector = embedder().embed_one(QUESTION, purpose=Purpose.QUERY)
        config = effective_config(deployment)
        return async_to_sync(choose_tools)(ground, config, vector=vector, question=QUESTION)


class CostTests(ToolboxCase):
    def test_unchanged_catalogue_costs_a_visitor_no_query(self) -> None:
        config = effective_config(make_deployment())
        load_tool_ground(config=config, conversation_id=uuid.uuid4(), user_id=None, is_first=False)
        with self.assertNumQueries(0):
            load_tool_ground(config=config, conversation_id=uuid.uuid4(), user_id=None, is_first=False)

    def test_rights_of_a_user_are_read_once_for_a_burst_of_questions(self) -> None:
        deployment, user = make_deployment(), make_user()
        self.ground(deployment)
        config = effective_config(deployment)
        for queries in (2, 0, 0):  # the user, the groups
            with self.assertNumQueries(queries):
                load_tool_ground(config=config, conversation_id=uuid.uuid4(), user_id=user.pk, is_first=True)

    def test_every_second_the_catalogue_is_read_again(self) -> None:
        deployment = make_deployment()
        assert "find_route" in self.names(deployment)
        # As another process changes it: no signal reaches this one.
        ToolOverride.objects.bulk_create([ToolOverride(tool_name="find_route", is_active=False)])
        CatalogueState.touch("catalogue")
        assert "find_route" in self.names(deployment)
        with mock.patch("agents.cache.time.monotonic", return_value=time.monotonic() + 61):
            assert "find_route" not in self.names(deployment)

    def test_choosing_waits_for_nothing_where_all_tools_are_offered(self) -> None:
        deployment = make_deployment()
        ground = self.ground(deployment)
        with mock.patch("chat.turn.toolbox.in_database") as bridge:
            toolbox = self.choose(ground, deployment)
        assert not bridge.called
        assert {spec.name for spec in toolbox.specs} >= {"weather_forecast", "find_route"}

    def test_choosing_the_nearest_waits_for_nothing_once_the_index_is_read(self) -> None:
        deployment = make_deployment(make_agent(tool_mode="local", tool_top_k=1))
        sync_index()
        ground = self.ground(deployment)
        with mock.patch("chat.turn.toolbox.in_database") as bridge:
            toolbox = self.choose(ground, deployment)
        assert not bridge.called
        assert [spec.name for spec in toolbox.specs] == ["weather_forecast"]

    @override_settings(
        VECTOR_STORES={
            "default": {"BACKEND": "knowledge.vectors.qdrant.QdrantVectorStore", "OPTIONS": {"url": ":memory:"}}
        }
    )
    def test_store_on_the_network_is_not_asked_on_the_bridge_of_the_database(self) -> None:
        deployment = make_deployment(make_agent(tool_mode="external", tool_top_k=1))
        sync_index(external=True)
        ground = self.ground(deployment)
        with (
            mock.patch("chat.turn.toolbox.in_database") as database,
            mock.patch("chat.turn.toolbox.in_thread", side_effect=in_thread) as thread,
        ):
            toolbox = self.choose(ground, deployment)
        assert (database.called, thread.called) == (False, True)
        assert [spec.name for spec in toolbox.specs] == ["weather_forecast"]

    def test_index_that_changed_since_is_read_across_the_bridge(self) -> None:
        deployment = make_deployment(make_agent(tool_mode="local", tool_top_k=1))
        sync_index()
        ground = self.ground(deployment)
        with self.captureOnCommitCallbacks(execute=True):
            ToolOverride.objects.filter(tool_name="find_route").get().save()
        self.ground(deployment)
        with mock.patch("chat.turn.toolbox.in_database", side_effect=in_database) as bridge:
            toolbox = self.choose(ground, deployment)
        assert bridge.called
        assert [spec.name for spec in toolbox.specs] == ["weather_forecast"]


class FreshnessTests(ToolboxCase):
    def test_override_of_this_process_applies_to_the_next_question(self) -> None:
        deployment = make_deployment()
        self.names(deployment)
        with self.captureOnCommitCallbacks(execute=True), transaction.atomic():
            ToolOverride.objects.create(tool_name="find_route", description="Staff's words.")
        found = self.ground(deployment).candidates.named("find_route")
        assert found is not None
        assert found.description == "Staff's words."

    def test_group_given_or_taken_by_this_process_applies_to_the_next_question(self) -> None:
        deployment, user = make_deployment(), make_user()
        group = Group.objects.create(name="admin")
        assert "delete_user" not in self.names(deployment, user_id=user.pk)
        with self.captureOnCommitCallbacks(execute=True):
            user.groups.add(group)
        assert "delete_user" in self.names(deployment, user_id=user.pk)
        with self.captureOnCommitCallbacks(execute=True):
            group.delete()
        assert "delete_user" not in self.names(deployment, user_id=user.pk)

    def test_what_was_being_read_during_a_change_is_not_kept(self) -> None:
        deployment = make_deployment()
        with mock.patch("tools_registry.catalog.tags_of", side_effect=_forgetting):
            self.names(deployment)
        with self.assertNumQueries(1):
            load_tool_ground(
                config=mock.Mock(agent_id=deployment.agent_id, tool_mode="direct"),
                conversation_id=uuid.uuid4(),
                user_id=None,
                is_first=True,
            )

    def test_wall_before_execution_remembers_nothing(self) -> None:
        deployment, user = make_deployment(), make_user()
        group = Group.objects.create(name="admin")
        user.groups.add(group)
        assert "delete_user" in self.names(deployment, user_id=user.pk)
        user.groups.clear()
        allowed = permitted_now({"delete_user"}, user_id=user.pk, agent_id=deployment.agent_id)
        assert allowed == frozenset()


def _forgetting(_user_id: int | None) -> frozenset[str]:
    forget_recent()
    return frozenset()


class RecentTests(ToolboxCase):
    def test_recent_tools_are_read_from_the_second_question_on(self) -> None:
        deployment = make_deployment(make_agent(tool_mode="local"))
        conversation = make_conversation(deployment)
        Message.objects.create(
            conversation=conversation, role=Role.TOOL, name="find_route", tool_call_id="c", operation_id=uuid.uuid4()
        )
        first = self.ground(deployment, conversation_id=conversation.pk, is_first=True)
        later = self.ground(deployment, conversation_id=conversation.pk, is_first=False)
        assert list(first.recent) == []
        assert list(later.recent) == ["find_route"]

    def test_window_of_recent_tools_is_a_setting_of_its_own(self) -> None:
        agent = make_agent(tool_mode="local", max_tool_calls=1)
        conversation = make_conversation(make_deployment(agent))
        for name in ("first", "second", "third"):
            Message.objects.create(
                conversation=conversation, role=Role.TOOL, name=name, tool_call_id=name, operation_id=uuid.uuid4()
            )
        for window, expected in ((2, ["third", "second"]), (0, [])):
            overlay = {"tool_recent_calls": window}
            deployment = make_deployment(agent, slug=f"desk{window}", config_overlay=overlay)
            ground = self.ground(deployment, conversation_id=conversation.pk, is_first=False)
            assert list(ground.recent) == expected
