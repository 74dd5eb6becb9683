"""Token buckets, and whose address is believed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.access import rate_limits
from chat.access.rate_limits import Buckets, client_address

LIMIT = [("a", 6)]


def test_burst_up_to_the_limit_passes_and_the_next_says_how_long() -> None:
    buckets = Buckets()
    assert [buckets.take(LIMIT, now=0.0) for _ in range(6)] == [0.0] * 6
    assert buckets.take(LIMIT, now=0.0) == pytest.approx(10.0)
    assert buckets.take(LIMIT, now=9.9) == pytest.approx(0.1)
    assert buckets.take(LIMIT, now=10.0) == 0.0


def test_refused_try_takes_no_token_of_any_bucket() -> None:
    buckets = Buckets()
    both = [("small", 1), ("large", 2)]
    assert buckets.take(both, now=0.0) == 0.0
    assert buckets.take(both, now=0.0) > 0
    assert buckets.take([("large", 2)], now=0.0) == 0.0


def test_token_given_back_can_be_taken_again() -> None:
    buckets = Buckets()
    buckets.take([("a", 1)], now=0.0)
    buckets.take([("a", 1)], -1, now=0.0)
    assert buckets.take([("a", 1)], now=0.0) == 0.0


@given(st.integers(1, 500), st.lists(st.floats(0, 10), max_size=200))
def test_whoever_waits_as_told_is_let_through(per_minute: int, pauses: list[float]) -> None:
    buckets, now, passed = Buckets(), 0.0, 0
    for pause in pauses:
        now += pause
        wait = buckets.take([("a", per_minute)], now=now)
        if wait:
            now += wait
            assert buckets.take([("a", per_minute)], now=now) == 0.0
        passed += 1
    assert passed <= per_minute + now * per_minute / 60 + 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "MAX_BUCKETS", 100)
    buckets = Buckets()
    for _ in range(3):
        buckets.take([("busy", 3)], now=0.0)
    for number in range(500):
        buckets.take([(str(number), 1000)], now=0.0)
    assert len(buckets._full_at) <= 101
    assert buckets.take([("busy", 3)], now=0.0) > 0


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "address"),
    [
        (0, "203.0.113.7", "198.51.100.1", "203.0.113.7"),
        (1, "10.0.0.1", "198.51.100.1", "198.51.100.1"),
        (1, "10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        (2, "10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        (2, "10.0.0.1", None, "10.0.0.1"),
        # All of a customer's addresses are one.
        *((1, f"2001:db8:1:2:{rest}", None, "2001:db8:1:2::/64") for rest in (":1", "ffff::9")),
        (1, "::ffff:203.0.113.7", None, "203.0.113.7"),
        *((1, *unreadable, "") for unreadable in (("", None), (None, "unknown"))),
        # A word of the proxy that is no address leaves nobody uncounted.
        *((1, "10.0.0.1", f"6.6.6.6, {word}", "10.0.0.1") for word in ("unknown", "_hidden", "203.0.113")),
        *((1, "10.0.0.1", f"6.6.6.6, {word}", "10.0.0.1") for word in ("6.6.6.6 7.7.7.7", "[x]", "::1::2")),
        # Neither is the port counted that some add.
        (1, "10.0.0.1", "203.0.113.7:5000", "203.0.113.7"),
        *((1, "10.0.0.1", f"[2001:db8:1:2::1]{port}", "2001:db8:1:2::/64") for port in ("", ":5000")),
    ],
)
def test_address_is_the_peer_unless_a_proxy_of_ours_says_otherwise(
    settings: Any, proxies: int, peer: str | None, forwarded: str | None, address: str
) -> None:
    settings.TRUSTED_PROXIES = proxies
    assert client_address(peer, forwarded) == address
