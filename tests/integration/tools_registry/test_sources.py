"""Tools from MCP servers (real ones, of the official SDK) and from OpenAPI documents as services write them."""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ValidationError
from django.test import TestCase, override_settings

from agents.admin_base import admin_url
from agents.network import guarded_client
from tests.admin_pages import superuser_client
from tests.constants import override
from tests.servers.mcp_process import STDIO, mcp_over_http
from tests.servers.model_server import _schema_fault
from tests.waiting import PATIENCE_SECONDS
from tools_registry.catalog import ToolList, available_tools
from tools_registry.errors import ToolError, ToolSourceError
from tools_registry.execution import ToolCall, ToolContext, ToolResult, breakers, execute_calls
from tools_registry.models import SourceKind, ToolOverride, ToolSource
from tools_registry.sources.base import header_problem, reach_of, resolved_headers
from tools_registry.sources.remote import refresh_source

VISITOR: frozenset[str] = frozenset()


def make_source(**overrides: Any) -> ToolSource:
    defaults: dict[str, Any] = {
        "slug": "lib",
        "name": "Library",
        "kind": SourceKind.MCP_STDIO,
        # A server is a process that imports the SDK: on a busy machine that takes its time.
        "timeout_seconds": PATIENCE_SECONDS,
    }
    return ToolSource.objects.create(**{**defaults, **overrides})


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

    def test_tool_stays_within_its_hosts_and_out_of_internal_addresses(self) -> None:
        with guarded_client(reach_of(["127.0.0.1"]), timeout=1) as client:
            with self.assertRaisesMessage(ToolSourceError, "internal address"):
                client.get("http://127.0.0.1/")
            with self.assertRaisesMessage(ToolSourceError, "not among the allowed"):
                client.get("http://other.example/")

    def test_secrets_are_named_never_written(self) -> None:
        assert header_problem({"X-Team": "blue", "Authorization": "Bearer ${TOOL_SECRET_A}"}) == ""
        assert "must name its secret" in header_problem({"Authorization": "Bearer abc"})
        assert "may only name" in header_problem({"X-Team": "${SECRET_KEY}"})
        assert "control character" in header_problem({"X-Team": "a\r\nHost: b"})

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
        with self.assertRaisesMessage(ToolSourceError, "internal address"):
            refresh_source(source)


class _Answering(BaseHTTPRequestHandler):
    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Service(_Answering):
    """A small HTTP service that says what it was sent."""

    def do_GET(self) -> None:
        if self.path.startswith("/api/away"):
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/")
            self.end_headers()
            return
        if self.path.startswith("/api/long"):
            self.answer(200, b"x" * 5_000, "text/plain")
            return
        if self.path.startswith("/api/missing"):
            self.answer(404, b'{"reason": "no such order"}', "application/json")
            return
        self._echo(b"")

    def do_POST(self) -> None:
        self._echo(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _echo(self, body: bytes) -> None:
        said = {
            "method": self.command,
            "path": self.path,
            "body": json.loads(body) if body else None,
            "authorization": self.headers.get("Authorization"),
            "key": hashlib.sha256(self.headers.get("Authorization", "").encode()).hexdigest(),
            "trace": self.headers.get("X-Trace"),
        }
        self.answer(200, json.dumps(said).encode(), "application/json")


DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Orders", "version": "1"},
    "paths": {
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "getOrder",
                "summary": "Reads an order.",
                "parameters": [
                    {
                        "name": "fields",
                        "in": "query",
                        "description": "which fields",
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
            },
        },
        "/orders": {
            "post": {
                "operationId": "addOrder",
                "summary": "Adds an order.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
                },
            }
        },
        "/away": {"get": {"operationId": "away", "summary": "Goes elsewhere."}},
        "/long": {"get": {"operationId": "long", "summary": "Says much."}},
        "/missing": {"get": {"operationId": "missing", "summary": "Is not there."}},
        "/loop": {
            "post": {
                "operationId": "loop",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Loop"}}}},
            }
        },
        "/outside": {"get": {"operationId": "outside", "parameters": [{"$ref": "http://169.254.169.254/x.json"}]}},
    },
    "components": {
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["item"],
                "properties": {
                    "item": {"type": "string"},
                    "note": {"type": "string", "nullable": True},
                    "count": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                },
            },
            "Loop": {"type": "object", "properties": {"again": {"$ref": "#/components/schemas/Loop"}}},
        }
    },
}


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[ThreadingHTTPServer]:
    service = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True).start()
    yield service
    service.shutdown()
    service.server_close()


