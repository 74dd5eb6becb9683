"""How often a person, a key or an address may ask, and try to sign in: one token bucket for each.

With `REDIS_URL` the buckets are in Redis and hold for all processes; without it, or while Redis is away, each process
has its own. Limits are settings of the site; 0 is no limit, and `RATE_LIMITS=False` switches all of them off.
"""

import hashlib
import ipaddress
import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest

from agents.cache import TtlCache
from agents.database import in_database
from agents.models import RuntimeSettings
from chat.access.buckets import Buckets, Limit, LocalBuckets
from chat.exceptions import RateLimitedError

#: How often in a minute somebody may read lists and messages, and export: a page reads a few times a minute, and an
#: export of a long conversation as PDF takes seconds. Behind one address so many people may read at the same time.
READS_PER_MINUTE = 300
EXPORTS_PER_MINUTE = 10
READERS_PER_ADDRESS = 20


def _new_buckets() -> Buckets:
    if not settings.REDIS_URL:
        return LocalBuckets()
    # Optional: without Redis its client is not loaded.
    from chat.access.buckets_redis import RedisBuckets

    return RedisBuckets(settings.REDIS_URL)


_buckets = _new_buckets()
_limits: TtlCache[RuntimeSettings] = TtlCache("RATE_LIMITS_CACHE_SECONDS")


def _current_limits() -> RuntimeSettings:
    return _limits.get(RuntimeSettings.load)


def forget() -> None:
    """Start with full buckets and read the limits anew; for tests."""
    global _buckets
    _buckets = _new_buckets()
    _limits.clear()


def limit_asking(person: uuid.UUID | int | None, address: str) -> None:
    """Count a question of a person (a user, or a visitor) at an address, also one that is answered again.

    Raises `RateLimitedError`. Synchronous.
    """
    _limit("ask", person, address)


def limit_opening(person: uuid.UUID | int | None, address: str) -> None:
    """Count a conversation that is opened without a question: as many as there may be questions, and beside them."""
    _limit("open", person, address)


def limit_reading(what: str, person: uuid.UUID | int | None, address: str) -> None:
    """Count a reading of one's own conversations (`what`: "read" or "export"). Raises `RateLimitedError`. Synchronous."""
    if settings.RATE_LIMITS:
        per_minute = {"read": READS_PER_MINUTE, "export": EXPORTS_PER_MINUTE}[what]
        _take(
            (f"{what}:person:{person}" if person else "", per_minute),
            (f"{what}:address:{address}" if address else "", per_minute * READERS_PER_ADDRESS),
        )


def _limit(what: str, person: uuid.UUID | int | None, address: str) -> None:
    if settings.RATE_LIMITS:
        limits = _current_limits()
        _take(
            (f"{what}:person:{person}" if person else "", limits.get("asks_per_minute_user")),
            (f"{what}:address:{address}" if address else "", limits.get("asks_per_minute_address")),
        )


async def limit_asking_here(person: uuid.UUID | int | None, address: str) -> None:
    """The same on the event loop: at once where nothing is to be waited for, else in a thread."""
    if not settings.RATE_LIMITS:
        return
    if _limits.is_fresh() and isinstance(_buckets, LocalBuckets):
        limit_asking(person, address)
    else:
        await in_database(limit_asking, person, address)


def limit_key(key_id: int) -> None:
    """Count a question of an API key. Raises `RateLimitedError`. Synchronous."""
    if settings.RATE_LIMITS:
        _take((f"ask:key:{key_id}", _current_limits().get("asks_per_minute_key")))


class SignInTry:
    """A try to sign in, counted when it is made and forgiven when it succeeds: only failures add up."""

    def __init__(self, username: str, address: str, *, browser: str = "") -> None:
        """A `browser` that is known for this name has its own tries at it. Raises `RateLimitedError`."""
        self._limits: list[Limit] = []
        if not settings.RATE_LIMITS:
            return
        per_minute = _current_limits().get("sign_ins_per_minute")
        self._limits = _take(
            (f"sign-in:browser:{browser}" if browser else f"sign-in:name:{digest_of(username)}", per_minute),
            (f"sign-in:address:{address}" if address else "", per_minute),
        )

    def succeeded(self) -> None:
        if self._limits:
            _buckets.give_back(self._limits)


def digest_of(username: str) -> str:
    """Of the name that Django looks up for what somebody typed, of any length: trimmed, and folded to its plain
    letters.

    Its case stays: to the database, names in another case are other names.
    """
    name = str(AuthenticationForm().fields["username"].to_python(username))
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _take(*limits: Limit) -> list[Limit]:
    """Take a token of each limit that is one; raises where one has none left."""
    counted = [(name, per_minute) for name, per_minute in limits if name and per_minute]
    if counted and (wait := _buckets.take(counted)):
        raise RateLimitedError("rate limited", retry_after=wait)
    return counted


def address_of(request: HttpRequest) -> str:
    return client_address(request.META.get("REMOTE_ADDR"), request.headers.get("X-Forwarded-For"))


def address_in(scope: Mapping[str, Any]) -> str:
    """The same for an ASGI scope."""
    peer, *_port = scope.get("client") or ("",)
    # A proxy may add a line of its own below those that it was sent.
    forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return client_address(peer, b",".join(forwarded).decode("latin-1"))


def client_address(peer: str | None, forwarded: str | None) -> str:
    """Who asks, as far as it can be trusted: the peer, or what the outermost of our own proxies saw.

    Each proxy appends the address it was called from, and callers may send the header themselves: only the last
    `TRUSTED_PROXIES` entries were written by proxies of ours. What they wrote is no address: the peer, so that nobody
    goes uncounted. An IPv6 customer has a whole /64. Empty where unknown.
    """
    hops = [hop.strip() for hop in (forwarded or "").split(",") if hop.strip()]
    if settings.TRUSTED_PROXIES and hops:
        seen = _counted_address(hops[-min(settings.TRUSTED_PROXIES, len(hops))])
        if seen:
            return seen
    return _counted_address(peer or "")


def _counted_address(written: str) -> str:
    """Some proxies write the port, too: `203.0.113.7:5000`, `[2001:db8::1]:5000`."""
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
