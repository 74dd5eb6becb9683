"""Ports for servers that die and come back."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """A loopback port that no outgoing connection is given: while its server is dead, its clients go on calling it."""
    while True:
        port = random.randrange(18_000, 28_000)  # noqa: S311  # not a secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
