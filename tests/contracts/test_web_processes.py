"""Two real web processes on PostgreSQL and Redis: one turn, one answer, wherever the reader is and whoever dies."""

import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import psutil
import pytest

from benchmarks.resilience.site import AGENT, Site, WebProcess, last_user_message, numbered
from tests.servers.model_server import ModelReply, ModelServer
from tests.waiting import in_threads
from tests.web_client import Page, Visitor, text_of

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(900)]

CONSTANTS = {"TURN_LEASE_SECONDS": 6.0, "EVENT_LOG_RETRY_CEILING_SECONDS": 0.5, "EVENT_LOG_TIMEOUT_SECONDS": 0.5}
#: Each has an answer of four megabytes made for it, in a second or two.
SLOW_READERS = 8
QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {tag}."
#: By their tag: how many tokens, how far apart, how long.
ANSWERS = {
    "quick": (5, 0.0, ""),
    "steady": (80, 0.05, ""),
    "live": (200, 0.05, ""),
    "long": (400, 0.05, ""),
    "huge": (4000, 0.0, "x" * 1000 + " "),
}
#: A wrong answer in the memory of the site.
REMEMBER = """\
from agents.models import Deployment
from tests.factories import make_entry
deployment = Deployment.objects.get(slug="{agent}")
deployment.config_overlay = {{"memory_threshold": 0.7, "direct_answer_threshold": 0.9}}
deployment.save()
make_entry(deployment, "{question}", "Jamais.")
"""


def answered(body: Any) -> ModelReply:
    tag = re.findall(r"Dossier ([a-z]+)", last_user_message(body))[-1]
    count, interval, filling = ANSWERS[tag]
    return ModelReply(tokens=[token + filling for token in numbered(tag, count)], interval=interval)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ModelServer(fallback=answered) as model, Site(model, processes=2, shared=True, constants=CONSTANTS) as served:
        yield served


@pytest.fixture
def one(site: Site) -> WebProcess:
    return _up(site.processes[0])


@pytest.fixture
def two(site: Site) -> WebProcess:
    return _up(site.processes[1])


def _up(process: WebProcess) -> WebProcess:
    process.ensure_up()
    return process


def ask(page: Page, tag: str, client_message_id: str = "") -> None:
    page.ask(QUESTION.format(tag=tag), client_message_id)


def whole(tag: str) -> str:
    count, _interval, filling = ANSWERS[tag]
    return "".join(token + filling for token in numbered(tag, count))


def test_reader_goes_on_live_in_another_process_with_the_same_ids(one: WebProcess, two: WebProcess) -> None:
    visitor = Visitor(one.url, AGENT)
    first = visitor.socket(one.url)
    ask(first, "live")
    frames = [first.until("meta")]
    while len(frames) < 20:
        frames.append(first.receive())
    first.close()
    turn_id, seen = frames[0]["turnId"], frames[-1]["id"]
    assert visitor.thread(two.url)["runningTurn"] == {"id": turn_id}
    second = visitor.socket(two.url)
    second.send(type="resume", turnId=turn_id, lastEventId=seen)
    rest = second.until_end()
    second.close()
    # In many pieces, as it came: a stored answer would be told in one.
    assert len(rest) > 10
    assert [f["id"] for f in frames + rest] == sorted({f["id"] for f in frames + rest})
    assert text_of(frames + rest) == whole("live")
    assert rest[-1]["content"].strip() == whole("live").strip()


def test_same_message_to_both_processes_at_once_is_one_turn(site: Site, one: WebProcess, two: WebProcess) -> None:
    for round_number in range(5):
        visitor = Visitor(one.url, AGENT)
        pages = [visitor.socket(process.url) for process in (one, two)]

        def race(page: Page, identifier: str) -> list[dict[str, Any]]:
            ask(page, "quick", identifier)
            return page.until_end()

        ends = in_threads(*(partial(race, page, f"race-{round_number}") for page in pages))
        assert len({frames[0]["turnId"] for frames in ends}) == 1
        assert {text_of(frames) for frames in ends} == {whole("quick")}
        assert len(visitor.thread(two.url)["messages"]) == 2
        for page in pages:
            page.close()


def test_stop_in_one_process_ends_the_model_call_of_the_other(site: Site, one: WebProcess, two: WebProcess) -> None:
    visitor = Visitor(one.url, AGENT)
    first, second = visitor.socket(one.url), visitor.socket(two.url)
    ask(first, "long")
    first.until("delta")
    second.send(type="stop")
    last = first.until_end()[-1]
    # The model paces its words: so many were not said any more.
    assert len(last["content"]) < len(whole("long")) / 2
    assert last["status"] == "interrupted"
    assert whole("long").startswith(last["content"])
    assert last["content"]


