"""Schemas of foreign tools become what model APIs take, or are refused with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.model_server import _schema_fault
from tools_registry.errors import ToolDefinitionError
from tools_registry.sources.base import fitted


def of(inner: Any) -> Any:
    """What becomes of the schema of one parameter."""
    return fitted({"type": "object", "properties": {"x": inner}})["properties"]["x"]


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "items": {}}),
        (
            {"type": "string", "nullable": True, "description": " What. "},
            {"type": ["string", "null"], "description": "What."},
        ),
        ({"minimum": 0, "exclusiveMinimum": True}, {"minimum": 0}),
        ({"const": "a"}, {"enum": ["a"]}),
        # A stranger's pattern is neither told nor run.
        ({"type": "string", "pattern": "^(a+)+$", "x-more": 1}, {"type": "string"}),
        (True, {}),
        (
            {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
            {"type": "object"},
        ),
    ],
)
def test_what_model_apis_refuse_is_rewritten(given_: Any, expected: Any) -> None:
    assert of(given_) == expected


def test_references_are_replaced_and_one_within_itself_is_open() -> None:
    node = {
        "type": "object",
        "properties": {
            "value": {"$ref": "#/$defs/value"},
            "next": {"$ref": "#/$defs/node"},
            "all": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
    }
    made = fitted(
        {
            "properties": {"first": {"$ref": "#/$defs/node", "description": "The first."}},
            "$defs": {"node": node, "value": {"type": "integer"}},
        }
    )
    assert "$ref" not in json.dumps(made)
    first = made["properties"]["first"]
    assert first["description"] == "The first."
    assert first["properties"]["value"] == {"type": "integer"}
    assert first["properties"]["next"] == {}


def test_alternatives_at_the_top_leave_the_object() -> None:
    made = fitted({"properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert made == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "not described"),
        ({"type": "string"}, "not an object"),
        ({"anyOf": [{"properties": {"a": {}}}]}, "not one object"),
        ({"properties": {"x": "string"}}, "'string' is not a schema"),
        ({"properties": {"x": {"type": "datetime"}}}, "not valid"),
        ({"properties": {"x": {"$ref": "http://elsewhere.example/s.json"}}}, "leaves the document"),
        ({"properties": {"x": {"$ref": "#/$defs/no"}}}, "leads nowhere"),
        ({"properties": {"x": {"enum": ["y" * 50_000]}}}, "characters"),
        ({"properties": {"x": {"default": float("nan")}}}, "not valid"),
    ],
)
def test_what_cannot_be_made_fit_says_why(schema: Any, reason: str) -> None:
    with pytest.raises(ToolDefinitionError, match=reason):
        fitted(schema)


def test_schema_that_multiplies_itself_is_refused_soon() -> None:
    names = {f"d{n}": {"properties": {f"p{k}": {"$ref": f"#/$defs/d{n + 1}"} for k in range(8)}} for n in range(20)}
    with pytest.raises(ToolDefinitionError, match="too large"):
        fitted({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**names, "d20": {}}})


_words = st.sampled_from(
    "type properties required items prefixItems enum const anyOf allOf oneOf $ref pattern minimum exclusiveMinimum default "
    "maxLength additionalProperties description nullable uniqueItems multipleOf x".split()
)


def json_of(words: st.SearchStrategy[str], *texts: str) -> st.SearchStrategy[Any]:
    """Any JSON value whose names are these words and whose leaves may be these texts."""
    leaves = st.none() | st.booleans() | st.integers(-3, 300) | words | st.sampled_from(texts)
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=25
    )


@settings(max_examples=300, deadline=None)
@given(json_of(_words, "array", "object", "string", "strange", "#", "#/properties/x", "http://a"))
def test_whatever_a_server_says_becomes_fit_or_is_refused(schema: Any) -> None:
    try:
        made = fitted(schema)
    except ToolDefinitionError:
        return
    assert _schema_fault(made) == ""
    assert fitted(made) == made
