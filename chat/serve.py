"""`serve`: uvicorn and a Celery worker as one command, and what each web process does at its start and at its end.

The worker is a child, started again when it ends, and ends when this process was killed. Also here: whether the
database is what this version needs.
"""

import asyncio
import gc
import logging
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.urls import get_resolver

from agents.database import close_connections, in_database
from agents.jobs import Heartbeat
from agents.llm.base import language_model
from chat.runs.runner import runner
from faqs.second_key.same_question import compare_questions
from knowledge.embeddings.base import embedder
from knowledge.language import spelling

#: How long a stopping server lets answers end; after that they are stopped and keep their text.
TURN_DRAIN_SECONDS = 5.0
#: Connections, sockets of readers included, that one web process of `serve` holds; further ones get 503.
WEB_CONNECTIONS = 2_000

#: Threads of a web process for steps that wait: one to eight were measured, with the same throughput.
WEB_THREADS = 4

logger = logging.getLogger(__name__)

#: How long a thread may keep the interpreter from the others (`benchmarks/streaming`).
SWITCH_INTERVAL_SECONDS = 0.001
#: Young objects that start a collection: a full one keeps everybody waiting (`benchmarks/load`).
COLLECTION_THRESHOLD = 20_000
#: Jobs that the worker of `serve` runs at once: one may take its time. It ends some time after them, and is started anew.
WORKER_SLOTS = 2
#: Pause before a worker that ended, or failed, is started again.
RESTART_SECONDS = 1.0
RESTART_FAILED_SECONDS = 5.0
#: How long a worker may take to end; its job goes on in the next one.
WORKER_STOP_SECONDS = 10.0
#: How often a child looks whether its server still lives.
PARENT_POLL_SECONDS = 1.0
#: What a web process may take to end beyond the time that it gives its answers.
STOP_MARGIN_SECONDS = 10.0
_PARENT = "REPONDANT_PARENT_PID"

# --- Serving ---------------------------------------------------------------------------------------------------------


def serve(*, host: str, port: int, processes: int = 1, with_worker: bool = True) -> None:
    """Serve until a signal."""
    # uvicorn raises the signal again after its shutdown; this turns it into a clean exit.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: sys.exit(0))
    if processes > 1:
        os.environ[_PARENT] = str(os.getpid())
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = _empty_folder_of_figures(port)
    close_connections()  # The web process begins with none.
    with _worker() if with_worker else nullcontext():
        uvicorn.run(
            "config.asgi:application",
            host=host,
            port=port,
            workers=processes,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # `TRUSTED_PROXIES` and `BEHIND_TLS` alone say whose `X-Forwarded-…` are believed.
            proxy_headers=False,
            limit_concurrency=WEB_CONNECTIONS,
            # Above what is accepted, so that most of what is too long is refused in words rather than cut off.
            ws_max_size=64 * settings.MAX_FRAME_BYTES,
            timeout_graceful_shutdown=math.ceil(TURN_DRAIN_SECONDS),
            timeout_worker_healthcheck=30,
        )


async def lifespan(_scope: Any, receive: Any, send: Any) -> None:
    """The ASGI lifespan of a web process: loads what the first question needs; at the end lets answers finish."""
    await receive()
    threads = ThreadPoolExecutor(WEB_THREADS, thread_name_prefix="step")
    asyncio.get_running_loop().set_default_executor(threads)
    end_with_the_parent(2 * TURN_DRAIN_SECONDS + STOP_MARGIN_SECONDS)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    await in_database(_warm_up)
    # The collector leaves alone what was loaded until here.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTION_THRESHOLD)
    recovering = asyncio.create_task(runner.reap(), name="turn-recovery")
    await send({"type": "lifespan.startup.complete"})
    await receive()
    recovering.cancel()
    await runner.drain(TURN_DRAIN_SECONDS)
    if (model := language_model()) is not None:
        await model.aclose()
    await send({"type": "lifespan.shutdown.complete"})


def _warm_up() -> None:
    """Load what the first question would wait for."""
    _ = get_resolver().url_patterns
    embedder().warm_up()
    spelling.warm_up()
    for question in ("Comment faire ?", "How do I do it?"):
        compare_questions(question, question)
    if (model := language_model()) is not None:
        model.warm_up()


def require_port(host: str, port: int) -> None:
    """Raises `OSError` where another server has it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def _empty_folder_of_figures(port: int) -> str:
    """Where the web processes of this port write what they count, without what an earlier server left."""
    folder = settings.DATA_DIR / "metrics" / str(port)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return str(folder)


@contextmanager
def _worker() -> Iterator[None]:
    """A Celery worker as a child, started again when it ends, stopped at the end of the block."""
    stopping = threading.Event()
    running: list[subprocess.Popen[bytes]] = []
    name = f"embedded-{os.getpid()}"
    Heartbeat(f"{name}@{socket.gethostname()}").beat()

    def keep_running() -> None:
        while not stopping.is_set():
            running[:] = [process := _start_worker(name)]
            if stopping.is_set():
                process.terminate()
            status = process.wait()
            if status and not stopping.is_set():
                logger.error("The worker ended (status %d); starting it again.", status)
            stopping.wait(RESTART_FAILED_SECONDS if status else RESTART_SECONDS)

    thread = threading.Thread(target=keep_running, name="worker-supervisor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        for process in running:
            process.terminate()
        thread.join(WORKER_STOP_SECONDS)
        for process in running:
            process.kill()


def _start_worker(name: str) -> "subprocess.Popen[bytes]":
    """In a group of its own: a Ctrl+C of the terminal reaches the server alone, which then stops the worker."""
    command = [
        *(sys.executable, "-m", "celery", "--app", "config", "--quiet", "worker"),
        *("--pool", "threads", "--concurrency", str(WORKER_SLOTS), "--without-gossip", "--without-mingle"),
        *("--loglevel", "WARNING", "--hostname", f"{name}@%h"),
    ]
    environment = {
        **os.environ,
        _PARENT: str(os.getpid()),
        # This process has checked what Celery would check again.
        "CELERY_SKIP_CHECKS": "1",
    }
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, process_group=0)  # noqa: S603  # ours


def is_child() -> bool:
    return _PARENT in os.environ


def end_with_the_parent(seconds: float) -> None:
    """In a child: end as by SIGTERM when the server was killed, and after so many seconds in any case."""
    parent = int(os.environ.get(_PARENT, "0"))
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(seconds)
        os._exit(os.EX_TEMPFAIL)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def require_migrations() -> None:
    """Raises `CommandError` where the database is not up to date."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("The database is not up to date. Run: manage.py migrate")
