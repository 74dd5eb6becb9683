"""Token buckets: how many more tries each name has in a minute. They are refilled evenly: the next try may come with
the next token.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm).
"""

import heapq
import threading
import time
from collections.abc import Sequence
from typing import Protocol

PERIOD_SECONDS = 60.0
#: More buckets than this are thinned out, the fullest first: they are the ones that refuse nobody.
MAX_BUCKETS = 100_000
#: Sums of fractions of a minute: less than this is no wait.
_ROUNDING = 1e-6

#: A bucket's name, and how many tokens it holds and gets in a minute.
Limit = tuple[str, int]


class Buckets(Protocol):
    def take(self, limits: Sequence[Limit]) -> float: ...

    def give_back(self, limits: Sequence[Limit]) -> None: ...


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
                max(self._full_at.get(name, 0.0), moment) + PERIOD_SECONDS / per_minute for name, per_minute in limits
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
        emptiest = heapq.nlargest(MAX_BUCKETS // 2, self._full_at.items(), key=lambda bucket: bucket[1])
        self._full_at = dict(emptiest)
