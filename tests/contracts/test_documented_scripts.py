"""The scripts of `docs/api.md`, run as they are written against a served site: a cookie jar, and nothing else."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.resilience.site import AGENT, PROJECT, Site, numbered
from tests.servers.model_server import ModelReply, ModelServer

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(300)]

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ?"
HEADING = "## A message sent again"
TOKENS = numbered("réponse", 5)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    reply = ModelReply(tokens=TOKENS)
    with ModelServer(fallback=lambda _body: reply) as model, Site(model) as served:
        yield served


def script(language: str, site: Site) -> str:
    """The section's block in this language, with the address, deployment and question of the site and nothing else
    changed.
    """
    section = (PROJECT / "docs" / "api.md").read_text().split(f"{HEADING}\n")[1].split("\n## ")[0]
    [block] = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    for written, here in (
        ("http://localhost:8000", site.processes[0].url),
        ('"demo"', f'"{AGENT}"'),
        ('"…"', f'"{QUESTION.replace(chr(39), chr(8217))}"'),
    ):
        assert written in block
        block = block.replace(written, here)
    return str(block)


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(  # noqa: S603  # what our own documentation says
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def turns(site: Site) -> int:
    return int(site.query("SELECT count(*) FROM chat_turn")[0][0])


def test_shell_script_asks_once_and_is_told_twice(site: Site, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    before = turns(site)
    told = run(tmp_path, "bash", "-euc", script("sh", site))
    ends = re.findall(r"event: (done|error)", told)
    assert ends == ["done", "done"], told
    assert len(set(re.findall(r'"turnId": "([^"]+)"', told))) == 1
    assert turns(site) == before + 1
    assert told.count('"results"') == 1


def test_socket_script_streams_the_answer(site: Site, tmp_path: Path) -> None:
    before = turns(site)
    told = run(tmp_path, sys.executable, "-c", script("python", site))
    streamed, whole = told.rstrip().split("\n", 1)
    assert streamed.strip() == "".join(TOKENS).strip()
    assert whole.strip() == "".join(TOKENS).strip()
    assert turns(site) == before + 1
