"""`shell-gpt`, a command: it has no list of models and no stop words."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from asking import KNOWN, OPEN, UNKNOWN, WRITTEN, run, site

address, key, name = site()
command = Path(sys.executable).with_name("sgpt")
home = Path(tempfile.mkdtemp())
functions = home / "functions"
functions.mkdir()
variables = {
    "HOME": str(home),
    "CHAT_CACHE_PATH": str(home / "chats"),
    "CACHE_PATH": str(home / "cache"),
    "OPENAI_FUNCTIONS_PATH": str(functions),
    "API_BASE_URL": address,
    "OPENAI_API_KEY": key,
    "PRETTIFY_MARKDOWN": "false",
    # It draws errors in a box as wide as this.
    "COLUMNS": "1000",
}


def sgpt(*arguments: str, model: str = name, **more: str) -> str:
    done = subprocess.run(  # noqa: S603
        [str(command), "--model", model, "--no-cache", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables, **more},
    )
    if done.returncode:
        # The last line is the error; those before it are where.
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def tools() -> str:
    """With the functions that it brings along."""
    [package] = command.parent.parent.glob("lib/python*/site-packages/sgpt")
    for brought in (package / "llm_functions" / "common").glob("*.py"):
        shutil.copy(brought, functions)
    return sgpt(KNOWN)


def follow_up() -> str:
    sgpt("--chat", "a", OPEN)
    return sgpt("--chat", "a", "Et le matériel ?")


run(
    plain=lambda: sgpt(KNOWN, DISABLE_STREAMING="true"),
    stream=lambda: sgpt(KNOWN),
    sources=lambda: sgpt(KNOWN, model=WRITTEN),
    tools=tools,
    follow_up=follow_up,
    errors=lambda: sgpt(KNOWN, model=UNKNOWN),
    wrong_key=lambda: sgpt(KNOWN, OPENAI_API_KEY="rsk_wrong"),
)
