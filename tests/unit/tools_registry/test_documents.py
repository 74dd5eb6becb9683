"""OpenAPI documents that are written to cost: each is refused before anything is built of it, in a fraction of a
second.
"""

import time

import pytest
import yaml

from tools_registry.errors import ToolSourceError
from tools_registry.sources import openapi
from tools_registry.sources.openapi import parsed


def merge_bomb(levels: int, width: int) -> str:
    lines = ["openapi: 3.0.0", "a0: &a0 {x: 1}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} {{<<: [{aliases}]}}")
    return "\n".join(lines)


def alias_bomb(levels: int, width: int) -> str:
    first = "a0: &a0 [1]\n"
    return first + "\n".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (merge_bomb(14, 6), "aliases"),
        (alias_bomb(30, 9), "aliases"),
        ("a: &a [*a]", "alias of itself"),
        ("a: &a {b: *a}", "alias of itself"),
        # These ended the process: libyaml composes by recursion in C.
        ("[" * 100_000, "deeper"),
        ("- " * 100_000 + "a", "deeper"),
        ("".join(" " * depth + "a:\n" for depth in range(1_000)), "deeper"),
        ("- 1\n" * 500_000, "values"),
        ("a: " + ":".join(["1"] * 300_000), "quotes"),
        ("a: " + "1" * 1_000_000, "quotes"),
        ('{"a":' * 100_000, "neither"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bomb_is_refused_at_once(text: str, reason: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ToolSourceError, match=reason):
        parsed(text)
    assert time.perf_counter() - started < 5


def test_the_reader_without_libyaml_refuses_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openapi, "_Loader", yaml.SafeLoader)
    with pytest.raises(ToolSourceError, match="aliases"):
        parsed(merge_bomb(14, 6))
    with pytest.raises(ToolSourceError, match="deeper"):
        parsed("[" * 1_000)


def test_anchors_and_merges_of_an_honest_document_are_read() -> None:
    text = "base: &base {type: string}\nname: {<<: *base, maxLength: 5}\nlist: [*base, *base]"
    assert parsed(text)["name"] == {"type": "string", "maxLength": 5}
    assert parsed(text)["list"] == [{"type": "string"}, {"type": "string"}]
    assert parsed('{"openapi": "3.0.0"}') == {"openapi": "3.0.0"}
    assert parsed("") is None
