"""`.env.example` is the operators' list of variables: it must be complete, and its defaults must be the real ones."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = ROOT / "config" / "settings.py"
EXAMPLE = ROOT / ".env.example"
ENTRY = re.compile(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", re.MULTILINE)


def _variables_read(source: str) -> dict[str, ast.expr | None]:
    """Each variable name that `source` reads with `env`, with the expression of its default."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not re.fullmatch(r"env\.\w+", ast.unparse(node.func)):
            continue
        name = node.args[0]
        if isinstance(name, ast.Constant):
            defaults = [keyword.value for keyword in node.keywords if keyword.arg == "default"]
            found[str(name.value)] = defaults[0] if defaults else None
    return found


def _variables_listed() -> dict[str, str]:
    return dict(ENTRY.findall(EXAMPLE.read_text(encoding="utf-8")))


def test_example_lists_exactly_the_variables_that_settings_read() -> None:
    read = set(_variables_read(SETTINGS.read_text(encoding="utf-8")))
    listed = set(_variables_listed())

    assert sorted(read - listed) == [], "read by settings.py, missing from .env.example"
    assert sorted(listed - read) == [], "listed in .env.example, read by nothing"


def test_example_shows_the_defaults_of_settings() -> None:
    listed = _variables_listed()
    literal = {
        name: "" if default.value is None else str(default.value)
        for name, default in _variables_read(SETTINGS.read_text(encoding="utf-8")).items()
        if isinstance(default, ast.Constant)
    }

    assert literal, "no literal default found: the reading of settings.py is broken"
    assert {name: listed.get(name) for name in literal} == literal


def test_copying_the_example_changes_nothing() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if line and not line.startswith("#")] == []
