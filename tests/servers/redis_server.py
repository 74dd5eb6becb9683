"""A Redis server of a test's own on a free loopback port: it may be killed, stopped and started again."""

import shutil
import signal
import subprocess
import time
from typing import Self

import redis

from tests.servers.ports import free_port

START_SECONDS = 60.0
PROGRAM = shutil.which("redis-server")


class RedisServer:
    """`with RedisServer() as server: server.url`; nothing it holds is written to a disk."""

    def __init__(self) -> None:
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        assert PROGRAM is not None
        command = [PROGRAM, "--port", str(self._port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", "/tmp"]  # noqa: S108  # it writes nothing
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
        limit = time.monotonic() + START_SECONDS
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError:
                    if time.monotonic() > limit:
                        raise
                    time.sleep(0.02)
                else:
                    return

    def kill(self) -> None:
        """End it at once; what it held is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(5)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
