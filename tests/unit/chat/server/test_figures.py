"""What dead web processes counted stays counted, in as many files as there were of one."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from chat.server import figures
from chat.server.figures import emptied, fold, read

COUNTS = """
from prometheus_client import Counter, Gauge, Histogram
Counter("asked", "Asked.", ["how"]).labels("well").inc(3)
Histogram("took", "Took.", buckets=(1, 2)).observe(1.5)
Gauge("open", "Open.", multiprocess_mode="livesum").set(7)
"""


def live_and_die(folder: Path) -> int:
    """A process that counts and ends; its id."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-c", COUNTS]
    with subprocess.Popen(command, env=environment) as process:  # noqa: S603  # a command of ours
        assert process.wait(60) == 0
    return process.pid


def told(folder: Path) -> dict[str, float]:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    with read(folder):
        metrics = list(registry.collect())
    return {sample.name + sample.labels.get("le", ""): sample.value for metric in metrics for sample in metric.samples}


def test_sums_stay_and_the_folder_does_not_grow(tmp_path: Path) -> None:
    folder = emptied(tmp_path / "figures")
    sizes = []
    for lives in range(1, 5):
        fold(live_and_die(folder), folder)
        figures_now = told(folder)
        assert figures_now["asked_total"] == 3 * lives
        assert (figures_now["took_count"], figures_now["took_sum"]) == (lives, 1.5 * lives)
        assert (figures_now["took_bucket1.0"], figures_now["took_bucket2.0"]) == (0, lives)
        assert "open" not in figures_now
        sizes.append(len(list(folder.iterdir())))
    assert sizes == [sizes[0]] * 4


def test_process_that_counted_nothing_leaves_nothing(tmp_path: Path) -> None:
    fold(12345, emptied(tmp_path / "figures"))
    assert told(tmp_path / "figures") == {}


def test_a_reader_never_sees_a_sum_fall_while_it_is_folded(tmp_path: Path) -> None:
    folder = emptied(tmp_path / "figures")
    dead = [live_and_die(folder) for _ in range(8)]
    seen: list[float] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            seen.append(told(folder)["asked_total"])

    reader = threading.Thread(target=look)
    reader.start()
    for pid in dead:
        fold(pid, folder)
    is_over.set()
    reader.join()
    assert set(seen) == {3.0 * len(dead)}


def test_a_folder_that_is_held_is_waited_for_so_long_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "LOCK_SECONDS", 0.05)
    folder = emptied(tmp_path / "figures")
    with read(folder), pytest.raises(BlockingIOError):
        fold(1, folder)
