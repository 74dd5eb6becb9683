"""What each program does with a desk: models, answers whole and streamed, sources, tools and stop words, follow-ups, a wrong key;
and what it shows where the desk's model refuses or is silent.

The table is written to `.venv/clients/table.md`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import ServedAgain
from tests.clients.environments import (
    INSTALLED,
    PROGRAMS,
    node_with,
    python_with,
    run,
    said_in_failing,
)
from tests.e2e.conftest import LiveSite
from tests.servers.model_server import Body, ModelReply, ModelServer

KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
#: Which only a model answers; with `SILENT`, one that never does.
OPEN = "Comment s’organise le télétravail et que rembourse l’accord aux salariés ?"
SILENT = "Sans fin."
#: What the answer to `KNOWN` says.
RIGHT = "deux ans"
#: Tries whose answer is the right one; of the others it is enough that something came.
ANSWERED = {"plain", "stream", "tools", "stop", "template", "text", "responses"}


@dataclass(frozen=True, slots=True)
class Program:
    """`needs`: packages of PyPI, or of npm where the script is one of Node's."""

    script: str
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        return Path(self.script).stem


LIBRARIES = (
    Program("openai_python.py", ("openai",)),
    Program("pydantic_program.py", ("pydantic-ai-slim[openai]",)),
    Program("langchain_program.py", ("langchain-openai",)),
    Program("llama_program.py", ("llama-index-llms-openai-like",)),
    Program("litellm_program.py", ("litellm", "mcp")),
    Program("openai_npm.mjs", ("openai",)),
    Program("ai_sdk.mjs", ("ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible")),
)


def _command(program: Program, url: str, secret: str) -> tuple[list[str], Path]:
    """How it is run, and where."""
    arguments = [f"{url}/v1", secret, "guide"]
    if program.script.endswith(".mjs"):
        folder = node_with(program.name, *program.needs)
        return ["node", str(folder / program.script), *arguments], folder
    python = python_with(program.name, *program.needs)
    return [str(python), str(PROGRAMS / program.script), *arguments], PROGRAMS


def _read(printed: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(printed.strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, dict[str, str]]]:
    rows: dict[str, dict[str, str]] = {}
    yield rows
    lines = ["| program | works | does not |", "| --- | --- | --- |"]
    for name, found in rows.items():
        wrong = {key: text for key, text in found.items() if not _is_right(key, text)}
        works = ", ".join(key for key in found if key not in wrong)
        lines.append(f"| {name} | {works} | {', '.join(wrong) or '–'} |")
    INSTALLED.mkdir(parents=True, exist_ok=True)
    (INSTALLED / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _is_right(name: str, text: str) -> bool:
    if name == "wrong_key":
        return "rsk_wrong" not in text and ("401" in text or "key" in text or "clé" in text)
    if text.startswith("ERROR"):
        return False
    return RIGHT in text if name in ANSWERED else bool(text.strip())


@pytest.mark.parametrize("program", LIBRARIES, ids=lambda program: program.name)
def test_library_works_unchanged(
    program: Program, live_site: LiveSite, secret: str, table: dict[str, dict[str, str]]
) -> None:
    command, folder = _command(program, live_site.url, secret)
    found = _read(run(*command, cwd=folder))
    table[program.name] = found
    assert not {name: text for name, text in found.items() if not _is_right(name, text)}


@pytest.fixture(scope="module")
def troubled_site(served_again: ServedAgain) -> Iterator[LiveSite]:
    """Its model server refuses every question, or is silent for ever where that is asked for."""

    def trouble(body: Body) -> ModelReply:
        asked = str(body["messages"][-1]["content"])
        return ModelReply(hang_after=0) if SILENT in asked else ModelReply(status=503)

    with ModelServer(fallback=trouble) as model:
        yield served_again(OPENAI_BASE_URL=model.base_url, LLM_READ_TIMEOUT_SECONDS="2")


def _tells_of_the_model(said: str) -> bool:
    """A sentence that a person understands: that of the desk, in its language where the program names none, and not its insides."""
    return "modèle de langage" in said and "Traceback" not in said


@pytest.mark.parametrize("question", [OPEN, f"{OPEN} {SILENT}"], ids=["refuses", "silent"])
@pytest.mark.parametrize("program", LIBRARIES, ids=lambda program: program.name)
def test_library_is_told_that_the_model_is_down(
    program: Program, question: str, troubled_site: LiveSite, secret: str
) -> None:
    command, folder = _command(program, troubled_site.url, secret)
    found = _read(said_in_failing(*command, cwd=folder, ASKED=question, ONLY="plain stream"))
    assert set(found) == {"plain", "stream"}
    assert not {name: said for name, said in found.items() if not _tells_of_the_model(said)}


@pytest.mark.parametrize("question", [OPEN, f"{OPEN} {SILENT}"], ids=["refuses", "silent"])
def test_command_is_told_that_the_model_is_down(
    question: str, troubled_site: LiveSite, secret: str, tmp_path: Path
) -> None:
    llm = _llm(troubled_site, secret, tmp_path)
    home: dict[str, Any] = {"LLM_USER_PATH": str(tmp_path)}
    assert _tells_of_the_model(said_in_failing(*llm, question, **home))
    assert _tells_of_the_model(said_in_failing(*llm, "--no-stream", question, **home))
    command, variables = _shell_gpt(troubled_site, secret, tmp_path)
    assert "modèle de langage" in " ".join(
        said_in_failing(*command, question, **variables).replace("│", " ").split()
    )


def _llm(site: LiveSite, secret: str, folder: Path) -> tuple[str, ...]:
    python = python_with("llm", "llm")
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: guide\n  model_name: guide\n  api_base: {site.url}/v1\n  api_key_name: desk\n"
    )
    (folder / "keys.json").write_text(json.dumps({"desk": secret}))
    return (str(python.parent / "llm"), "-m", "guide")


def _shell_gpt(site: LiveSite, secret: str, folder: Path) -> tuple[tuple[str, ...], dict[str, Any]]:
    python = python_with("shell-gpt", "shell-gpt", "click")
    variables: dict[str, Any] = {
        "HOME": str(folder),
        "API_BASE_URL": f"{site.url}/v1",
        "OPENAI_API_KEY": secret,
        "DEFAULT_MODEL": "guide",
    }
    return (str(python.parent / "sgpt"), "--model", "guide", "--no-cache"), variables


def test_llm_asks_streams_and_goes_on(live_site: LiveSite, secret: str, tmp_path: Path) -> None:
    asked = _llm(live_site, secret, tmp_path)
    assert RIGHT in run(*asked, KNOWN, LLM_USER_PATH=str(tmp_path))
    assert RIGHT in run(*asked, "--no-stream", KNOWN, LLM_USER_PATH=str(tmp_path))
    assert run(*asked, "-c", "Et après ?", LLM_USER_PATH=str(tmp_path)).strip()


def test_shell_gpt_asks(live_site: LiveSite, secret: str, tmp_path: Path) -> None:
    command, variables = _shell_gpt(live_site, secret, tmp_path)
    assert RIGHT in run(*command, KNOWN, **variables)
