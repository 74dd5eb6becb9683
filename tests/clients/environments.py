"""Environments of programs that nobody here wrote: made once under `.venv/clients` (or `CLIENT_ENVIRONMENTS`), each
with its packages alone.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import ROOT

INSTALLED = Path(os.environ.get("CLIENT_ENVIRONMENTS", ROOT / ".venv" / "clients"))
PROGRAMS = Path(__file__).parent / "programs"
#: For an installation, of gigabytes at most; a try takes seconds.
SECONDS = 900
#: For a program that asks a desk without a model, and may ask again.
TROUBLE_SECONDS = 180


def run(*command: str, cwd: Path | None = None, **more: str) -> str:
    """What a command prints; fails the test where it fails."""
    done = subprocess.run(  # noqa: S603  # programs installed for this
        command, cwd=cwd, env=_environment(more), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]} {done.stderr[-3000:]}"
    return done.stdout


def said_in_failing(*command: str, cwd: Path | None = None, **more: str) -> str:
    """What a command prints that may fail; one that hangs fails the test."""
    done = subprocess.run(  # noqa: S603  # programs installed for this
        command, cwd=cwd, env=_environment(more), capture_output=True, text=True, timeout=TROUBLE_SECONDS, check=False
    )
    # Programs warn on standard error; what they say of the tries is the last line.
    return done.stderr + done.stdout


def _environment(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": "", "DJANGO_SETTINGS_MODULE": "", **more}


def python_with(name: str, *packages: str) -> Path:
    """The interpreter of an environment with these packages; fails where they cannot be installed."""
    folder = INSTALLED / name
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        uv = str(ROOT / ".venv" / "bin" / "uv")
        run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        run(uv, "pip", "install", "--quiet", "--python", str(python), *packages)
        (folder / "done").touch()
    return python


def node_with(name: str, *packages: str) -> Path:
    """A folder of npm with these packages and the scripts beside them."""
    folder = INSTALLED / name
    npm = shutil.which("npm")
    assert npm is not None, "npm is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "done").exists():
        run(npm, "install", "--silent", "--prefix", str(folder), *packages, cwd=folder)
        (folder / "done").touch()
    for script in PROGRAMS.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder
