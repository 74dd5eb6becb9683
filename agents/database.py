"""How code meets the database: bridges from the asynchronous turn, and short writes of many threads.

`in_database` is for whole steps that use the ORM; `in_thread` for steps that wait for the network or compute. SQLite
has one writer at a time: threads of one process queue on a lock (`short_write`). A database in trouble is one error,
`StorageUnavailableError`.
"""

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction
from django.utils import translation

from agents.errors import StorageUnavailableError

#: How long a web process, where a person waits, waits for a locked database or a free connection; others: 20 s.
WEB_DATABASE_WAIT_SECONDS = 5.0
#: How long a web process waits for a word of PostgreSQL about one statement: a server that is frozen says none.
WEB_STATEMENT_SECONDS = 8.0
#: For so long a process tries no other write once the database refused one, so that waits do not add up.
DATABASE_PAUSE_SECONDS = 1.0

P = ParamSpec("P")
R = TypeVar("R")


#: What SQLite answers where the file cannot be used for now: https://www.sqlite.org/rescode.html
_TROUBLES = "BUSY LOCKED PERM READONLY IOERR CORRUPT FULL CANTOPEN PROTOCOL NOTADB"
_SQLITE_TROUBLES = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _TROUBLES.split())
#: PostgreSQL's `read_only_sql_transaction`: a standby, which its driver counts among internal errors.
_READ_ONLY = "25006"


def storage_error(error: BaseException | None) -> StorageUnavailableError | None:
    """The error as a retryable one; `None` where the statement, not the database, is at fault."""
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


def announce_dropped(app: str, model: str, what: str) -> Callable[[Any, Any], None]:
    """A `RunPython` step that tells whoever upgrades a site how many rows of a table are dropped, and what they were."""

    def announce(apps: Any, schema_editor: Any) -> None:
        count = apps.get_model(app, model).objects.using(schema_editor.connection.alias).count()
        if count:
            sys.stderr.write(f"\n  {count} rows of {app}.{model} are dropped: {what}.\n")

    return announce


@contextmanager
def named_trouble() -> Iterator[None]:
    """Translate errors of a database in trouble to `StorageUnavailableError`; leave other errors as they are."""
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        if (named := storage_error(error)) is None or named is error:
            raise
        raise named from error


def wait_at_most(seconds: float) -> None:
    """Bound, in a process that serves people and has no connection yet, the wait for a lock, a connection, a statement."""
    options = connection.settings_dict["OPTIONS"]
    if connection.vendor == "sqlite":
        options["timeout"] = seconds
    elif connection.connection is None:
        options["pool"] = {**settings.DATABASE_POOL, "timeout": seconds, "connection_class": _impatient_connection()}


def _impatient_connection() -> type[Any]:
    """The class of a PostgreSQL connection that cancels a statement which is not answered in time, and ends itself."""
    import psycopg  # only where PostgreSQL is used

    class ImpatientConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            try:
                return super().wait(gen, interval, timeout or WEB_STATEMENT_SECONDS)
            except psycopg.errors._WaitTimeout as error:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=1.0)  # A frozen server reads it once it goes on.
                self.pgconn.finish()
                raise psycopg.OperationalError("the database does not answer") from error

    return ImpatientConnection


async def in_database(step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run one whole database step, with a sound connection. Raises `StorageUnavailableError`."""

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
    """Close a broken or old connection, as Django does around a request; not inside a transaction (only in tests)."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def is_surprising(error: Exception) -> bool:
    """Whether an error deserves a traceback; a database that is away, full or busy gets one line."""
    return not isinstance(error, OperationalError | InterfaceError | StorageUnavailableError)


def first_line(error: Exception) -> str:
    """The first line of a driver's error, without its hints."""
    return str(error).strip().partition("\n")[0]


def close_connections() -> None:
    """Close this thread's connections after a short use, except inside a transaction."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close()


async def in_thread(step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a step in a thread of its own, with the caller's language, which Django keeps by thread."""
    language = translation.get_language()

    def spoken() -> R:
        with translation.override(language):
            return step(*args, **kwargs)

    return await asyncio.to_thread(spoken)


class _Queue:
    """Threads of this process that want to write, queued; after a timeout in the database those behind are refused too."""

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
            try:
                with named_trouble():
                    yield
            except StorageUnavailableError:
                self._closed_until = time.monotonic() + DATABASE_PAUSE_SECONDS
                raise
        finally:
            self._lock.release()

    def _require_open(self) -> None:
        if time.monotonic() < self._closed_until:
            raise StorageUnavailableError("the database refused a write a moment ago")


_one_writer = _Queue()


@contextmanager
def short_write() -> Iterator[None]:
    """`transaction.atomic()`, queued behind this process's other writers on SQLite."""
    with single_write(), transaction.atomic():
        yield


def single_write() -> AbstractContextManager[object]:
    """Queue as `short_write` does, without `BEGIN` and `COMMIT`, for one statement."""
    one_writer = connection.vendor == "sqlite" and not connection.in_atomic_block
    return _one_writer.turn() if one_writer else nullcontext()
