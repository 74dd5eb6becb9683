"""The whole product against its model server called directly, in one run.

A real `manage.py serve` on a database of its own, with an indexed document; N sockets ask at the same time, and the
model server streams its tokens. Everything a turn does is inside: claim, embedding, search, prompt, generation, saving.
The ratio of the two throughputs is the figure.

    python -m benchmarks.streaming.run --streams 100 --tokens 100 --interval-ms 10 --repeats 3
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.resilience.site import own_database, own_redis
from benchmarks.streaming.direct import (
    StreamTimes,
    _arrived,
    backend_client,
    measure,
    model_server,
    run_loop,
    socket_client,
)
from benchmarks.streaming.paced_model import sent_at
from tests.servers.ports import free_port

PROJECT = Path(__file__).resolve().parents[2]
QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ?"
DOCUMENT = """# Bibliothèque

## Salles de travail

Les salles de travail de la bibliothèque se réservent à l'accueil, pour deux heures au plus.
"""
START_SECONDS = 60
#: Longer than `AFTERWARDS_DELAY_SECONDS`, after which a turn's lesson is kept.
SETTLED_SECONDS = 2.0


#: Of the whole site; nothing is written about documents by the model, so that its server counts turns only.
_SETTINGS = """
from agents.models import RuntimeSettings
RuntimeSettings(
    values=dict(asks_per_minute_user=100_000, asks_per_minute_address=100_000, generate_questions=False, %s)
).save()
"""


@contextmanager
def site(
    base_url: str,
    *,
    processes: int = 1,
    is_shared: bool = False,
    document: Path | None = None,
    site_settings: str = "",
    with_worker: bool = False,
) -> Iterator[tuple[int, psutil.Process]]:
    """`manage.py serve` in processes of its own: its port and first process. `is_shared`: PostgreSQL and Redis."""
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="repondant-bench-"))
        environment = {
            **os.environ,
            "DATA_DIR": folder,
            "OPENAI_BASE_URL": base_url,
            "LLM_MODEL": "benchmark",
            "LOG_LEVEL": "WARNING",
            # One address opens the sockets of everybody here.
        }
        environment.pop("DATABASE_URL", None)
        environment.pop("REDIS_URL", None)
        if is_shared:
            environment["DATABASE_URL"] = opened.enter_context(own_database())
            environment["REDIS_URL"] = opened.enter_context(own_redis()).url
        if document is None:
            document = Path(folder) / "bibliotheque.md"
            document.write_text(DOCUMENT)
        # Indexed without a model, so that the model server counts turns only.
        quiet = {**environment, "OPENAI_BASE_URL": ""}
        for words in (
            ["migrate", "-v0"],
            ["create_agent", "bench"],
            ["add_documents", "bench", str(document)],
            # One address asks for everybody here; the limits stay on, so that their cost is in the figures.
            ["shell", "-c", _SETTINGS % site_settings],
        ):
            _manage(words, quiet)
        port = free_port()
        process = subprocess.Popen(  # noqa: S603  # fixed command
            [
                *(sys.executable, "manage.py", "serve", "--port", str(port)),
                *("--processes", str(processes), *(() if with_worker else ("--no-worker",))),
            ],
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until_up(port)
            yield port, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(20)


def _manage(words: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "manage.py", *words]
    subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True)  # noqa: S603


def wait_until_up(port: int) -> None:
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("The site did not come up.")


def new_conversation(port: int) -> tuple[str, str]:
    """A conversation of a new visitor: its id and the visitor's cookie."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/conversations/",
        data=b'{"deployment": "bench"}',
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        cookie = response.headers["Set-Cookie"].split(";")[0]
        return json.loads(response.read())["id"], cookie


