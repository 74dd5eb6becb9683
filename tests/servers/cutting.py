"""A line of the tests, on loopback, to a server that others use too: it can be cut in the middle, and mended."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.servers.ports import free_port

_CONNECT_SECONDS = 5.0


class _Passing(socketserver.BaseRequestHandler):
    server: "_Listening"

    def handle(self) -> None:
        with socket.create_connection(self.server.target, _CONNECT_SECONDS) as there:
            there.settimeout(None)
            pair = (self.request, there)
            self.server.pairs.append(pair)
            back = threading.Thread(target=_pass_on, args=(there, self.request), daemon=True)
            back.start()
            _pass_on(self.request, there)
            back.join()


class _Listening(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", port), _Passing)
        self.target = target
        self.pairs: list[tuple[socket.socket, socket.socket]] = []


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Line:
    """From `port` to the server: `cut` ends what goes through and refuses what comes, `mend` takes it again."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.port = free_port()
        self._target = target
        self._listening: _Listening | None = None

    def mend(self) -> None:
        self._listening = server = _Listening(self.port, self._target)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def cut(self) -> None:
        server, self._listening = self._listening, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        for pair in server.pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


@contextmanager
def line_to(port: int) -> Iterator[Line]:
    line = Line(("127.0.0.1", port))
    line.mend()
    try:
        yield line
    finally:
        line.cut()
