"""A balancer of the tests, on loopback, in front of two or more sites: each connection goes to one that takes it.

It does what a proxy does by default: sites in turn; one that refuses the connection is passed over for a moment, and
the next is tried. Nothing that was sent is ever sent again.
"""

import itertools
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

_CONNECT_SECONDS = 5.0


class _Balancing(socketserver.BaseRequestHandler):
    server: "Balancer"

    def handle(self) -> None:
        site = self.server.connected()
        if site is None:
            return
        with site:
            back = threading.Thread(target=_pass_on, args=(site, self.request), daemon=True)
            back.start()
            _pass_on(self.request, site)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


class Balancer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Balancing)
        self._turns = itertools.count()
        self._ports = list(ports)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def connected(self) -> socket.socket | None:
        """A connection to the site whose turn it is, or to the next that takes one."""
        first = next(self._turns)
        for number in range(len(self._ports)):
            port = self._ports[(first + number) % len(self._ports)]
            with suppress(OSError):
                site = socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS)
                site.settimeout(None)
                return site
        return None


@contextmanager
def balancing(ports: Sequence[int]) -> Iterator[Balancer]:
    with Balancer(ports) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(timeout=5)
