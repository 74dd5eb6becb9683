"""Tools from MCP servers (real ones, of the official SDK) and from OpenAPI documents as services write them."""

import json
import os
from typing import Any
from unittest import mock
from urllib.parse import quote_plus

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ValidationError
from django.test import TestCase, override_settings

from agents.admin_base import admin_url
from agents.network import ask_once, guarded_client
from tests.admin_pages import superuser_client
from tests.constants import override
from tests.factories import make_source
from tests.servers.mcp_process import STDIO, mcp_over_http
from tests.servers.model_server import _schema_fault
from tests.servers.web_site import Answer, Site, web_site
from tools_registry.catalog import ToolList, available_tools
from tools_registry.errors import ToolError, ToolSourceError
from tools_registry.execution import ToolCall, ToolContext, ToolResult, execute_calls
from tools_registry.models import SourceKind, ToolOverride, ToolSource
from tools_registry.sources.base import header_problem, reach_of, resolved_headers
from tools_registry.sources.remote import refresh_source

VISITOR: frozenset[str] = frozenset()


def allow_all() -> ToolList:
    for row in ToolOverride.objects.filter(source__isnull=False):
        row.is_active = True
        row.save()
    return available_tools(user_tags=VISITOR, agent_id=None)


class SourceCase(TestCase):
    async def call(self, tools: ToolList, name: str, **arguments: Any) -> ToolResult:
        call = ToolCall("c", name, json.dumps(arguments))
        return (await execute_calls([call], tools=tools, context=ToolContext()))[0]


@override_settings(MCP_STDIO_SERVERS=STDIO)
class McpStdioTests(SourceCase):
    source: ToolSource

    @classmethod
    def setUpTestData(cls) -> None:
        cls.source = make_source(command="library")
        refresh_source(cls.source)

    def test_list_is_read_and_waits_for_staff(self) -> None:
        names = set(ToolOverride.objects.values_list("tool_name", flat=True))
        assert {"lib_count_books", "lib_burn_books", "lib_fail"} <= names
        assert available_tools(user_tags=VISITOR, agent_id=None).named("lib_count_books") is None
        spec = allow_all().named("lib_count_books")
        assert spec is not None
        assert spec.source == "mcp"
        assert spec.description == "Counts the books of a shelf of the library."
        assert spec.parameters["required"] == ["shelf"]

    async def test_tool_is_called_with_its_arguments(self) -> None:
        tools = await sync_to_async(allow_all)()
        result = await self.call(tools, "lib_count_books", shelf="abc")
        failed = await self.call(tools, "lib_fail", reason="no shelf")
        named = await self.call(tools, "lib_environment")
        assert result.success, result.content
        assert json.loads(result.content) == {"shelf": "abc", "books": 30}
        assert (failed.success, failed.error) == (False, "tool_reported_error")
        assert "no shelf" in failed.content
        assert "SECRET_KEY" not in named.content

    async def test_server_that_hangs_is_a_timeout(self) -> None:
        self.source.timeout_seconds = 4.0
        await self.source.asave()
        tools = await sync_to_async(allow_all)()
        result = await self.call(tools, "lib_sleep", seconds=60)
        assert result.error == "tool_timeout"

    def test_tool_that_changed_waits_for_staff_again(self) -> None:
        allow_all()
        ToolOverride.objects.filter(tool_name="lib_fail").update(declared_description="Told otherwise.")
        refresh_source(self.source)
        allowed = available_tools(user_tags=VISITOR, agent_id=None)
        assert allowed.named("lib_fail") is None
        assert allowed.named("lib_count_books") is not None

    def test_tool_that_is_gone_is_offered_no_more(self) -> None:
        ToolOverride.objects.create(source=self.source, tool_name="lib_old", remote_name="old")
        refresh_source(self.source)
        assert available_tools(user_tags=VISITOR, agent_id=None).named("lib_old") is None

    def test_inactive_source_offers_nothing(self) -> None:
        allow_all()
        self.source.is_active = False
        self.source.save()
        found = available_tools(user_tags=VISITOR, agent_id=None)
        assert [spec.name for spec in found if spec.source == "mcp"] == []

    def test_tags_of_the_source_are_a_wall(self) -> None:
        self.source.tags = ["librarians"]
        self.source.save()
        allow_all()
        assert available_tools(user_tags=VISITOR, agent_id=None).named("lib_fail") is None
        librarian = available_tools(user_tags=frozenset({"librarians"}), agent_id=None)
        assert librarian.named("lib_fail") is not None


