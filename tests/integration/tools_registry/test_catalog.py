"""Effective texts and the wall of rights (seed 003, steps 1 and risk 1), and which tools ask first."""

from unittest import mock

from django.contrib.auth.models import AnonymousUser, Group
from django.db import transaction
from django.test import TestCase

from tests.factories import declared_tools, make_agent, make_tool, make_user
from tools_registry.catalog import all_tools, available_tools, permitted_now, user_tags
from tools_registry.models import SourceKind, ToolOverride, ToolSource
from tools_registry.sources.base import DeclaredTool, ReadTools
from tools_registry.sources.remote import refresh_source

VISITOR: frozenset[str] = frozenset()


def names(tags: frozenset[str] = VISITOR, agent_id: int | None = None) -> set[str]:
    found = {spec.name for spec in available_tools(user_tags=tags, agent_id=agent_id)}
    return found & {"open_tool", "admin_tool", "double_tool"}


class WallTests(TestCase):
    """Step 1, filtering by tags."""

    def setUp(self) -> None:
        self.enterContext(
            declared_tools(
                make_tool("open_tool"),
                make_tool("admin_tool", tags=frozenset({"admin"})),
                make_tool("double_tool", tags=frozenset({"admin", "finance"})),
            )
        )

    def test_phase_1_step_1_every_tag_of_a_tool_is_needed(self) -> None:
        assert names() == {"open_tool"}
        assert names(frozenset({"admin"})) == {"open_tool", "admin_tool"}
        assert names(frozenset({"finance"})) == {"open_tool"}
        assert names(frozenset({"admin", "finance"})) == {"open_tool", "admin_tool", "double_tool"}

    def test_tags_are_the_users_groups(self) -> None:
        user = make_user()
        user.groups.add(Group.objects.create(name="admin"))
        assert user_tags(user) == {"signed_in", "admin"}
        assert "staff" in user_tags(make_user(is_staff=True))

    def test_visitor_and_inactive_user_hold_no_tag(self) -> None:
        inactive = make_user(is_active=False, is_superuser=True)
        assert user_tags(AnonymousUser()) == user_tags(None) == user_tags(inactive) == frozenset()

    def test_tag_added_by_staff_closes_the_wall_at_once(self) -> None:
        tools = available_tools(user_tags=VISITOR, agent_id=None)
        ToolOverride.objects.create(tool_name="open_tool", extra_tags=["finance"])
        assert tools.named("open_tool") is not None
        assert names() == set()
        assert permitted_now({"open_tool"}, user_id=None, agent_id=None) == frozenset()
        assert names(frozenset({"finance"})) == {"open_tool"}

    def test_staff_cannot_take_a_tag_of_the_code_away(self) -> None:
        ToolOverride.objects.create(tool_name="admin_tool", extra_tags=[])
        assert "admin_tool" not in names()

    def test_inactive_tool_is_offered_to_nobody(self) -> None:
        ToolOverride.objects.create(tool_name="open_tool", is_active=False)
        assert names() == set()

    def test_tool_limited_to_agents_is_offered_by_them_only(self) -> None:
        agent, other = make_agent(), make_agent()
        ToolOverride.objects.create(tool_name="open_tool").agents.add(agent)
        assert names(agent_id=agent.pk) == {"open_tool"}
        assert names(agent_id=other.pk) == names(agent_id=None) == set()
        agent.delete()
        assert names(agent_id=other.pk) == set()


class OverrideTests(TestCase):
    """Risk 1, the global override."""

    def setUp(self) -> None:
        self.enterContext(declared_tools(make_tool("weather", "Code's description.")))

    def test_override_that_was_rolled_back_is_forgotten(self) -> None:
        try:
            with transaction.atomic():
                ToolOverride.objects.create(tool_name="weather", description="Rolled back.")
                inside = all_tools().named("weather")
                raise RuntimeError
        except RuntimeError:
            outside = all_tools().named("weather")
        assert inside is not None
        assert outside is not None
        assert inside.description == "Rolled back."
        assert outside.description == "Code's description."


class ReleaseTests(TestCase):
    def read(self, *, asks: bool) -> None:
        """A source that declares one tool, its list read and the tool permitted."""
        source, _new = ToolSource.objects.get_or_create(
            slug="m", defaults={"name": "M", "kind": SourceKind.MCP_STDIO, "command": "m"}
        )
        tool = DeclaredTool("erase", "Erases.", {"type": "object"}, needs_approval=asks)
        with mock.patch("tools_registry.sources.remote.list_tools") as listed:
            listed.return_value = ReadTools([tool])
            refresh_source(source)
        ToolOverride.objects.filter(source__isnull=False).update(is_active=True)
        source.save()

    def test_tool_that_staff_released_runs_unasked_while_it_is_the_same_and_no_graver(self) -> None:
        for asked, is_another, asks in ((True, False, False), (True, True, True), (False, False, True)):
            self.read(asks=asked)
            ToolOverride.objects.filter(tool_name="m_erase").update(needs_approval=False)  # as staff's action does
            if is_another:
                ToolSource.objects.all().delete()
            self.read(asks=True)
            found = all_tools().named("m_erase")
            assert found is not None
            assert found.needs_approval == asks
            ToolSource.objects.all().delete()
            ToolOverride.objects.all().delete()