class OpenApiTests(SourceCase):
    def setUp(self) -> None:
        service = self.enterContext(serving(_Service))
        self.host = f"127.0.0.1:{service.server_address[1]}"
        self.enterContext(override_settings(TOOL_INTERNAL_HOSTS=[self.host]))
        self.source = make_source(
            slug="shop",
            kind=SourceKind.OPENAPI,
            document=json.dumps({**DOCUMENT, "servers": [{"url": f"http://{self.host}/api"}]}),
            allowed_hosts=[self.host],
            headers={"Authorization": "Bearer ${TOOL_SECRET_SHOP}"},
        )
        secret = {"TOOL_SECRET_SHOP": "s3cret", "TOOL_SECRET_SHOP_HOSTS": self.host}
        self.enterContext(mock.patch.dict(os.environ, secret))
        refresh_source(self.source)
        self.tools = allow_all()

    def test_operations_become_tools(self) -> None:
        spec = self.tools.named("shop_getOrder")
        assert spec is not None
        assert spec.source == "openapi"
        assert spec.description == "Reads an order."
        assert spec.parameters["required"] == ["id"]
        assert set(spec.parameters["properties"]) == {"id", "fields", "X-Trace"}

    def test_schemas_of_3_0_become_json_schemas(self) -> None:
        spec = self.tools.named("shop_addOrder")
        assert spec is not None
        body = spec.parameters["properties"]["body"]["properties"]
        assert body["note"]["type"] == ["string", "null"]
        assert body["count"] == {"type": "integer", "minimum": 0}

    def test_reference_that_leaves_the_document_is_refused_and_one_in_a_circle_is_open(self) -> None:
        assert {name for name, _reason in self.source.problems} == {"outside"}
        body = self.tools.named("shop_loop").parameters["properties"]["body"]  # type: ignore[union-attr]
        assert body["properties"]["again"] == {}

    async def test_request_carries_path_query_headers_and_secret(self) -> None:
        result = await self.call(self.tools, "shop_getOrder", id="a/../b ?", fields=["x", "y"], **{"X-Trace": "t"})
        said = json.loads(result.content)["body"]
        assert said["path"] == "/api/orders/a%2F..%2Fb%20%3F?fields=x&fields=y"
        assert said["key"] == hashlib.sha256(b"Bearer s3cret").hexdigest()
        assert said["authorization"] == "Bearer ***", "the service echoed it"
        assert said["trace"] == "t"

    def test_staff_call_it_by_hand_and_see_what_was_sent_without_its_secret(self) -> None:
        address = admin_url(ToolOverride, "call", ToolOverride.objects.get(tool_name="shop_getOrder").pk)
        assert '"id": ""' in superuser_client().get(address).context["form"]["arguments"].value()
        page = superuser_client().post(address, {"arguments": '{"id": "7"}'})
        (sent,) = page.context["sent"]
        assert sent.startswith(f"GET http://{self.host}/api/orders/7")
        assert "authorization: bearer ***" in sent.lower()
        assert "s3cret" not in page.content.decode()
        assert page.context["result"].success

    async def test_redirect_is_not_followed(self) -> None:
        result = await self.call(self.tools, "shop_away")
        assert result.error == "tool_reported_error"
        assert "redirects are not followed" in result.content

    async def test_error_of_the_service_is_told_to_the_model(self) -> None:
        result = await self.call(self.tools, "shop_missing")
        assert result.error == "tool_reported_error"
        assert "no such order" in result.content

    @override(TOOL_MAX_RESPONSE_BYTES=1_000)
    async def test_long_answer_is_refused(self) -> None:
        assert (await self.call(self.tools, "shop_long")).error == "tool_source"

    async def test_path_cannot_be_climbed(self) -> None:
        assert (await self.call(self.tools, "shop_getOrder", id="..")).success is False

    def test_server_that_is_no_allowed_host_is_refused(self) -> None:
        self.source.allowed_hosts = ["shop.example"]
        self.source.save()
        with self.assertRaisesMessage(ToolSourceError, "not among the allowed"):
            refresh_source(self.source)

    def test_address_that_leads_inside_is_not_followed(self) -> None:
        asked: list[str] = []

        class Inside(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)

            do_POST = do_GET

        class Away(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(307)
                self.send_header("Location", f"http://127.0.0.1:{inside.server_address[1]}/mcp")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

        with serving(Inside) as inside, serving(Away) as away:
            host = f"127.0.0.1:{away.server_address[1]}"
            for kind in (SourceKind.OPENAPI, SourceKind.MCP_HTTP):
                source = make_source(slug=f"away-{kind}", kind=kind, url=f"http://{host}/mcp")
                with override_settings(TOOL_INTERNAL_HOSTS=[host]), pytest.raises(ToolError):
                    refresh_source(source)
        assert asked == []


class _Echo(_Answering):
    """Says what it was sent, as it was sent."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, status = "application/json", 200
        if "/picture" in self.path:
            answer, kind = b"\x89PNG\r\n\x00\x00", "image/png"
        elif "/broken" in self.path:
            answer, status = b'{"reason": "the shelf fell down"}', 503
        elif "/openapi.json" in self.path:
            answer = json.dumps(
                {"openapi": "3.0.0", "servers": [{"url": "/v3"}], "paths": {"/ping": {"get": {}}}}
            ).encode()
        else:
            sent = self.headers.get("Content-Type", "")
            told = {"path": self.path, "type": sent, "body": body.decode()}
            answer = json.dumps(told).encode()
        self.answer(status, answer, kind)

    do_POST = do_PUT = do_GET


FORM = "application/x-www-form-urlencoded"
BOOK = {"$ref": "#/components/schemas/Book"}
TEXT: dict[str, Any] = {"type": "string"}


def parameter(name: str, where: Any, schema: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": schema, "explode": False, "style": "form", **more}


def body(kind: str, schema: Any, *, is_required: bool = True, **encoding: Any) -> dict[str, Any]:
    return {"required": is_required, "content": {kind: {"schema": schema, "encoding": encoding}}}


def form_of(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


SHELF = parameter("shelf", "path", TEXT, required=True)
SERVICES: dict[str, Any] = {
    "openapi": "3.0.0",
    "servers": [{"url": "http://HOST/v2"}],
    "paths": {
        "/shelves/{shelf}": {
            "parameters": [SHELF],
            "get": {
                "operationId": "readShelf",
                "parameters": [parameter("fields", "query", {"type": "array", "items": TEXT})],
            },
            "post": {"operationId": "addBook", "requestBody": body("application/json", BOOK, is_required=False)},
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
        "/picture": {"get": {"operationId": "picture", "parameters": []}},
        "/broken": {"get": {"operationId": "broken", "parameters": []}},
        "/strange": {"get": {"operationId": "strange", "parameters": [parameter("q", ["query"], {})]}},
    },
    "components": {
        "schemas": {"Book": {"type": "object", "required": ["title"], "properties": {"title": TEXT, "next": BOOK}}}
    },
}


def served_by(host: str) -> dict[str, Any]:
    return {**SERVICES, "servers": [{"url": f"http://{host}/v2"}]}


class ServiceCase(TestCase):
    host: str
    source: ToolSource
    tools: ToolList

    def setUp(self) -> None:
        service = self.enterContext(serving(_Echo))
        self.host = f"127.0.0.1:{service.server_address[1]}"
        self.enterContext(override_settings(TOOL_INTERNAL_HOSTS=[self.host]))
        breakers.clear()

    def read(self, document: Any, **more: Any) -> None:
        """Read a document, and permit its tools."""
        self.source = ToolSource.objects.create(
            slug=f"s{ToolSource.objects.count()}",
            name="Service",
            kind=SourceKind.OPENAPI,
            document=document if isinstance(document, str) else json.dumps(document),
            allowed_hosts=[self.host],
            is_personal=False,
            **more,
        )
        refresh_source(self.source)
        allow_all()
        self.tools = available_tools(user_tags=VISITOR, agent_id=None)

    def run_tool(self, name: str, **arguments: Any) -> Any:
        call = ToolCall("c", f"{self.source.slug}_{name}", json.dumps(arguments))
        [result] = async_to_sync(execute_calls)([call], tools=self.tools, context=ToolContext(), approved={"c"})
        content = json.loads(result.content)
        return content["body"] if result.success else content["error"]


class OperationTests(ServiceCase):
    def setUp(self) -> None:
        super().setUp()
        self.read(served_by(self.host))

    def test_operations_are_read_and_what_cannot_be_called_says_why(self) -> None:
        assert self.source.tools.count() == 6
        refused = dict(self.source.problems)
        assert refused.keys() == {"onlyXml", "addScan"}
        assert "application/xml" in refused["onlyXml"]
        for spec in self.tools:
            assert _schema_fault(dict(spec.parameters)) == "", spec.name
        assert self.tools.named("s0_addBook").needs_approval  # type: ignore[union-attr]

    def test_list_of_a_query_is_joined_as_the_document_says(self) -> None:
        told = self.run_tool("readShelf", shelf="a b", fields=["x", "y"])
        path, _sep, query = told["path"].partition("?")
        assert (path, set(query.split("&"))) == ("/v2/shelves/a%20b", {"fields=x%2Cy"})

    def test_body_is_json(self) -> None:
        told = self.run_tool("addBook", shelf="a", body={"title": "t", "next": {"title": "u"}})
        assert json.loads(told["body"]) == {"title": "t", "next": {"title": "u"}}
        stored = ToolOverride.objects.get(remote_name="addBook").operation
        assert stored.keys() == {"method", "url", "places", "has_body"}, "as older versions did"

    def test_form_is_sent_as_a_form(self) -> None:
        body = {"title": "t é", "sizes": [1, 2]}
        told = self.run_tool("nameShelf", shelf="a", body=body)
        assert told["type"] == "application/x-www-form-urlencoded"
        assert told["body"] == "title=t+%C3%A9&sizes=1&sizes=2"

    def test_answer_that_is_no_text_is_named(self) -> None:
        assert self.run_tool("picture") == "(image/png, 8 bytes: not a text, not shown)"

    def test_failure_of_the_service_is_told_and_counts(self) -> None:
        told = self.run_tool("broken")
        assert told["code"] == "tool_failed"
        assert "the shelf fell down" in told["detail"]
        assert breakers["s0_broken"]._failures == 1


class ServerTests(ServiceCase):
    def document(self, *servers: Any) -> dict[str, Any]:
        return {"openapi": "3.1.0", "servers": servers, "paths": {"/ping": {"get": {}}}}

    def test_relative_server_is_of_the_document_s_address(self) -> None:
        self.read("", url=f"http://{self.host}/docs/openapi.json")
        assert self.run_tool("get_ping")["path"] == "/v3/ping"
        self.read(self.document({"url": "v4/"}), url=f"http://{self.host}/docs/openapi.json")
        assert self.run_tool("get_ping")["path"] == "/docs/v4/ping"

    def test_relative_server_without_an_address_says_the_way_out(self) -> None:
        with self.assertRaisesMessage(ToolSourceError, "give the document's address"):
            self.read(self.document({"url": "/v4"}))

    def test_variables_have_their_defaults(self) -> None:
        variables = {"version": {"default": "v9"}}
        self.read(self.document({"url": f"http://{self.host}/{{version}}", "variables": variables}))
        assert self.run_tool("get_ping")["path"] == "/v9/ping"

    def test_document_of_no_known_kind_says_what_it_needs(self) -> None:
        with pytest.raises(ToolSourceError, match="it needs 'openapi: 3"):
            self.read({"swagger": "2.0"})
