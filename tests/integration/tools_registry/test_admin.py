"""The tools' admin: overrides with the code's text beside, quality, usage (seed 003)."""

from typing import Any

from django.contrib.auth.models import Group
from django.test import Client, TestCase

from agents.admin_base import admin_url
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, shown_messages, superuser_client
from tests.factories import declared_tools, make_tool
from tools_registry.catalog import all_tools
from tools_registry.index import sync_index
from tools_registry.models import IndexedTool, RemoteTool, SourceKind, ToolOverride, ToolSource, ToolUsage

WEATHER = make_tool(
    "weather_forecast",
    "Gives the weather forecast of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string", "description": "name of the city"}}},
)
ROUTE = make_tool("find_route", "Finds a route on the map.", tags=frozenset({"drivers"}))


def make_source(**overrides: Any) -> ToolSource:
    defaults = {"slug": "lib", "name": "Library", "kind": SourceKind.MCP_STDIO, "command": "lib"}
    return ToolSource.objects.create(**{**defaults, **overrides})


class ToolCase(TestCase):
    client: Client

    def setUp(self) -> None:
        self.enterContext(declared_tools(WEATHER, ROUTE))
        sync_index()
        self.client = superuser_client()
        self.weather = ToolOverride.objects.get(tool_name="weather_forecast")


class PagesTests(ToolCase):
    def test_every_page_opens_for_a_superuser(self) -> None:
        source = make_source()
        remote = RemoteTool.objects.create(source=source, tool_name="lib_a", remote_name="a")
        for model, row in ((ToolOverride, self.weather), (ToolSource, source), (RemoteTool, remote)):
            for page, args in (("changelist", ()), ("change", (row.pk,)), ("history", (row.pk,))):
                response = self.client.get(admin_url(model, page, *args))
                assert response.status_code == 200, f"{model.__name__} {page}"
        assert self.client.get(admin_url(ToolSource, "add")).status_code == 200

    def test_staff_without_the_right_are_refused(self) -> None:
        client = client_of(make_staff())
        for address in (
            admin_url(ToolOverride, "changelist"),
            admin_url(ToolOverride, "change", self.weather.pk),
            admin_url(ToolSource, "changelist"),
            admin_url(RemoteTool, "changelist"),
        ):
            assert client.get(address).status_code == 403, address

    def test_staff_who_may_only_look_see_the_tool(self) -> None:
        client = client_of(make_staff("tools_registry.view_tooloverride"))
        page = client.get(admin_url(ToolOverride, "change", self.weather.pk))
        assert page.status_code == 200
        self.assertContains(page, "Gives the weather forecast of a city.")

    def test_lists_take_the_same_queries_whatever_their_length(self) -> None:
        count = iter(range(1_000))
        source = make_source(slug="other", name="Other")
        for model, make_row in (
            (ToolOverride, lambda: ToolOverride.objects.create(tool_name=f"old_{next(count)}")),
            (ToolSource, lambda: make_source(slug=f"s{next(count)}")),
            (
                RemoteTool,
                lambda: RemoteTool.objects.create(
                    source=source, tool_name=f"r{next(count)}", remote_name=f"r{next(count)}"
                ),
            ),
        ):
            one, ten = queries_with_one_and_ten_rows(self.client, admin_url(model, "changelist"), make_row)
            assert one == ten, model.__name__

    def test_tools_are_neither_added_nor_deleted_by_hand(self) -> None:
        assert self.client.get(admin_url(ToolOverride, "add")).status_code == 403
        delete = admin_url(ToolOverride, "delete", self.weather.pk)
        assert self.client.post(delete, {"post": "yes"}).status_code == 403


