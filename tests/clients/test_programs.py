"""What each program does with a desk: models, answers whole and streamed, sources, tools and stop words, follow-ups, a wrong key.

The table is written to `.venv/clients/table.md`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.environments import INSTALLED, PROGRAMS, node_with, python_with, run
from tests.e2e.conftest import LiveSite

KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
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


def _found(program: Program, live_site: LiveSite, secret: str) -> dict[str, str]:
    arguments = (f"{live_site.url}/v1", secret, "guide")
    if program.script.endswith(".mjs"):
        folder = node_with(program.name, *program.needs)
        printed = run("node", str(folder / program.script), *arguments, cwd=folder)
    else:
        python = python_with(program.name, *program.needs)
        printed = run(str(python), str(PROGRAMS / program.script), *arguments, cwd=PROGRAMS)
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
    found = _found(program, live_site, secret)
    table[program.name] = found
    assert not {name: text for name, text in found.items() if not _is_right(name, text)}


def test_llm_asks_streams_and_goes_on(live_site: LiveSite, secret: str, tmp_path: Path) -> None:
    python = python_with("llm", "llm")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: guide\n  model_name: guide\n  api_base: {live_site.url}/v1\n"
        "  api_key_name: desk\n"
    )
    (tmp_path / "keys.json").write_text(json.dumps({"desk": secret}))
    asked = (str(python.parent / "llm"), "-m", "guide")
    assert RIGHT in run(*asked, KNOWN, LLM_USER_PATH=str(tmp_path))
    assert RIGHT in run(*asked, "--no-stream", KNOWN, LLM_USER_PATH=str(tmp_path))
    assert run(*asked, "-c", "Et après ?", LLM_USER_PATH=str(tmp_path)).strip()


def test_shell_gpt_asks(live_site: LiveSite, secret: str, tmp_path: Path) -> None:
    python = python_with("shell-gpt", "shell-gpt", "click")
    said = run(
        str(python.parent / "sgpt"),
        "--model",
        "guide",
        "--no-cache",
        KNOWN,
        HOME=str(tmp_path),
        API_BASE_URL=f"{live_site.url}/v1",
        OPENAI_API_KEY=secret,
        DEFAULT_MODEL="guide",
    )
    assert RIGHT in said
