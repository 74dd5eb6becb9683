"""The Qdrant backend over the client's own in-process engine: slow, and of one thread at a time."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from qdrant_client import QdrantClient

from knowledge.errors import CollectionMissingError
from knowledge.vectors.qdrant import NameTakenError, QdrantVectorStore


class InProcessQdrant(QdrantVectorStore):
    def __init__(self, *, prefix: str = "") -> None:
        super().__init__(url="http://127.0.0.1", prefix=prefix)
        self._turn = threading.Lock()

    @contextmanager
    def _asking(self) -> Iterator[QdrantClient]:
        """The engine loses updates when two threads use it at once, and has one error for everything."""
        with self._turn, warnings.catch_warnings(action="ignore"):
            self._client = self._client or QdrantClient(":memory:")
            try:
                yield self._client
            except ValueError as error:
                raise (CollectionMissingError if "not found" in str(error) else NameTakenError)(str(error)) from error
