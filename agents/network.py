"""Where a client of ours may connect: never to an internal address unless the operator said so.

A name is resolved once, and the connection goes to the checked address under the name. Redirects are not followed here.
What an answer holds is bounded, as it comes and unpacked. The environment's proxies and certificates are ignored.
"""

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
from django.utils.translation import gettext

from agents.errors import ApplicationError

_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Global by the tables of some Python versions, yet of no open network: protocol assignments, relays, cloud platforms.
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2001::/23", "3fff::/20"))
)
#: The part of IPv6 that is given out for the open network (RFC 4291, section 2.5.4); all the rest is special.
_UNICAST = ipaddress.ip_network("2000::/3")
#: How much is unpacked at once.
_PIECE = 1 << 16
#: Of zlib's windows, the one with a header of gzip.
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Reach:
    """What a client may connect to, and how much of an answer it reads (bytes, unpacked); `None`: any.

    `hosts`: `host`, or `host:port` where the port is not the usual one. `internal`: may have an internal address.
    `cuts`: a longer answer ends there, and is not refused. `tls`: in clear to hosts of `internal` alone.
    """

    max_bytes: int
    hosts: Sequence[str] | None = None
    ports: Sequence[int] | None = None
    internal: Sequence[str] = ()
    error: type[ApplicationError] = ApplicationError
    cuts: bool = False
    tls: bool = False


def host_of(url: str | httpx2.URL, error: type[ApplicationError] = ApplicationError) -> str:
    """`host`, or `host:port` where the port is not the usual one; raises `error` for anything but a web URL."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError) as invalid:
        raise error(f"{str(url)[:200]!r} is not an address.") from invalid
    if parsed.scheme not in _DEFAULT_PORTS or not parsed.host or parsed.userinfo:
        raise error(f"{str(url)[:200]!r} is not an address of the web.")
    host = _name(parsed)
    port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
    return host if port == _DEFAULT_PORTS[parsed.scheme] else f"{host}:{port}"


def check_url(url: str | httpx2.URL, reach: Reach) -> None:
    """Raise the reach's error unless the URL's host and port are allowed; nothing is resolved."""
    host = host_of(url, reach.error)
    if reach.hosts is not None and host not in _lowered(reach.hosts):
        raise reach.error(gettext("L’hôte %(host)s n’est pas permis ici.") % {"host": host})
    parsed = httpx2.URL(url)
    if reach.tls and parsed.scheme != "https" and host not in _lowered(reach.internal):
        raise reach.error(gettext("À %(host)s, un secret ne va que par https.") % {"host": host})
    port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
    if reach.ports is not None and port not in reach.ports and host not in _lowered(reach.internal):
        raise reach.error(gettext("Le port %(port)d n’est pas permis ici.") % {"port": port})


def guarded_client(
    reach: Reach, *, timeout: float, headers: Mapping[str, str] | None = None, verify: ssl.SSLContext | bool = True
) -> httpx2.AsyncClient:
    """A client that stays within its reach and follows no redirect; `timeout` (seconds) is for each wait."""
    return httpx2.AsyncClient(
        transport=_GuardedTransport(reach, verify),
        timeout=timeout,
        headers=headers,
        follow_redirects=False,
        trust_env=False,
    )


def ask_once(client: httpx2.AsyncClient, method: str, url: str, **request: Any) -> httpx2.Response:
    """One request and its whole answer, from a thread without an event loop; closes the client."""

    async def ask() -> httpx2.Response:
        async with client:
            return await client.request(method, url, **request)

    return asyncio.run(ask())


class _GuardedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, reach: Reach, verify: ssl.SSLContext | bool) -> None:
        super().__init__(verify=verify, trust_env=False)
        self._reach = reach

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_url(request.url, self._reach)
        found = await asyncio.to_thread(_lookup, request.url, self._reach)
        response = await super().handle_async_request(_pinned(request, found, self._reach))
        response.stream = _BoundedStream(response, self._reach)
        return response


def _name(url: httpx2.URL) -> str:
    """The host as it is looked up and verified: lower case, ASCII (IDNA), without the root's dot."""
    return url.raw_host.decode("ascii").lower().rstrip(".").strip("[]")


def _lowered(hosts: Sequence[str]) -> set[str]:
    return {entry.lower() for entry in hosts}


def _lookup(url: httpx2.URL, reach: Reach) -> list[str]:
    try:
        found = socket.getaddrinfo(_name(url), url.port or 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise reach.error(gettext("L’hôte %(host)s est introuvable.") % {"host": _name(url)}) from error
    return [str(entry[4][0]) for entry in found]


def _pinned(request: httpx2.Request, addresses: Sequence[str], reach: Reach) -> httpx2.Request:
    """The request to the checked address, under the host's own name. One internal address refuses them all."""
    host = host_of(request.url, reach.error)
    if host not in _lowered(reach.internal) and not all(map(is_public, addresses)):
        said = gettext(
            "L’hôte %(host)s a une adresse interne : l’exploitation doit le permettre (TOOL_INTERNAL_HOSTS, URL_INTERNAL_HOSTS)."
        )
        raise reach.error(said % {"host": host})
    request.extensions = {**request.extensions, "sni_hostname": _name(request.url)}
    request.url = request.url.copy_with(host=addresses[0])
    request.headers["Accept-Encoding"] = "gzip"
    return request


def is_public(address: str) -> bool:
    """Whether an address belongs to the open network, and to nothing that leads back inside it (IPv4 within IPv6)."""
    parsed = ipaddress.ip_address(address.split("%", 1)[0])
    if not parsed.is_global or any(parsed in network for network in _SPECIAL):
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        return parsed in _UNICAST and parsed.sixtofour is None
    return not (parsed.is_multicast or parsed.is_reserved)


class _BoundedStream(httpx2.AsyncByteStream):
    """An answer's bytes, unpacked and counted here, as the client unpacks without a bound."""

    def __init__(self, response: httpx2.Response, reach: Reach) -> None:
        packing = response.headers.pop("Content-Encoding", "").strip().lower()
        if packing not in ("", "identity", "gzip", "x-gzip"):
            raise reach.error(f"The answer is packed in a way that was not asked for: {packing[:50]}.")
        self._stream: Any = response.stream
        self._reach = reach
        self._received = self._unpacked = 0
        self._unpacker = None
        if packing not in ("", "identity"):
            response.headers.pop("Content-Length", None)
            self._unpacker = zlib.decompressobj(wbits=_GZIP)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            for part in self._parts(piece):
                yield part
                if max(self._received, self._unpacked) > self._reach.max_bytes:
                    return
        # An answer without a body, as to HEAD, has nothing to unpack.
        if self._unpacker is not None and self._received and not self._unpacker.eof:
            raise self._reach.error("The answer was cut.")

    def _parts(self, piece: bytes) -> Iterator[bytes]:
        self._received += len(piece)
        self._check_size(self._received)
        if self._unpacker is None:
            yield piece
            return
        while piece:
            if self._unpacker.eof:  # another member
                self._unpacker = zlib.decompressobj(wbits=_GZIP)
            try:
                part = self._unpacker.decompress(piece, _PIECE)
            except zlib.error as error:
                raise self._reach.error("The answer is packed wrongly.") from error
            self._unpacked += len(part)
            self._check_size(self._unpacked)
            yield part
            piece = self._unpacker.unconsumed_tail or self._unpacker.unused_data

    def _check_size(self, size: int) -> None:
        if size > self._reach.max_bytes and not self._reach.cuts:
            raise self._reach.error(f"An answer is longer than {self._reach.max_bytes} bytes.")

    async def aclose(self) -> None:
        await self._stream.aclose()
