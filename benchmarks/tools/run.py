"""Selection of tools: how fast with 100, 1,000 and 10,000 of them, and how good on public data. See README.md.

    .venv/bin/python -m benchmarks.tools.run            speed and, where the data is there, quality
    .venv/bin/python -m benchmarks.tools.run --speed    speed alone

Speed is measured in a database of its own, with vectors of the size of the default model: for a user who may use half
of the tools, and for one who may use all. Also what the choice of tools costs a question that offers them all.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

SIZES = (100, 1_000, 10_000)
DIMENSIONS = 512
REPEATS = 1_000
TURNS = 2_000
DATA = Path(os.environ.get("REPONDANT_DATA", Path(__file__).parents[3] / "shared" / "data"))
QUESTION = "Could you tell me how much the monthly subscription of the reader's card costs in Lyon?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", action="store_true", help="leave quality out")
    arguments = parser.parse_args()
    # One thread for both sides: on a busy machine the threads of a product wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATA_DIR"] = folder
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/bench.db"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        os.environ.setdefault("SECRET_KEY", "only-for-benchmarks")
        os.environ.setdefault("LOG_LEVEL", "ERROR")
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        measure_speed()
        if not arguments.speed:
            measure_quality()


def measure_speed() -> None:
    from django.test import override_settings

    hashing: dict[str, object] = {"BACKEND": "tests.hashing.HashingEmbedder", "OPTIONS": {"dimensions": DIMENSIONS}}
    print("tools | one product | rights + selection, half permitted | ratio | all permitted | ratio")
    with override_settings(EMBEDDERS={"default": hashing}):
        for size in SIZES:
            with installed_tools(size):
                product, half, everything = _timed(size)
                print(
                    f"{size} | {1e3 * product:.4f} ms | {1e3 * half:.4f} ms | {half / product:.2f} | "
                    f"{1e3 * everything:.4f} ms | {everything / product:.2f}",
                    flush=True,
                )
        measure_turn_step()


def measure_turn_step() -> None:
    """Processor time of what tools cost a turn that offers them all (mode `direct`), read and choice together."""
    import asyncio
    import uuid

    from agents.effective import effective_config
    from agents.models import Agent, Deployment
    from chat.turn.tool_loop import choose_tools, load_tool_ground
    from chat.turn.values import TurnRequest
    from knowledge.embeddings.base import Purpose, embedder

    agent = Agent.objects.create(slug="bench", name="Bench")
    config = effective_config(Deployment.objects.create(slug="bench", name="Bench", agent=agent))
    vector = embedder().embed_one(QUESTION, purpose=Purpose.QUERY)

    async def turns(count: int) -> None:
        for _ in range(count):
            request = TurnRequest(config.deployment.pk, QUESTION, "en", uuid.uuid4(), uuid.uuid4(), is_first=True)
            ground = load_tool_ground(request, config)
            assert ground is not None
            await choose_tools(ground, config, vector=vector, question=QUESTION)

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    asyncio.run(turns(1))
    started = time.process_time()
    asyncio.run(turns(TURNS))
    print(f"tools in a turn that offers all: {1e6 * (time.process_time() - started) / TURNS:.0f} us")


def _timed(size: int) -> tuple[float, float, float]:
    """One numpy product over all tools, and rights with selection, alternating so that all see the same machine.

    The least of many, each: what else runs here only adds.
    """
    from agents.settings import Knobs
    from knowledge.embeddings.base import Purpose, embedder
    from tools_registry import catalog
    from tools_registry.selection import LocalToolSelector, select_tools, tool_selector

    vector = embedder().embed_one(QUESTION, purpose=Purpose.QUERY)
    config = Knobs(tool_mode="local", tool_top_k=5, tool_threshold=0.0)
    catalog.available_tools(user_tags=frozenset(), agent_id=None)
    snapshot, selector = catalog._current, tool_selector("local")
    assert snapshot is not None
    assert isinstance(selector, LocalToolSelector)
    # The same vectors for both: two copies would push each other out of the processor's cache.
    matrix = selector.ranking(snapshot.key[0]).matrix
    assert matrix.shape == (size, DIMENSIONS) or size < len(matrix)

    def product() -> object:
        return matrix @ vector

    def selection(tags: frozenset[str]) -> object:
        return select_tools(
            question_vector=vector, question=QUESTION, candidates=snapshot.permitted(tags, None), config=config
        )

    actions: list[Callable[[], object]] = [product]
    actions += [partial(selection, tags) for tags in (frozenset(), frozenset({"walled"}))]
    assert len(snapshot.permitted(frozenset(), None)) < size
    taken: list[list[float]] = [[], [], []]
    for _ in range(REPEATS):
        for found, action in zip(taken, actions, strict=True):
            found.append(once(action))
    least = [min(found[1:]) for found in taken]
    return least[0], least[1], least[2]


@contextmanager
def installed_tools(size: int) -> Iterator[None]:
    """`size` tools with descriptions of Zipf-distributed words, indexed."""
    from tools_registry.index import sync_index
    from tools_registry.tool import ToolSpec, registry

    chance = random.Random(size)  # noqa: S311
    words = [f"{chance.choice('bcdfglmnprst')}{n:x}ation" for n in range(4_000)]
    words[:40] = "you tell how much monthly subscription reader card costs city find".split() * 4
    weights = [1 / (rank + 3) for rank in range(len(words))]
    names = [f"tool_{number}" for number in range(size)]
    for number, name in enumerate(names):
        description = " ".join(chance.choices(words, weights, k=15))
        registry.register(
            ToolSpec(
                name=name,
                description=description,
                parameters={"type": "object", "properties": {}},
                invoke=lambda arguments, _context: arguments,
                tags=frozenset({"walled"}) if number % 2 else frozenset(),
            )
        )
    try:
        sync_index()
        yield
    finally:
        for name in names:
            registry.remove(name)


def once(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure_quality() -> None:
    tools_file, queries_file = DATA / "tools.jsonl", DATA / "tool_queries_dev.jsonl"
    if not tools_file.is_file() or not queries_file.is_file():
        print(f"quality: the data is not at {DATA} (set REPONDANT_DATA)")
        return
    from knowledge.embeddings.base import embedder
    from tools_registry.evaluation import LabelledQuery, described_tool, evaluate_ranking, ranking_of

    model = embedder()
    tools, rows = _lines(tools_file), _lines(queries_file)
    bare = ranking_of([described_tool(tool) for tool in tools], model)
    single = [LabelledQuery(row["query"], (row["tool"],)) for row in rows]
    print(f"model {model.recipe.model}, {len(tools)} tools, {len(rows)} questions")
    print("  descriptions alone     ", evaluate_ranking(bare, single, model).recall)
    print("  two tools, both in K   ", evaluate_ranking(bare, _pairs(rows), model).complete)
    for seed in (1, 2, 3):
        phrasings = _phrasings(rows, seed)
        taught = ranking_of([described_tool({**t, "examples": phrasings.get(t["name"], [])}) for t in tools], model)
        held = [q for q in single if q.text not in phrasings[q.tools[0]]]
        print(f"  five phrasings, seed {seed} ", evaluate_ranking(taught, held, model).recall)
    _thresholds(bare, single, model)


def _thresholds(ranking: Any, queries: list[Any], model: Any) -> None:
    """At each threshold: questions whose tool is offered (first 5), and questions without a tool that get one."""
    import numpy as np

    from knowledge.embeddings.base import Purpose
    from tools_registry.selection import best_positions

    strangers = [row["question"] for row in _csv(DATA / "cnil_faq.csv")][:400]
    found, noise = [], []
    for query, vector in zip(queries, model.embed([q.text for q in queries], purpose=Purpose.QUERY), strict=True):
        scores = ranking.scores(vector, query.text)
        wanted = ranking.position[query.tools[0]]
        top = best_positions(scores, 5)
        found.append(float(scores[wanted]) if wanted in top else -1.0)
    for text, vector in zip(strangers, model.embed(strangers, purpose=Purpose.QUERY), strict=True):
        noise.append(float(ranking.scores(vector, text).max()))
    print("  threshold: tool offered (of all questions) / questions of a French FAQ that get a tool")
    low, high = (100 * float(value) for value in np.quantile(noise, (0.01, 0.99)))
    for step in range(round(low), round(high) + 2, 5 if high - low > 25 else 2):
        threshold = step / 100
        kept = sum(score >= threshold for score in found) / len(found)
        wrong = sum(score >= threshold for score in noise) / len(noise)
        print(f"    {threshold:.2f}  {kept:.3f}  {wrong:.3f}")


def _pairs(rows: list[dict[str, Any]], count: int = 400) -> list[Any]:
    """Questions for two tools, made by joining two for one each."""
    from tools_registry.evaluation import LabelledQuery

    chance = random.Random(1)  # noqa: S311
    pairs: list[Any] = []
    while len(pairs) < count:
        one, other = chance.choice(rows), chance.choice(rows)
        if one["tool"] != other["tool"]:
            text = f"{one['query']} {other['query']}"
            pairs.append(LabelledQuery(text, (one["tool"], other["tool"])))
    return pairs


def _phrasings(rows: list[dict[str, Any]], seed: int) -> dict[str, list[str]]:
    """Five questions a tool, half of them at most, drawn by chance; the rest is measured."""
    chance = random.Random(seed)  # noqa: S311
    by_tool: dict[str, list[str]] = {}
    for row in rows:
        by_tool.setdefault(row["tool"], []).append(row["query"])
    return {tool: chance.sample(found, min(5, len(found) // 2)) for tool, found in by_tool.items()}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _csv(path: Path) -> list[dict[str, str]]:
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
