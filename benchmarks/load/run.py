"""What an answer costs and how long it takes, asked as a desk is asked: different questions, open arrivals, most in new
conversations.

    python -m benchmarks.load.run [--rates 5 20 40] [--seconds 30] [--path model|direct] [--door socket|http]
    [--processes 2] [--shared]

A real `manage.py serve` with its worker, 512 entries of the CNIL's FAQ (REPONDANT_DATA) and a scripted model server
(`--tokens` tokens, `--interval-ms` apart). Questions arrive at random moments (exponential gaps), whether or not those
before have their answers. `model`: other wordings and questions about other things, nothing stored may answer.
`direct`: the FAQ's own questions, each once. Two of three open a conversation as a new visitor (its request and its
socket are in the figures); the third goes on in one that has its answer. Processor time is that of every process of the
site, from the first arrival until all of them are idle again, what is done after answers included.
"""

import argparse
import asyncio
import csv
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.as_typed.typing import typed
from benchmarks.streaming.direct import model_server, run_loop
from benchmarks.streaming.run import LeanSocket, cpu_seconds, settled, site

DATA = Path(os.environ.get("REPONDANT_DATA", Path(__file__).parents[3] / "shared" / "data"))
HERE = Path(__file__).parents[1]
#: Of a question until its last token; what takes longer failed.
PATIENCE_SECONDS = 60.0
CONTINUED = 1 / 3
#: Ways of typing in which a stored question is still known (`benchmarks.as_typed.typing`).
TYPED_WAYS = ("CAPITALS", "polite", "oral")


@dataclass(slots=True)
class Asked:
    """One question: seconds after its arrival, or why it has no answer."""

    first_token: float = 0.0
    answered: float = 0.0
    exit: str = ""
    refused: str = ""
    error: str = ""


@dataclass(slots=True)
class Visitor:
    """Who opened a conversation; its socket stays open as a page's does."""

    conversation: str
    cookies: dict[str, str]
    socket: LeanSocket | None = None
    questions: int = 0


class Refused(Exception):
    """The site said that it cannot now."""


