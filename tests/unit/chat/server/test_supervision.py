"""Children of `serve`: started again when they die, and not once they were asked to end."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from chat.server import supervision
from chat.server.supervision import Child

PATIENCE_SECONDS = 30.0
LIVES = "import sys; open(sys.argv[1], 'a').write('x'); sys.exit(int(sys.argv[2]))"
WAITS = "import time; time.sleep(600)"


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with mock.patch.object(supervision, "RESTART_SECONDS", 0.01):
        yield


def wait_for_lives(counted: Path, number: int) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    while not counted.exists() or len(counted.read_text()) < number:
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize("status", ["1", "0"])
def test_process_that_ends_is_started_again(tmp_path: Path, status: str) -> None:
    ended: list[int] = []
    counted = tmp_path / "lives"
    child = Child("test", [sys.executable, "-c", LIVES, str(counted), status], on_end=ended.append)
    child.start()
    wait_for_lives(counted, 3)
    child.terminate()
    child.wait(PATIENCE_SECONDS)
    assert len(set(ended)) >= 2


def test_program_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    program, counted = tmp_path / "program", tmp_path / "lives"
    child = Child("test", [str(program)])
    child.start()
    program.write_text(f"#!/bin/sh\nprintf x >> {counted}\n")
    program.chmod(0o700)
    wait_for_lives(counted, 1)
    child.terminate()
    child.wait(PATIENCE_SECONDS)


def test_process_that_was_asked_to_end_is_not_started_again() -> None:
    ended: list[int] = []
    child = Child("test", [sys.executable, "-c", WAITS], on_end=ended.append)
    child.start()
    limit = time.monotonic() + PATIENCE_SECONDS
    while not child.is_running():
        assert time.monotonic() < limit
        time.sleep(0.02)
    child.terminate()
    child.terminate()
    child.wait(PATIENCE_SECONDS)
    assert not child.is_running()