class AllowListTests(TestCase):
    @override_settings(MCP_STDIO_SERVERS={})
    def test_command_that_the_operator_did_not_name_is_not_run(self) -> None:
        source = make_source(command="/bin/sh")
        with self.assertRaisesMessage(ToolSourceError, "not a server of MCP_STDIO_SERVERS"):
            refresh_source(source)
        source.refresh_from_db()
        assert "MCP_STDIO_SERVERS" in source.last_error

    def test_source_without_its_address_is_refused(self) -> None:
        for kind in SourceKind.values:
            with pytest.raises(ValidationError):
                ToolSource(slug="s", name="n", kind=kind).full_clean()

    def test_service_described_at_an_address_may_call_its_host(self) -> None:
        source = ToolSource(slug="s", name="n", kind=SourceKind.OPENAPI, url="https://crm.example:8443/a.json")
        source.full_clean()
        assert source.allowed_hosts == ["crm.example:8443"]

    def test_tool_stays_within_its_hosts_and_out_of_internal_addresses(self) -> None:
        for host, refusal in (("127.0.0.1", "adresse interne"), ("other.example", "pas permis")):
            with self.assertRaisesMessage(ToolSourceError, refusal):
                ask_once(guarded_client(reach_of({}, ["127.0.0.1"]), timeout=1), "GET", f"http://{host}/")

    def test_secrets_are_named_never_written(self) -> None:
        assert header_problem({"X-Team": "blue", "Authorization": "Bearer ${TOOL_SECRET_A}"}) == ""
        assert "must name its secret" in header_problem({"Authorization": "Bearer abc"})
        assert "may only name" in header_problem({"X-Team": "${SECRET_KEY}"})
        assert "control character" in header_problem({"X-Team": "a\r\nHost: b"})
        assert "the connection's own" in header_problem({"Host": "evil.example"})

    def test_missing_secret_is_an_error_that_names_it(self) -> None:
        with self.assertRaisesMessage(ToolSourceError, "TOOL_SECRET_ABSENT is not set"):
            resolved_headers({"Authorization": "${TOOL_SECRET_ABSENT}"}, [])

    def test_secret_goes_to_its_own_hosts_alone(self) -> None:
        named = {"X-Key": "${TOOL_SECRET_A}!"}
        with mock.patch.dict(
            os.environ, {"TOOL_SECRET_A": "s3cret", "TOOL_SECRET_A_HOSTS": "crm.example, b.example:81"}
        ):
            assert resolved_headers(named, ["CRM.example", "b.example:81"]) == {"X-Key": "s3cret!"}
            for others in (["b.example"], ["crm.example", "evil.example"]):
                with self.assertRaisesMessage(ToolSourceError, f"may not go to {others[-1]}"):
                    resolved_headers(named, others)
        with mock.patch.dict(os.environ, {"TOOL_SECRET_A": "s3cret"}), pytest.raises(ToolSourceError):
            resolved_headers(named, ["crm.example"])

    @override_settings(MCP_STDIO_SERVERS={"crm": ["false"]}, TOOL_INTERNAL_HOSTS=[])
    def test_secret_leaves_neither_in_clear_nor_by_a_variable_of_the_local_command(self) -> None:
        """`crm.example` on port 80 is the same name; a proxy's address or a library would take what the command has."""
        secret = {"X-Key": "${TOOL_SECRET_A}"}
        in_clear = {"url": "http://crm.example/a", "allowed_hosts": ["crm.example"], "headers": secret}
        led = {"command": "crm", "headers": {**secret, "HTTPS_PROXY": "http://evil.example"}}
        with mock.patch.dict(os.environ, {"TOOL_SECRET_A": "s3cret", "TOOL_SECRET_A_HOSTS": "crm.example, crm"}):
            for kind, fields, said in (
                (SourceKind.OPENAPI, in_clear, "par https"),
                (SourceKind.MCP_HTTP, in_clear, "par https"),
                (SourceKind.MCP_STDIO, led, "HTTPS_PROXY may only be"),
            ):
                with self.assertRaisesMessage(ToolSourceError, said):
                    refresh_source(make_source(slug=kind, kind=kind, **fields))


