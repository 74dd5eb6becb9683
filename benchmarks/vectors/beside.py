"""The stores on the same points and questions, one store after the other; the table store, which is exact, is the measure.

Vectors have a direction of their topic and one of their own, in 48 dimensions turned into 512, as texts of one subject
are near each other; a question is a point a little aside, and six of its words. `edge` is Qdrant's engine without the
server (`benchmarks.vectors.edge`), `qdrant` a server at `QDRANT_URL`, `pgvector` a table with an HNSW index at
`PGVECTOR_URL`, which is asked by vector alone.
"""

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.types.json import Jsonb

from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Condition, Hit, PayloadFilter, Point, Query, VectorStore, Wanted
from knowledge.vectors.qdrant import QdrantVectorStore
from knowledge.vectors.table import TableVectorStore

DIMENSIONS, LATENT, TOPIC_POINTS, CATEGORIES = 512, 48, 50, 20
LIMIT, JUDGED, WEIGHT = 20, 10, 1.0
RECIPE = Recipe(model="bench", dimensions=DIMENSIONS)
KEPT = PayloadFilter(all_of=(Condition("category", "category 3"),))
KINDS = {
    "by vector": Wanted(LIMIT),
    "by vector, 1 in 20": Wanted(LIMIT, KEPT),
    "hybrid": Wanted(LIMIT, lexical_weight=WEIGHT),
    "hybrid, 1 in 20": Wanted(LIMIT, KEPT, lexical_weight=WEIGHT),
}
Rows = npt.NDArray[np.float32]


@dataclass
class Sample:
    found: list[list[str]]
    seconds: list[float]
    processor: float

    def row(self, exact: "Sample") -> str:
        pairs = zip(self.found, exact.found, strict=True)
        shares = [len({*mine[:JUDGED]} & {*right[:JUDGED]}) / JUDGED for mine, right in pairs]
        half, most = np.percentile(self.seconds, [50, 95]) * 1_000
        processor = self.processor / len(self.seconds) * 1_000
        return f"{np.mean(shares):.3f} | {half:.1f} ms | {most:.1f} ms | {processor:.1f} ms |"


