"""Questions under lost connections, reloads, retries and killed servers: is each answered exactly once?

Real web processes, a scripted model server whose tokens say which question they answer and which token they are, and
readers that behave as the page does: a question without an acknowledgement is sent again under the same id, one with it
is resumed after the last event seen, in whichever process is there; an interrupted one is retried. Meanwhile the
processes are killed with SIGKILL and started again. At the end the streams, the API and the rows are compared with what
was asked.

    python -m benchmarks.resilience.run --sends 1000 --processes 2 --shared      # PostgreSQL and Redis
    python -m benchmarks.resilience.run --sends 1000                             # one process on SQLite
"""

import argparse
import asyncio
import json
import random
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks.resilience.site import AGENT, Site, WebProcess, last_user_message, numbered
from tests.servers.model_server import ModelReply, ModelServer

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {tag}."
TOKENS = 40
INTERVAL_SECONDS = 0.01
#: One send, whatever befalls it.
SEND_SECONDS = 600.0
#: What happens to a send, besides a killed server, and how often.
TROUBLES = {"none": 25, "disconnect": 25, "reload": 20, "resend": 15, "double": 15}


def answered(body: Any) -> ModelReply:
    found = re.findall(r"Dossier (\w+)", last_user_message(body))
    tag = found[-1] if found else "nothing"
    return ModelReply(tokens=numbered(tag, TOKENS), interval=INTERVAL_SECONDS)


class Interruption(Exception):
    """The reader goes away, on purpose."""


