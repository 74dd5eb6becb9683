"""How often a person, a key or an address may ask, and try to sign in: one token bucket for each.

A bucket holds as many tokens as its limit allows in a minute and is refilled evenly, so a burst up to the limit is
never refused and the next try is let through as soon as the next token drops. A bucket is one number, the time at which it
will be full again (the generic cell rate algorithm). With `REDIS_URL` the buckets are in Redis and hold for all processes;
without it, or while Redis is away, each process has its own, so that a limit is at worst multiplied by the number
of processes. Limits are fields of `RuntimeSettings`; 0 is no limit, and `RATE_LIMITS=False` switches all of them off.
"""

import hashlib
import heapq
import ipaddress
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import redis
from django.conf import settings
from django.http import HttpRequest

from agents.bridges import in_database
from agents.models import RuntimeSettings
from chat.exceptions import RateLimitedError

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
#: More buckets than this are thinned out, the fullest first: they are the ones that refuse nobody.
MAX_BUCKETS = 100_000
#: Sums of fractions of a minute: less than this is no wait.
_ROUNDING = 1e-6

#: A bucket's name, and how many tokens it holds and gets in a minute.
Limit = tuple[str, int]


class LocalBuckets:
    """The buckets of this process. Callable from any thread."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, limits: Sequence[Limit], *, now: float | None = None) -> float:
        """Take a token of each bucket, or of none; returns the seconds to wait, 0 where they were taken."""
        moment = time.monotonic() if now is None else now
        with self._lock:
            taken = [
                max(self._full_at.get(name, 0.0), moment) + PERIOD_SECONDS / per_minute
                for name, per_minute in limits
            ]
            wait = max(taken, default=moment) - moment - PERIOD_SECONDS
            if wait > _ROUNDING:
                return wait
            self._full_at.update(zip((name for name, _limit in limits), taken, strict=True))
            if len(self._full_at) > MAX_BUCKETS:
                self._thin_out()
        return 0.0

    def give_back(self, limits: Sequence[Limit]) -> None:
        with self._lock:
            for name, per_minute in limits:
                if name in self._full_at:
                    self._full_at[name] -= PERIOD_SECONDS / per_minute

    def _thin_out(self) -> None:
        emptiest = heapq.nlargest(
            MAX_BUCKETS // 2, self._full_at.items(), key=lambda bucket: bucket[1]
        )
        self._full_at = dict(emptiest)


#: As `LocalBuckets.take`, by the clock of Redis, which all processes share.
_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local wait, taken = 0, {}
for i, key in ipairs(KEYS) do
  taken[i] = math.max(tonumber(redis.call('GET', key) or '0'), now) + 60 / tonumber(ARGV[i])
  wait = math.max(wait, taken[i] - now - 60)
end
if wait > 0.00001 then return tostring(wait) end
for i, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.6f', taken[i]), 'EX', 61)
end
return '0'
"""
_GIVE_BACK = """
for i, key in ipairs(KEYS) do
  local full_at = redis.call('GET', key)
  if full_at then
    redis.call('SET', key, string.format('%.6f', tonumber(full_at) - 60 / tonumber(ARGV[i])), 'EX', 61)
  end
end
"""


class RedisBuckets:
    """Buckets that all processes share; those of this process for a while when Redis does not answer."""

    #: One try costs a thread at most this long, and then none is made for so long.
    TIMEOUT_SECONDS = 0.25
    PAUSE_SECONDS = 5.0

    def __init__(self, url: str, *, prefix: str = "repondant:{rate}:") -> None:
        client: redis.Redis = redis.Redis.from_url(
            url,
            socket_timeout=self.TIMEOUT_SECONDS,
            socket_connect_timeout=self.TIMEOUT_SECONDS,
        )
        self._take, self._give_back = (
            client.register_script(_TAKE),
            client.register_script(_GIVE_BACK),
        )
        self._prefix = prefix
        self._local = LocalBuckets()
        self._away_until = 0.0

    def take(self, limits: Sequence[Limit]) -> float:
        waited = self._run(self._take, limits)
        return self._local.take(limits) if waited is None else float(waited)

    def give_back(self, limits: Sequence[Limit]) -> None:
        self._run(self._give_back, limits)
        self._local.give_back(limits)

    def _run(self, script: "redis.commands.core.Script", limits: Sequence[Limit]) -> bytes | None:
        """What the script says; `None` where nobody answers."""
        if time.monotonic() < self._away_until:
            return None
        names = [self._prefix + name for name, _limit in limits]
        try:
            said: bytes = script(keys=names, args=[per_minute for _name, per_minute in limits])
        except redis.RedisError as error:
            self._away_until = time.monotonic() + self.PAUSE_SECONDS
            logger.warning("Rate limits are this process's own for now: %s", type(error).__name__)
            return None
        return said


