"""A hit of the memory guard against its floor, in one run: `python -m benchmarks.memory.run`.

A hit, in the entry's own words or rephrased: from the question's vector to the answer with its use committed, through
`recall_cached`, second key included, on entries that each come from three passages. The floor: one numpy product over
the same vectors with its best row, one row read, one counter committed, on the seed's own table in the same SQLite
file; once with the bare driver, and once through Django's connection, which a Django program cannot do without. All are
timed in turns, so that a busy moment of the machine falls on both; every answer is checked. Wall time is what a caller
waits; processor time of the thread is the same on an idle machine, and steadier on a busy one. Numpy has one thread:
with more, a product waits for whatever else the cores are doing.
"""

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from agents.models import Deployment
    from faqs.recall import Recall
    from knowledge.embeddings.base import Recipe

DIMENSIONS = 512
PASSAGES = 3
CHUNKS = 3_000
BATCH = 1_000
#: How far an asked vector is from its entry's: a cosine of about 0.96.
NOISE = 0.0133
THRESHOLD = 0.75
#: Between two measurements, so that neither pays with its time slice for the one before.
PAUSE = 0.002
READ = "SELECT question, answer, metadata FROM floor WHERE id ="
COUNT = "UPDATE floor SET usage_count = usage_count + 1 WHERE id ="
Rows = npt.NDArray[np.float32]
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    print("Medians in milliseconds, with the ratio to the floor, and to the one through Django.")
    head = ["floor", "Django floor", "hit", "rephrased", "miss"]
    titles = ["entries", *(f"cpu {h}" for h in head), *(f"wall {h}" for h in head), "first"]
    print(f"| {' | '.join(titles)} |")
    print("|" + " --- |" * len(titles))
    for entries in options.entries:
        with tempfile.TemporaryDirectory() as folder:
            # A process for each size: nothing of one run is warm, or in the way, in the next.
            pid = os.fork()
            if not pid:
                prepare_django(folder)
                print(measure(entries, options.rounds, folder), flush=True)
                os._exit(0)
            os.waitpid(pid, 0)


def prepare_django(folder: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/bench.db",
        SECRET_KEY="bench",  # noqa: S106
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measure(entries: int, rounds: int, folder: str) -> str:
    random = np.random.default_rng(7)
    rows = unit(random.normal(size=(entries, DIMENSIONS)))
    deployment = fill(rows)
    floor = Floor(rows, f"{folder}/bench.db")
    chosen = random.integers(0, entries, size=rounds)
    near = unit(rows[chosen] + random.normal(scale=NOISE, size=(rounds, DIMENSIONS)))
    far = unit(random.normal(size=(rounds, DIMENSIONS)))

    first, _busy, _found = timed(partial(ask, deployment, asked(0), rows[0]))
    for number in range(5):
        ask(deployment, asked(number), rows[number])
        floor(rows[number])
        floor.with_django(rows[number])
    kinds = ("floor", "django", "hit", "rephrased", "miss")
    wall: dict[str, list[float]] = {kind: [] for kind in kinds}
    cpu: dict[str, list[float]] = {kind: [] for kind in kinds}

    def record(kind: str, work: Callable[[], T]) -> T:
        time.sleep(PAUSE)
        seconds, busy, result = timed(work)
        wall[kind].append(seconds)
        cpu[kind].append(busy)
        return result

    for number, vector, other in zip(chosen.tolist(), near, far, strict=True):
        for kind, bare in (("floor", floor), ("django", floor.with_django)):
            row = record(kind, partial(bare, vector))
            assert row[1] == answer(number)
        for kind, question in (("hit", stored(number)), ("rephrased", asked(number))):
            found = record(kind, partial(ask, deployment, question, vector))
            assert found.answer is not None
            assert found.answer.text == answer(number)
        found = record("miss", partial(ask, deployment, asked(number), other))
        assert found.answer is None
    check_counters(rounds)
    cells = [f"{entries}"]
    for times in (cpu, wall):
        middle = {kind: statistics.median(times[kind]) for kind in kinds}
        cells.append(f"{middle['floor'] * 1_000:.2f}")
        cells.append(f"{middle['django'] * 1_000:.2f}")
        for kind in kinds[2:]:
            ratios = [middle[kind] / middle[bare] for bare in ("floor", "django")]
            cells.append(f"{middle[kind] * 1_000:.2f} ({ratios[0]:.2f}; {ratios[1]:.2f})")
    return f"| {' | '.join(cells)} | {first:.2f} s |"


class Floor:
    """What cannot be left out: a product, a row, a committed counter."""

    def __init__(self, rows: Rows, path: str) -> None:
        self.rows = rows
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            "CREATE TABLE floor (id INTEGER PRIMARY KEY, key_hash TEXT, question TEXT, answer TEXT,"
            " metadata TEXT, embedding BLOB, created_at TEXT, usage_count INTEGER)"
        )
        self.database.execute("BEGIN")
        self.database.executemany(
            "INSERT INTO floor VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (
                (n + 1, f"{n:064}", stored(n), answer(n), "{}", array("f", row).tobytes(), "2026")
                for n, row in enumerate(rows)
            ),
        )
        self.database.execute("COMMIT")

    def __call__(self, vector: Rows) -> Any:
        best = int(np.argmax(self.rows @ vector)) + 1
        row = self.database.execute(f"{READ} ?", (best,)).fetchone()
        self.database.execute(f"{COUNT} ?", (best,))
        return row

    def with_django(self, vector: Rows) -> Any:
        from django.db import connection

        best = int(np.argmax(self.rows @ vector)) + 1
        with connection.cursor() as cursor:
            cursor.execute(f"{READ} %s", (best,))
            row = cursor.fetchone()
            cursor.execute(f"{COUNT} %s", (best,))
        return row


