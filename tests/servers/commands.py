"""Commands of the project in a process of their own, as an operator runs them."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def python(
    *words: object, environment: Mapping[str, str] | None = None, project: Path = PROJECT
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words to its end; raises `RuntimeError` with what it complains of where it fails."""
    done = subprocess.run(  # noqa: S603  # our own commands
        [sys.executable, *map(str, words)], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[:2]}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done