async def request(
    port: int, path: str, body: dict[str, Any], cookies: dict[str, str]
) -> tuple[int, dict[str, str], asyncio.StreamReader, asyncio.StreamWriter]:
    """One POST on a connection of its own: status, cookies that were set, and the body still to be read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    payload = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
    )
    if cookies:
        head += "Cookie: " + "; ".join(f"{k}={v}" for k, v in cookies.items()) + "\r\n"
        head += f"X-CSRFToken: {cookies.get('csrftoken', '')}\r\n"
    writer.write(head.encode() + b"\r\n" + payload)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    given = dict(cookies)
    for line in lines:
        if line.lower().startswith("set-cookie:"):
            name, _equals, value = line.split(":", 1)[1].split(";")[0].strip().partition("=")
            given[name] = value
    return int(lines[0].split()[1]), given, reader, writer


async def ask_over_socket(port: int, visitor: Visitor | None, question: str, asked: Asked) -> Visitor:
    began = time.perf_counter()
    if visitor is None:
        body = {"deployment": "bench"}
        status, cookies, reader, writer = await request(port, "/api/conversations/", body, {})
        text = await reader.read()
        writer.close()
        if status != 201:
            raise Refused(str(status))
        visitor = Visitor(json.loads(text[text.index(b"{") : text.rindex(b"}") + 1])["id"], cookies)
        cookie = f"sessionid={cookies['sessionid']}"
        visitor.socket = await LeanSocket.open(port, visitor.conversation, cookie)
    assert visitor.socket is not None
    visitor.questions += 1
    frame = {"type": "ask", "message": question, "clientMessageId": str(visitor.questions)}
    visitor.socket.send(json.dumps(frame))
    while not asked.answered:
        for received in await visitor.socket.receive():
            _take(received, asked, began)
    return visitor


async def ask_over_http(port: int, visitor: Visitor | None, question: str, asked: Asked) -> Visitor:
    began = time.perf_counter()
    visitor = visitor or Visitor("", {})
    visitor.questions += 1
    body = {
        "deployment": "bench",
        "message": question,
        "clientMessageId": str(visitor.questions),
        **({"conversationId": visitor.conversation} if visitor.conversation else {}),
    }
    status, visitor.cookies, reader, writer = await request(port, "/api/rag/chat", body, visitor.cookies)
    if status != 200:
        writer.close()
        raise Refused(str(status))
    name = b""
    async for line in reader:
        if line.startswith(b"event: "):
            name = line[7:].strip()
        elif line.startswith(b"data: "):
            event = line[6:].strip()
            if name == b"meta" and not visitor.conversation:
                visitor.conversation = json.loads(event)["conversationId"]
            # As a frame of the socket says it.
            _take(b'{"type": "' + name + b'", ' + event[1:], asked, began)
    writer.close()
    if not asked.answered:
        raise ConnectionError("The stream ended early.")
    return visitor


def _take(event: bytes, asked: Asked, began: float) -> None:
    if event.startswith(b'{"type": "delta"'):
        asked.first_token = asked.first_token or time.perf_counter() - began
    elif event.startswith(b'{"type": "done"'):
        asked.answered = time.perf_counter() - began
        asked.exit = json.loads(event)["answerSource"]
    elif event.startswith(b'{"type": "error"'):
        asked.answered = time.perf_counter() - began
        code = json.loads(event)["code"]
        if code == "overloaded":
            raise Refused(code)
        asked.error = code


DOORS: dict[str, Callable[[int, Visitor | None, str, Asked], Awaitable[Visitor]]] = {
    "socket": ask_over_socket,
    "http": ask_over_http,
}


class Load:
    """Questions at one rate for some seconds, each asked once over the life of the site."""

    def __init__(self, port: int, door: str, questions: Iterator[str], chance: random.Random) -> None:
        self._port, self._ask, self._questions = port, DOORS[door], questions
        self._chance = chance
        self._waiting: list[Visitor] = []
        self.asked: list[Asked] = []

    async def run(self, rate: float, seconds: float) -> None:
        running: set[asyncio.Task[None]] = set()
        end = time.perf_counter() + seconds
        at = time.perf_counter()
        while (at := at + self._chance.expovariate(rate)) < end:
            await asyncio.sleep(max(at - time.perf_counter(), 0))
            running.add(asyncio.create_task(self._one(next(self._questions))))
        await asyncio.gather(*running)

    async def _one(self, question: str) -> None:
        asked = Asked()
        self.asked.append(asked)
        visitor = None
        if self._waiting and self._chance.random() < CONTINUED:
            visitor = self._waiting.pop(self._chance.randrange(len(self._waiting)))
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                visitor = await self._ask(self._port, visitor, question, asked)
        except Refused as refusal:
            asked.refused, asked.answered = str(refusal), time.perf_counter() - began
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            asked.error = f"{type(error).__name__} {error}"
        else:
            self._waiting.append(visitor)

    def close(self) -> None:
        for visitor in self._waiting:
            if visitor.socket is not None:
                visitor.socket.close()


async def measure(port: int, process: psutil.Process, load: Load, rate: float, seconds: float) -> dict[str, Any]:
    await settled(process)
    before, began = cpu_seconds(process), time.perf_counter()
    await load.run(rate, seconds)
    lasted = time.perf_counter() - began
    await settled(process)
    cpu = cpu_seconds(process) - before
    load.close()
    whole = [each for each in load.asked if each.exit]
    first = [each.first_token for each in whole if each.first_token]
    exits: dict[str, int] = {}
    for each in whole:
        exits[each.exit] = exits.get(each.exit, 0) + 1
    return {
        "rate": rate,
        "asked": len(load.asked),
        "answered": len(whole),
        "refused": sum(bool(each.refused) for each in load.asked),
        "refused_ms_max": _ms(max((e.answered for e in load.asked if e.refused), default=0.0)),
        "failed": sorted({each.error for each in load.asked if each.error})[:3],
        "behind_seconds": round(lasted - seconds, 2),
        "first_token_ms_p50_p95": [_ms(_quantile(first, 0.5)), _ms(_quantile(first, 0.95))],
        "answered_ms_p50_p95": [_ms(_quantile([each.answered for each in whole], q)) for q in (0.5, 0.95)],
        "cpu_ms_per_answer": round(1000 * cpu / max(len(whole), 1), 1),
        "exits": exits,
    }


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else 0.0


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def stored_questions() -> list[str]:
    """The FAQ's own, as they stand and as people type them (`benchmarks/as_typed`)."""
    with (DATA / "cnil_faq.csv").open(encoding="utf-8-sig", newline="") as rows:
        stored = [row["question"] for row in csv.DictReader(rows)]
    otherwise = (typed(question, way) for way in TYPED_WAYS for question in stored)
    return list(dict.fromkeys((*stored, *otherwise)))


def other_questions() -> list[str]:
    """Other wordings of the FAQ, then questions about other things: nothing stored may answer them."""
    found: list[str] = []
    for part in ("thresholds", "retrieval"):
        with (HERE / part / "cnil_reformulations.jsonl").open(encoding="utf-8") as lines:
            found += [str(json.loads(line)["question"]) for line in lines]
    for name in ("covid_faq_fr", "banking77_train_sample", "clinc_val"):
        with (DATA / f"{name}.jsonl").open(encoding="utf-8") as lines:
            found += [str(json.loads(line)["question"]) for line in lines]
    return list(dict.fromkeys(found))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Different questions at open arrivals.")
    parser.add_argument("--rates", type=float, nargs="+", default=[5.0, 20.0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--path", choices=("model", "direct"), default="model")
    parser.add_argument("--door", choices=sorted(DOORS), default="socket")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shared", action="store_true", help="on PostgreSQL and Redis")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    chance = random.Random(18)  # noqa: S311  # arrivals, the same in every run
    found = stored_questions() if options.path == "direct" else other_questions()
    chance.shuffle(found)
    with (
        model_server(tokens=options.tokens, interval_ms=options.interval_ms) as url,
        site(
            url,
            processes=options.processes,
            is_shared=options.shared,
            document=DATA / "cnil_faq.csv",
            # What no entry is near to goes to the model too.
            site_settings="guard_rail_threshold=0.0" if options.path == "model" else "",
            with_worker=True,
        ) as (port, process),
    ):
        questions = iter(found)
        run_loop(Load(port, options.door, questions, chance).run(5, 4))
        for rate in options.rates:
            load = Load(port, options.door, questions, chance)
            print(json.dumps(run_loop(measure(port, process, load, rate, options.seconds))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