def beside(names: Sequence[str], points: int, rounds: int, folder: Path) -> None:
    random = np.random.default_rng(7)
    rows, texts = vectors(random, points), list(sayings(random, points))
    asked = questions(random, rows, texts, rounds)
    exact: dict[str, Sample] = {}
    print(
        "| points | question | store | recall@10 | p50 | p95 | processor |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for name in ("table", *names):
        store = store_of(name, folder)
        fill(store, rows, texts)
        for kind, wanted in KINDS.items():
            if wanted.lexical_weight is None or name != "pgvector":
                store.query("bench", asked[0], wanted)
                sample = measured(store, asked, wanted)
                told = sample.row(exact.setdefault(kind, sample))
                print(f"| {points:,} | {kind} | {name} | {told}", flush=True)
        store.drop("bench")


def measured(store: VectorStore, asked: Sequence[Query], wanted: Wanted) -> Sample:
    sample, started = Sample([], [], 0.0), time.process_time()
    for query in asked:
        before = time.perf_counter()
        hits = store.query("bench", query, wanted)
        sample.seconds.append(time.perf_counter() - before)
        sample.found.append([hit.id for hit in hits])
    sample.processor = time.process_time() - started
    return sample


def store_of(name: str, folder: Path) -> Any:
    if name == "edge":
        from benchmarks.vectors.edge import EdgeStore

        return EdgeStore(folder / "edge")
    if name == "pgvector":
        return PgVector(os.environ["PGVECTOR_URL"])
    return TableVectorStore() if name == "table" else QdrantVectorStore(url=os.environ["QDRANT_URL"], prefix="bench_")


def fill(store: Any, rows: Rows, texts: Sequence[str]) -> None:
    store.ensure("bench", RECIPE)
    for start in range(0, len(rows), 1_000):
        store.upsert(
            "bench",
            [
                Point(str(uuid.UUID(int=n + 1)), rows[n], payload(n, texts[n]))
                for n in range(start, min(start + 1_000, len(rows)))
            ],
        )
    if hasattr(store, "index"):
        store.index()
    elif isinstance(store, QdrantVectorStore):
        while store._connected().get_collection("bench_bench").status.value != "green":
            time.sleep(1)


def payload(number: int, text: str) -> dict[str, Any]:
    category = f"category {number * 7 % CATEGORIES}"
    return {"type": "source_material", "category": category, "content": text, "chunk_id": number}


def vectors(random: np.random.Generator, points: int) -> Rows:
    topics = random.normal(size=(points // TOPIC_POINTS, LATENT))[np.arange(points) % (points // TOPIC_POINTS)]
    own = random.normal(size=(points, LATENT)) * 0.8
    return unit((topics + own) @ random.normal(size=(LATENT, DIMENSIONS)))


def sayings(random: np.random.Generator, points: int) -> Iterator[str]:
    """Sixty words each, common ones often, and a third of them of the topic."""
    syllables = [a + b for a in "bcdfglmnprstv" for b in "aeiou"]
    words = ["".join(random.choice(syllables, size=int(size))) for size in random.integers(2, 5, size=30_000)]
    topics = points // TOPIC_POINTS
    for number in range(points):
        common = (random.pareto(0.9, size=40) * 20).astype(int) % len(words)
        own = 1_000 + (number % topics * 37 + random.integers(0, 60, size=20)) % (len(words) - 1_000)
        yield " ".join(words[at] for at in [*common.tolist(), *own.tolist()])


def questions(random: np.random.Generator, rows: Rows, texts: Sequence[str], rounds: int) -> list[Query]:
    asked = []
    for at in random.integers(0, len(rows), size=rounds).tolist():
        aside = unit(random.normal(size=(1, DIMENSIONS)))[0]
        said = random.choice(texts[at].split(), size=6)
        asked.append(Query(unit((rows[at] + 0.6 * aside)[None])[0], RECIPE, " ".join(said)))
    return asked


def unit(values: npt.NDArray[Any]) -> Rows:
    normal: Rows = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return normal


ASKED = "SELECT id, 1 - (v <=> %(v)s::vector), payload FROM bench ORDER BY v <=> %(v)s::vector LIMIT %(limit)s"
ASKED_FILTERED = ASKED.replace("ORDER", "WHERE category = 'category 3' ORDER")


class PgVector:
    """A table of PostgreSQL with `pgvector`, as its own page says to make it."""

    def __init__(self, url: str) -> None:
        self.link = psycopg.connect(url, autocommit=True)

    def ensure(self, _name: str, recipe: Recipe) -> None:
        self.link.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self.link.execute(
            f"CREATE TABLE bench (id uuid PRIMARY KEY, category text, payload jsonb, v vector({recipe.dimensions:d}))"
        )

    def upsert(self, _name: str, points: Sequence[Point]) -> None:
        with self.link.cursor() as cursor, cursor.copy("COPY bench FROM STDIN") as copy:
            for each in points:
                category = each.payload["category"]
                copy.write_row((each.id, category, Jsonb(each.payload), str(each.vector.tolist())))

    def index(self) -> None:
        for statement in (
            "SET maintenance_work_mem = '1GB'",
            "CREATE INDEX ON bench USING hnsw (v vector_cosine_ops)",
            "CREATE INDEX ON bench (category)",
            "ANALYZE bench",
            "SET hnsw.ef_search = 100",
            "SET hnsw.iterative_scan = strict_order",
        ):
            self.link.execute(statement)

    def query(self, _name: str, query: Query, wanted: Wanted) -> list[Hit]:
        found = self.link.execute(
            ASKED_FILTERED if wanted.payload_filter else ASKED, {"v": str(query.vector.tolist()), "limit": LIMIT}
        )
        return [Hit(str(key), score, payload) for key, score, payload in found]

    def drop(self, _name: str) -> None:
        self.link.execute("DROP TABLE bench")