async def measure_site(port: int, streams: int, process: psutil.Process) -> dict[str, Any]:
    """Ask on every socket at the same time; seconds, first tokens and processor time of the web process."""
    await settled(process)
    owners = [await asyncio.to_thread(new_conversation, port) for _ in range(streams)]
    sockets = [await LeanSocket.open(port, *owner) for owner in owners]
    times = [StreamTimes() for _ in sockets]
    before, cpu = time.perf_counter(), cpu_seconds(process)
    answers = await asyncio.gather(*(_ask(s, t) for s, t in zip(sockets, times, strict=True)))
    seconds = time.perf_counter() - before
    cpu = cpu_seconds(process) - cpu
    for opened in sockets:
        opened.close()
    lags = sorted(lag for answer in answers for lag in _lags_ms(answer))
    tokens = len(lags)
    first = sorted(1000 * (t.first_token - before) for t in times if t.first_token)
    return {
        "streams": streams,
        "failed": sum(not answer for answer in answers),
        "seconds": round(seconds, 3),
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds),
        "first_token_ms_median": round(first[len(first) // 2], 1) if first else None,
        "cpu_us_per_token": round(1e6 * cpu / max(tokens, 1), 1),
        "lag_ms_p50_p99": [round(lags[int(tokens * q)], 1) for q in (0.5, 0.99)] if lags else None,
        "frames_per_stream": round(sum(t.pieces for t in times) / streams, 1),
    }


async def settled(process: psutil.Process) -> None:
    """Wait until the turns before are kept (`chat.runs.afterwards`): each burst meets a process that is not working off
    another.
    """
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        before = cpu_seconds(process)
        await asyncio.sleep(SETTLED_SECONDS)
        if cpu_seconds(process) - before < 0.05 * SETTLED_SECONDS:
            return
    raise TimeoutError("The site did not come to rest.")


def cpu_seconds(process: psutil.Process) -> float:
    return sum(sum(p.cpu_times()[:2]) for p in (process, *process.children(recursive=True)))


#: Codes of WebSocket frames (RFC 6455, 5.2).
PING, PONG = 0x9, 0xA


class LeanSocket(asyncio.Protocol):
    """A WebSocket client that costs next to nothing: the machine's cores are shared with what is measured.

    It answers pings while nobody waits for it, as a page does.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._payloads: list[bytes] = []
        self._arrived = asyncio.Event()
        self._head: bytes | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, port: int, conversation: str, cookie: str) -> "LeanSocket":
        loop = asyncio.get_running_loop()
        _transport, opened = await loop.create_connection(cls, "127.0.0.1", port)
        head = (
            f"GET /ws/chat/{conversation}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Origin: http://127.0.0.1:{port}\r\nCookie: {cookie}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}\r\n\r\n"
        )
        opened._transport.write(head.encode())
        status = (await opened._wait()).split(b"\r\n")[0]
        if b" 101 " not in status:
            raise ConnectionError(status.decode())
        return opened

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._head is None:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            self._head, self._buffer = head, rest
        frames, self._buffer = _frames(self._buffer)
        for code, payload in frames:
            if code == PING:
                self._transport.write(bytes([0x80 | PONG, 0x80 | len(payload)]) + bytes(4) + payload)
            else:
                self._payloads.append(payload)
        self._arrived.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        self._arrived.set()

    def send(self, text: str) -> None:
        """One text frame, masked with zeros."""
        data = text.encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2)
        self._transport.write(b"\x81" + size + bytes(4) + data)

    async def receive(self) -> list[bytes]:
        """The payloads of the frames that are there, waiting for the first of them."""
        while not self._payloads:
            await self._wait()
        payloads, self._payloads = self._payloads, []
        return payloads

    async def _wait(self) -> bytes:
        """Until something came: the head of the answer to the handshake, which is the first."""
        await self._arrived.wait()
        self._arrived.clear()
        if self._is_closed and not self._payloads:
            raise ConnectionError("The socket was closed.")
        return self._head or b""

    def close(self) -> None:
        self._transport.close()


def _frames(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Code and payload of the whole frames of a server at the start of `data`, and the rest."""
    frames, at = [], 0
    while len(data) >= at + 2:
        size, start = data[at + 1], at + 2
        if size >= 126:
            start += 2 if size == 126 else 8
            if len(data) < start:
                break
            size = int.from_bytes(data[at + 2 : start])
        if len(data) < start + size:
            break
        frames.append((data[at] & 0x0F, data[start : start + size]))
        at = start + size
    return frames, data[at:]


async def _ask(opened: LeanSocket, times: StreamTimes) -> list[tuple[int, bytes]]:
    """One question; the deltas of its answer, each with its arrival in ns, or none where the turn failed."""
    opened.send(json.dumps({"type": "ask", "message": QUESTION, "clientMessageId": "1"}))
    deltas: list[tuple[int, bytes]] = []
    while True:
        for frame in await opened.receive():
            if frame.startswith(b'{"type": "delta"'):
                _arrived(times)
                deltas.append((time.monotonic_ns(), frame))
            elif frame.startswith(b'{"type": "done"'):
                return deltas
            elif frame.startswith(b'{"type": "error"'):
                return []


def _lags_ms(answer: list[tuple[int, bytes]]) -> Iterator[float]:
    """From the moment at which the model server sent a token to the one at which its reader had it."""
    for arrived, frame in answer:
        for sent in json.loads(frame)["text"].split():
            yield (arrived - sent_at(sent)) / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Streaming of the product against the model server.")
    parser.add_argument("--streams", type=int, nargs="+", default=[100])
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="web processes of the site")
    parser.add_argument("--shared", action="store_true", help="on PostgreSQL and Redis")
    options = parser.parse_args(arguments)
    with (
        model_server(tokens=options.tokens, interval_ms=options.interval_ms) as url,
        site(url, processes=options.processes, is_shared=options.shared) as (port, process),
    ):
        for _ in range(options.processes):
            run_loop(measure_site(port, 8, process))
        for streams in options.streams:
            for _ in range(options.repeats):
                found = _once(url, port, process, streams, options.tokens)
                print(json.dumps(found), flush=True)


def _once(url: str, port: int, process: psutil.Process, streams: int, tokens: int) -> dict[str, Any]:
    direct = {
        name: run_loop(measure(client=name, base_url=url, streams=streams, tokens=tokens))
        for name, _ in (("socket", socket_client), ("backend", backend_client))
    }
    product = run_loop(measure_site(port, streams, process))
    return {
        "direct_tokens_per_second": direct["socket"].tokens_per_second,
        "direct_first_token_ms": direct["socket"].first_token_ms_median,
        "backend_tokens_per_second": direct["backend"].tokens_per_second,
        "product": product,
        "ratio_to_direct": round(product["tokens_per_second"] / direct["socket"].tokens_per_second, 3),
    }


if __name__ == "__main__":
    main()
