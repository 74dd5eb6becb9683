"""From upload to first right answer, with a slow model configured: `python -m benchmarks.indexing.searchable FOLDER`.

Documents are queued as the admin does; a worker of its own indexes them, then writes questions, with a scripted model
that takes its time on loopback. This process only looks, as a web process would: when is the first document found by
its title, when the last, when is the first written question there. The worker is killed with SIGKILL at random moments
while questions are written, and started again. At the end: calls that the model has seen, calls that were counted, and
the budget. On a machine that others use, read the processor time.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.servers.model_server import ModelReply, ModelServer

#: Shorter than in production, so that a killed worker is missed within seconds.
CONSTANTS = {"JOB_LEASE_SECONDS": 4.0, "JOB_HEARTBEAT_SECONDS": 1.0, "JOB_REAP_SECONDS": 1.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay", type=float, default=2.0, help="seconds that a call takes")
    parser.add_argument("--budget", type=int, default=60, help="calls a day")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--model", default="", help="EMBEDDING_MODEL; the default one if empty")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ModelServer(fallback=lambda body: _reply(body, options.delay)) as server,
    ):
        _prepare(folder, options.model, server.base_url)
        found = _measure(options, server, Path(folder))
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")


def _reply(body: Any, delay: float) -> ModelReply:
    """One question, answered by the first sentence of the passage."""
    passage = body["messages"][1]["content"].split("<passage>\n")[-1].split("\n</passage>")[0]
    text = " ".join(passage.split())[:200]
    unit = {"question": f"Que faut-il savoir : {text[:80]} ?", "answer": text}
    return ModelReply(tokens=[json.dumps({"units": [unit]})], delay=delay)


def _prepare(folder: str, model: str, address: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="benchmarks.indexing.site_settings",
        SITE_CONSTANTS=json.dumps(CONSTANTS),
        DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/bench.db",
        EMBEDDER="local",
        EMBEDDING_MODEL=model,
        LOG_LEVEL="ERROR",
        OPENAI_API_KEY="none",
        OPENAI_BASE_URL=address,
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _worker() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "celery", "--app", "config", "worker", "--pool", "solo"]
    return subprocess.Popen(  # noqa: S603  # our own worker
        [*command, "--loglevel", "ERROR"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


#: Longer than anything here takes on a busy machine.
PATIENCE_SECONDS = 3_600


def _measure(options: argparse.Namespace, server: ModelServer, folder: Path) -> dict[str, Any]:
    from agents.models import Agent, Deployment, JobKind, RuntimeSettings
    from knowledge.embeddings.base import embedder
    from knowledge.indexing.jobs import enqueue_documents
    from knowledge.indexing.path import store_document
    from knowledge.models import Chunk, Document, DocumentStatus, IndexBuild, UnitsOrigin

    RuntimeSettings(values={"question_calls_per_day": options.budget}).save()
    agent = Agent.objects.create(slug="bench", name="bench")
    deployment = Deployment.objects.create(slug="bench", name="bench", agent=agent)
    files = sorted(path for path in options.folder.iterdir() if path.is_file())
    embedder().warm_up()
    worker = _worker()
    started = time.monotonic()
    keys = [store_document(agent=agent, name=path.name, data=path.read_bytes()).document.pk for path in files]
    enqueue_documents(agent=agent, document_ids=keys)
    first = Document.objects.get(pk=keys[0])

    def since(done: Callable[[], bool]) -> float:
        while not done():
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise TimeoutError("the worker does not get on; its log says why")
            time.sleep(0.2)
        return round(time.monotonic() - started, 1)

    def indexed() -> int:
        return Document.objects.filter(status=DocumentStatus.INDEXED).count()

    def written() -> int:
        return Chunk.objects.filter(units_origin=UnitsOrigin.GENERATED).count()

    found: dict[str, Any] = {"documents": len(keys), "load": round(os.getloadavg()[0], 1)}
    found["first_right_answer"] = since(lambda: _is_found(deployment, first.pk))
    found["calls_by_then"] = len(server.calls)
    found["all_searchable"] = since(lambda: indexed() == len(keys))
    found["calls_by_then_all"] = len(server.calls)
    found["first_question"] = since(lambda: written() > 0)
    found["kills"] = _killed_until_the_budget_is_spent(worker, options.kills)
    cpu = os.times()
    job = IndexBuild.objects.get(kind=JobKind.QUESTIONS)
    return found | {
        "seconds": round(time.monotonic() - started, 1),
        "worker_processor_seconds": round(cpu.children_user + cpu.children_system, 1),
        "chunks": Chunk.objects.count(),
        "budget": options.budget,
        "calls_counted": RuntimeSettings.load().questions_calls,
        "calls_seen_by_the_model": len(server.calls),
        "calls_on_the_job": job.report["model_calls"],
        "passages_with_questions": written(),
        "reason": job.error,
    }


def _killed_until_the_budget_is_spent(worker: "subprocess.Popen[bytes]", most: int) -> int:
    """Kill the worker now and then, at most so often, and start it again, until the job waits for tomorrow. Returns how
    often.
    """
    from agents.models import JobKind, JobStatus
    from knowledge.models import IndexBuild

    waiting = IndexBuild.objects.filter(
        kind=JobKind.QUESTIONS, status=JobStatus.QUEUED, not_before__isnull=False
    ).exclude(error="")
    rng = random.Random()  # noqa: S311  # moments, not secrets
    limit = time.monotonic() + PATIENCE_SECONDS
    kills = 0
    while not waiting.exists():
        if time.monotonic() > limit:
            raise TimeoutError("the writing of questions does not end; the worker's log says why")
        time.sleep(rng.uniform(2, 12))
        if kills < most:
            _kill(worker)
            kills += 1
            worker = _worker()
    _kill(worker)
    return kills


def _kill(worker: "subprocess.Popen[bytes]") -> None:
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def _is_found(deployment: Any, document_id: int) -> bool:
    """Whether the title of a document finds it first."""
    from agents.effective import effective_config
    from agents.errors import ApplicationError
    from knowledge.models import Document
    from knowledge.search import search_as

    title = Document.objects.get(pk=document_id).title
    if not title:
        return False
    try:
        hits = search_as(effective_config(deployment), title, limit=3).hits
    except ApplicationError:
        return False  # no index yet
    return bool(hits) and hits[0].document_id == document_id


if __name__ == "__main__":
    main()