@dataclass(slots=True)
class Send:
    """One question, as its reader sees it."""

    tag: str
    client_message_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    turn_id: str = ""
    last_event_id: int = 0
    text: str = ""
    end: dict[str, Any] | None = None
    disordered: int = 0

    def receive(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "meta":
            if self.turn_id and frame["turnId"] != self.turn_id:
                raise AssertionError(f"{self.tag}: another turn")
            self.turn_id, self.text = frame["turnId"], ""
        elif frame["id"]:
            self.disordered += frame["id"] <= self.last_event_id
        if frame["type"] == "delta":
            self.text += frame["text"]
        self.last_event_id = frame["id"] or self.last_event_id
        if frame["type"] in ("done", "error"):
            self.end = frame

    def has_ended(self) -> bool:
        return self.end is not None

    def is_answered(self) -> bool:
        return self.end is not None and self.end.get("status") == "done"

    def is_whole(self) -> bool:
        return self.is_answered() and self.text == "".join(numbered(self.tag, TOKENS))


class Person:
    """A visitor with one conversation, who asks one question after the other."""

    def __init__(self, lab: "Lab", number: int) -> None:
        self.lab = lab
        self.number = number
        self.conversation_id = ""
        self.sends: list[Send] = []
        self._cookies = aiohttp.CookieJar(unsafe=True)
        self._http = aiohttp.ClientSession(cookie_jar=self._cookies)

    async def arrive(self) -> None:
        created = await self._call("post", "/api/conversations/", json={"deployment": AGENT})
        self.conversation_id = created["id"]

    async def ask(self, number: int) -> None:
        send = Send(f"p{self.number}q{number}")
        self.sends.append(send)
        trouble = self.lab.draw()
        self.lab.counts[f"sends: {trouble}"] += 1
        async with asyncio.timeout(SEND_SECONDS):
            if trouble == "double":
                other = Send(send.tag, send.client_message_id)
                await asyncio.gather(self._follow(send, "none"), self._follow(other, "none"))
                self.lab.other_readers.append((send, other))
            else:
                await self._follow(send, trouble)
        self.lab.answered.release()

    async def _follow(self, send: Send, trouble: str) -> None:
        """To the last event, as the page does: through lost sockets, and again where the turn was interrupted."""
        retries = False
        while not send.is_answered():
            try:
                await self._read(send, trouble, retries)
            except Interruption:
                self.lab.counts[f"left: {trouble}"] += 1
                if trouble == "reload":
                    send.text, send.last_event_id = "", 0
                    await self._reload(send)
                elif trouble == "resend":
                    send.turn_id, send.last_event_id = "", 0
                    retries = False
                trouble = "none"
                continue
            except (aiohttp.ClientError, OSError):
                self.lab.counts["connections lost"] += 1
                await asyncio.sleep(self.lab.chance.uniform(0.05, 0.3))
                continue
            if send.end is None:
                self.lab.counts["connections lost"] += 1
                # Refused where the other reader of the same message was first, and its answer is there: looked at.
                retries = False
                continue
            retries = not send.is_answered()
            if retries:
                self.lab.counts[f"ended: {send.end.get('status') or send.end.get('code')}"] += 1
                partial = send.end.get("content") or ""
                self.lab.counts["interrupted with text kept"] += bool(partial)
                if not "".join(numbered(send.tag, TOKENS)).startswith(partial):
                    raise AssertionError(f"{send.tag}: partial text {partial!r}")
                await asyncio.sleep(0.1)

    async def _read(self, send: Send, trouble: str, retries: bool) -> None:
        process = self.lab.some_process()
        leaves_after = self.lab.chance.randrange(1, 25) if trouble != "none" else None
        url = f"{process.url}/ws/chat/{self.conversation_id}/"
        headers = {"Origin": process.url}
        async with self._http.ws_connect(url, headers=headers, timeout=_CLOSING) as socket:
            await socket.send_str(json.dumps(self._first_frame(send, retries)))
            send.end = None
            frames = 0
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    return
                frame = json.loads(message.data)
                if frame["type"] == "error" and not frame["id"]:
                    self.lab.counts[f"refused: {frame['code']}"] += 1
                    await asyncio.sleep(0.2)
                    return
                send.receive(frame)
                frames += 1
                if send.has_ended():
                    return
                if frames == leaves_after:
                    socket._response.close()  # the connection is cut, not closed
                    raise Interruption

    def _first_frame(self, send: Send, retries: bool) -> dict[str, Any]:
        if retries:
            return {"type": "retry", "turnId": send.turn_id}
        if send.turn_id:
            last = send.last_event_id
            return {"type": "resume", "turnId": send.turn_id, "lastEventId": last}
        return {"type": "ask", "message": QUESTION.format(tag=send.tag), "clientMessageId": send.client_message_id}

    async def _reload(self, send: Send) -> None:
        """What the page finds of its conversation: the running turn, or the stored answer."""
        thread = await self.thread()
        running = thread["runningTurn"]
        if running is not None and send.turn_id and running["id"] != send.turn_id:
            raise AssertionError(f"{send.tag}: the page is shown another turn")

    async def thread(self) -> dict[str, Any]:
        path = f"/api/conversations/{self.conversation_id}/messages/"
        found: dict[str, Any] = await self._call("get", path)
        return found

    async def _call(self, verb: str, path: str, **body: Any) -> Any:
        """A request, tried until a process answers it."""
        while True:
            process = self.lab.some_process()
            headers = {"Referer": process.url}
            if token := self._csrf():
                headers["X-CSRFToken"] = token
            try:
                async with self._http.request(verb, process.url + path, headers=headers, **body) as response:
                    if response.status < 500:
                        response.raise_for_status()
                        return await response.json()
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError):
                pass
            await asyncio.sleep(0.1)

    def _csrf(self) -> str:
        return next((c.value for c in self._cookies if c.key == "csrftoken"), "")

    async def leave(self) -> None:
        await self._http.close()


_CLOSING = aiohttp.ClientWSTimeout(ws_close=1.0)


