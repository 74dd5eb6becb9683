"""N concurrent streams straight to the model server: the floor that a relay of this project is compared with.

Three clients: `socket` (asyncio streams and no decoding), `httpx2` (raw read of the body, no decoding) and `backend`
(the project's `OpenAILanguageModel.stream`). The server runs in a process of its own, so the processor time is the
client's.

    python -m benchmarks.streaming.direct --streams 100 --tokens 100 --interval-ms 10 --client backend
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from agents.llm.base import GenerationOptions, PromptMessage
from agents.llm.openai import OpenAILanguageModel

T = TypeVar("T")
_QUESTION = "Quels sont les horaires de la bibliothèque ?"
_BODY = {
    "model": "benchmark",
    "messages": [{"role": "user", "content": _QUESTION}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


@dataclass(slots=True)
class StreamTimes:
    first_token: float = 0.0
    last_token: float = 0.0
    pieces: int = 0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    client: str
    streams: int
    tokens: int
    failed: int
    seconds: float
    tokens_per_second: float
    first_token_ms_median: float
    first_token_ms_p99: float
    cpu_us_per_token: float
    pieces_per_stream: float


Client = Callable[[StreamTimes], Awaitable[None]]


@contextmanager
def model_server(*, tokens: int, interval_ms: float) -> Iterator[str]:
    """Run the scripted model server in another process, each token saying when it was sent; its base URL."""
    command = [sys.executable, "-m", "benchmarks.streaming.paced_model", "--tokens", str(tokens)]
    command += ["--interval-ms", str(interval_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)


def socket_client(base_url: str) -> Client:
    address = urlsplit(base_url)
    payload = json.dumps(_BODY).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n"

    async def run(times: StreamTimes) -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head.encode() + payload)
        last = b""
        while not last.endswith(b"0\r\n\r\n"):
            data = await reader.read(65536)
            if not data:
                raise ConnectionError("The stream was cut.")
            if b'"content": " ' in data:
                _arrived(times)
            last = (last + data)[-8:]
        writer.close()

    return run


def httpx2_client(base_url: str) -> Client:
    import httpx2

    client = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=2000), timeout=60)

    async def run(times: StreamTimes) -> None:
        async with client.stream("POST", f"{base_url}/chat/completions", json=_BODY) as response:
            async for data in response.aiter_raw():
                if b'"content": " ' in data:
                    _arrived(times)

    return run


def backend_client(base_url: str) -> Client:
    model = OpenAILanguageModel(base_url=base_url, model="benchmark", max_connections=2000)
    model.warm_up()
    messages = [PromptMessage(role="user", content=_QUESTION)]
    options = GenerationOptions()

    async def run(times: StreamTimes) -> None:
        async for chunk in model.stream(messages, options):
            if chunk.text:
                _arrived(times)

    # Its connections are closed with the event loop that opened them.
    run.aclose = model.aclose  # type: ignore[attr-defined]
    return run


CLIENTS = {"socket": socket_client, "httpx2": httpx2_client, "backend": backend_client}


def _arrived(times: StreamTimes) -> None:
    times.last_token = time.perf_counter()
    times.first_token = times.first_token or times.last_token
    times.pieces += 1


async def measure(*, client: str, base_url: str, streams: int, tokens: int) -> Figures:
    run = CLIENTS[client](base_url)
    await run(StreamTimes())
    times = [StreamTimes() for _ in range(streams)]
    begun, cpu = time.perf_counter(), time.process_time()
    outcomes = await asyncio.gather(*map(run, times), return_exceptions=True)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    if (aclose := getattr(run, "aclose", None)) is not None:
        await aclose()
    failed = sum(isinstance(outcome, BaseException) for outcome in outcomes)
    whole = [t for t, o in zip(times, outcomes, strict=True) if o is None and t.pieces]
    if not whole:
        raise RuntimeError(f"Every stream failed, the first with {outcomes[0]!r}.")
    first = sorted(1000 * (t.first_token - begun) for t in whole)
    received = tokens * len(whole)
    return Figures(
        client=client,
        streams=streams,
        tokens=tokens,
        failed=failed,
        seconds=round(seconds, 3),
        tokens_per_second=round(received / seconds),
        first_token_ms_median=round(statistics.median(first), 1),
        first_token_ms_p99=round(first[min(len(first) - 1, int(len(first) * 0.99))], 1),
        cpu_us_per_token=round(1e6 * cpu / received, 1),
        pieces_per_stream=round(statistics.mean(t.pieces for t in whole), 1),
    )


def run_loop(main: Awaitable[T]) -> T:
    """Run on uvloop where it is installed, as the web server does; `BENCH_LOOP=asyncio` for the other."""

    async def awaited() -> T:
        return await main

    if os.environ.get("BENCH_LOOP") == "asyncio":
        return asyncio.run(awaited())
    try:
        import uvloop
    except ImportError:
        return asyncio.run(awaited())
    return uvloop.run(awaited())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Concurrent streams straight to a model server.")
    parser.add_argument("--client", choices=[*CLIENTS, "all"], default="all")
    parser.add_argument("--base-url", default="", help="default: a scripted server of its own")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    options = parser.parse_args(arguments)
    names = list(CLIENTS) if options.client == "all" else [options.client]
    with model_server(tokens=options.tokens, interval_ms=options.interval_ms) as own:
        for name in names:
            figures = run_loop(
                measure(client=name, base_url=options.base_url or own, streams=options.streams, tokens=options.tokens)
            )
            print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
