"""The table store and transactions: what is followed, what a rollback leaves, what is bounded."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from django.db import OperationalError, connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.test.utils import CaptureQueriesContext

from knowledge.embeddings.base import Recipe
from knowledge.errors import VectorStoreUnavailableError
from knowledge.models import VectorCollection, VectorPoint
from knowledge.vectors import table
from knowledge.vectors.base import Condition, Json, PayloadFilter, Point, Query, Vector, Wanted
from knowledge.vectors.table import TableVectorStore
from tests.constants import override
from tests.waiting import in_threads

RECIPE = Recipe(model="table", dimensions=2)
EVEN = PayloadFilter(all_of=(Condition("even", True),))


def ident(number: int) -> str:
    return str(uuid.UUID(int=number))


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def point(number: int, values: Sequence[float] = (1, 0)) -> Point:
    payload: dict[str, Json] = {"n": number, "even": number % 2 == 0}
    return Point(ident(number), vector(*values), payload)


def found(store: TableVectorStore, payload_filter: PayloadFilter | None = None, name: str = "c") -> list[int]:
    hits = store.query(name, Query(vector(1, 0), RECIPE), Wanted(limit=1_000, payload_filter=payload_filter))
    return [uuid.UUID(hit.id).int for hit in hits]


@contextmanager
def rolled_back() -> Iterator[None]:
    """A transaction, or a savepoint inside one, that comes to nothing."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class InsideATransactionTests(TestCase):
    """A whole `TestCase` is one transaction: everything here is uncommitted."""

    store: ClassVar[TableVectorStore]

    @classmethod
    def setUpTestData(cls) -> None:
        cls.store = TableVectorStore()
        cls.store.ensure("c", RECIPE)
        cls.store.upsert("c", [point(1), point(2)])

    def test_version_used_again_after_a_rollback_is_read_again(self) -> None:
        with rolled_back():
            self.store.upsert("c", [point(3)])
            found(self.store, EVEN)
        self.store.upsert("c", [point(4)])
        assert found(self.store) == [1, 2, 4]
        assert found(self.store, EVEN) == [2, 4]

    def test_database_failure_is_translated(self) -> None:
        def fail(*_arguments: object) -> None:
            raise OperationalError("disk full")

        with connection.execute_wrapper(fail), pytest.raises(VectorStoreUnavailableError):
            found(self.store)


class CommittedTests(TransactionTestCase):
    def setUp(self) -> None:
        self.store = TableVectorStore()
        self.store.ensure("c", RECIPE)
        self.store.upsert("c", [point(number) for number in range(1, 5)])
        assert found(self.store) == [1, 2, 3, 4]

    def test_unchanged_collection_costs_one_query(self) -> None:
        found(self.store)
        found(self.store, EVEN)
        with self.assertNumQueries(1):
            found(self.store)
        with self.assertNumQueries(1):
            found(self.store, EVEN)

    def test_change_reads_changed_rows_only(self) -> None:
        found(self.store, EVEN)
        in_threads(lambda: self.store.upsert("c", [point(6)]))
        with CaptureQueriesContext(connection) as queries:
            assert found(self.store, EVEN) == [2, 4, 6]
        read = [query["sql"] for query in queries if '"vector"' in query["sql"]]
        assert len(read) == 1
        assert '"version" >' in read[0]

    def test_other_connections_writes_are_followed(self) -> None:
        in_threads(lambda: self.store.upsert("c", [point(5), point(1, (0, 1))]))
        assert found(self.store) == [2, 3, 4, 5, 1]
        in_threads(lambda: self.store.delete("c", [ident(2), ident(5)]))
        assert found(self.store) == [3, 4, 1]

    def test_rolled_back_transaction_leaves_nothing(self) -> None:
        with rolled_back():
            self.store.upsert("c", [point(1, (0, 1)), point(9)])
            self.store.delete("c", [ident(2)])
            assert found(self.store) == [3, 4, 9, 1]
            assert found(self.store, EVEN) == [4]
        assert found(self.store) == [1, 2, 3, 4]
        assert found(self.store, EVEN) == [2, 4]

    def test_uncommitted_writes_are_not_seen_by_others(self) -> None:
        with transaction.atomic():
            self.store.upsert("c", [point(9)])
            assert in_threads(lambda: found(self.store)) == [[1, 2, 3, 4]]
        assert in_threads(lambda: found(self.store)) == [[1, 2, 3, 4, 9]]

    def test_concurrent_writers_lose_nothing_and_hide_nothing(self) -> None:
        def write(start: int) -> None:
            for number in range(start, start + 10):
                self.store.upsert("c", [point(number)])
                found(self.store)

        in_threads(*(partial(write, 100 * n) for n in range(1, 5)))
        assert len(found(self.store)) == 4 + 40
        assert VectorCollection.objects.get().version == 1 + 40

    @override(TABLE_STORE_PURGE_VERSIONS=3)
    def test_purge_removes_old_deletions_and_late_readers_load_anew(self) -> None:
        def write() -> None:
            self.store.delete("c", [ident(1), ident(2)])  # version 2
            for number in range(10, 16):
                self.store.upsert("c", [point(number)])  # up to version 8, purges at 6

        in_threads(write)
        assert not VectorPoint.objects.filter(deleted=True).exists()
        assert VectorCollection.objects.get().purged_version == 2
        assert found(self.store) == [3, 4, *range(10, 16)]

    def test_memory_is_bounded_by_the_cache_budget(self) -> None:
        for name in ("d", "e", "f"):
            self.store.ensure(name, RECIPE)
            self.store.upsert(name, [point(1)])
        with override_settings(TABLE_STORE_CACHE_BYTES=1):
            for name in ("c", "d", "e", "f", "c"):
                assert 1 in found(self.store, name=name)
            assert len(table._matrices) == 1

    def test_payloads_are_those_of_the_rows_now(self) -> None:
        changed = Point(ident(1), vector(1, 0), {"n": "changed"})

        def said() -> Json:
            [hit] = self.store.query("c", Query(vector(1, 0), RECIPE), Wanted(limit=1))
            return hit.payload["n"]

        with rolled_back():
            self.store.upsert("c", [changed])
            assert said() == "changed"
        assert said() == 1
        in_threads(lambda: self.store.upsert("c", [changed]))
        assert said() == "changed"

    def test_point_deleted_after_it_was_found_is_left_out(self) -> None:
        collection = table._collection("c")
        table._decoded.clear()
        self.store.delete("c", [ident(1)])
        hits = table._hits(collection, [(uuid.UUID(int=1), 1.0, 0.0), (uuid.UUID(int=2), 1.0, 0.0)])
        assert [hit.id for hit in hits] == [ident(2)]
