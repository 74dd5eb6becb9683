"""Whatever a document says, it is read, or refused with a reason for staff."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.model_server import _schema_fault
from tools_registry.errors import ToolSourceError
from tools_registry.models import SourceKind
from tools_registry.sources.base import SourceAddress
from tools_registry.sources.openapi import read_document

_words = st.sampled_from(
    "parameters requestBody content schema name in required type items properties $ref operationId tags description query "
    "path body formData file application/json multipart/form-data get post servers url variables consumes".split()
)
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 3),
    _words,
    st.sampled_from(["#/paths", "#/paths/~1a", "#/definitions/x", "/a/{b}", "array", "object"]),
)
_anything = st.recursive(
    _leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_words, inner, max_size=4)),
    max_leaves=20,
)


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
    address = SourceAddress(1, SourceKind.OPENAPI, "", "", json.dumps(document), ("a.example",), {}, 1.0)
    try:
        read = read_document(address)
    except ToolSourceError:
        return
    for tool in read.tools:
        assert _schema_fault(dict(tool.parameters)) == ""
    assert all(reason for _name, reason in read.refused)
