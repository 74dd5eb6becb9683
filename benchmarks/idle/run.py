"""What `make demo` holds in memory while nobody asks: all its processes, before and after a first question.

python -m benchmarks.idle.run
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from benchmarks.streaming.run import wait_until_up
from tests.servers.ports import free_port

PROJECT = Path(__file__).resolve().parents[2]
#: The worker has started by then, and what was passing at the start is gone.
REST_SECONDS = 15.0
QUESTION = {"message": "Comment ajouter un document ?"}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="repondant-idle-") as folder:
        port = free_port()
        begun = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603  # fixed command
            [sys.executable, "manage.py", "demo", "--port", str(port)],
            cwd=PROJECT,
            env={**os.environ, "DATA_DIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until_up(port)
            print(json.dumps({"seconds_to_ready": round(time.perf_counter() - begun, 1)}))
            time.sleep(REST_SECONDS)
            _print("idle", process.pid)
            _ask(port)
            time.sleep(REST_SECONDS)
            _print("after a first question", process.pid)
        finally:
            process.terminate()
            process.wait(20)


def _print(when: str, pid: int) -> None:
    """RSS counts what processes share once for each; PSS once in all. Both in MB of a million bytes."""
    parent = psutil.Process(pid)
    found = [
        {
            "process": " ".join(process.cmdline()[1:5]),
            "rss_mb": round(process.memory_info().rss / 1e6),
            "pss_mb": round(process.memory_full_info().pss / 1e6),
        }
        for process in (parent, *parent.children(recursive=True))
    ]
    total = {name: sum(int(str(row[name])) for row in found) for name in ("rss_mb", "pss_mb")}
    print(json.dumps({"when": when, **total, "processes": found}))


def _ask(port: int) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/rag/chat",
        data=json.dumps(QUESTION).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        response.read()


if __name__ == "__main__":
    main()
