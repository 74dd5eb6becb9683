"""The table store against bare numpy, in one run on one set of points: `python -m benchmarks.vectors.run`.

Bare numpy is a product and a partial sort over the same vectors in memory: no ids, no payloads, no database. The table
store answers through its public verb, from a temporary SQLite file. The two are timed in turns, so that a busy moment
of the machine falls on both.

`--stores` measures the stores side by side instead, on points with topics and words (`benchmarks.vectors.beside`).
"""

import argparse
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from knowledge.vectors.table import TableVectorStore

DIMENSIONS = 512
LIMIT = 5
CATEGORIES = 20
WRITE_BATCH = 1_000
Rows = npt.NDArray[np.float32]
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--stores", nargs="+", choices=["edge", "qdrant", "pgvector"], help="beside the table store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepare_django(folder)
        if options.stores:
            from benchmarks.vectors.beside import beside

            for points in options.points:
                beside(options.stores, points, options.rounds, Path(folder))
            return
        print("| points | numpy p50 | table p50 | ratio | filtered p50 | first query | written/s |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for points in options.points:
            print(measure(points, options.rounds), flush=True)


def prepare_django(folder: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings", DATA_DIR=folder, DATABASE_URL=f"sqlite:///{folder}/bench.db"
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measure(points: int, rounds: int) -> str:
    from knowledge.vectors.base import Condition, PayloadFilter
    from knowledge.vectors.table import TableVectorStore

    random = np.random.default_rng(7)
    rows = unit(random.normal(size=(points, DIMENSIONS)))
    asked = unit(random.normal(size=(rounds, DIMENSIONS)))
    store = TableVectorStore()
    written = write(store, rows)
    kept = PayloadFilter(all_of=(Condition("category", "category 3"),))
    loaded, _found = timed(lambda: query(store, asked[0]))
    query(store, asked[0], kept)

    bare: list[float] = []
    table: list[float] = []
    filtered: list[float] = []
    for vector in asked:
        seconds, best = timed(partial(numpy_top, rows, vector))
        bare.append(seconds)
        seconds, hits = timed(partial(query, store, vector))
        table.append(seconds)
        assert hits == [str(uuid.UUID(int=int(row) + 1)) for row in best]
        filtered.append(timed(partial(query, store, vector, kept))[0])
    store.drop("bench")
    middle = [statistics.median(sample) * 1_000 for sample in (bare, table, filtered)]
    return (
        f"| {points} | {middle[0]:.1f} ms | {middle[1]:.1f} ms | {middle[1] / middle[0]:.2f} "
        f"| {middle[2]:.1f} ms | {loaded:.1f} s | {points / written:.0f} |"
    )


def write(store: "TableVectorStore", rows: Rows) -> float:
    from knowledge.embeddings.base import Recipe
    from knowledge.vectors.base import Point

    store.ensure("bench", Recipe(model="bench", dimensions=DIMENSIONS))

    def batches() -> Iterator[list[Point]]:
        for start in range(0, len(rows), WRITE_BATCH):
            yield [
                Point(str(uuid.UUID(int=start + n + 1)), row, payload(start + n))
                for n, row in enumerate(rows[start : start + WRITE_BATCH])
            ]

    def write_all() -> None:
        for batch in batches():
            store.upsert("bench", batch)

    return timed(write_all)[0]


def payload(number: int) -> dict[str, str]:
    return {
        "type": "qa_pair",
        "category": f"category {number % CATEGORIES}",
        "display_text": f"A passage of about the usual length, number {number}. " * 12,
    }


def query(store: "TableVectorStore", vector: Rows, kept: object = None) -> list[str]:
    from knowledge.embeddings.base import Recipe
    from knowledge.vectors.base import PayloadFilter, Query, Wanted

    payload_filter = kept if isinstance(kept, PayloadFilter) else None
    hits = store.query(
        "bench",
        Query(vector, Recipe(model="bench", dimensions=DIMENSIONS)),
        Wanted(limit=LIMIT, payload_filter=payload_filter),
    )
    return [hit.id for hit in hits]


def numpy_top(rows: Rows, vector: Rows) -> npt.NDArray[np.intp]:
    scores = rows @ vector
    best = np.argpartition(scores, -LIMIT)[-LIMIT:]
    found: npt.NDArray[np.intp] = best[np.argsort(-scores[best])]
    return found


def unit(values: npt.NDArray[np.float64]) -> Rows:
    rows = values.astype(np.float32)
    normal: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normal


def timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    main()
