"""The folder in which the web processes of one port write what they count, kept as small as the processes that live.

prometheus_client gives each process files of its own. Of one that died, the live gauges end with it, and what it
counted (counters, histograms, summaries) is added to one file of all the dead, so that no sum falls and restarts leave
nothing behind. A gauge that is not live stays by its process and cannot be added up; there is none here. Reading and
folding keep each other out: in between a figure would be there twice, or not at all.
"""

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import mark_process_dead

#: The library leaves them untyped.
_File: Any = MmapedDict
_end_gauges: Any = mark_process_dead
#: By which the library names the files of what can be added up: `counter_<process>.db`.
ADDED_UP = ("counter", "histogram", "summary")
_OF_THE_DEAD = "dead"
_LOCK = "lock"
#: Both take milliseconds; whoever waits longer goes without.
LOCK_SECONDS = 2.0
_LOOK_AGAIN_SECONDS = 0.01


def emptied(folder: Path) -> Path:
    """The folder without what an earlier server left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def fold(pid: int, folder: Path) -> None:
    """What a process that has died counted, among that of the dead. Raises `OSError` where the folder cannot be had."""
    with _locked(folder, fcntl.LOCK_EX):
        _end_gauges(pid, path=str(folder))
        for kind in ADDED_UP:
            left = folder / f"{kind}_{pid}.db"
            if left.exists():
                _add(left, folder / f"{kind}_{_OF_THE_DEAD}.db")


@contextmanager
def read(folder: Path) -> Iterator[None]:
    """Nothing is folded meanwhile. Raises `OSError` where that cannot be had in time."""
    with _locked(folder, fcntl.LOCK_SH):
        yield


def _add(left: Path, dead: Path) -> None:
    """The sums are written beside the file and then take its place: a crash leaves one of both whole."""
    fresh = dead.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    sums: dict[str, float] = {}
    for path in (dead, left):
        if path.exists():
            for key, value, _time, _place in _File.read_all_values_from_file(str(path)):
                sums[key] = sums.get(key, 0.0) + value
    written = _File(str(fresh))
    for key, value in sums.items():
        written.write_value(key, value, 0.0)
    written.close()
    fresh.replace(dead)
    left.unlink()


@contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    limit = time.monotonic() + LOCK_SECONDS
    with (folder / _LOCK).open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise
            time.sleep(_LOOK_AGAIN_SECONDS)
        yield
