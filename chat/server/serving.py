"""The web server and its worker, as one command.

uvicorn runs in this process, or in several children where `processes` says so; a Celery worker runs as a child.
Children are started again when they die, are stopped with the server, and stop by themselves when the server was
killed. Turns are drained before the sockets close, so that each keeps its partial text.
"""

import asyncio
import ctypes
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings
from django.urls import get_resolver

from agents.jobs import announce
from agents.llm.base import language_model
from chat.runs.admission import admission
from chat.runs.runner import runner
from chat.server.connections import BoundedConnection
from chat.server.figures import emptied, fold
from chat.server.supervision import WORKER_STOP_SECONDS, Child, end_with_the_parent

#: The pool of the worker that `serve` starts. One process, which ends after each indexing job and is started anew;
#: workers of your own choose theirs on their command line, `prefork` being the one that enforces the limits below.
EMBEDDED_WORKER_POOL = "solo"
#: How long a stopping server waits for its connections, after its answers have ended.
GRACEFUL_SHUTDOWN_SECONDS = 5

#: How long a stopping server waits for a request on a connection that is open and silent: a balancer may have sent it.
ARRIVAL_SECONDS = 2.0
#: How often it looks whether all of them are answered.
ARRIVAL_POLL_SECONDS = 0.05
#: What a web process may take to end beyond the times that it is given for its answers and its connections.
STOP_MARGIN_SECONDS = 5.0
#: How long a thread may keep the interpreter from the others. With the default of 5 ms the event loop, busy relaying,
#: makes every database step wait; benchmarks/streaming gained about 5 % at 1 ms, and nothing below.
SWITCH_INTERVAL_SECONDS = 0.001
#: Young objects that start a collection. With the default of 700 and with what was loaded at the start looked through
#: each time, a full collection kept everybody waiting for 120 ms; benchmarks/load has the first token's p95 with and
#: without.
COLLECTION_THRESHOLD = 20_000
#: Connections that wait for a web process which is busy or being started again; what uvicorn takes by default.
LISTEN_BACKLOG = 2048
#: Elsewhere than on Linux, sockets of one port do not share its connections.
_SPREADS = sys.platform == "linux"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_MANAGE = (sys.executable, str(settings.BASE_DIR / "manage.py"))


class _Server(uvicorn.Server):
    _is_hurried = False

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        threads = ThreadPoolExecutor(settings.WEB_THREADS, thread_name_prefix="step")
        asyncio.get_running_loop().set_default_executor(threads)
        reaping = asyncio.create_task(runner.reap(), name="turn-reaper")
        try:
            await super().serve(sockets)
        finally:
            reaping.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """What every request needs is loaded before the first comes, and the collector leaves it alone."""
        _ = get_resolver().url_patterns
        gc.collect()
        gc.freeze()
        with suppress(OSError, AttributeError):  # another C library than glibc
            # What was freed while models and words were read; the allocator would keep it (`benchmarks/idle`).
            ctypes.CDLL(None).malloc_trim(0)
        gc.set_threshold(COLLECTION_THRESHOLD)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """New connections go to another process, or wait for the next one; what was sent to this one is answered."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + settings.TURN_DRAIN_SECONDS
        runner.announce_end()
        admission.announce_end()
        try:
            await self._stop_listening(sockets or [])
            await self._answer_what_was_sent(deadline)
        finally:
            await runner.drain(max(0.0, deadline - loop.time()))
        await super().shutdown(sockets)
        if (model := language_model()) is not None:
            await model.aclose()

    async def _stop_listening(self, sockets: Sequence[socket.socket]) -> None:
        """Refuse connections, but take those that were made by now: closed with the listening socket, they would be
        reset.
        """
        taken: list[socket.socket] = []
        with ExitStack() as opened:
            listening = [
                opened.enter_context(socket.socket(fileno=os.dup(each.fileno())))
                for server in self.servers
                for each in server.sockets
            ]
            for server in self.servers:
                server.close()
            for each in sockets:
                each.close()
            for each in listening:
                each.setblocking(False)
                # None waits any more, or no more files can be opened: what is left is refused.
                with suppress(OSError):
                    while True:
                        taken.append(each.accept()[0])
                each.close()
        for connection in taken:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> BoundedConnection:
        return BoundedConnection(self.config, self.server_state, self.lifespan.state)

    async def _answer_what_was_sent(self, deadline: float) -> None:
        """Until every request that came, or comes in time over a connection that is open, has its answer."""
        loop = asyncio.get_running_loop()
        arrived = loop.time() + ARRIVAL_SECONDS
        while not self._is_hurried and (now := loop.time()) < deadline:
            # Sockets are left: their answers are the runner's, and their next question goes to another process.
            connections = [each for each in self.server_state.connections if isinstance(each, BoundedConnection)]
            for connection in connections:
                connection.end_after_this()
                if now >= arrived:
                    connection.close_if_idle()
            if not any(now < arrived or connection.is_answering for connection in connections):
                return
            await asyncio.sleep(ARRIVAL_POLL_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self._is_hurried = True
            runner.hurry()
        super().handle_exit(sig, frame)


def serve(*, host: str, port: int, processes: int = 1, with_worker: bool = True) -> None:
    """Serve until a signal."""
    _exit_on_signals()
    with _worker() if with_worker else nullcontext():
        if processes > 1:
            _serve_by_children(host, port, processes)
        else:
            _serve_here(uvicorn.Config(**_configuration(), host=host, port=port))


def serve_on(descriptor: int) -> None:
    """Serve, as one of several processes, what comes in at a listening socket of the parent."""
    end_with_the_parent(_stop_seconds())
    _exit_on_signals()
    with socket.socket(fileno=descriptor) as listening:
        _serve_here(uvicorn.Config(**_configuration()), listening)


def _serve_here(config: uvicorn.Config, *sockets: socket.socket) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    _Server(config).run(sockets=list(sockets) or None)


def _serve_by_children(host: str, port: int, processes: int) -> None:
    """Web processes with a listening socket each, among which the kernel spreads the connections.

    The sockets stay open here: what arrives while a process is started again waits for the next.
    """
    figures = emptied(settings.DATA_DIR / "metrics" / str(port))
    with ExitStack() as opened:
        sockets = [opened.enter_context(_listening(host, port)) for _ in range(processes if _SPREADS else 1)]
        children = [
            Child(
                f"web process {number + 1}",
                [*_MANAGE, "serve", "--listen-fd", str(descriptor)],
                pass_fds=[descriptor],
                environment={"PROMETHEUS_MULTIPROC_DIR": str(figures)},
                on_end=partial(fold, folder=figures),
            )
            for number in range(processes)
            for descriptor in [sockets[number % len(sockets)].fileno()]
        ]
        try:
            for child in children:
                child.start()
            while True:
                signal.pause()
        finally:
            _stop(children, opened)


def _stop(children: Sequence[Child], opened: ExitStack) -> None:
    """End them all, and refuse what comes; a second signal to this process reaches them, too."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        for child in children:
            child.terminate()

    for number in _SIGNALS:
        signal.signal(number, pass_on)
    pass_on(signal.SIGTERM, None)
    opened.close()
    limit = time.monotonic() + _stop_seconds()
    for child in children:
        child.wait(limit - time.monotonic())


