"""`@tool`: what becomes of a typed function, which are refused, and mistakes of the settings that are said at start."""

import datetime
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from django.test import override_settings

from tools_registry.apps import check_tools
from tools_registry.errors import InvalidToolArgumentsError, ToolDefinitionError
from tools_registry.tool import ToolContext, ToolSpec, registry, spec_from_function, tool


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    before = {spec.name for spec in registry}
    yield
    for spec in list(registry):
        if spec.name not in before:
            registry.remove(spec.name)


def book(
    city: str, day: datetime.date, context: ToolContext, room: Literal["single", "double"] = "single", nights: int = 1
) -> dict[str, object]:
    """Book a hotel room.

    Nothing is paid before the arrival.

    Args:
        city: the city's name.
        day: day of arrival.
        room: what kind of room.
        nights: how many nights.
    """
    return {"day": day, "for": context.user_id, "room": room, "city": city, "nights": nights}


def test_schema_comes_from_signature_and_docstring() -> None:
    spec = spec_from_function(book)
    assert spec.name == "book"
    assert spec.description == "Book a hotel room.\n\nNothing is paid before the arrival."
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city", "day"],
        "properties": {
            "city": {"type": "string", "description": "the city's name."},
            "day": {"type": "string", "format": "date", "description": "day of arrival."},
            "room": {
                "type": "string",
                "enum": ["single", "double"],
                "default": "single",
                "description": "what kind of room.",
            },
            "nights": {"type": "integer", "default": 1, "description": "how many nights."},
        },
    }


def test_function_receives_typed_values_and_the_context() -> None:
    spec = spec_from_function(book)
    context = ToolContext(user_id=7)
    result = spec.invoke({"city": "Lyon", "day": "2026-03-01"}, context)
    assert result == {"day": datetime.date(2026, 3, 1), "for": 7, "room": "single", "city": "Lyon", "nights": 1}


def test_value_that_fits_the_schema_but_not_the_type_is_refused() -> None:
    spec = spec_from_function(book)
    with pytest.raises(InvalidToolArgumentsError, match="day"):
        spec.invoke({"city": "Lyon", "day": "the first of May"}, ToolContext())


def test_phase_1_tags_keywords_and_always_on_are_declared_on_the_tool() -> None:
    @tool(tags=["admin"], keywords=["ville"], always_on=True, personal=True, timeout_seconds=2)
    def where() -> str:
        """Say where the office is."""
        return "Paris"

    spec = registry.get("where")

    assert isinstance(spec, ToolSpec)
    assert spec.tags == {"admin"}
    assert spec.keywords == ("ville",)
    assert (spec.is_always_on, spec.is_personal, spec.timeout_seconds) == (True, True, 2)
    assert where() == "Paris"


def test_two_tools_of_one_name_are_refused() -> None:
    def declare() -> None:
        @tool()
        def twice() -> str:
            """Do it twice."""
            return ""

    declare()
    with pytest.raises(ToolDefinitionError, match="two tools named 'twice'"):
        declare()


def no_docstring(city: str) -> str:
    return city


def untyped(city) -> str:  # type: ignore[no-untyped-def]
    """Take a city."""
    return str(city)


def variadic(*cities: str) -> str:
    """Take cities."""
    return cities[0]


async def asynchronous() -> str:
    """Wait."""
    return ""


def without_json_form(action: Callable[[], int]) -> str:
    """Call something."""
    return str(action())


def undescribed(city: str) -> str:
    """Take a city."""
    return city


def misnamed(city: str) -> str:
    """Take a city.

    Args:
        town: the city.
    """
    return city


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (no_docstring, "no docstring"),
        (untyped, "does not type its parameter city"),
        (variadic, "named parameters"),
        (asynchronous, "plain functions"),
        (without_json_form, "no JSON form"),
        (misnamed, "describes town"),
        (undescribed, "does not describe city"),
        (lambda: None, "cannot name a tool"),
    ],
)
def test_risk_4_functions_that_a_model_could_not_understand_are_refused(function: Any, reason: str) -> None:
    with pytest.raises(ToolDefinitionError, match=reason):
        spec_from_function(function)


def test_tags_given_as_one_text_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="tags is a list"):

        @tool(tags="admin")
        def mistaken() -> str:
            """Do something."""
            return ""


@pytest.mark.parametrize(
    ("settings", "found"), [({}, []), ({"MCP_STDIO_SERVERS": {"files": "/usr/bin/files"}}, ["tools_registry.E002"])]
)
def test_settings_of_tools_are_checked(settings: dict[str, Any], found: list[str]) -> None:
    with override_settings(**settings):
        assert [message.id for message in check_tools(None)] == found
