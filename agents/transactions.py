"""Short write transactions of many threads, without SQLite's waiting by sleeping.

SQLite has one writer at a time, and a thread that finds it busy sleeps for up to 100 ms before it looks again. Threads
of one process queue on a lock instead; other processes still meet at the database. Nothing may wait inside.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from django.db import connection, transaction

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