@dataclass(slots=True)
class _State:
    """What this process holds: the buckets, and the limits as they were last read."""

    buckets: LocalBuckets | RedisBuckets
    limits: RuntimeSettings | None = None
    read_at: float = 0.0

    @property
    def is_fresh(self) -> bool:
        age = time.monotonic() - self.read_at
        return self.limits is not None and age < settings.RATE_LIMITS_CACHE_SECONDS

    def current(self) -> RuntimeSettings:
        if self.limits is None or not self.is_fresh:
            self.limits, self.read_at = RuntimeSettings.load(), time.monotonic()
        return self.limits


def _new_state() -> _State:
    return _State(RedisBuckets(settings.REDIS_URL) if settings.REDIS_URL else LocalBuckets())


_state = _new_state()


def forget() -> None:
    """Start with full buckets and read the limits anew; for tests."""
    global _state
    _state = _new_state()


def limit_asking(person: uuid.UUID | int | None, address: str) -> None:
    """Count a question of a person (a user, or a visitor) at an address, also one that is answered again.

    Raises `RateLimitedError`. Synchronous.
    """
    _limit("ask", person, address)


def limit_opening(person: uuid.UUID | int | None, address: str) -> None:
    """Count a conversation that is opened without a question: as many as there may be questions, and beside them."""
    _limit("open", person, address)


def _limit(what: str, person: uuid.UUID | int | None, address: str) -> None:
    if settings.RATE_LIMITS:
        limits = _state.current()
        _take(
            (f"{what}:person:{person}" if person else "", limits.asks_per_minute_user),
            (f"{what}:address:{address}" if address else "", limits.asks_per_minute_address),
        )


async def limit_asking_here(person: uuid.UUID | int | None, address: str) -> None:
    """The same on the event loop: at once where nothing is to be waited for, else in a thread."""
    if not settings.RATE_LIMITS:
        return
    if _state.is_fresh and isinstance(_state.buckets, LocalBuckets):
        limit_asking(person, address)
    else:
        await in_database(limit_asking, person, address)


def limit_key(key_id: int) -> None:
    """Count a question of an API key. Raises `RateLimitedError`. Synchronous."""
    if settings.RATE_LIMITS:
        _take((f"ask:key:{key_id}", _state.current().asks_per_minute_key))


class SignInTry:
    """A try to sign in, counted when it is made and forgiven when it succeeds: only failures add up."""

    def __init__(self, username: str, address: str) -> None:
        """Raises `RateLimitedError`."""
        self._limits: list[Limit] = []
        if not settings.RATE_LIMITS:
            return
        per_minute = _state.current().sign_ins_per_minute
        # A name is anything that somebody typed, of any length: its digest is not.
        digest = hashlib.blake2b(username.casefold().encode(), digest_size=16).hexdigest()
        self._limits = _take(
            (f"sign-in:name:{digest}", per_minute),
            (f"sign-in:address:{address}" if address else "", per_minute),
        )

    def succeeded(self) -> None:
        if self._limits:
            _state.buckets.give_back(self._limits)


def _take(*limits: Limit) -> list[Limit]:
    """Take a token of each limit that is one; raises where one has none left."""
    counted = [(name, per_minute) for name, per_minute in limits if name and per_minute]
    if counted and (wait := _state.buckets.take(counted)):
        raise RateLimitedError("rate limited", retry_after=wait)
    return counted


def address_of(request: HttpRequest) -> str:
    return client_address(request.META.get("REMOTE_ADDR"), request.headers.get("X-Forwarded-For"))


def client_address(peer: str | None, forwarded: str | None) -> str:
    """Who asks, as far as it can be trusted: the peer, or what the outermost of our own proxies saw.

    Each proxy appends the address it was called from, and callers may send the header themselves: only the last
    `TRUSTED_PROXIES` entries were written by proxies of ours. An IPv6 customer has a whole /64. Empty where unknown.
    """
    seen = peer or ""
    hops = [hop.strip() for hop in (forwarded or "").split(",") if hop.strip()]
    if settings.TRUSTED_PROXIES and hops:
        seen = hops[-min(settings.TRUSTED_PROXIES, len(hops))]
    try:
        address = ipaddress.ip_address(seen.strip("[]"))
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
