"""A rebuild while readers search without pause, one that is killed, and the way back: `python -m
benchmarks.rebuild.run`.

Every chunk carries the name of the generation it was indexed in, so a result that mixes two generations shows. Readers
are threads in processes of their own and use the production search; the rebuilds are the command, in a process.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHUNKS_PER_DOCUMENT = 100
QUESTIONS = 200
SLUG = "bench"
WORDS = (
    "carte lecteur bibliothèque mairie dossier demande pièce délai recours contrat durée salarié congé employeur "
    "mois euros montant impôt logement loyer bail caution préavis retraite pension enfant école inscription permis "
    "véhicule immatriculation passeport identité visite médecin soin remboursement assurance sinistre plainte juge"
).split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--processes", type=int, default=4, help="that the readers run in")
    parser.add_argument("--part", choices=("load", "kill", "all"), default="all")
    parser.add_argument("--use", action="store_true", help="the real local embedder (slow)")
    parser.add_argument("--reader", nargs=2, metavar=("OUT", "STOP"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader:
        read(Path(options.reader[0]), Path(options.reader[1]), options.readers)
        return
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), options.use)
        measure(Path(folder), options)


def prepare(folder: Path, use: bool) -> None:
    name = "CountingUse" if use else "CountingHashing"
    os.environ.update(
        DJANGO_SETTINGS_MODULE="benchmarks.rebuild.settings",
        DATA_DIR=str(folder),
        DATABASE_URL=f"sqlite:///{folder}/bench.db",
        BENCH_COUNTS=str(folder / "counts"),
        BENCH_EMBEDDER=f"benchmarks.rebuild.counting.{name}",
        LOG_LEVEL="ERROR",
    )
    setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def setup() -> None:
    import django

    django.setup()


def measure(folder: Path, options: argparse.Namespace) -> None:
    fill(options.chunks, "g1")
    first = rebuild()
    print(f"index: {options.chunks} chunks, {first['points']} points, {first['seconds']} s", flush=True)
    if options.part != "kill":
        measure_load(folder, options)
    if options.part != "load":
        measure_kill(options.chunks)


def measure_load(folder: Path, options: argparse.Namespace) -> None:
    """Readers search without pause while the whole index is rebuilt."""
    mark("g2")
    with readers(folder, options) as results:
        report = rebuild()
        time.sleep(2)
    total = results()
    print(f"\nrebuild under load: {report['seconds']} s, {report['embedded']} embedded")
    print(
        "searches {searches}, failed {failed}, empty {empty}, mixed {mixed}; "
        "of g1 {g1}, of g2 {g2}; p50 {p50} ms, p99 {p99} ms, longest {longest} ms".format(**total),
        flush=True,
    )


def measure_kill(chunks: int) -> None:
    """A rebuild in which every text has changed, killed in the middle, run again, and undone."""
    from benchmarks.rebuild.counting import counted

    before = answers()
    rewrite("g3")
    start = counted()
    stored = killed_rebuild(chunks)
    at_kill = counted() - start
    time.sleep(5)  # its lease runs out
    resumed = rebuild()
    print(
        f"\nkill -9: {at_kill} texts embedded, {stored} points stored; run again: "
        f"{resumed['embedded']} embedded, {resumed['points']} points in all"
    )
    print(f"of {chunks} changed texts embedded twice: {at_kill + resumed['embedded'] - chunks}")
    changed = answers()

    started = time.perf_counter()
    roll_back()
    inside = time.perf_counter() - started
    started = time.perf_counter()
    command("--rollback", expected=1)  # a process that finds nothing further back: its own cost
    whole = time.perf_counter() - started
    same = sum(one == other for one, other in zip(before, answers(), strict=True))
    moved = sum(one != other for one, other in zip(before, changed, strict=True))
    print(
        f"\nrollback: {inside * 1000:.0f} ms (a whole command, start of Python included: {whole:.1f} s); "
        f"{same} of {len(before)} result lists are those of before, {moved} were others meanwhile"
    )


def fill(chunks: int, generation: str) -> None:
    from agents.models import Agent
    from knowledge.models import Chunk, Document, DocumentStatus, UnitsOrigin

    rng = random.Random(7)  # noqa: S311  # the same texts in every run
    agent = Agent.objects.create(slug=SLUG, name=SLUG)
    made = 0
    while made < chunks:
        document = Document.objects.create(
            agent=agent, name=f"{made}.md", title=f"Fiche {made}", status=DocumentStatus.INDEXED
        )
        rows = []
        for index in range(min(CHUNKS_PER_DOCUMENT, chunks - made)):
            units = [{"question": sentence(rng, 8) + " ?", "answer": sentence(rng, 12)}]
            has_units = index % 2 == 0
            rows.append(
                Chunk(
                    document=document,
                    index=index,
                    parent_context=sentence(rng, 3),
                    content=sentence(rng, 60),
                    summary=generation,
                    knowledge_units=units if has_units else [],
                    units_origin=UnitsOrigin.FOUND if has_units else UnitsOrigin.WAITING,
                    content_hash=f"{made}-{index}",
                )
            )
        Chunk.objects.bulk_create(rows)
        made += len(rows)


def mark(generation: str) -> None:
    """Have the next generation say its name; a bulk update, which tells nobody."""
    from knowledge.models import Chunk

    Chunk.objects.update(summary=generation)


def rewrite(generation: str) -> None:
    """Change every text, so that the next rebuild embeds all of them."""
    from django.db.models import F, Value
    from django.db.models.functions import Concat

    from knowledge.models import Chunk

    Chunk.objects.update(content=Concat(Value("Version nouvelle. "), F("content")), summary=generation)


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize()


def questions() -> list[str]:
    rng = random.Random(11)  # noqa: S311
    return [sentence(rng, 6) + " ?" for _ in range(QUESTIONS)]


def command(*arguments: str, expected: int = 0) -> str:
    done = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "manage.py", "rebuild_agent_index", SLUG, "--json", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != expected and expected == 0:
        raise SystemExit(done.stderr)
    return done.stdout


def rebuild() -> dict[str, Any]:
    report: dict[str, Any] = json.loads(command())
    return report


def killed_rebuild(chunks: int) -> int:
    """Start a rebuild, kill it in the middle; returns the points that its generation holds then."""
    from knowledge.models import BuildStatus, IndexBuild
    from knowledge.vectors.base import vector_store

    process = subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "manage.py", "rebuild_agent_index", SLUG, "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while True:
        build = IndexBuild.objects.filter(status=BuildStatus.RUNNING).first()
        if build is not None and build.done >= chunks * 0.6:
            break
        if process.poll() is not None:
            raise SystemExit("The rebuild ended before it could be killed.")
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return vector_store().count(build.generation)


def roll_back() -> None:
    from agents.models import Agent, IndexingMethod
    from knowledge.indexing.rebuild import rollback_agent_index

    rollback_agent_index(agent=Agent.objects.get(slug=SLUG), method=IndexingMethod.QA_ATOMIC)


def answers() -> list[list[tuple[str, str]]]:
    return [[(hit.point_id, hit.content) for hit in found] for found in map(find, vectors())]


def vectors() -> Any:
    from knowledge.embeddings.base import Purpose, embedder

    return embedder().embed(questions(), purpose=Purpose.QUERY)


def find(vector: Any) -> list[Any]:
    from agents.models import Agent, IndexingMethod
    from knowledge.embeddings.base import embedder
    from knowledge.search import confirm_passages, search
    from knowledge.vectors.base import Query, collection_alias

    found = search(collection_alias(SLUG, IndexingMethod.QA_ATOMIC), Query(vector, embedder().recipe), limit=5)
    agent_id = Agent.objects.values_list("pk", flat=True).get(slug=SLUG)
    # The store alone names the generation: a passage of the production search does not show a question's summary.
    return list(confirm_passages(found, agent_id=agent_id).hits)


@contextmanager
def readers(folder: Path, options: argparse.Namespace) -> Iterator[Any]:
    stop = folder / "stop"
    outputs = [folder / f"reader-{n}.json" for n in range(options.processes)]
    each = max(1, options.readers // options.processes)
    processes = [
        subprocess.Popen(  # noqa: S603  # this module
            [
                *(sys.executable, "-m", "benchmarks.rebuild.run", "--readers", str(each)),
                *("--reader", str(output), str(stop)),
            ]
        )
        for output in outputs
    ]
    while not all(output.with_suffix(".ready").exists() for output in outputs):
        time.sleep(0.1)

    def results() -> dict[str, Any]:
        found = [json.loads(output.read_text()) for output in outputs]
        times = sorted(t for each in found for t in each["times"])
        counts = ("searches", "failed", "empty", "mixed", "g1", "g2")
        return {
            **{key: sum(each[key] for each in found) for key in counts},
            "p50": round(statistics.median(times) * 1000),
            "p99": round(times[int(len(times) * 0.99)] * 1000),
            "longest": round(times[-1] * 1000),
        }

    try:
        yield results
    finally:
        stop.touch()
        for process in processes:
            process.wait()


def read(output: Path, stop: Path, threads: int) -> None:
    """One process of readers: each thread searches again as soon as it has its answer."""
    import threading

    os.nice(5)  # on few cores the readers would leave the rebuild nothing
    setup()
    rows = vectors()
    totals: dict[str, Any] = {**dict.fromkeys(("searches", "failed", "empty", "mixed", "g1", "g2"), 0), "times": []}
    lock = threading.Lock()

    def loop(offset: int) -> None:
        number = offset
        while not stop.exists():
            number += 1
            started = time.perf_counter()
            try:
                hits = find(rows[number % len(rows)])
            except Exception as error:  # noqa: BLE001  # every failure counts
                hits, failed = [], 1
                print(repr(error), file=sys.stderr)
            else:
                failed = 0
            seconds = time.perf_counter() - started
            seen = {hit.summary for hit in hits if hit.summary}
            with lock:
                totals["searches"] += 1
                totals["failed"] += failed
                totals["empty"] += not failed and not hits
                totals["mixed"] += len(seen) > 1
                for name in seen:
                    totals[name] += 1
                totals["times"].append(seconds)

    find(rows[0])
    output.with_suffix(".ready").touch()
    workers = [threading.Thread(target=loop, args=(n * 7,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    output.write_text(json.dumps(totals))


if __name__ == "__main__":
    main()
