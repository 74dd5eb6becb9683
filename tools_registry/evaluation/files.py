"""Files of tools and of questions for `evaluate_tools`: JSON lines, read with patience.

A line that cannot count (no JSON, no name, no question) is skipped and said, since one bad line in a thousand must not
hide what the others measure; a file without any usable line is refused. A tool that is described twice is one tool.
Raises `ValueError` with the file and what is wrong with it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.texts import read_json
from tools_registry.evaluation.measures import LabelledQuery, described_tool
from tools_registry.tool import ToolSpec


@dataclass(slots=True)
class Skipped:
    """What did not count, as the other commands report it: each an item (file and line) and a reason."""

    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, path: Path, number: int, reason: str) -> None:
        self.rows.append({"item": f"{path}, line {number}", "reason": reason})


def read_tools(path: Path, skipped: Skipped) -> list[ToolSpec]:
    """The tools of a file: `name`, and `description`, `parameters`, `keywords`, `examples` where a line has them."""
    found: dict[str, dict[str, Any]] = {}
    for number, row in _rows(path, skipped):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            skipped.add(path, number, "a tool without a name")
            continue
        known = found.setdefault(name, row)
        if known is not row:
            skipped.add(path, number, f"a second tool named {name!r}; its examples are kept")
            known["examples"] = [*_listed(known, "examples"), *_listed(row, "examples")]
    if not found:
        raise ValueError(f"{path} holds no tool.")
    return [described_tool(row) for row in found.values()]


def read_queries(path: Path, known: set[str], skipped: Skipped) -> list[LabelledQuery]:
    """The questions of a file: `query`, and in `tool` or `tools` the name, or the names that are needed together.

    A name that is not `known` stays in its question and is never found: that is what the question measures.
    """
    queries = []
    for number, row in _rows(path, skipped):
        text = row.get("query", row.get("question"))
        names = tuple(
            dict.fromkeys(
                name
                for name in [*_listed(row, "tool"), *_listed(row, "tools")]
                if isinstance(name, str) and name.strip()
            )
        )
        if not isinstance(text, str) or not text.strip() or not names:
            skipped.add(path, number, "'query' and 'tool' are needed")
            continue
        for name in names:
            if name not in known:
                skipped.add(path, number, f"there is no tool {name!r}: it counts as not found")
        queries.append(LabelledQuery(text, names))
    if not queries:
        raise ValueError(f"{path} holds no query.")
    return queries


def _listed(row: Mapping[str, Any], key: str) -> list[Any]:
    value = row.get(key)
    return value if isinstance(value, list) else [] if value is None else [value]


def _rows(path: Path, skipped: Skipped) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    # Not `splitlines`: a text may hold U+2028 and its like, which end no line of JSON.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except (ValueError, RecursionError) as error:
            skipped.add(path, number, f"not JSON ({error})")
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            skipped.add(path, number, "not a JSON object")
