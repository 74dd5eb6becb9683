"""What integration tests share: a vector store outside the database is emptied after each class of tests."""

import os
from collections.abc import Iterator

import pytest

from knowledge.vectors.base import vector_store


@pytest.fixture(autouse=True, scope="class")
def _empty_vector_store() -> Iterator[None]:
    """The table's points go with the test's transaction; another store would hand them to the next class."""
    yield
    if os.environ.get("TEST_VECTOR_STORE", "table") != "table":
        for info in vector_store().collections():
            vector_store().drop(info.name)
