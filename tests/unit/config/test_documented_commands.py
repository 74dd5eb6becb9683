"""The commands that `docs/operations.md` and the README print can be typed as they stand."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests.size import APPS, PROJECT

TABLE_ROW = re.compile(r"^\| (?P<commands>(?:\[?`.*?`\]?,? ?)+) \| .* \| (?P<options>.*?) ?\|$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
PAGES = (PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md")), PROJECT / "deploy" / "README.md")


def parse(line: str) -> None:
    """Parse `NAME ARGUMENTS`; words in brackets may be left out, placeholders stand for what the parser wants."""
    name, *words = shlex.split(line.split(" [")[0].replace("…", ""))
    app = get_commands()[name]
    parser = load_command_class(app, name).create_parser("manage.py", name)
    parser.parse_args([{"DAYS": "30", "N": "5"}.get(word, word) for word in words])


def documented_rows() -> Iterator[tuple[str, str]]:
    """Yield (commands, options) of the table of commands."""
    text = (PROJECT / "docs" / "operations.md").read_text()
    for row in TABLE_ROW.finditer(text[: text.index("The three `qdrant_…` commands")]):
        yield row["commands"], row["options"]


def test_table_names_every_command_of_ours() -> None:
    ours = {name for name, app in get_commands().items() if app in APPS}
    named = {command.split()[0] for commands, _options in documented_rows() for command in QUOTED.findall(commands)}
    assert ours - named == set()


@pytest.mark.parametrize(("commands", "options"), list(documented_rows()))
def test_commands_of_the_table_have_its_options(commands: str, options: str) -> None:
    for command in QUOTED.findall(commands):
        parse(command)
        name = command.split()[0]
        known = load_command_class(get_commands()[name], name).create_parser("manage.py", name).format_help()
        for option in re.findall(r"--[a-z-]+", options):
            assert option in known, (name, option)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_commands_of_a_page_are_understood(page: Path) -> None:
    for line in re.findall(r"`(?:\.venv/bin/python )?manage\.py ([a-z_]+(?: [^`]+)?)`", page.read_text()):
        parse(line)
