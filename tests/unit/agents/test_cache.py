"""What is cached is read again when it is too old, or when somebody said to forget it."""

from collections.abc import Iterator
from itertools import count
from unittest import mock

import pytest
from django.test import override_settings

from agents.cache import TtlCache


@pytest.fixture
def clock() -> Iterator[mock.Mock]:
    with mock.patch("agents.cache.time.monotonic", return_value=100.0) as clock:
        yield clock


def test_value_is_read_again_when_it_is_too_old(clock: mock.Mock) -> None:
    cache, values = TtlCache[int](10.0), count()

    def read() -> int:
        return cache.get(lambda: next(values))

    assert [read(), read()] == [0, 0]
    clock.return_value = 109.9
    assert (cache.is_fresh(), read()) == (True, 0)
    clock.return_value = 110.0
    assert (cache.is_fresh(), read()) == (False, 1)


def test_setting_is_looked_at_when_a_value_is_read() -> None:
    cache, values = TtlCache[int]("CONFIG_CACHE_SECONDS"), count()
    with override_settings(CONFIG_CACHE_SECONDS=60.0):
        assert [cache.get(lambda: next(values)) for _ in range(2)] == [0, 0]
    cache.clear()
    with override_settings(CONFIG_CACHE_SECONDS=0.0):
        assert [cache.get(lambda: next(values)) for _ in range(2)] == [1, 2]


def test_number_of_values_is_bounded() -> None:
    cache: TtlCache[int] = TtlCache(10.0, most=2)
    for key in range(5):
        cache.get(lambda: 0, key)
        assert sum(cache.is_fresh(each) for each in range(5)) <= 2


def test_what_was_being_read_when_it_was_forgotten_is_read_again() -> None:
    cache: TtlCache[str] = TtlCache(10.0)

    def overtaken() -> str:
        cache.clear()
        return "before"

    assert cache.get(overtaken) == "before"
    assert cache.get(lambda: "after") == "after"
