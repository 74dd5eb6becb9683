"""What each program does with a desk: models, answers whole and streamed, sources, tools and stop words, follow-ups,
errors and a wrong key; and what it shows where the desk's model refuses or is silent.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.conftest import SILENT
from tests.clients.environments import PROGRAMS, node_with, python_with, run, said_in_failing
from tests.clients.table import COLUMNS, Found, Rows, is_right, wrong
from tests.e2e.conftest import LiveSite

#: Which only a model answers.
OPEN = "Comment s’organise le télétravail et que rembourse l’accord aux salariés ?"


@dataclass(frozen=True, slots=True)
class Program:
    """`needs`: packages of PyPI, or of npm where the script is one of Node's; `lacks`: columns that it has no word for."""

    name: str
    script: str
    needs: tuple[str, ...]
    lacks: frozenset[str] = frozenset()


LISTS_NO_MODELS = frozenset({"models"})
ALL = (
    Program("`openai` (Python)", "openai_python.py", ("openai",)),
    Program("`openai` (npm)", "openai_npm.mjs", ("openai",)),
    Program("AI SDK", "ai_sdk.mjs", ("ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible"), LISTS_NO_MODELS),
    Program("`llm`", "llm_program.py", ("llm",), LISTS_NO_MODELS),
    Program("shell-gpt", "shell_gpt_program.py", ("shell-gpt", "click"), frozenset({"models", "stop"})),
    Program("pydantic-ai", "pydantic_program.py", ("pydantic-ai-slim[openai]",), LISTS_NO_MODELS),
    Program("LangChain", "langchain_program.py", ("langchain-openai",), LISTS_NO_MODELS),
    Program("LlamaIndex", "llama_program.py", ("llama-index-llms-openai-like",), LISTS_NO_MODELS),
    Program("LiteLLM", "litellm_program.py", ("litellm", "mcp")),
)
each_program = pytest.mark.parametrize("program", ALL, ids=lambda program: Path(program.script).stem)


def _command(program: Program, url: str, secret: str) -> tuple[list[str], Path]:
    """How it is run, and where."""
    arguments = [f"{url}/v1", secret, "guide"]
    name = Path(program.script).stem
    if program.script.endswith(".mjs"):
        folder = node_with(name, *program.needs)
        return ["node", str(folder / program.script), *arguments], folder
    python = python_with(name, *program.needs)
    return [str(python), str(PROGRAMS / program.script), *arguments], PROGRAMS


def _read(printed: str) -> Found:
    found: Found = json.loads(printed.strip().splitlines()[-1])
    return found


@each_program
def test_program_works_unchanged(program: Program, live_site: LiveSite, secret: str, table: Rows) -> None:
    command, folder = _command(program, live_site.url, secret)
    found = _read(run(*command, cwd=folder))
    table.setdefault(program.name, {}).update(found)
    assert not wrong(found)
    assert found.keys() >= COLUMNS.keys() - program.lacks - {"refusing", "silent"}
    assert not found.keys() & program.lacks


@pytest.mark.parametrize(
    ("name", "question"), [("refusing", OPEN), ("silent", f"{OPEN} {SILENT}")], ids=["refusing", "silent"]
)
@each_program
def test_program_is_told_that_the_model_is_down(
    program: Program, name: str, question: str, troubled_site: LiveSite, secret: str, table: Rows
) -> None:
    command, folder = _command(program, troubled_site.url, secret)
    found = _read(said_in_failing(*command, cwd=folder, ASKED=question, ONLY="plain stream"))
    assert set(found) == {"plain", "stream"}
    worst = next((said for said in found.values() if not is_right(name, said)), found["plain"])
    table.setdefault(program.name, {})[name] = worst
    assert is_right(name, worst), found
