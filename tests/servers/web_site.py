"""A web site of the tests, on loopback: its answers by path, what it was asked, and TLS with a name of its own."""

import datetime
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.servers.loopback import LoopbackServer, QuietHandler


@dataclass(slots=True)
class Answer:
    body: bytes | str = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Seconds before each byte of the body: a server that drips.
    drip: float = 0.0
    etag: str = ""


@dataclass(slots=True)
class Site:
    """What the site says; tests change `pages` while it runs. `asked` has (path, headers) of each request, `bodies` what
    it was sent.
    """

    host: str
    scheme: str = "http"
    pages: dict[str, Answer] = field(default_factory=dict)
    #: To any other path.
    fallback: Answer = field(default_factory=lambda: Answer("nothing here", "text/plain", 404))
    bodies: list[bytes] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://{self.host}{path}"

    def paths(self) -> list[str]:
        return [path for path, _headers in self.asked]


@contextmanager
def web_site(pages: Mapping[str, Answer] | None = None, *, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    server = LoopbackServer(_Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site = Site(f"127.0.0.1:{server.port}", "https" if tls else "http", dict(pages or {}))
    server.site = site  # type: ignore[attr-defined]
    with server:
        yield site


class _Handler(QuietHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        site.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        site.bodies.append(self.body())
        answer = site.pages.get(self.path, site.fallback)
        if answer.etag and self.headers.get("If-None-Match") == answer.etag:
            self.send_response(304)
            self.end_headers()
            return
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        self.send_response(answer.status)
        if answer.kind:
            self.send_header("Content-Type", answer.kind)
        if answer.etag:
            self.send_header("ETag", answer.etag)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            if not answer.drip:
                self.wfile.write(body)
                return
            for byte in body:
                time.sleep(answer.drip)
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
        except OSError:
            pass  # the reader has gone, as it should

    do_POST = do_PUT = do_GET


@contextmanager
def certificate(name: str) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """A server's context for `name`, and the file of the authority that vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    with tempfile.TemporaryDirectory() as folder:
        file, authority = Path(folder) / "server.pem", Path(folder) / "authority.pem"
        public = made.public_bytes(serialization.Encoding.PEM)
        authority.write_bytes(public)
        file.write_bytes(
            public
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        yield context, authority
