"""A virtual host of a test's own on the RabbitMQ of this machine, or of `TEST_AMQP_URL`."""

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

LOCAL_PORT = 5672
CONTROL_SECONDS = 60


@contextmanager
def amqp_url() -> Iterator[str | None]:
    """An address with nothing in its queues, or `None` where no server is there that can be prepared."""
    control = shutil.which("rabbitmqctl")
    if given := os.environ.get("TEST_AMQP_URL"):
        yield given
        return
    if control is None or not _listens():
        yield None
        return
    name = f"repondant-{uuid.uuid4().hex[:12]}"

    def run(*words: str) -> bool:
        command = [control, "-q", *words]
        done = subprocess.run(command, capture_output=True, timeout=CONTROL_SECONDS, check=False)  # noqa: S603
        return done.returncode == 0

    if not run("add_vhost", name):
        yield None
        return
    try:
        run("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        yield f"amqp://guest:guest@127.0.0.1:{LOCAL_PORT}/{name}"
    finally:
        run("delete_vhost", name)


def _listens() -> bool:
    try:
        socket.create_connection(("127.0.0.1", LOCAL_PORT), timeout=2).close()
    except OSError:
        return False
    return True