class OverrideFormTests(ToolCase):
    def save(self, **fields: Any) -> Any:
        data = {
            "description": "",
            "is_active": "on",
            "needs_approval": "unknown",
            "examples-TOTAL_FORMS": "0",
            "examples-INITIAL_FORMS": "0",
            **fields,
        }
        address = admin_url(ToolOverride, "change", self.weather.pk)
        with self.captureOnCommitCallbacks(execute=True):
            return self.client.post(address, data, follow=True)

    def test_code_s_texts_stand_beside_the_fields(self) -> None:
        page = self.client.get(admin_url(ToolOverride, "change", self.weather.pk))
        self.assertContains(page, "Gives the weather forecast of a city.")
        fields = page.context["adminform"].form.fields
        assert "name of the city" in fields["parameter_city"].help_text

    def test_risk_1_description_parameter_and_phrasing_are_saved_and_indexed(self) -> None:
        before = IndexedTool.objects.get(tool_name="weather_forecast").digest
        response = self.save(
            **{
                "description": "Annonce la météo.",
                "parameter_city": "nom de la ville",
                "examples-TOTAL_FORMS": "1",
                "examples-0-text": "Va-t-il pleuvoir ?",
                "extra_tags": ["staff"],
            }
        )
        spec = all_tools().named("weather_forecast")
        assert response.status_code == 200
        assert spec is not None
        assert spec.description == "Annonce la météo."
        assert spec.parameters["properties"]["city"]["description"] == "nom de la ville"
        assert spec.examples == ("Va-t-il pleuvoir ?",)
        assert spec.tags == {"staff"}
        assert IndexedTool.objects.get(tool_name="weather_forecast").digest != before

    def test_emptied_parameter_gives_the_code_s_text_back(self) -> None:
        self.save(parameter_city="nom de la ville")
        self.save(parameter_city="")
        self.weather.refresh_from_db()
        assert self.weather.parameters == {}

    def test_unknown_tag_is_refused(self) -> None:
        Group.objects.create(name="librarians")
        self.save(extra_tags=["librarians"])
        self.save(extra_tags=["nobody"])
        self.weather.refresh_from_db()
        assert self.weather.extra_tags == ["librarians"]

    def test_action_switches_tools_off(self) -> None:
        response = self.client.post(
            admin_url(ToolOverride, "changelist"),
            {"action": "deactivate", "_selected_action": [self.weather.pk]},
            follow=True,
        )
        assert "1 outil modifié." in shown_messages(response)
        assert all_tools().named("weather_forecast") is None


class UsageTests(ToolCase):
    def test_never_selected_tools_are_found(self) -> None:
        ToolUsage.objects.create(tool_name="weather_forecast", selected=3, called=2, failed=1)
        address = admin_url(ToolOverride, "changelist", usage="never_selected")
        page = self.client.get(address).content.decode()
        assert "find_route" in page
        assert "weather_forecast" not in page

    def test_calls_and_failures_are_shown(self) -> None:
        ToolUsage.objects.create(tool_name="weather_forecast", selected=3, called=2, failed=1)
        page = self.client.get(admin_url(ToolOverride, "changelist"))
        self.assertContains(page, "2 (dont 1 en échec)")


class SourceAdminTests(ToolCase):
    def test_source_is_added_with_its_checks(self) -> None:
        data = {
            "slug": "crm",
            "name": "CRM",
            "kind": "mcp_http",
            "url": "https://crm.example/mcp",
            "headers": '{"Authorization": "Bearer secret"}',
            "allowed_hosts": " api.example.org\r\nother.example.org:8443 \r\napi.example.org",
            "tags": ["staff"],
            "timeout_seconds": "5",
            "is_active": "on",
            "tools-TOTAL_FORMS": "0",
            "tools-INITIAL_FORMS": "0",
        }
        refused = self.client.post(admin_url(ToolSource, "add"), data)
        data["headers"] = '{"Authorization": "Bearer ${TOOL_SECRET_CRM}"}'
        accepted = self.client.post(admin_url(ToolSource, "add"), data)
        assert "headers" in refused.context["adminform"].form.errors
        assert accepted.status_code == 302, accepted.context["adminform"].form.errors
        source = ToolSource.objects.get(slug="crm")
        assert source.tags == ["staff"]
        assert source.allowed_hosts == ["api.example.org", "other.example.org:8443"]
        page = self.client.get(admin_url(ToolSource, "change", source.pk))
        self.assertContains(page, "api.example.org\nother.example.org:8443")
        self.assertContains(page, 'value="staff"')

    def test_list_that_cannot_be_read_says_why(self) -> None:
        source = make_source(command="not-there")
        response = self.client.post(
            admin_url(ToolSource, "changelist"), {"action": "refresh", "_selected_action": [source.pk]}, follow=True
        )
        assert "MCP_STDIO_SERVERS" in shown_messages(response)
        self.assertContains(response, "en erreur")

    def test_remote_tools_are_allowed_by_an_action(self) -> None:
        remote = RemoteTool.objects.create(source=make_source(), tool_name="x_a", remote_name="a")
        address = admin_url(RemoteTool, "changelist")
        data = {"action": "allow", "_selected_action": [remote.pk]}
        looking = client_of(make_staff("tools_registry.view_remotetool"))
        looking.post(address, data)
        remote.refresh_from_db()
        assert not remote.is_allowed
        self.client.post(address, data)
        remote.refresh_from_db()
        assert remote.is_allowed