def test_question_of_a_killed_process_is_interrupted_and_can_be_run_again(one: WebProcess, two: WebProcess) -> None:
    visitor = Visitor(one.url, AGENT)
    first = visitor.socket(one.url)
    ask(first, "steady", "killed")
    turn_id = first.until("meta")["turnId"]
    first.until("delta")
    one.kill()
    second = visitor.socket(two.url)
    # The page sends what was not acknowledged under the same id: the same turn, with its end.
    ask(second, "steady", "killed")
    told = second.until_end()
    assert {f["turnId"] for f in told if f["type"] == "meta"} == {turn_id}
    assert told[-1]["status"] == "interrupted"
    second.send(type="retry", turnId=turn_id)
    again = second.until_end()
    assert again[-1]["status"] == "done"
    assert text_of(again) == whole("steady")
    messages = visitor.thread(two.url)["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[1]["content"].strip() == whole("steady").strip()


def test_frozen_process_that_wakes_up_does_not_answer_a_second_time(one: WebProcess, two: WebProcess) -> None:
    visitor = Visitor(one.url, AGENT)
    first = visitor.socket(one.url)
    ask(first, "steady")
    turn_id = first.until("meta")["turnId"]
    first.until("delta")
    one.send_signal(signal.SIGSTOP)
    try:
        second = visitor.socket(two.url)
        second.send(type="resume", turnId=turn_id, lastEventId=0)
        assert second.until_end()[-1]["status"] == "interrupted"
        second.send(type="retry", turnId=turn_id)
        second.until("delta")
    finally:
        one.send_signal(signal.SIGCONT)
    last = second.until_end()[-1]
    time.sleep(1)
    messages = visitor.thread(two.url)["messages"]
    assert last["status"] == "done"
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[1]["content"].strip() == whole("steady").strip()


def test_redis_that_dies_in_mid_turn_ends_no_answer(site: Site, one: WebProcess, two: WebProcess) -> None:
    assert site.redis is not None
    visitor = Visitor(one.url, AGENT)
    first, second = visitor.socket(one.url), visitor.socket(two.url)
    ask(first, "steady")
    meta = first.until("meta")
    second.send(type="resume", turnId=meta["turnId"], lastEventId=0)
    second.until("delta")
    site.redis.kill()
    try:
        here = first.until_end()
        there = second.until_end()
    finally:
        site.redis.start()
    assert here[-1]["status"] == "done"
    assert text_of(here) == whole("steady")
    # Without Redis a reader elsewhere is told the stored answer, from its start.
    assert there[-1]["content"] == here[-1]["content"]
    told = there[max(n for n, f in enumerate(there) if f["type"] == "meta") :]
    assert text_of(told).strip() == whole("steady").strip()
    assert "Redis does not take the event log" in site.logs()


def test_slow_readers_cost_neither_memory_nor_others_time(one: WebProcess) -> None:
    server = psutil.Process(one.pid)
    visitor = Visitor(one.url, AGENT)
    page = visitor.socket(one.url)
    ask(page, "huge")
    frames = page.until_end()
    assert len(text_of(frames)) == len(whole("huge"))
    turn_id = frames[0]["turnId"]
    before = server.memory_info().rss
    # Readers that take the first frame and then nothing more, of an answer of four million characters each.
    slow = [visitor.socket(one.url, max_queue=1) for _reader in range(SLOW_READERS)]
    for reader in slow:
        reader.send(type="resume", turnId=turn_id, lastEventId=0)
        reader.until("meta")
    other = Visitor(one.url, AGENT)
    quick = other.socket(one.url)
    ask(quick, "quick")
    assert text_of(quick.until_end()) == whole("quick")  # while nobody reads the others
    grown = server.memory_info().rss - before
    for reader in slow:
        reader.connection.socket.close()
    # One joined frame of the answer for each, not one for each of its four thousand tokens over and over.
    assert grown < SLOW_READERS * 3 * len(whole("huge"))


def test_message_of_a_megabyte_is_refused_in_words_and_a_larger_frame_closes_its_socket_alone(one: WebProcess) -> None:
    visitor = Visitor(one.url, AGENT)
    page, other = visitor.socket(one.url), visitor.socket(one.url)
    page.ask("x" * 1024 * 1024)
    refused = page.receive()
    assert (refused["type"], refused["code"]) == ("error", "invalid_message")
    assert "8000" in refused["message"]
    page.ask("x" * 5 * 1024 * 1024)
    assert page.close_code() == 1009
    ask(other, "quick")
    assert other.until_end()[-1]["status"] == "done"


def test_correction_by_a_command_holds_at_once_in_every_process(site: Site, one: WebProcess, two: WebProcess) -> None:
    question = QUESTION.format(tag="remembered")
    site.manage("shell", "--no-imports", "-c", REMEMBER.format(agent=AGENT, question=question))
    assert [answer_of(each, question) for each in (one, two)] == ["Jamais."] * 2
    site.manage("add_faq", AGENT, "--question", question, "--answer", "Toujours.")
    for process in (one, two, one, two):
        assert answer_of(process, question).startswith("Toujours.")


def answer_of(process: WebProcess, question: str) -> str:
    page = Visitor(process.url, AGENT).socket(process.url)
    page.ask(question)
    frames = page.until_end()
    page.close()
    return str(frames[-1]["content"]).strip()
