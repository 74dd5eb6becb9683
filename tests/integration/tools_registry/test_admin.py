"""The tools' admin: overrides with the code's text beside, quality, usage (seed 003), and sources of a thousand tools."""

import json
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client, TestCase
from django.test.utils import CaptureQueriesContext

from agents.admin_base import admin_url
from agents.models import Job, JobKind
from tests.admin_pages import run_action, shown_messages, superuser_client
from tests.factories import declared_tools, fresh, make_source, make_tool
from tools_registry.catalog import all_tools
from tools_registry.errors import ToolSourceError
from tools_registry.index import sync_index
from tools_registry.models import SourceKind, ToolOverride, ToolSource
from tools_registry.sources.remote import refresh_source

WEATHER = make_tool(
    "weather_forecast",
    "Gives the weather forecast of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string", "description": "name of the city"}}},
)
ROUTE = make_tool("find_route", "Finds a route on the map.", tags=frozenset({"drivers"}))


class ToolCase(TestCase):
    client: Client

    def setUp(self) -> None:
        self.enterContext(declared_tools(WEATHER, ROUTE))
        sync_index()
        self.client = superuser_client()
        self.weather = ToolOverride.objects.get(tool_name="weather_forecast")


class OverrideFormTests(ToolCase):
    def save(self, **fields: Any) -> Any:
        data = {"description": "", "is_active": "on", "needs_approval": "unknown", **fields}
        address = admin_url(ToolOverride, "change", self.weather.pk)
        with self.captureOnCommitCallbacks(execute=True):
            return self.client.post(address, data, follow=True)

    def test_risk_1_description_parameter_and_phrasing_are_saved_and_indexed(self) -> None:
        before = fresh(self.weather).digest
        ToolOverride.objects.filter(pk=self.weather.pk).update(parameters={"gone": "a parameter of before"})
        response = self.save(
            description="Annonce la météo.",
            parameter_city="nom de la ville",
            examples="Va-t-il pleuvoir ?",
            extra_tags=["staff"],
        )
        spec = all_tools().named("weather_forecast")
        assert response.status_code == 200
        assert spec is not None
        assert spec.description == "Annonce la météo."
        assert spec.parameters["properties"] == {"city": {"type": "string", "description": "nom de la ville"}}
        assert spec.examples == ("Va-t-il pleuvoir ?",)
        assert spec.tags == {"staff"}
        assert fresh(self.weather).digest != before
        self.save(parameter_city="")
        assert fresh(self.weather).parameters.keys() == {"gone"}, "the code's text is back"

    def test_unknown_tag_is_refused(self) -> None:
        Group.objects.create(name="librarians")
        self.save(extra_tags=["librarians"])
        self.save(extra_tags=["nobody"])
        assert fresh(self.weather).extra_tags == ["librarians"]


class UsageTests(ToolCase):
    def test_never_selected_tools_are_found(self) -> None:
        ToolOverride.objects.filter(pk=self.weather.pk).update(selected=3, called=2, failed=1)
        address = admin_url(ToolOverride, "changelist", usage="never_selected")
        page = self.client.get(address).content.decode()
        assert "find_route" in page
        assert "weather_forecast" not in page


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


HOST = "api.big.example"
OPERATIONS = 1_000


def document(count: int = OPERATIONS, *, filler: str = "") -> str:
    """Operations of ten tags, two of three only read."""
    paths = {
        f"/area{n % 10}/thing{n}": {
            "post" if n % 3 == 0 else "get": {
                "operationId": f"area{n % 10}/do-{n}",
                "summary": f"Does the thing of number {n}.",
                "tags": [f"area{n % 10}"],
                "parameters": [{"name": "q", "in": "query", "schema": {"type": "array"}}],
            }
        }
        for n in range(count)
    }
    servers = [{"url": f"https://{HOST}"}]
    made = {"openapi": "3.0.3", "servers": servers, "paths": paths, "x-filler": filler}
    return json.dumps(made)


def make_large_source(**more: Any) -> ToolSource:
    given = {"slug": "big", "kind": SourceKind.OPENAPI, "document": document(), "allowed_hosts": [HOST]}
    return make_source(**{**given, **more})


