"""A reverse proxy of the tests, on loopback: it passes on what it is sent, and adds the address that it was called
from.
"""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class _Passing(socketserver.BaseRequestHandler):
    """One connection, whose first request has the header added: a client asks once on each."""

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (piece := self.request.recv(65_536)):
                return
            head += piece
        headers, _blank, body = head.partition(b"\r\n\r\n")
        # Below what the caller wrote, as proxies do.
        added = f"\r\nX-Forwarded-For: {self.client_address[0]}\r\n\r\n".encode()
        with socket.create_connection(self.server.site) as site:  # type: ignore[attr-defined]
            site.sendall(headers + added + body)
            back = threading.Thread(target=_pass_on, args=(site, self.request), daemon=True)
            back.start()
            _pass_on(self.request, site)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def reverse_proxy(port: int) -> Iterator[int]:
    """In front of what listens at that port; yields its own."""
    with _Server(("127.0.0.1", 0), _Passing) as server:
        server.site = ("127.0.0.1", port)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join(timeout=5)
