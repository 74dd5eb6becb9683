"""How often a person, a key or an address may ask, and try to sign in: one token bucket for each.

A bucket is one number a process: when it is full again. Limits are the site's; 0 or `RATE_LIMITS=False`: no limit.
"""

import hashlib
import heapq
import ipaddress
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from agents.cache import TtlCache
from agents.models import RuntimeSettings
from chat.errors import RateLimitedError

#: How often in a minute somebody may read and export; behind one address so many people may at the same time.
READS_PER_MINUTE = 300
EXPORTS_PER_MINUTE = 10
READERS_PER_ADDRESS = 20
#: So many addresses may try one name to their limits: a stranger at one of them does not lock its owner out.
ADDRESSES_PER_NAME = 5
PERIOD_SECONDS = 60.0
#: More buckets than this are thinned out, the fullest first: they are the ones that refuse nobody.
MAX_BUCKETS = 100_000
#: Sums of fractions of a minute: less than this is no wait.
_ROUNDING = 1e-5

#: A bucket's name, and how many tokens it holds and gets in a minute.
Limit = tuple[str, int]


# Buckets


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


def _take(*limits: Limit) -> list[Limit]:
    """Take a token from each active limit; raises where one has none left."""
    counted = [(name, per_minute) for name, per_minute in limits if name and per_minute and settings.RATE_LIMITS]
    if counted and (wait := _buckets.take(counted)):
        raise RateLimitedError("rate limited", retry_after=wait)
    return counted


def digest_of(username: str) -> str:
    """Of the name that Django looks up for what was typed: trimmed and folded to plain letters; its case stays."""
    name = str(AuthenticationForm().fields["username"].to_python(username))
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


# Addresses


def address_of(request: HttpRequest) -> str:
    return client_address(request.META.get("REMOTE_ADDR"), request.headers.get("X-Forwarded-For"))


def client_address(peer: str | None, forwarded: str | None) -> str:
    """Who asks: the peer, or what the outermost of our own `TRUSTED_PROXIES` saw; empty where unknown.

    What they wrote that is no address counts as the peer. An IPv6 customer has a whole /64.
    """
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


# Signing in

#: The name that filters of fail2ban look for.
sign_ins = logging.getLogger("chat.access.sign_in")

View = Callable[..., HttpResponseBase]


def limited_sign_in(view: View) -> View:
    """The view with a limit on attempts: beyond it, 429 and a page that says when to retry."""

    # Whoever tries may be signed in already, under another name: only a new user on the request is a success.
    def has_signed_in(request: HttpRequest, before: Any, _response: HttpResponseBase) -> bool:
        return request.user is not before

    return _limited(view, lambda request: request.POST.get("username", ""), has_signed_in)


def limited_password_change(view: View) -> View:
    """The password-change view with the same limit, so that an open session does not reveal the old password."""

    # Whether the old password was right (the new one may be refused), or nobody was signed in.
    def knew_password(_request: HttpRequest, _before: Any, response: HttpResponseBase) -> bool:
        form = (getattr(response, "context_data", None) or {}).get("form")
        return response.status_code < 400 and (form is None or "old_password" not in form.errors)

    return _limited(view, lambda request: request.user.get_username(), knew_password)


def _limited(
    view: View,
    name_of: Callable[[HttpRequest], str],
    has_succeeded: Callable[[HttpRequest, Any, HttpResponseBase], bool],
) -> View:
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        before, address = request.user, address_of(request)
        per_minute = _current_limits().get("sign_ins_per_minute")
        try:
            taken = _take(
                (f"sign-in:name:{digest_of(name_of(request))}", per_minute * ADDRESSES_PER_NAME),
                (f"sign-in:address:{address}" if address else "", per_minute),
            )
        except RateLimitedError as error:
            _log_failure(request, "limited")
            page = render(request, "registration/limited.html", {"message": error.public_message}, status=429)
            page["Retry-After"] = str(error.retry_after)
            return page
        response = view(request, *args, **kwargs)
        if has_succeeded(request, before, response):
            # Only failures count.
            _buckets.take(taken, -1)
        else:
            _log_failure(request, "refused")
        return response

    return wrapped


def _log_failure(request: HttpRequest, outcome: str) -> None:
    """The line that fail2ban reads (`docs/operations.md`): who tried is not in it, since a name may be a password."""
    sign_ins.warning("sign-in failed address=%s outcome=%s", address_of(request), outcome)
