"""Ports for servers that die and come back."""

import fcntl
import os
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

_CLAIMS = (Path(tempfile.gettempdir()) / f"repondant-ports-{os.getuid()}").open("ab")
_mine: set[int] = set()


def free_port() -> int:
    """A loopback port that no outgoing connection is given: while its server is dead, its clients go on calling it.

    Other processes of the tests leave it alone until this one ends: a byte of one file is locked for each port.
    """
    while True:
        port = random.randrange(18_000, 28_000)  # noqa: S311  # not a secret
        with socket.socket() as probe, suppress(OSError):
            fcntl.lockf(_CLAIMS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
            if port not in _mine:
                _mine.add(port)
                return port
