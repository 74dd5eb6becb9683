"""A hit of the memory guard against its floor, in one run: `python -m benchmarks.memory.run`.

A hit: from the question's vector to the answer with its use committed, through `recall_cached`, second key included,
on entries that each come from three passages. The floor: one numpy product over the same vectors with its best row,
one row read, one counter committed, with the bare driver on the seed's own table in the same SQLite file. The two are
timed in turns, so that a busy moment of the machine falls on both; every answer is checked.
"""

import argparse
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
Rows = npt.NDArray[np.float32]
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    print("| entries | floor p50 | hit p50 | ratio | same words p50 | ratio | miss p50 | first |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
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
        SECRET_KEY="bench",
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

    first, _found = timed(partial(ask, deployment, asked(0), rows[0]))
    for number in range(5):
        ask(deployment, asked(number), rows[number])
        floor(rows[number])
    bare, rephrased, same, missed = [], [], [], []
    for number, vector, other in zip(chosen.tolist(), near, far, strict=True):
        seconds, row = timed(partial(floor, vector))
        bare.append(seconds)
        assert row[1] == answer(number)
        for question, sample in ((asked(number), rephrased), (stored(number), same)):
            seconds, found = timed(partial(ask, deployment, question, vector))
            sample.append(seconds)
            assert found.answer is not None
            assert found.answer.text == answer(number)
        seconds, found = timed(partial(ask, deployment, asked(number), other))
        missed.append(seconds)
        assert found.answer is None
    check_counters(deployment, entries, rounds)
    middle = [statistics.median(sample) * 1_000 for sample in (bare, rephrased, same, missed)]
    return (
        f"| {entries} | {middle[0]:.2f} ms | {middle[1]:.2f} ms | {middle[1] / middle[0]:.2f} "
        f"| {middle[2]:.2f} ms | {middle[2] / middle[0]:.2f} | {middle[3]:.2f} ms | {first:.2f} s |"
    )


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
        row = self.database.execute(
            "SELECT question, answer, metadata FROM floor WHERE id = ?", (best,)
        ).fetchone()
        self.database.execute(
            "UPDATE floor SET usage_count = usage_count + 1 WHERE id = ?", (best,)
        )
        return row


def fill(rows: Rows) -> "Deployment":
    from agents.models import Agent, Deployment
    from faqs.memory.keys import key_hash, recipe_key
    from faqs.models import CachedResponse, MemoryShelf, ResponseChunk
    from knowledge.models import Chunk, Document

    agent = Agent.objects.create(slug="bench", name="bench")
    deployment = Deployment.objects.create(slug="bench", name="bench", agent=agent)
    document = Document.objects.create(agent=agent, name="bench.md")
    chunks = Chunk.objects.bulk_create(
        Chunk(document=document, index=n, content=passage(n), content_hash=f"{n:064}")
        for n in range(CHUNKS)
    )
    MemoryShelf.objects.create(deployment=deployment, version=1)
    made = (
        CachedResponse(
            deployment=deployment,
            audience="public",
            key_hash=key_hash(phase="summary", project="bench", question=stored(n)),
            question=stored(n),
            answer=answer(n),
            embedding=row.astype("<f4").tobytes(),
            embedding_model="bench",
            recipe_key=recipe_key(recipe()),
            sources=[source(chunks[(n + k) % CHUNKS], k + 1) for k in range(PASSAGES)],
            version=1,
        )
        for n, row in enumerate(rows)
    )
    for batch in batches(made, BATCH):
        written = CachedResponse.objects.bulk_create(batch)
        ResponseChunk.objects.bulk_create(
            ResponseChunk(response=entry, chunk_id=source["chunk_id"], fingerprint=mark)
            for entry in written
            for source in entry.sources
            for mark in [digest(source["text"])]
        )
    return deployment


def ask(deployment: "Deployment", question: str, vector: Rows) -> "Recall":
    """As a turn does it: the mark comes with the deployment's row, which the turn has loaded anyway."""
    from faqs.recall import Lookup, memory_mark, recall_cached

    mark = memory_mark(deployment)
    assert mark is not None
    lookup = Lookup(question=question, threshold=THRESHOLD, max_age_days=180)
    return recall_cached(mark, lookup, vector=vector, recipe=recipe())


def check_counters(deployment: "Deployment", entries: int, rounds: int) -> None:
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
    return (
        f"Passage {number} : une carte se demande à l'accueil, et se renouvelle chaque année. " * 12
    )


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


def batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while batch := list(islice(items, size)):
        yield batch


def unit(values: npt.NDArray[Any]) -> Rows:
    rows = values.astype(np.float32)
    normal: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normal


def timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    main()
