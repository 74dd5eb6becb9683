"""How large the house is: `make size` compares each room with its number in CONTRIBUTING, which only shrinks.

A commit that makes a room smaller lowers its number (`--write`), none raises one. Lines are those of Python files
without migrations. The budgets are the owner's, in the column beside.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TABLE = PROJECT / "CONTRIBUTING.md"
APPS = ("config", "agents", "knowledge", "faqs", "tools_registry", "chat")
#: A row of the table: what is counted, its number, its budget.
_ROW = re.compile(r"^\| (?P<room>[a-z `_]+) \| (?P<number>[\d,]+) \| (?P<budget>[\d,]+) \|$", re.MULTILINE)


def python_files(folder: str) -> list[Path]:
    """Return the Python files of a folder that git tracks, without migrations."""
    listed = subprocess.run(["git", "ls-files", folder], cwd=PROJECT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    paths = (PROJECT / name for name in listed.stdout.split() if name.endswith(".py"))
    return [path for path in paths if "migrations" not in path.parts and path.exists()]


def lines(folder: str) -> int:
    return sum(len(path.read_text().splitlines()) for path in python_files(folder))


def calls(paths: list[Path]) -> Iterator[str]:
    """Yield the source of every called name: `env.int`, `register_point_source`."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func)


def hooks(paths: list[Path]) -> int:
    """Count what one app lends another at start: calls of the product's own `register_…` functions."""
    return sum(name.startswith("register_") for name in calls(paths))


def tables() -> int:
    """Count the models of our apps."""
    from django.apps import apps

    ours = [model for app in APPS[1:] for model in apps.get_app_config(app).get_models()]
    return len(ours)


def counted() -> dict[str, int]:
    products = [path for app in APPS for path in python_files(app)]
    settings = [PROJECT / "config" / "settings.py"]
    return {
        **{f"`{app}`": lines(app) for app in APPS},
        "product": sum(lines(app) for app in APPS),
        "`tests`": lines("tests"),
        "modules": len(products) + 1,
        "tables": tables(),
        "environment variables": len({*re.findall(r'env[.\w]*\(\s*"([A-Z_0-9]+)"', settings[0].read_text())}),
        "hooks": hooks(products),
    }


def main(options: list[str]) -> int:
    now, table = counted(), TABLE.read_text()
    rows = {row["room"]: row for row in _ROW.finditer(table)}
    if missing := sorted(now.keys() ^ rows.keys()):
        sys.stderr.write(f"CONTRIBUTING and tests/size.py name different rooms: {', '.join(missing)}.\n")
        return 1
    larger, smaller = [], []
    for room, count in now.items():
        number = int(rows[room]["number"].replace(",", ""))
        sys.stdout.write(f"{room:>24} {count:>7,} of {number:>7,}, budget {rows[room]['budget']:>7}\n")
        if count > number:
            larger.append(room)
        elif count < number:
            smaller.append(room)
    if "--write" in options and not larger:
        for room in smaller:
            table = table.replace(rows[room][0], f"| {room} | {now[room]:,} | {rows[room]['budget']} |")
        TABLE.write_text(table)
    if larger:
        sys.stderr.write(f"Larger than CONTRIBUTING allows: {', '.join(larger)}. Take out before you add.\n")
    return bool(larger)


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    raise SystemExit(main(sys.argv[1:]))
