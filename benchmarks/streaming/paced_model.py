"""The scripted model server of the tests as a program: so many tokens a reply at one pace, each saying when it was sent.

python -m benchmarks.streaming.paced_model --tokens 100 --interval-ms 10
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType
from typing import overload

from tests.servers.model_server import Body, ModelReply, ModelServer

#: Of a question that a model rewrites.
QUESTION_TOKENS = 15
_LETTERS = "abcdefghij"
_TO_LETTERS = str.maketrans("0123456789", _LETTERS)
_TO_DIGITS = str.maketrans(_LETTERS, "0123456789")


def sent_at(word: str) -> int:
    """When a token was sent, in nanoseconds of the machine's monotonic clock."""
    return int(word.translate(_TO_DIGITS))


class StampedTokens(Sequence[str]):
    """Words that say when they were sent (`sent_at`), in letters: a text of numbers is treated as no answer is."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(self._count)[index]]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return " " + str(time.monotonic_ns()).translate(_TO_LETTERS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    options = parser.parse_args()
    reply = ModelReply(tokens=StampedTokens(options.tokens), interval=options.interval_ms / 1000)

    def written(body: Body) -> ModelReply:
        """A call that bounds its reply below an answer's length wants a question rewritten: so long as one is."""
        if (body.get("max_tokens") or options.tokens) >= options.tokens:
            return reply
        return replace(reply, tokens=reply.tokens[:QUESTION_TOKENS])

    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with ModelServer(fallback=written) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        stopped.wait()


if __name__ == "__main__":
    main()
