"""The matrix in memory against a plain loop over all rows."""

import threading
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from knowledge.vectors import matrix
from knowledge.vectors.base import SCORE_DECIMALS, Vector
from knowledge.vectors.matrix import Matrix

DIMENSIONS = 4


def unit(values: Iterable[float]) -> Vector:
    raw = np.array(list(values), dtype=np.float32)
    row: Vector = raw / np.linalg.norm(raw)
    return row


def brute_force(
    rows: dict[int, Vector], asked: Vector, limit: int, kept: Iterable[int]
) -> list[tuple[int, float, float]]:
    scored = [(-round(float(rows[k].astype(np.float64) @ asked.astype(np.float64)), SCORE_DECIMALS), k) for k in kept]
    return [(key, -negated, 0.0) for negated, key in sorted(scored)[:limit]]


def matrix_of(rows: dict[int, Vector]) -> Matrix[int]:
    matrix: Matrix[int] = Matrix(DIMENSIONS)
    matrix.apply(keys=list(rows), rows=np.array(list(rows.values())).reshape(-1, DIMENSIONS))
    return matrix


directions = st.tuples(*[st.integers(-3, 3)] * DIMENSIONS).filter(lambda values: any(values)).map(unit)


class MatrixAgainstBruteForce(RuleBasedStateMachine):
    """Any order of writes gives what a search over the rows that stand gives."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix: Matrix[int] = Matrix(DIMENSIONS)
        self.rows: dict[int, Vector] = {}

    @rule(written=st.dictionaries(st.integers(0, 15), directions, max_size=8))
    def write(self, written: dict[int, Vector]) -> None:
        rows = np.array(list(written.values()), dtype=np.float32).reshape(-1, DIMENSIONS)
        self.matrix.apply(keys=list(written), rows=rows)
        self.rows.update(written)

    @rule(keys=st.sets(st.integers(0, 15), max_size=5))
    def remove(self, keys: set[int]) -> None:
        empty = np.empty((0, DIMENSIONS), dtype=np.float32)
        self.matrix.apply(keys=[], rows=empty, removed=keys)
        for key in keys:
            self.rows.pop(key, None)

    @rule(asked=directions, limit=st.integers(1, 20))
    def search(self, asked: Vector, limit: int) -> None:
        expected = brute_force(self.rows, asked, limit, self.rows)
        assert self.matrix.snapshot().top(asked, limit=limit) == expected

    @rule(asked=directions, limit=st.integers(1, 20), only=st.sets(st.integers(0, 20)))
    def search_among(self, asked: Vector, limit: int, only: set[int]) -> None:
        found = self.matrix.snapshot().top(asked, limit=limit, only=only)
        assert found == brute_force(self.rows, asked, limit, only & self.rows.keys())

    @invariant()
    def counts_what_stands(self) -> None:
        assert self.matrix.snapshot().live == len(self.rows)


def test_any_order_of_writes_gives_what_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_DEAD_ROWS", 2)
    run_state_machine_as_test(
        MatrixAgainstBruteForce, settings=settings(max_examples=40, stateful_step_count=25, deadline=None)
    )


@given(limit=st.integers(1, 300), copies=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_equal_rows_tie_wherever_they_stand(limit: int, copies: int) -> None:
    random = np.random.default_rng(copies)
    rows = random.normal(size=(200, 64)).astype(np.float32)
    rows[random.permutation(200)[:copies]] = rows[0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    matrix: Matrix[int] = Matrix(64)
    matrix.apply(keys=list(range(200)), rows=rows)
    found = matrix.snapshot().top(rows[0], limit=limit)
    assert found == brute_force(dict(enumerate(rows)), rows[0], limit, range(200))


def test_snapshot_does_not_see_later_writes() -> None:
    matrix = matrix_of({1: unit([1, 0, 0, 0]), 2: unit([0, 1, 0, 0])})
    before = matrix.snapshot()
    matrix.apply(keys=[1, 3], rows=np.array([unit([0, 0, 1, 0])] * 2), removed=[2])
    asked = unit([1, 0, 0, 0])
    assert before.top(asked, limit=5) == [(1, 1.0, 0.0), (2, 0.0, 0.0)]
    assert matrix.snapshot().top(asked, limit=5) == [(1, 0.0, 0.0), (3, 0.0, 0.0)]


def test_memory_stays_bounded_when_one_row_is_rewritten() -> None:
    matrix = matrix_of({1: unit([1, 0, 0, 0])})
    row = np.array([unit([0, 1, 0, 0])])
    for _ in range(5_000):
        matrix.apply(keys=[1], rows=row)
    assert matrix.nbytes < 5_000 * DIMENSIONS * 4
    assert matrix.snapshot().top(row[0], limit=3) == [(1, 1.0, 0.0)]


def test_readers_never_see_half_a_write() -> None:
    keys = list(range(50))
    sides = [np.array([unit([sign, 0, 0, 0])] * 50) for sign in (1, -1)]
    matrix: Matrix[int] = Matrix(DIMENSIONS)
    matrix.apply(keys=keys, rows=sides[0])
    done = threading.Event()
    mixed: list[set[float]] = []

    def read() -> None:
        while not done.is_set():
            found = matrix.snapshot().top(unit([1, 0, 0, 0]), limit=50)
            scores = {score for _key, score, _overlap in found}
            if len(found) != 50 or len(scores) != 1:
                mixed.append(scores)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(300):
        matrix.apply(keys=keys, rows=sides[turn % 2])
    done.set()
    for reader in readers:
        reader.join()
    assert mixed == []
