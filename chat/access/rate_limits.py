"""How often a person, a key or an address may ask: one token bucket for each. Signing in has allauth's own limits.

A bucket is one number a process: when it is full again. Limits are the site's; 0 or `RATE_LIMITS=False`: no limit.
"""

import heapq
import ipaddress
import threading
import time
import uuid
from collections.abc import Sequence

from django.conf import settings
from django.http import HttpRequest

from agents.cache import TtlCache
from agents.models import RuntimeSettings
from chat.errors import RateLimitedError

#: How often in a minute somebody may read and export; behind one address so many people may at the same time.
READS_PER_MINUTE = 300
EXPORTS_PER_MINUTE = 10
READERS_PER_ADDRESS = 20
PERIOD_SECONDS = 60.0
#: More buckets than this are thinned out, the fullest first: they are the ones that refuse nobody.
MAX_BUCKETS = 100_000
#: Sums of fractions of a minute: less than this is no wait.
_ROUNDING = 1e-5

#: A bucket's name, and how many tokens it holds and gets in a minute.
Limit = tuple[str, int]


class Buckets:
    """The buckets of this process. Callable from any thread."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, limits: Sequence[Limit], tokens: int = 1, *, now: float | None = None) -> float:
        """Take tokens from every bucket or none; returns the seconds to wait. A negative number returns tokens."""
        moment = time.monotonic() if now is None else now
        with self._lock:
            taken = {
                name: max(self._full_at.get(name, 0.0), moment) + tokens * PERIOD_SECONDS / per_minute
                for name, per_minute in limits
            }
            wait = max(taken.values(), default=moment) - moment - PERIOD_SECONDS
            if wait > _ROUNDING:
                return wait
            self._full_at.update(taken)
            if len(self._full_at) > MAX_BUCKETS:
                emptiest = heapq.nlargest(MAX_BUCKETS // 2, self._full_at.items(), key=lambda bucket: bucket[1])
                self._full_at = dict(emptiest)
        return 0.0


_buckets = Buckets()
_limits: TtlCache[RuntimeSettings] = TtlCache("RATE_LIMITS_CACHE_SECONDS")


def forget() -> None:
    """Reset all buckets and limits, for tests."""
    global _buckets
    _buckets = Buckets()
    _limits.clear()


# Limits: each raises `RateLimitedError`.


def limit_asking(person: uuid.UUID | int | None, address: str, *, what: str = "ask") -> None:
    """Count a question, or a retry, against the limits of a person (user or visitor) and of an address. `what`: "open" is
    a conversation opened without a question, counted apart."""
    limits = _current_limits()
    _take(
        (f"{what}:person:{person}" if person else "", limits.get("asks_per_minute_user")),
        (f"{what}:address:{address}" if address else "", limits.get("asks_per_minute_address")),
    )


def limit_reading(what: str, person: uuid.UUID | int | None, address: str) -> None:
    """Count a reading of one's own conversations (`what`: "read" or "export")."""
    per_minute = {"read": READS_PER_MINUTE, "export": EXPORTS_PER_MINUTE}[what]
    _take(
        (f"{what}:person:{person}" if person else "", per_minute),
        (f"{what}:address:{address}" if address else "", per_minute * READERS_PER_ADDRESS),
    )


def limit_key(key_id: int) -> None:
    """Count a question of an API key."""
    _take((f"ask:key:{key_id}", _current_limits().get("asks_per_minute_key")))


def _current_limits() -> RuntimeSettings:
    return _limits.get(RuntimeSettings.load) if settings.RATE_LIMITS else RuntimeSettings()


def _take(*limits: Limit) -> None:
    """Take a token from each active limit; raises where one has none left."""
    counted = [(name, per_minute) for name, per_minute in limits if name and per_minute and settings.RATE_LIMITS]
    if counted and (wait := _buckets.take(counted)):
        raise RateLimitedError("rate limited", retry_after=wait)


def address_of(request: HttpRequest) -> str:
    return client_address(request.META.get("REMOTE_ADDR"), request.headers.get("X-Forwarded-For"))


def client_address(peer: str | None, forwarded: str | None) -> str:
    """Who asks: the peer, or the address that the outermost of our `TRUSTED_PROXIES` saw; of IPv6 its whole /64."""
    hops = [hop.strip() for hop in (forwarded or "").split(",") if hop.strip()]
    if settings.TRUSTED_PROXIES and hops:
        seen = _counted_address(hops[-min(settings.TRUSTED_PROXIES, len(hops))])
        if seen:
            return seen
    return _counted_address(peer or "")


def _counted_address(written: str) -> str:
    """The address without the port that some proxies add: `203.0.113.7:5000`, `[2001:db8::1]:5000`."""
    if written.startswith("["):
        written = written[1:].partition("]")[0]
    elif written.count(":") == 1:
        written = written.partition(":")[0]
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