class HalfCharacterTests(TestCase):
    def test_document_with_half_a_character_or_a_nul_is_read_and_can_be_stored(self) -> None:
        said = {"openapi": "3.0.3", "servers": [{"url": f"https://{HOST}"}]}
        parameter = {"name": "q\ud800", "in": "query", "schema": {"enum": ["\0a"]}}
        operation = {"operationId": "do\ud800", "summary": "Does\0 it\udfff."}
        paths = {"/thing\ud800": {"get": {**operation, "parameters": [parameter]}}}
        yaml = f'openapi: 3.0.3\nservers: [{{url: https://{HOST}}}]\npaths: {{/thing: {{get: {{summary: "Does\\0 it."}}}}}}'
        for slug, text in (("json", json.dumps({**said, "paths": paths})), ("yaml", yaml)):
            source = make_large_source(slug=slug, document=text)
            refresh_source(source)
            assert (source.tools.count(), source.problems) == (1, [])
        row = ToolOverride.objects.get(source__slug="json")
        assert (row.remote_name, row.declared_description) == ("do\ufffd", "Does it\ufffd.")
        assert row.declared_parameters["properties"] == {"q\ufffd": {"enum": ["a"]}}
        assert ToolOverride.objects.get(source__slug="yaml").declared_description == "Does it."

    def test_one_that_staff_write_is_marked(self) -> None:
        client, address = superuser_client(), admin_url(ToolSource, "add")
        data = {"slug": "s", "name": "S", "kind": SourceKind.OPENAPI, "timeout_seconds": "5"}
        data |= {"headers": '{"X-Desk": "\\ud800"}', "allowed_hosts": HOST}
        client.post(address, {**data, "document": document(1)})
        assert ToolSource.objects.get(slug="s").headers == {"X-Desk": "\ufffd"}


class LargeSourceTests(TestCase):
    source: ToolSource

    @classmethod
    def setUpTestData(cls) -> None:
        cls.source = make_large_source()
        refresh_source(cls.source)

    def setUp(self) -> None:
        self.client = superuser_client()
        self.list = admin_url(ToolOverride, "changelist")

    def act(self, action: str, **query: Any) -> str:
        """An action on all that a search finds."""
        data = {"action": action, "select_across": "1", "index": "0"}
        first = ToolOverride.objects.values_list("pk", flat=True)[:1]
        response = self.client.post(
            admin_url(ToolOverride, "changelist", **query), {**data, "_selected_action": list(first)}, follow=True
        )
        return shown_messages(response)

    def test_reading_again_changes_nothing_in_few_queries(self) -> None:
        assert ToolOverride.objects.count() == OPERATIONS
        with self.assertNumQueries(8):
            refresh_source(self.source)
        assert ToolOverride.objects.filter(is_present=True).count() == OPERATIONS

    def test_source_is_edited_and_switched_off(self) -> None:
        address = admin_url(ToolSource, "change", self.source.pk)
        page = self.client.get(address)
        self.assertContains(page, f"0 / {OPERATIONS}")
        self.assertNotContains(page, "area3/do-3")
        form = page.context["adminform"].form
        data = {name: value for name in form.fields if (value := form[name].value()) not in (None, False)}
        data |= {"headers": "{}", "allowed_hosts": HOST, "name": "Bigger"}
        data.pop("is_active")
        saved = self.client.post(address, data)
        self.source.refresh_from_db()
        assert saved.status_code == 302, saved.context["adminform"].form.errors
        assert (self.source.name, self.source.is_active) == ("Bigger", False)
        assert len(self.source.document) > 100_000, "kept, though it is not in the page"

    def test_tools_are_found_and_permitted_together(self) -> None:
        assert "100 outils modifiés" in self.act("activate", q="area4/do")
        assert len([spec for spec in all_tools() if spec.source == "openapi"]) == 100
        assert "100 outils modifiés" in self.act("deactivate", source__id__exact=self.source.pk)

    def test_list_takes_few_queries_and_shows_the_last_failure(self) -> None:
        row = ToolOverride.objects.order_by("tool_name")[:1].get()
        ToolOverride.objects.filter(pk=row.pk).update(is_active=True, last_error="HTTP 400: write foo=1")
        with self.assertNumQueries(10), CaptureQueriesContext(connection) as asked:
            page = self.client.get(self.list)
        assert '"document"' not in str(asked.captured_queries), "30 MB with each row"
        self.assertContains(page, "write foo=1")

    def test_only_chosen_paths_and_tags_are_read(self) -> None:
        for chosen, count in (("tag:area3", 100), ("/area1/*\nPOST /area2/*", 100 + 33), ("area5/do-5", 1)):
            self.source.chosen = chosen
            self.source.save()
            refresh_source(self.source)
            assert self.source.tools.filter(is_present=True).count() == count, chosen
        self.source.chosen = "tag:nowhere"
        with self.assertRaisesMessage(ToolSourceError, "None of the 1000 operations"):
            refresh_source(self.source)


class ReadingTests(TestCase):
    def test_source_is_read_by_a_worker_and_the_list_says_so_meanwhile(self) -> None:
        client, address = superuser_client(), admin_url(ToolSource, "changelist")
        source = make_large_source(document=document(30))
        page = run_action(client, "refresh", source)
        assert Job.objects.filter(kind=JobKind.TOOL_SOURCE, key=str(source.pk)).exists()
        self.assertContains(page, "en lecture")
        # The worker of the tests is this process.
        with self.captureOnCommitCallbacks(execute=True):
            run_action(client, "refresh", source)
        self.assertContains(client.get(address), "0 / 30")
        assert source.tools.count() == 30
