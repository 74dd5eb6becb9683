"""Whatever a document says, it is read, or refused with a reason for staff, in a fraction of a second."""

import json
from importlib import import_module
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.model_server import _schema_fault
from tests.unit.tools_registry.test_fitting import json_of
from tests.waiting import little_work
from tools_registry.errors import ToolSourceError
from tools_registry.models import SourceKind
from tools_registry.sources import openapi
from tools_registry.sources.base import SourceAddress
from tools_registry.sources.openapi import parsed, read_document

_words = st.sampled_from(
    "parameters requestBody content schema name in required type items properties $ref operationId tags description query "
    "path body formData file application/json multipart/form-data get post servers url variables consumes".split()
)


_anything = json_of(_words, "#/paths", "#/paths/~1a", "#/definitions/x", "/a/{b}", "array", "object")


@settings(max_examples=300, deadline=None)
@given(
    version=st.sampled_from([{"openapi": "3.0.1"}, {"swagger": "2.0", "host": "a.example"}]),
    shared=_anything,
    operation=_anything,
    more=st.dictionaries(_words, _anything, max_size=3),
)
def test_any_document_is_read_or_refused(
    version: dict[str, str], shared: Any, operation: Any, more: dict[str, Any]
) -> None:
    document = {
        "servers": [{"url": "https://a.example"}],
        **more,
        **version,
        "paths": {"/a": {"parameters": shared, "get": operation, "post": {}}, "/b": operation},
    }
    address = SourceAddress(SourceKind.OPENAPI, "", "", json.dumps(document), ("a.example",), {}, 1.0)
    try:
        read = read_document(address)
    except ToolSourceError:
        return
    for tool in read.tools:
        assert _schema_fault(dict(tool.parameters)) == ""
    assert all(reason for _name, reason in read.refused)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [1]\nb: [*a, *a]", "aliases"),
        ("a: &a {x: 1}\nb: {<<: *a}", "aliases"),
        # These ended the process: libyaml composes by recursion in C.
        ("[" * 100_000, "deeper"),
        ("- " * 100_000 + "a", "deeper"),
        ("".join(" " * depth + "a:\n" for depth in range(1_000)), "deeper"),
        ("- 1\n" * 500_000, "values"),
        ("a: " + "1" + ":1" * 300_000, "quotes"),
        ("a: " + "1" * 1_000_000, "quotes"),
        ('{"a":' * 100_000, "neither"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bomb_is_refused_at_once(text: str, reason: str) -> None:
    with little_work(5), pytest.raises(ToolSourceError, match=reason):
        parsed(text)


def test_the_reader_without_libyaml_refuses_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openapi, "_Loader", yaml.SafeLoader)
    with pytest.raises(ToolSourceError, match="aliases"):
        parsed("a: &a [*a]")
    with pytest.raises(ToolSourceError, match="deeper"):
        parsed("[" * 1_000)


def test_json_and_an_empty_text_are_read() -> None:
    assert parsed('{"openapi": "3.0.0"}') == {"openapi": "3.0.0"}
    assert parsed("") is None


def test_requests_of_an_earlier_release_that_are_not_written_any_more_are_told() -> None:
    is_written = import_module("tools_registry.migrations.0007_requests_no_longer_written").is_written
    assert all(map(is_written, ({}, {"joined": {"ids": ","}}, {"joined": ["ids"]})))
    assert not any(map(is_written, ({"joined": {"ids": "|"}}, {"body_kind": "multipart/form-data"})))
