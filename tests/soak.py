"""A site under steady use for as long as you like: does it answer as well at the end as at the beginning, in as much
memory?

    python -m tests.soak --minutes 60 --people 8

A real web process with its worker, on SQLite, and a scripted model server; visitors come, ask several questions each,
rest `--pause` seconds after each, and go; the worker rebuilds the index once a tenth. Prints one JSON object: a line a
tenth of the time with questions answered and failed, the slowest twentieth, memory, open files and threads of all
processes, rows, bytes of the data folder and lines of the log at WARNING or above; then the rows of each table. Ends
with 1 where a question failed, where memory, files or threads of the last tenth are beyond those of the third by more
than `GROWTH` and an allowance for what is kept, or where a question leaves more rows at the end than at the third
tenth.
"""

import argparse
import json
import re
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
from websockets.exceptions import WebSocketException

from benchmarks.resilience.site import AGENT, Site
from tests.servers.model_server import ModelReply, ModelServer
from tests.web_client import Visitor

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {tag}."
QUESTIONS_A_VISIT = 5
TENTHS = 10
_TROUBLE = re.compile(r" (WARNING|ERROR|CRITICAL) ")
#: The first tenths fill caches; from the third on, a process that holds its size grows by its noise.
GROWTH = 1.25
ALLOWANCE = {"memory_mb": 40.0, "files": 20, "threads": 10}


def _answer(_body: Any) -> ModelReply:
    return ModelReply(tokens=["Les ", "salles ", "se réservent ", "à l'accueil [1]."], interval=0.01)


@dataclass(slots=True)
class Counts:
    """What happened since they were last taken. Written by many threads."""

    answered: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)


class Crowd:
    """People who ask until they are told to stop."""

    def __init__(self, url: str, people: int, pause: float) -> None:
        self._url = url
        self._pause = pause
        self._lock = threading.Lock()
        self._counts = Counts()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(number,), daemon=True) for number in range(people)]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def take(self) -> Counts:
        with self._lock:
            taken, self._counts = self._counts, Counts()
        return taken

    def _visit(self, number: int) -> None:
        asked = 0
        while not self._over.is_set():
            try:
                page = Visitor(self._url, AGENT).socket(self._url)
                for _question in range(QUESTIONS_A_VISIT):
                    asked += 1
                    began = time.monotonic()
                    page.send(type="ask", message=QUESTION.format(tag=f"{number}x{asked}"))
                    self._count(page.until_end()[-1]["type"] == "done", time.monotonic() - began)
                    self._over.wait(self._pause)
                page.close()
            except (
                OSError,
                TimeoutError,
                WebSocketException,
            ):  # whatever ends a visit is a failed question, and the next one begins
                self._count(False, 0.0)
                self._over.wait(1.0)

    def _count(self, is_answered: bool, seconds: float) -> None:
        with self._lock:
            self._counts.answered += is_answered
            self._counts.failed += not is_answered
            self._counts.seconds.append(seconds)


def measure(site: Site, counts: Counts) -> dict[str, float]:
    """One line of the report. Memory is the resident size in MB; `p95` is seconds from question to end."""
    [process] = site.processes
    running = psutil.Process(process.pid)
    family = [running, *running.children(recursive=True)]
    slow = statistics.quantiles(counts.seconds, n=20)[-1] if len(counts.seconds) > 1 else 0.0
    return {
        "answered": counts.answered,
        "failed": counts.failed,
        "p95": round(slow, 3),
        "memory_mb": round(sum(each.memory_info().rss for each in family) / 1e6, 1),
        "files": sum(each.num_fds() for each in family),
        "threads": sum(each.num_threads() for each in family),
        "rows": sum(rows(site).values()),
        "data_mb": round(sum(each.stat().st_size for each in site.files()) / 1e6, 1),
        "troubles": len(_TROUBLE.findall(site.logs())),
    }


def rows(site: Site) -> dict[str, int]:
    """How many each table of the site has."""
    tables = site.query("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {
        name: site.query(f'SELECT count(*) FROM "{name}"')[0][0]  # noqa: S608  # names of our own tables
        for (name,) in tables
    }


def grown(lines: Sequence[dict[str, float]]) -> list[str]:
    """What the last tenth has more of than the third, beyond `GROWTH` and its allowance."""
    early, late = lines[min(2, len(lines) - 1)], lines[-1]
    found = [
        f"{name}: {early[name]} at the third tenth, {late[name]} at the end"
        for name, allowed in ALLOWANCE.items()
        if late[name] > early[name] * GROWTH + allowed
    ]
    before, after = _rows_a_question(lines[:3]), _rows_a_question(lines[-3:])
    if after > before * GROWTH:
        found.append(f"rows a question: {before:.1f} in the first tenths, {after:.1f} in the last")
    return found


def _rows_a_question(lines: Sequence[dict[str, float]]) -> float:
    answered = sum(line["answered"] for line in lines[1:])
    return (lines[-1]["rows"] - lines[0]["rows"]) / answered if answered else 0.0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--people", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.0)
    wanted = parser.parse_args(words)
    lines: list[dict[str, float]] = []
    # One address asks for everybody here.
    with ModelServer(fallback=_answer) as model, Site(model, with_worker=True, RATE_LIMITS="False") as site:
        [process] = site.processes
        with Crowd(process.url, wanted.people, wanted.pause) as crowd:
            for _tenth in range(TENTHS):
                time.sleep(wanted.minutes * 60 / TENTHS)
                site.manage("rebuild_agent_index", AGENT, "--enqueue", OPENAI_BASE_URL="")
                lines.append(measure(site, crowd.take()))
                sys.stderr.write(json.dumps(lines[-1]) + "\n")
        tables = {name: count for name, count in rows(site).items() if count}
        said = [line for line in site.logs().splitlines() if _TROUBLE.search(line)]
    problems = grown(lines)
    failed = sum(line["failed"] for line in lines)
    told = {"tenths": lines, "rows": tables, "said": said[:50], "grown": problems}
    sys.stdout.write(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return 1 if problems or failed else 0


if __name__ == "__main__":
    sys.exit(main())