def _stop_seconds() -> float:
    given: float = settings.TURN_DRAIN_SECONDS + GRACEFUL_SHUTDOWN_SECONDS
    return given + STOP_MARGIN_SECONDS


@contextmanager
def _worker() -> Iterator[None]:
    name = f"embedded-{os.getpid()}"
    announce(f"{name}@{socket.gethostname()}")
    worker = Child(
        "worker",
        [
            *(sys.executable, "-m", "celery", "--app", "config", "--quiet", "worker"),
            *("--pool", EMBEDDED_WORKER_POOL, "--concurrency", "1"),
            *("--without-gossip", "--without-mingle"),
            *("--loglevel", "WARNING", "--hostname", f"{name}@%h"),
        ],
        # Many texts at once are sooner embedded with every core; `manage.py serve` itself has one for this.
        environment={
            "OPENBLAS_NUM_THREADS": str(os.cpu_count() or 1),
            # This process has checked what Celery would check again, and load the admin and every address for.
            "CELERY_SKIP_CHECKS": "1",
        },
    )
    try:
        worker.start()
        yield
    finally:
        worker.terminate()
        worker.wait(WORKER_STOP_SECONDS)


def _configuration() -> dict[str, Any]:
    return {
        "app": "config.asgi:application",
        "http": BoundedConnection,
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Whose `X-Forwarded-…` are believed is said by `TRUSTED_PROXIES` and `BEHIND_TLS` alone; uvicorn would believe
        # whatever runs on this machine.
        "proxy_headers": False,
        # Above what is accepted, so that most of what is too long is refused in words rather than cut off.
        "ws_max_size": 64 * settings.MAX_FRAME_BYTES,
        "timeout_graceful_shutdown": GRACEFUL_SHUTDOWN_SECONDS,
    }


def require_port(host: str, port: int) -> None:
    """Raises `OSError` where another server has it, also one that would share it."""
    with _socket(host) as probe:
        probe.bind((host, port))


def _listening(host: str, port: int) -> socket.socket:
    listening = _socket(host)
    if _SPREADS:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.bind((host, port))
    listening.listen(LISTEN_BACKLOG)
    return listening


def _socket(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _exit_on_signals() -> None:
    """uvicorn raises the signal again after its shutdown; this handler turns it into a clean exit."""
    for number in _SIGNALS:
        signal.signal(number, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
