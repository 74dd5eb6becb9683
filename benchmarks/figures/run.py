"""How long « Comment va le service » takes to open on a year of traffic, and to be counted.

    python -m benchmarks.figures.run [--turns 1000000] [--postgres] [--folder FOLDER]

A year of questions (a million unless said otherwise) is written straight into the tables: five deployments, three
questions a conversation, every exit, two languages, ratings, a trace of fourteen steps, four sources of 5,000 passages,
some asked for far more than others. Every day is counted, as `manage.py count_days` does; then staff open the page,
half of the times once more counting the day that runs. On SQLite, or with `--postgres` on a server of its own.
"""

import argparse
import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.servers.postgres import own_postgres

DAYS, DEPLOYMENTS, PASSAGES, ANSWERS, LOOKS = 365, 5, 5_000, 500, 20
PER_CONVERSATION = 3
EXITS = ("memory_guard", "direct_qa", "direct_qa", "llm", "llm", "llm", "guard_rail", "clarification")
STEPS = (
    "receive courtesy reading standalone embedding memory_guard dispatch search learned direct_answer tools "
    "guard_rail generation save"
).split()
Row = tuple[object, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The figures of a year of traffic.")
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--folder", default="", help="where the SQLite file is, and stays")
    options = parser.parse_args(arguments)
    with ExitStack() as opened:
        folder = options.folder or opened.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/bench.db"
        if options.postgres:
            server = opened.enter_context(own_postgres())
            assert server is not None, "no PostgreSQL can be started"
            url = server.url
        _prepare(folder, url)
        from chat.models import CountedDay, Turn

        if not Turn.objects.exists():
            with _timed("written"):
                _write(options.turns)
        if not CountedDay.objects.exists():
            with _timed("counted"):
                _count()
        _open()
    return 0


def _prepare(folder: str, url: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        DATA_DIR=folder,
        DATABASE_URL=url,
        ALLOWED_HOSTS="testserver",
        LOG_LEVEL="ERROR",
        REDIS_URL="",
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


class _timed:
    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        print(json.dumps({self.what: f"{time.perf_counter() - self.start:.1f} s"}), flush=True)


def _write(turns: int) -> None:
    from agents.models import Agent, Deployment
    from faqs.models import LearnedResponse
    from knowledge.models import Chunk, Document

    agent = Agent.objects.create(slug="year", name="year")
    places = [Deployment.objects.create(slug=f"place-{n}", name=f"Place {n}", agent=agent) for n in range(DEPLOYMENTS)]
    document = Document.objects.create(agent=agent, name="guide.md")
    Chunk.objects.bulk_create(
        Chunk(document=document, index=n, content=f"Passage {n}", content_hash=str(n)) for n in range(PASSAGES)
    )
    LearnedResponse.objects.bulk_create(
        LearnedResponse(agent=agent, question=f"Question {n} ?", question_key=str(n), answer="Oui.")
        for n in range(ANSWERS)
    )
    year = _Year(turns, [place.pk for place in places])
    _load("chat_conversation", _CONVERSATION, year.conversations())
    _load("chat_turn", _TURN, year.turns())
    _load("chat_message", _MESSAGE, year.answers())
    _load("chat_feedback", _FEEDBACK, year.ratings())


_CONVERSATION = "id deployment_id channel title phase project version is_temporary created_at updated_at"
_TURN = (
    "id conversation_id client_message_id status answer_source model llm_calls prompt_tokens completion_tokens rounds "
    "efficiency stop_reason is_personal answered_by trace error_code lease_expires_at run started_at finished_at language"
)
_MESSAGE = "conversation_id turn_id role content sources tool_calls tool_call_id name error created_at"
_FEEDBACK = "turn_id verdict reason comment created_at updated_at"


class _Year:
    """Rows in the order of time; the same for every table, as each is drawn from the number of its turn."""

    def __init__(self, turns: int, places: Sequence[int]) -> None:
        self._turns, self._places = turns, places
        self._end = datetime.now(UTC) - timedelta(minutes=1)
        draw = random.Random(1)  # noqa: S311  # the same year each time
        self._traces = [json.dumps(_trace(draw)) for _each in range(200)]
        self._sources = [json.dumps(_sources(draw)) for _each in range(20_000)]

    def _moment(self, n: int) -> str:
        return _text(self._end - timedelta(days=DAYS) * (1 - n / self._turns))

    def conversations(self) -> Iterator[Row]:
        for n in range(0, self._turns, PER_CONVERSATION):
            place, moment = self._places[n // 3 % DEPLOYMENTS], self._moment(n)
            yield _key(1, n), place, "page", "t", "", "", 3, False, moment, moment

    def turns(self) -> Iterator[Row]:
        for n in range(self._turns):
            source = EXITS[n * 7919 % len(EXITS)]
            by_model = source == "llm"
            failed = n % 97 == 0
            begun = self._end - timedelta(days=DAYS) * (1 - n / self._turns)
            took = timedelta(milliseconds=200 + (6_000 if by_model else 300) * (n * 31 % 100) / 100)
            yield (
                *(_key(2, n), _key(1, n - n % PER_CONVERSATION), str(n)),
                *("failed" if failed else "done", "" if failed else source, "m" if by_model else ""),
                *(int(by_model), 1_500 * by_model, n % 400 * by_model, 0, 100.0, "", False, ""),
                *(self._traces[n % len(self._traces)], "llm_timeout" if failed else ""),
                *(_text(begun), 0, _text(begun), _text(begun + took), "en" if n % 9 == 0 else "fr"),
            )

    def answers(self) -> Iterator[Row]:
        for n in range(self._turns):
            sources = self._sources[n * 7919 % len(self._sources)]
            ids = (_key(1, n - n % PER_CONVERSATION), _key(2, n))
            yield (*ids, "assistant", "Oui.", sources, "[]", "", "", "", self._moment(n))

    def ratings(self) -> Iterator[Row]:
        for n in range(0, self._turns, 10):
            moment = self._moment(n)
            yield _key(2, n), "down" if n % 40 == 0 else "up", "", "", moment, moment


def _trace(draw: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "outcome": "found",
            "score": 0.8123,
            "threshold": 0.75,
            "ms": round(draw.expovariate(1 / 20), 2),
            "detail": "a line of what was compared, as long as usual",
        }
        for step in STEPS
    ]


def _sources(draw: random.Random) -> list[dict[str, Any]]:
    """Of passages the first are shown most; one of four has a validated answer too."""
    found: list[dict[str, Any]] = [
        {"n": n, "chunk_id": 1 + int(PASSAGES * draw.random() ** 2), "text": "…", "title": "Guide"} for n in range(1, 5)
    ]
    if draw.random() < 0.25:
        found[0] = {"n": 1, "learned_id": 1 + int(ANSWERS * draw.random() ** 3), "text": "…"}
    return found


def _key(kind: int, n: int) -> str:
    from django.db import connection

    key = uuid.UUID(int=kind << 64 | n)
    return key.hex if connection.vendor == "sqlite" else str(key)


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"


def _load(table: str, columns: str, rows: Iterator[Row]) -> None:
    from django.db import connection, transaction

    names = columns.split()
    listed = ", ".join(names)
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join(["?"] * len(names))
            cursor.connection.executemany(f"INSERT INTO {table} ({listed}) VALUES ({marks})", rows)  # noqa: S608
            return
        cursor.execute("SET LOCAL TIME ZONE 'UTC'")
        with cursor.copy(f"COPY {table} ({listed}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {table}")


def _count() -> None:
    from django.core.management import call_command

    call_command("count_days")


def _open() -> None:
    """As a member of staff who may see everything: each period, and a year with the day that runs counted anew."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from chat.staff.figures import daily

    staff, _new = get_user_model().objects.get_or_create(
        username="staff", defaults={"is_staff": True, "is_superuser": True}
    )
    client = Client()
    client.force_login(staff)
    for query, fresh in (("days=30", 60.0), ("days=365", 60.0), ("days=365", 0.0)):
        daily.FIGURES_FRESH_SECONDS = fresh
        took, worked = [], time.process_time()
        for _look in range(LOOKS):
            begun = time.perf_counter()
            page = client.get(f"/admin/chat/turn/figures/?{query}")
            took.append(time.perf_counter() - begun)
            assert b"rp-chart" in page.content
        took.sort()
        print(
            json.dumps(
                {
                    "page": query,
                    "with today counted": not fresh,
                    "processor_s": round((time.process_time() - worked) / LOOKS, 3),
                    "median_s": round(took[LOOKS // 2], 3),
                    "p95_s": round(took[-2], 3),
                    "slowest_s": round(took[-1], 3),
                    "bytes": len(page.content),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
