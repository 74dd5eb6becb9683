"""A circuit breaker for each tool, in this process: several failures in a row suspend a tool for a while.

After the pause one call is let through; its outcome closes or opens the breaker again.
"""

import threading
import time
from collections import defaultdict

#: So many failures in a row suspend a tool for so long, in each process.
TOOL_BREAKER_FAILURES = 5
TOOL_BREAKER_SECONDS = 30.0


class Breaker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = 0.0
        self._trying = False

    def allows(self) -> bool:
        """Whether a call may go; a `True` after the pause is the one trial, which must report its outcome."""
        with self._lock:
            if self._failures < TOOL_BREAKER_FAILURES:
                return True
            if self._trying or time.monotonic() < self._open_until:
                return False
            self._trying = True
            return True

    def succeeded(self) -> None:
        with self._lock:
            self._failures, self._trying = 0, False

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._trying = False
            self._open_until = time.monotonic() + TOOL_BREAKER_SECONDS

    def abandoned(self) -> None:
        """The call was cancelled: neither a success nor a failure."""
        with self._lock:
            self._trying = False


breakers: defaultdict[str, Breaker] = defaultdict(Breaker)