class McpHttpTests(SourceCase):
    async def test_tool_of_a_streamable_http_server_is_called(self) -> None:
        with mcp_over_http() as host, override_settings(TOOL_INTERNAL_HOSTS=[host]):
            source = await sync_to_async(make_source)(kind=SourceKind.MCP_HTTP, url=f"http://{host}/mcp")
            await sync_to_async(refresh_source)(source)
            tools = await sync_to_async(allow_all)()
            result = await self.call(tools, "lib_count_books", shelf="ab")
        assert result.success, result.content
        assert json.loads(result.content)["books"] == 20

    def test_internal_server_is_refused_by_default(self) -> None:
        source = make_source(kind=SourceKind.MCP_HTTP, url="http://127.0.0.1:9/mcp")
        with self.assertRaisesMessage(ToolSourceError, "adresse interne"):
            refresh_source(source)


FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
BOOK = {"$ref": "#/components/schemas/Book"}
TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


def parameter(name: str, where: Any, schema: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": schema, **more}


def body(kind: str, schema: Any, *, is_required: bool = True, **encoding: Any) -> dict[str, Any]:
    return {"required": is_required, "content": {kind: {"schema": schema, "encoding": encoding}}}


def form_of(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


SERVICES: dict[str, Any] = {
    "openapi": "3.0.0",
    "servers": [{"url": "http://HOST/v2"}],
    "paths": {
        "/shelves/{shelf}": {
            "parameters": [parameter("shelf", "path", TEXT, required=True)],
            "get": {
                "operationId": "readShelf",
                "summary": "Reads a shelf.",
                "parameters": [
                    parameter("fields", "query", TEXTS, explode=False, style="form"),
                    parameter("tags", "query", TEXTS),
                    parameter("X-Trace", "header", TEXT),
                    parameter("Authorization", "header", TEXT),
                ],
            },
            "post": {"operationId": "addBook", "requestBody": body(JSON, BOOK, is_required=False)},
            "put": {
                "operationId": "nameShelf",
                "requestBody": body(FORM, form_of(["title"], title=TEXT, sizes={"type": "array"})),
            },
        },
        "/scans": {
            "post": {
                "operationId": "addScan",
                "requestBody": body(
                    "multipart/form-data",
                    form_of(["page"], page={**TEXT, "format": "binary"}, number={"type": "integer"}),
                ),
            }
        },
        "/xml": {"post": {"operationId": "onlyXml", "requestBody": body("application/xml", {})}},
        "/look": {"get": {"operationId": "look", "parameters": []}},
        "/strange": {"get": {"operationId": "strange", "parameters": [parameter("q", ["query"], {})]}},
        "/outside": {"get": {"operationId": "outside", "parameters": [{"$ref": "http://169.254.169.254/x.json"}]}},
    },
    "components": {
        "schemas": {"Book": {"type": "object", "required": ["title"], "properties": {"title": TEXT, "next": BOOK}}}
    },
}


class ServiceCase(TestCase):
    site: Site
    host: str
    source: ToolSource
    tools: ToolList

    def setUp(self) -> None:
        self.site = self.enterContext(web_site())
        self.site.fallback = Answer('"done"', JSON)
        self.host = self.site.host
        self.enterContext(override_settings(TOOL_INTERNAL_HOSTS=[self.host]))
        secret = {"TOOL_SECRET_SHOP": "s3cret", "TOOL_SECRET_SHOP_HOSTS": self.host}
        self.enterContext(mock.patch.dict(os.environ, secret))

    def read(self, document: Any, **more: Any) -> None:
        """Read a document, and permit its tools."""
        self.source = make_source(
            slug=f"s{ToolSource.objects.count()}",
            kind=SourceKind.OPENAPI,
            document=document if isinstance(document, str) else json.dumps(document),
            allowed_hosts=[self.host],
            headers={"Authorization": "Bearer ${TOOL_SECRET_SHOP}"},
            is_personal=False,
            **more,
        )
        refresh_source(self.source)
        self.tools = allow_all()

    def run_tool(self, name: str, **arguments: Any) -> Any:
        call = ToolCall("c", f"{self.source.slug}_{name}", json.dumps(arguments))
        [result] = async_to_sync(execute_calls)([call], tools=self.tools, context=ToolContext(), approved={"c"})
        content = json.loads(result.content)
        return content["body"] if result.success else content["error"]


class OperationTests(ServiceCase):
    def setUp(self) -> None:
        super().setUp()
        self.read({**SERVICES, "servers": [{"url": f"http://{self.host}/v2"}]})

    def test_operations_are_read_and_what_cannot_be_called_says_why(self) -> None:
        refused = dict(self.source.problems)
        assert refused.keys() == {"onlyXml", "addScan", "outside"}
        assert "application/xml" in refused["onlyXml"]
        assert "leaves the document" in refused["outside"]
        for spec in self.tools:
            assert _schema_fault(dict(spec.parameters)) == "", spec.name
        read, add = self.tools.named("s0_readShelf"), self.tools.named("s0_addBook")
        assert read is not None
        assert add is not None
        assert (read.source, read.description, read.needs_approval) == ("openapi", "Reads a shelf.", False)
        assert read.parameters["required"] == ["shelf"]
        assert set(read.parameters["properties"]) == {"shelf", "fields", "tags", "X-Trace"}
        assert add.needs_approval
        assert add.parameters["properties"]["body"]["properties"]["next"] == {}, "open where it would have no end"

    def test_request_carries_path_query_headers_and_secret(self) -> None:
        self.site.fallback = Answer('"Bearer s3cret"', JSON)
        given = {"fields": ["x", "y"], "tags": ["t", "u"], "X-Trace": "t"}
        assert self.run_tool("readShelf", shelf="a/../b ?", **given) == "Bearer ***", "the service echoed it"
        asked, headers = self.site.asked[-1]
        path, _sep, query = asked.partition("?")
        assert path == "/v2/shelves/a%2F..%2Fb%20%3F"
        assert sorted(query.split("&")) == ["fields=x%2Cy", "tags=t", "tags=u"]
        assert (headers["authorization"], headers["x-trace"]) == ("Bearer s3cret", "t")

    def test_staff_call_it_by_hand_and_see_what_was_sent_without_its_secret(self) -> None:
        address = admin_url(ToolOverride, "call", ToolOverride.objects.get(tool_name="s0_readShelf").pk)
        assert '"shelf": ""' in superuser_client().get(address).context["form"]["arguments"].value()
        page = superuser_client().post(address, {"arguments": '{"shelf": "7"}'})
        (sent,) = page.context["sent"]
        assert sent.startswith(f"GET http://{self.host}/v2/shelves/7")
        assert "authorization: bearer ***" in sent.lower()
        assert "s3cret" not in page.content.decode()
        assert page.context["result"].success

    def test_body_is_json(self) -> None:
        book = {"title": "t", "next": {"title": "u"}}
        self.run_tool("addBook", shelf="a", body=book)
        assert json.loads(self.site.bodies[-1]) == book
        stored = ToolOverride.objects.get(remote_name="addBook").operation
        assert stored.keys() == {"method", "url", "places", "has_body"}, "as older versions did"

    def test_form_is_sent_as_a_form(self) -> None:
        self.run_tool("nameShelf", shelf="a", body={"title": "t é", "sizes": [1, 2]})
        assert self.site.asked[-1][1]["content-type"] == FORM
        assert self.site.bodies[-1] == b"title=t+%C3%A9&sizes=1&sizes=2"

    def test_answer_that_is_no_text_is_named(self) -> None:
        self.site.fallback = Answer(b"\x89PNG\r\n\x00\x00", "image/png")
        assert self.run_tool("look") == "(image/png, 8 bytes: not a text, not shown)"

    def test_refusals_and_failures_of_the_service_are_told(self) -> None:
        for status, code in ((404, "tool_reported_error"), (503, "tool_failed")):
            self.site.fallback = Answer('{"reason": "the shelf fell down"}', JSON, status)
            told = self.run_tool("look")
            assert told["code"] == code
            assert "the shelf fell down" in told["detail"]

    def test_redirect_is_not_followed(self) -> None:
        self.site.fallback = Answer(status=302, headers={"Location": "http://169.254.169.254/"})
        told = self.run_tool("look")
        assert (told["code"], "redirects are not followed" in told["detail"]) == ("tool_reported_error", True)

    @override(TOOL_MAX_RESPONSE_BYTES=1_000)
    def test_long_answer_is_cut(self) -> None:
        self.site.fallback = Answer("x" * 5_000_000, "text/plain")
        call = ToolCall("c", "s0_look", "{}")
        [result] = async_to_sync(execute_calls)([call], tools=self.tools, context=ToolContext())
        assert result.success
        assert len(result.content) < 100_000
        assert json.loads(result.content)["truncated"] is True

    def test_answers_are_read_as_they_are_meant(self) -> None:
        for said, kind, told in (
            ('{"a": NaN, "b": -Infinity}', JSON, {"a": "NaN", "b": "-Infinity"}),
            ("côté".encode("cp1252"), "text/plain", "côté"),
            ("côté é".encode()[:-1], "text/plain", "côté \ufffd"),
            ('{"a": "côté"}'.encode("cp1252"), JSON, {"a": "côté"}),
            ("<h1>Panne</h1><p>Revenez <b>demain</b></p>", "text/html", "Panne\nRevenez\ndemain"),
        ):
            self.site.fallback = Answer(said, kind)
            assert self.run_tool("look") == told

    def test_arguments_are_written_as_the_document_says(self) -> None:
        shape, numbers = {"type": "object"}, {"type": "array", "items": {"type": "integer"}}
        maybe = {"type": "string", "nullable": True}
        here, where = {"x": 1, "y": 2, "no": None}, '{"x": 1}'
        cases: list[tuple[dict[str, Any], Any, str, str]] = [
            (parameter("p", "query", shape, style="deepObject", explode=True), here, "p%5Bx%5D=1&p%5By%5D=2", ""),
            (parameter("p", "query", shape), here, "x=1&y=2", ""),
            (parameter("p", "query", shape, explode=False), here, "p=x%2C1%2Cy%2C2", ""),
            (parameter("p", "query", numbers, style="pipeDelimited"), [3, 4], "p=3%7C4", ""),
            (parameter("p", "query", numbers, style="spaceDelimited", explode=True), [3, 4], "p=3&p=4", ""),
            (parameter("p", "query", maybe), None, "", ""),
            (
                {"name": "p", "in": "query", "content": {JSON: {"schema": shape}}},
                {"x": 1},
                f"p={quote_plus(where)}",
                "",
            ),
            (parameter("p", "header", numbers), [3, 4], "", "3,4"),
            (parameter("p", "header", shape, explode=True), here, "", "x=1,y=2"),
            (parameter("p", "header", TEXT), "été\r\nX: y", "", "%C3%A9t%C3%A9%0D%0AX: y"),
            (parameter("p", "cookie", TEXT), "é;b=c", "", "p=%C3%A9%3Bb%3Dc"),
        ]
        for described, value, query, header in cases:
            operation = {"operationId": "look", "parameters": [described]}
            self.read({**SERVICES, "servers": [{"url": f"http://{self.host}"}], "paths": {"/look": {"get": operation}}})
            self.run_tool("look", p=value)
            asked, headers = self.site.asked[-1]
            name = "cookie" if described["in"] == "cookie" else "p"
            assert (asked.partition("?")[2].replace("+", "%20"), headers.get(name, "")) == (
                query.replace("+", "%20"),
                header,
            )

    def test_lists_in_a_path_and_one_name_in_two_places(self) -> None:
        both = [parameter("id", "query", TEXT), parameter("id", "path", TEXTS), parameter("body", "query", TEXT)]
        paths = {
            "/look/{id}": {"get": {"operationId": "look", "parameters": both}},
            "/dots/{id}": {"get": {"operationId": "dots", "parameters": [{**both[1], "style": "matrix"}]}},
        }
        self.read({**SERVICES, "servers": [{"url": f"http://{self.host}"}], "paths": paths})
        self.run_tool("look", id="q", id_path=["a b", "c/d"], body_query="x")
        assert self.site.asked[-1][0] == "/look/a%20b,c%2Fd?id=q&body=x"
        assert "matrix" in dict(self.source.problems)["dots"]

    def test_header_of_the_source_is_not_an_argument_s(self) -> None:
        operation = {"operationId": "look", "parameters": [parameter("X-Key", "header", TEXT)]}
        self.read({**SERVICES, "servers": [{"url": f"http://{self.host}"}], "paths": {"/look": {"get": operation}}})
        ToolSource.objects.filter(pk=self.source.pk).update(headers={"x-key": "${TOOL_SECRET_SHOP}"})
        self.tools = allow_all()
        self.run_tool("look", **{"X-Key": "mine"})
        assert self.site.asked[-1][1]["x-key"] == "s3cret"

    def test_path_cannot_be_climbed(self) -> None:
        assert self.run_tool("readShelf", shelf="..")["code"] == "tool_reported_error"

    def test_server_that_is_no_allowed_host_is_refused(self) -> None:
        self.source.allowed_hosts = ["shop.example"]
        with self.assertRaisesMessage(ToolSourceError, "pas permis"):
            refresh_source(self.source)

    def test_address_that_leads_inside_is_not_followed(self) -> None:
        with web_site() as inside, web_site() as away:
            away.fallback = Answer(status=307, headers={"Location": inside.url("/mcp")})
            for kind in (SourceKind.OPENAPI, SourceKind.MCP_HTTP):
                source = make_source(slug=f"away-{kind}", kind=kind, url=away.url("/mcp"))
                with override_settings(TOOL_INTERNAL_HOSTS=[away.host]), pytest.raises(ToolError):
                    refresh_source(source)
            assert away.asked
        assert inside.asked == []


class ServerTests(ServiceCase):
    def document(self, *servers: Any) -> dict[str, Any]:
        return {"openapi": "3.1.0", "servers": servers, "paths": {"/ping": {"get": {}}}}

    def test_relative_server_is_of_the_document_s_address(self) -> None:
        address = self.site.url("/docs/openapi.json")
        self.site.pages["/docs/openapi.json"] = Answer(json.dumps(self.document({"url": "/v3"})), JSON)
        self.read("", url=address)
        self.run_tool("get_ping")
        self.read(self.document({"url": "v4/"}), url=address)
        self.run_tool("get_ping")
        assert self.site.paths() == ["/docs/openapi.json", "/v3/ping", "/docs/v4/ping"]

    def test_relative_server_without_an_address_says_the_way_out(self) -> None:
        with self.assertRaisesMessage(ToolSourceError, "give the document's address"):
            self.read(self.document({"url": "/v4"}))

    def test_variables_have_their_defaults(self) -> None:
        variables = {"version": {"default": "v9"}}
        self.read(self.document({"url": f"http://{self.host}/{{version}}", "variables": variables}))
        self.run_tool("get_ping")
        assert self.site.paths() == ["/v9/ping"]

    def test_document_of_no_known_kind_says_what_it_needs(self) -> None:
        with pytest.raises(ToolSourceError, match="it needs 'openapi: 3"):
            self.read({"swagger": "2.0"})