class Lab:
    def __init__(self, site: Site, *, seed: int) -> None:
        self.site = site
        self.chance = random.Random(seed)  # noqa: S311  # an experiment that can be run again
        self.counts: Counter[str] = Counter()
        self.other_readers: list[tuple[Send, Send]] = []
        #: Questions with their whole answer that no kill has been counted against.
        self.answered = asyncio.Semaphore(0)

    def some_process(self) -> WebProcess:
        return self.chance.choice(self.site.processes)

    def draw(self) -> str:
        return self.chance.choices(list(TROUBLES), list(TROUBLES.values()))[0]

    async def run(self, *, sends: int, people: int, kill_seconds: float, kill_answers: int) -> dict[str, Any]:
        visitors = [Person(self, number) for number in range(people)]
        questions = iter(range(sends))
        begun = time.monotonic()

        async def visit(person: Person) -> None:
            await person.arrive()
            for number in questions:
                await person.ask(number)

        # In one group: a server that does not come up again ends the run, not the patience of its readers.
        async with asyncio.TaskGroup() as group:
            killing = group.create_task(self._kill(kill_seconds, kill_answers))
            await asyncio.gather(*(group.create_task(visit(person)) for person in visitors))
            killing.cancel()
        seconds = time.monotonic() - begun
        for process in self.site.processes:
            await asyncio.to_thread(process.ensure_up)
        verdict = await self._verdict(visitors)
        for person in visitors:
            await person.leave()
        return {"sends": sends, "seconds": round(seconds, 1), **verdict, **self.counts}

    async def _kill(self, seconds: float, answers: int) -> None:
        """Every so often one process dies at once, and is started again; the first while the others are being answered.

        Each waits for so many `answers`: on a slow machine a process that is killed as soon as it is up would answer
        nothing, for ever, and on a quick one all would be answered before the first dies.
        """
        while seconds:
            if self.counts["servers killed"]:
                await asyncio.sleep(self.chance.uniform(0.5, 1.5) * seconds)
            for _answer in range(answers):
                await self.answered.acquire()
            victim = self.some_process()
            await asyncio.to_thread(victim.kill)
            self.counts["servers killed"] += 1
            await asyncio.sleep(self.chance.uniform(0, 1))
            await asyncio.to_thread(victim.start)

    async def _verdict(self, visitors: Sequence[Person]) -> dict[str, Any]:
        """What is wrong, by name; all zero where nothing is."""
        wrong: Counter[str] = Counter()
        for person in visitors:
            asked = {QUESTION.format(tag=send.tag): send for send in person.sends}
            messages = (await person.thread())["messages"]
            questions = [m["content"] for m in messages if m["role"] == "user"]
            answers = [m for m in messages if m["role"] == "assistant"]
            wrong["questions lost"] += len(asked.keys() - set(questions))
            wrong["questions doubled"] += len(questions) - len(set(questions))
            wrong["questions of others"] += len(set(questions) - asked.keys())
            wrong["questions out of order"] += questions != list(asked)
            by_turn = Counter(m["turn"]["id"] for m in answers)
            for send in person.sends:
                wrong["answers lost"] += by_turn[send.turn_id] == 0
                wrong["answers doubled"] += by_turn[send.turn_id] > 1
                wrong["streams not whole"] += not send.is_whole()
                wrong["events out of order"] += send.disordered
            stored = {m["turn"]["id"]: m["content"] for m in answers}
            expected = {s.turn_id: "".join(numbered(s.tag, TOKENS)) for s in person.sends}
            wrong["answers not as written"] += sum(
                stored.get(turn) != text.strip() and stored.get(turn) != text for turn, text in expected.items()
            )
            wrong["answers of others"] += len(stored.keys() - expected.keys())
        for send, other in self.other_readers:
            wrong["two turns for one message"] += send.turn_id != other.turn_id
            wrong["readers that differ"] += send.text != other.text
        sends = sum(len(person.sends) for person in visitors)
        turns = self.site.query("SELECT status, COUNT(*) FROM chat_turn GROUP BY status")
        wrong["turns too many or few"] += abs(sum(count for _status, count in turns) - sends)
        wrong["turns not done"] += sum(count for status, count in turns if status != "done")
        [(rows,)] = self.site.query("SELECT COUNT(*) FROM chat_message")
        wrong["messages too many or few"] += abs(rows - 2 * sends)
        return {"wrong": sum(wrong.values()), "verdict": dict(wrong)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Questions under trouble: each answered once?")
    parser.add_argument("--sends", type=int, default=100)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help="PostgreSQL and Redis")
    parser.add_argument("--kill-every", type=float, default=8.0, help="seconds; 0: never")
    parser.add_argument("--kill-answers", type=int, default=2, help="answers between two kills")
    parser.add_argument("--lease", type=float, default=3.0, help="TURN_LEASE_SECONDS of the site")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    with (
        ModelServer(fallback=answered) as model,
        Site(
            model, processes=options.processes, shared=options.shared, constants={"TURN_LEASE_SECONDS": options.lease}
        ) as site,
    ):
        lab = Lab(site, seed=options.seed)
        try:
            found = asyncio.run(
                lab.run(
                    sends=options.sends,
                    people=options.people,
                    kill_seconds=options.kill_every,
                    kill_answers=options.kill_answers,
                )
            )
        except BaseException:
            sys.stderr.write(site.logs()[-20_000:])
            raise
        found |= {"seed": options.seed, "model calls": len(model.calls)}
        logs = site.logs()
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if found["wrong"]:
        sys.stderr.write(logs[-20_000:])
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
