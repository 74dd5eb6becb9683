"""The web server and its worker child, as one command.

uvicorn runs in this process; a Celery worker runs as a child that is started again when it dies, is stopped with the
server, and stops by itself when the server was killed. Turns are drained before the sockets close, so that each keeps
its partial text.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings

from agents.llm.base import language_model
from chat.runner import runner

logger = logging.getLogger(__name__)

#: A worker that dies is started again after this pause, doubled at each quick death up to the ceiling.
RESTART_SECONDS = 1.0
RESTART_CEILING_SECONDS = 60.0
WORKER_STOP_SECONDS = 10.0
#: How long a thread may keep the interpreter from the others. With the default of 5 ms the event loop, busy relaying, makes
#: every database step wait; benchmarks/streaming gained about 5 % at 1 ms, and nothing below.
SWITCH_INTERVAL_SECONDS = 0.001


class Worker:
    """The Celery worker child."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._supervise, name="worker-supervisor", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=WORKER_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _supervise(self) -> None:
        pause = RESTART_SECONDS
        while not self._stopping.is_set():
            self._process = _spawn_worker()
            try:
                status = self._process.wait(timeout=RESTART_CEILING_SECONDS)
            except subprocess.TimeoutExpired:
                pause = RESTART_SECONDS
                status = self._process.wait()
            if self._stopping.is_set():
                return
            if status == os.EX_OK:
                continue
            logger.error(
                "The worker ended with status %s; starting it again in %s s.", status, pause
            )
            self._stopping.wait(pause)
            pause = min(pause * 2, RESTART_CEILING_SECONDS)


def _spawn_worker() -> "subprocess.Popen[bytes]":
    command = [
        *(sys.executable, "-m", "celery", "--app", "config", "--quiet", "worker"),
        *("--pool", settings.EMBEDDED_WORKER_POOL, "--concurrency", "1"),
        *("--without-gossip", "--without-mingle"),
        *("--loglevel", "WARNING", "--hostname", f"embedded-{os.getpid()}@%h"),
    ]
    environment = {**os.environ, "REPONDANT_PARENT_PID": str(os.getpid())}
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment)  # noqa: S603  # fixed command


class _Server(uvicorn.Server):
    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        threads = ThreadPoolExecutor(settings.WEB_THREADS, thread_name_prefix="step")
        asyncio.get_running_loop().set_default_executor(threads)
        reaping = asyncio.create_task(runner.reap(), name="turn-reaper")
        try:
            await super().serve(sockets)
        finally:
            reaping.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # New connections go to another process, or wait for the next one; those that are open see their answers end.
        for server in self.servers:
            server.close()
        await runner.drain(settings.TURN_DRAIN_SECONDS)
        await super().shutdown(sockets)
        if (model := language_model()) is not None:
            await model.aclose()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            runner.hurry()
        super().handle_exit(sig, frame)


def serve(*, host: str, port: int, with_worker: bool = True) -> None:
    """Serve until a signal; raises `OSError` where the port cannot be had."""
    _require_port(host, port)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    worker = Worker() if with_worker else None
    # uvicorn raises the signal again after its shutdown; this handler turns it into a clean exit.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    if worker is not None:
        worker.start()
    try:
        _Server(uvicorn.Config(**_configuration(host, port))).run()
    finally:
        if worker is not None:
            worker.stop()


def _configuration(host: str, port: int) -> dict[str, Any]:
    return {
        "app": "config.asgi:application",
        "host": host,
        "port": port,
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Above what is accepted, so that most of what is too long is refused in words rather than cut off.
        "ws_max_size": 64 * settings.MAX_FRAME_BYTES,
        "timeout_graceful_shutdown": settings.GRACEFUL_SHUTDOWN_SECONDS,
    }


def _require_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
