"""Tools of the tests, and replies of the scripted model that ask for them."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agents.llm.base import RequestedCall
from tests.scripted import ScriptedReply
from tools_registry.tool import registry, spec_from_function

_numbers = itertools.count(1)


@contextmanager
def declared(*functions: Callable[..., Any], **options: Any) -> Iterator[None]:
    """Offer these functions as tools, and no others, for the time of a test."""
    before = list(registry)
    for spec in before:
        registry.remove(spec.name)
    try:
        for function in functions:
            registry.register(spec_from_function(function, **options))
        yield
    finally:
        for function in functions:
            registry.remove(function.__name__)
        for spec in before:
            registry.register(spec)


def call(name: str, /, *, id: str = "", **arguments: Any) -> RequestedCall:
    return RequestedCall(id or f"call_{next(_numbers)}", name, json.dumps(arguments))


def asking(*calls: RequestedCall, text: str = "") -> ScriptedReply:
    """A reply that asks for tools."""
    return ScriptedReply([text] if text else [], tool_calls=calls, finish_reason="tool_calls")