def fill(rows: Rows) -> "Deployment":
    from django.db import connection, transaction
    from django.utils import timezone

    from agents.models import Agent, Deployment
    from faqs.memory import recipe_key
    from faqs.models import DeploymentMemory
    from knowledge.models import Chunk, Document

    agent = Agent.objects.create(slug="bench", name="bench")
    deployment = Deployment.objects.create(slug="bench", name="bench", agent=agent)
    document = Document.objects.create(agent=agent, name="bench.md")
    chunks = Chunk.objects.bulk_create(
        Chunk(document=document, index=n, content=passage(n), content_hash=f"{n:064}") for n in range(CHUNKS)
    )
    DeploymentMemory.objects.create(deployment=deployment, version=1)
    marks = [digest(chunk.content) for chunk in chunks]
    origins = [[(n + k) % CHUNKS for k in range(PASSAGES)] for n in range(CHUNKS)]
    sources = [
        json.dumps([source(chunks[c], k + 1) for k, c in enumerate(used)], ensure_ascii=False) for used in origins
    ]
    key, now = recipe_key(recipe()), timezone.now()
    written = connection.ops.adapt_datetimefield_value(now)
    with transaction.atomic(), connection.cursor() as cursor:
        insert(
            cursor,
            "INSERT INTO responses (id, key_hash, question, answer, metadata, embedding, created_at, usage_count,"
            " deployment_id, audience, language, embedding_model, recipe_key, status, status_reason, status_note,"
            " confirmed_at, sources, version) VALUES"
            " (%s, %s, %s, %s, '{}', %s, %s, 0, %s, 'public', 'fr', 'bench', %s, 'valid', '', '', %s, %s, 1)",
            (
                (
                    n + 1,
                    f"{n:064}",
                    stored(n),
                    answer(n),
                    row.astype("<f4").tobytes(),
                    written,
                    deployment.pk,
                    key,
                    written,
                    sources[n % CHUNKS],
                )
                for n, row in enumerate(rows)
            ),
        )
        insert(
            cursor,
            "INSERT INTO faqs_origin (entry_id, chunk_id, with_units, fingerprint) VALUES (%s, %s, %s, %s)",
            ((n + 1, chunks[c].pk, False, marks[c]) for n in range(len(rows)) for c in origins[n % CHUNKS]),
        )
    return deployment


def insert(cursor: Any, statement: str, rows: Iterator[tuple[Any, ...]]) -> None:
    while batch := list(islice(rows, BATCH)):
        cursor.executemany(statement, batch)


def ask(deployment: "Deployment", question: str, vector: Rows) -> "Recall":
    """As a turn does it: where the memory stands was read with the turn's settings, before the vector was there."""
    from faqs.recall import Lookup, memory_mark, recall_cached

    mark = memory_mark(deployment)
    assert mark is not None
    lookup = Lookup(question=question, threshold=THRESHOLD, max_age_days=180)
    return recall_cached(mark, lookup, vector=vector, recipe=recipe())


def check_counters(rounds: int) -> None:
    from django.db.models import Sum

    from faqs.models import CachedResponse

    total = CachedResponse.objects.aggregate(total=Sum("usage_count"))["total"]
    assert total >= 2 * rounds, "a use was not committed"


def recipe() -> "Recipe":
    from knowledge.embeddings.base import Recipe

    return Recipe(model="bench", dimensions=DIMENSIONS)


def stored(number: int) -> str:
    return f"Combien coûte la carte numéro {number} de la bibliothèque municipale ?"


def asked(number: int) -> str:
    return f"Quel est le prix de la carte numéro {number} de la bibliothèque municipale ?"


def answer(number: int) -> str:
    return f"La carte numéro {number} coûte {number % 90 + 10} euros par an [1]. " * 8


def passage(number: int) -> str:
    return f"Passage {number} : une carte se demande à l'accueil, et se renouvelle chaque année. " * 12


def source(chunk: Any, number: int) -> dict[str, Any]:
    return {
        "n": number,
        "title": "Règlement > Cartes",
        "document_id": chunk.document_id,
        "chunk_id": chunk.pk,
        "type": "source_material",
        "question": "",
        "score": 0.81,
        "text": chunk.content,
    }


def digest(text: str) -> str:
    from hashlib import md5

    return md5(text.encode(), usedforsecurity=False).hexdigest()


def unit(values: npt.NDArray[Any]) -> Rows:
    rows = values.astype(np.float32)
    normal: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normal


def timed(work: Callable[[], T]) -> tuple[float, float, T]:
    """Seconds on the clock, seconds of the processor, and the result."""
    started, busy = time.perf_counter(), time.thread_time()
    result = work()
    return time.perf_counter() - started, time.thread_time() - busy, result


if __name__ == "__main__":
    main()
