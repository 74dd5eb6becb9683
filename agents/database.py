"""How code meets the database: the bridges from the asynchronous turn, and short writes of many threads.

`in_database` is for whole steps that use the ORM (the table vector store included); `in_thread` for steps that wait for
the network or compute. Neither shares the one thread that Django's default bridge would queue everything on.

SQLite has one writer at a time, and a thread that finds it busy sleeps for up to 100 ms before it looks again. Threads
of one process queue on a lock instead (`short_write`); other processes still meet at the database. Nothing may wait
inside.

A database that is locked, full, read-only, out of connections or gone is one error with one name: both the bridge and
the queue raise `StorageUnavailableError` for it, and `storage_error` names it for code that uses neither.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.utils import translation

from agents.errors import StorageUnavailableError

#: For so long a process tries no other write once the database refused one, so that waits do not add up.
DATABASE_PAUSE_SECONDS = 1.0

P = ParamSpec("P")
R = TypeVar("R")


#: What SQLite answers where the file cannot be used for now, whatever the statement:
#: https://www.sqlite.org/rescode.html
_SQLITE_TROUBLES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)
#: PostgreSQL's `read_only_sql_transaction`: a standby, which its driver counts among internal errors.
_READ_ONLY = "25006"


def storage_error(error: BaseException | None) -> StorageUnavailableError | None:
    """The error as the one that is worth another try; `None` where the statement, not the database, was wrong."""
    if error is None or isinstance(error, StorageUnavailableError):
        return error
    if not isinstance(error, DatabaseError | InterfaceError):
        return None
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        # The extended codes have the primary one in their lowest byte.
        is_trouble = getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_TROUBLES
    else:
        is_trouble = isinstance(error, OperationalError | InterfaceError)
        is_trouble = is_trouble or getattr(cause, "sqlstate", None) == _READ_ONLY
    return StorageUnavailableError(" ".join(str(error).split())) if is_trouble else None


@contextmanager
def named_trouble() -> Iterator[None]:
    """Raises `StorageUnavailableError` where the database is in trouble, and other errors as they are."""
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        if (named := storage_error(error)) is None or named is error:
            raise
        raise named from error


def wait_at_most(seconds: float) -> None:
    """In this process, whoever needs the database waits no longer for a lock or a connection: a person waits behind it."""
    options = connection.settings_dict["OPTIONS"]
    if "pool" in options:
        options["pool"]["timeout"] = seconds
        # One that was opened before has the time that was set then. An ASGI server imports the application within its
        # loop, where Django closes nothing: a thread does.
        opened = connections[DEFAULT_DB_ALIAS]
        opened.inc_thread_sharing()
        closing = threading.Thread(target=_close_with_pool, args=(opened,))
        closing.start()
        closing.join()
        opened.dec_thread_sharing()
    else:
        options["timeout"] = seconds


def _close_with_pool(opened: Any) -> None:
    opened.close()
    if hasattr(opened, "close_pool"):
        opened.close_pool()


async def in_database(step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run one whole database step; connections that broke or grew too old are closed around it.

    Raises `StorageUnavailableError` for a database in trouble.
    """

    def cleaned() -> R:
        _close_if_old()
        try:
            with named_trouble():
                return step(*args, **kwargs)
        finally:
            if connection.settings_dict["CONN_MAX_AGE"] == 0:
                _close_if_old()

    if settings.DATABASE_THREAD_SENSITIVE:
        return await sync_to_async(cleaned)()
    return await in_thread(cleaned)


def _close_if_old() -> None:
    """As around a request; not inside a transaction, which only a test's thread can be in here."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def is_surprising(error: Exception) -> bool:
    """Whether it is worth a traceback: a database that is away, full or busy is said in one line."""
    return not isinstance(error, OperationalError | InterfaceError | StorageUnavailableError)


def first_line(error: Exception) -> str:
    """What a driver said, without its advice."""
    return str(error).strip().partition("\n")[0]


def close_connections() -> None:
    """Close this thread's, for whoever uses the database in passing; not inside a transaction."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close()


async def in_thread(step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a step in a thread of its own. Its texts are in the language of who waits, which Django keeps by thread."""
    language = translation.get_language()

    def spoken() -> R:
        with translation.override(language):
            return step(*args, **kwargs)

    return await asyncio.to_thread(spoken)


class _Queue:
    """Threads of this process that want to write, one behind the other.

    Who has waited in vain for as long as the database itself may take is refused, and so is, for a moment, whoever
    stands behind a writer that the database made wait in vain: a hundred waits are not to become one long one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed_until = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        self._require_open()
        if not self._lock.acquire(timeout=connection.settings_dict["OPTIONS"]["timeout"]):
            raise StorageUnavailableError("other writers of this process wait for the database")
        try:
            self._require_open()
            with self._closed_by_trouble():
                yield
        finally:
            self._lock.release()

    @contextmanager
    def _closed_by_trouble(self) -> Iterator[None]:
        try:
            with named_trouble():
                yield
        except StorageUnavailableError:
            self._closed_until = time.monotonic() + DATABASE_PAUSE_SECONDS
            raise

    def _require_open(self) -> None:
        if time.monotonic() < self._closed_until:
            raise StorageUnavailableError("the database refused a write a moment ago")


_one_writer = _Queue()


@contextmanager
def short_write() -> Iterator[None]:
    """`transaction.atomic()`, entered in turn where the database has one writer."""
    with _in_turn(), transaction.atomic():
        yield


def single_write() -> AbstractContextManager[object]:
    """For one statement, which is a transaction of its own: no round trips to open and close another."""
    return _in_turn()


def _in_turn() -> AbstractContextManager[object]:
    one_writer = connection.vendor == "sqlite" and not connection.in_atomic_block
    return _one_writer.turn() if one_writer else nullcontext()
