"""A vector store that can be down: the table store, refusing what a test says, at the boundary where a network would."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from django.test import override_settings

from knowledge.errors import VectorStoreUnavailableError
from knowledge.vectors.base import Point
from knowledge.vectors.table import TableVectorStore


class FailingVectorStore(TableVectorStore):
    """Refuses writes and deletions in the collections whose name begins with one of `down`; "" is all of them.

    `after` writes are let through first. A test that sets `down` to nothing has repaired it.
    """

    down: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[int] = 0
    #: Called before each write that is let through.
    on_upsert: ClassVar[Callable[[str], None] | None] = None

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        if self.after <= 0:
            self._refuse(collection)
        type(self).after -= 1
        hook = type(self).on_upsert
        if hook is not None:
            hook(collection)
        super().upsert(collection, points)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        self._refuse(collection)
        super().delete(collection, ids)

    def _refuse(self, collection: str) -> None:
        if any(collection.startswith(prefix) for prefix in self.down):
            raise VectorStoreUnavailableError(f"{collection} is down.")


@contextmanager
def failing_store(*down: str, after: int = 0, on_upsert: Any = None) -> Iterator[type[FailingVectorStore]]:
    if os.environ.get("TEST_VECTOR_STORE", "table") != "table":
        pytest.skip("the store that can be down is a table")
    backend = {"BACKEND": "tests.failing_store.FailingVectorStore"}
    FailingVectorStore.down, FailingVectorStore.after = down, after
    FailingVectorStore.on_upsert = on_upsert
    try:
        with override_settings(VECTOR_STORES={"default": backend, "table": backend}):
            yield FailingVectorStore
    finally:
        FailingVectorStore.down, FailingVectorStore.after = (), 0
        FailingVectorStore.on_upsert = None
