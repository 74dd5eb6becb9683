"""Documents as services really write them: servers in part, forms, uploads, answers that are no text."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import TestCase, override_settings

from tests.integration.tools_registry.test_sources import VISITOR, allow_all
from tests.servers.model_server import _schema_fault
from tools_registry.catalog import ToolList, available_tools
from tools_registry.errors import ToolSourceError
from tools_registry.execution import ToolCall, ToolContext, breakers, execute_calls
from tools_registry.models import RemoteTool, SourceKind, ToolSource
from tools_registry.sources.remote import RefreshReport, refresh_source


class _Echo(BaseHTTPRequestHandler):
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
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def echoing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


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
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.0",
    "servers": [{"url": "http://HOST/v2"}],
    "paths": {
        "/shelves/{shelf}": {
            "parameters": [SHELF],
            "get": {
                "operationId": "readShelf",
                "parameters": [
                    parameter("fields", "query", {"type": "array", "items": TEXT}),
                    parameter("tags", "query", {"type": "array"}, style="pipeDelimited"),
                ],
            },
            "post": {"operationId": "addBook", "requestBody": body("application/json", BOOK, is_required=False)},
            "put": {
                "operationId": "nameShelf",
                "requestBody": body(
                    FORM,
                    form_of(["title"], title=TEXT, colours={"type": "array"}, sizes={"type": "array"}),
                    colours={"explode": False, "style": "form"},
                    sizes={"explode": True, "style": "form"},
                ),
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
        "/keys": {
            "put": {
                "operationId": "addKey",
                "requestBody": body(FORM, form_of([], key={**TEXT, "format": "byte"}), is_required=False),
            }
        },
        "/picture": {"get": {"operationId": "picture", "parameters": []}},
        "/broken": {"get": {"operationId": "broken", "parameters": []}},
        "/strange": {"get": {"operationId": "strange", "parameters": [parameter("q", ["query"], {})]}},
    },
    "components": {
        "schemas": {"Book": {"type": "object", "required": ["title"], "properties": {"title": TEXT, "next": BOOK}}}
    },
}


def served_by(host: str) -> dict[str, Any]:
    return {**DOCUMENT, "servers": [{"url": f"http://{host}/v2"}]}


class ServiceCase(TestCase):
    host: str
    source: ToolSource
    report: RefreshReport
    tools: ToolList

    def setUp(self) -> None:
        self.host = self.enterContext(echoing())
        self.enterContext(override_settings(TOOL_INTERNAL_HOSTS=[self.host]))
        breakers.clear()

    def read(self, document: Any, **more: Any) -> list[str]:
        """What comes of a document; its tools are permitted."""
        self.source = ToolSource.objects.create(
            slug=f"s{ToolSource.objects.count()}",
            name="Service",
            kind=SourceKind.OPENAPI,
            document=document if isinstance(document, str) else json.dumps(document),
            allowed_hosts=[self.host],
            is_personal=False,
            **more,
        )
        self.report = refresh_source(self.source)
        allow_all()
        self.tools = available_tools(user_tags=VISITOR, agent_id=None)
        return self.report.added

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
        assert len(self.report.added) == 8
        refused = dict(self.report.refused)
        assert refused.keys() == {"onlyXml"}
        assert "application/xml" in refused["onlyXml"]
        for spec in self.tools:
            assert _schema_fault(dict(spec.parameters)) == "", spec.name
        assert self.tools.named("s0_addBook").needs_approval  # type: ignore[union-attr]

    def test_list_of_a_query_is_joined_as_the_document_says(self) -> None:
        told = self.run_tool("readShelf", shelf="a b", fields=["x", "y"], tags=["1", "2"])
        path, _sep, query = told["path"].partition("?")
        assert (path, set(query.split("&"))) == ("/v2/shelves/a%20b", {"fields=x%2Cy", "tags=1%7C2"})

    def test_body_is_json(self) -> None:
        told = self.run_tool("addBook", shelf="a", body={"title": "t", "next": {"title": "u"}})
        assert json.loads(told["body"]) == {"title": "t", "next": {"title": "u"}}
        stored = RemoteTool.objects.get(remote_name="addBook").operation
        assert stored.keys() == {"method", "url", "places", "has_body"}, "as older versions did"

    def test_form_is_sent_as_a_form(self) -> None:
        body = {"title": "t é", "colours": ["r", "g"], "sizes": [1, 2]}
        told = self.run_tool("nameShelf", shelf="a", body=body)
        assert told["type"] == "application/x-www-form-urlencoded"
        assert told["body"] == "title=t+%C3%A9&colours=r%2Cg&sizes=1&sizes=2"

    def test_bytes_are_a_field_of_a_form_without_files(self) -> None:
        assert self.run_tool("addKey", body={"key": "a2V5"})["body"] == "key=a2V5"

    def test_file_is_sent_as_the_text_that_the_model_wrote(self) -> None:
        told = self.run_tool("addScan", body={"page": "Chapter one.", "number": 3})
        assert told["type"].startswith("multipart/form-data")
        assert 'name="page"; filename="page.txt"' in told["body"]
        assert "Chapter one." in told["body"]
        assert 'name="number"\r\n\r\n3' in told["body"]

    def test_answer_that_is_no_text_is_named(self) -> None:
        assert self.run_tool("picture") == "[image png, 1 kB]"

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

    def test_first_server_that_is_allowed_is_taken(self) -> None:
        self.read(self.document({"url": "https://elsewhere.example"}, {"url": f"http://{self.host}/b"}))
        assert self.run_tool("get_ping")["path"] == "/b/ping"

    def test_variables_have_their_defaults(self) -> None:
        variables = {"version": {"default": "v9"}}
        self.read(self.document({"url": f"http://{self.host}/{{version}}", "variables": variables}))
        assert self.run_tool("get_ping")["path"] == "/v9/ping"
        with self.assertRaisesMessage(ToolSourceError, "'version' without a default"):
            self.read(self.document({"url": f"http://{self.host}/{{version}}"}))

    def test_document_of_no_known_kind_says_what_it_needs(self) -> None:
        with pytest.raises(ToolSourceError, match="it needs 'openapi: 3"):
            self.read({"swagger": "2.0"})
