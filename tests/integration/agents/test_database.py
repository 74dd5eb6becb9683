"""Real SQLite files in trouble, and which of their errors are worth another try."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.utils import ConnectionHandler
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import translation

from agents.database import _one_writer, in_database, in_thread, short_write, storage_error
from agents.errors import StorageUnavailableError
from agents.models import Job, JobKind
from tests.constants import override

#: More than four pages.
GROWN = "INSERT INTO words VALUES (hex(zeroblob(20000)))"


@contextmanager
def own_file() -> Iterator[tuple[Path, Any]]:
    """A database of its own with the table `words`, and Django's connection to it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "own.db"
        with sqlite3.connect(path) as made:
            made.execute("PRAGMA journal_mode=WAL")
            made.execute("CREATE TABLE words (word TEXT UNIQUE)")
            made.execute("INSERT INTO words VALUES ('un')")
        made.close()
        options = {"timeout": 0.1, "transaction_mode": "IMMEDIATE"}
        handler = ConnectionHandler(
            {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": options}}
        )
        try:
            yield path, handler["default"]
        finally:
            handler["default"].close()


def error_of(own: Any, *statements: str) -> DatabaseError:
    *before, last = statements
    with own.cursor() as cursor:
        for statement in before:
            cursor.execute(statement)
        with pytest.raises(DatabaseError) as raised:
            cursor.execute(last)
    return raised.value


@override_settings(DATABASE_THREAD_SENSITIVE=False)
@pytest.mark.parametrize("bridge", [in_database, in_thread])
@pytest.mark.parametrize("language", ["fr", "en"])
def test_text_of_a_step_is_in_the_language_of_who_asked(bridge: Any, language: str) -> None:
    with translation.override(language):
        assert asyncio.run(bridge(translation.get_language)) == language


class StorageErrorTests(TestCase):
    def assert_named(self, error: DatabaseError, said: str) -> None:
        named = storage_error(error)
        assert named is not None
        assert said in str(named)

    def test_lock_of_another_writer(self) -> None:
        with own_file() as (path, own):
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            self.assert_named(error_of(own, "INSERT INTO words VALUES ('deux')"), "locked")
            other.close()

    def test_full_or_read_only_database(self) -> None:
        for pragma, said in (("max_page_count=4", "full"), ("query_only=ON", "readonly")):
            with own_file() as (_path, own):
                self.assert_named(error_of(own, f"PRAGMA {pragma}", GROWN), said)

    def test_damaged_file(self) -> None:
        with own_file() as (path, own):
            path.write_bytes(b"no database at all" * 1000)
            path.with_name("own.db-wal").unlink(missing_ok=True)
            self.assert_named(error_of(own, "SELECT * FROM words"), "not a database")

    def test_wrong_statements_are_no_trouble_of_the_database(self) -> None:
        wrong = (
            "SELECT * FROM nowhere",
            "INSERT INTO words VALUES ('un')",
            # The expression is deeper than SQLite goes.
            "SELECT " + " OR ".join(["1"] * 1_500),
        )
        with own_file() as (_path, own):
            for statement in wrong:
                assert storage_error(error_of(own, statement)) is None
        assert storage_error(ValueError("x")) is None

    async def test_bridge_names_it(self) -> None:
        def insert() -> None:
            with own_file() as (_path, own):
                with own.cursor() as cursor:
                    cursor.execute("PRAGMA max_page_count=4")
                    cursor.execute(GROWN)

        with pytest.raises(StorageUnavailableError):
            await in_database(insert)


class QueueTests(TransactionTestCase):
    """Writers of this process after one was refused; behind one that waits: `tests/contracts/test_storage.py`."""

    def setUp(self) -> None:
        if connection.vendor != "sqlite":
            self.skipTest("other databases have many writers")

    @override(DATABASE_PAUSE_SECONDS=60.0)
    def test_writes_pause_after_one_was_refused_and_go_on(self) -> None:
        self.addCleanup(setattr, _one_writer, "_closed_until", 0.0)

        def refuse() -> None:
            with short_write():
                raise StorageUnavailableError("full")

        with pytest.raises(StorageUnavailableError, match="full"):
            refuse()
        with pytest.raises(StorageUnavailableError, match="a moment ago"), short_write():
            pass
        _one_writer._closed_until = time.monotonic()
        with short_write():
            Job.objects.create(kind=JobKind.GOLDEN)
        assert Job.objects.filter(kind=JobKind.GOLDEN).count() == 1
