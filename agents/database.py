"""How code meets the database: the bridges from the asynchronous turn, and short writes of many threads.

`in_database` is for whole steps that use the ORM (the table vector store included); `in_thread` for steps that wait
for the network or compute. Neither shares the one thread that Django's default bridge would queue everything on.

SQLite has one writer at a time, and a thread that finds it busy sleeps for up to 100 ms before it looks again. Threads
of one process queue on a lock instead (`short_write`); other processes still meet at the database. Nothing may wait inside.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection, transaction

P = ParamSpec("P")
R = TypeVar("R")


async def in_database(step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run one whole database step; connections that broke or grew too old are closed around it."""

    def cleaned() -> R:
        _close_if_old()
        try:
            return step(*args, **kwargs)
        finally:
            if connection.settings_dict["CONN_MAX_AGE"] == 0:
                _close_if_old()

    if settings.DATABASE_THREAD_SENSITIVE:
        return await sync_to_async(cleaned)()
    return await asyncio.to_thread(cleaned)


def _close_if_old() -> None:
    """As around a request; not inside a transaction, which only a test's thread can be in here."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


async def in_thread(step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await asyncio.to_thread(step, *args, **kwargs)


_one_writer = threading.RLock()


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
    return _one_writer if one_writer else nullcontext()
