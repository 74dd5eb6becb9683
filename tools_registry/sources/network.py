"""Where a tool may connect: allow-listed hosts, never an internal address unless the operator said so.

A name is resolved once and the connection goes to the address that was checked, so a name that changes its address
between the check and the connection reaches nothing. Redirects are not followed. Answers are bounded. Proxies and
credentials of the environment are ignored. Secrets are named in headers (`${TOOL_SECRET_X}`) and read here alone.
"""

import asyncio
import ipaddress
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import httpx2
from django.conf import settings

from tools_registry.exceptions import ToolSourceError

SECRET_PREFIX = "TOOL_SECRET_"  # noqa: S105  # the beginning of the names, not a secret
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Headers whose value must be a reference: what they hold is a credential.
_CREDENTIALS = re.compile(r"authorization|cookie|token|secret|password|api[-_]?key", re.IGNORECASE)


def header_problem(headers: object) -> str:
    """What is wrong with the headers that staff wrote; empty where nothing is."""
    if not isinstance(headers, dict):
        return "not an object"
    for name, value in headers.items():
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]+", str(name)):
            return f"{name!r} is not a name with a text"
        if any(ord(character) < 32 for character in value):
            return f"{name!r} holds a control character"
        references = _REFERENCE.findall(value)
        if any(not reference.startswith(SECRET_PREFIX) for reference in references):
            return f"{name!r} may only name variables that begin with {SECRET_PREFIX}"
        if _CREDENTIALS.search(name) and not references:
            return f"{name!r} must name its secret: ${{{SECRET_PREFIX}…}}"
    return ""


def resolved_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with their secrets; raises `ToolSourceError` naming a variable that is not set."""
    if problem := header_problem(dict(headers)):
        raise ToolSourceError(f"Headers: {problem}.")

    def secret(match: re.Match[str]) -> str:
        value = os.environ.get(match[1], "")
        if not value:
            raise ToolSourceError(f"The variable {match[1]} is not set.")
        return value

    return {name: _REFERENCE.sub(secret, value) for name, value in headers.items()}


def host_of(url: str | httpx2.URL) -> str:
    """`host`, or `host:port` where the port is not the usual one; raises `ToolSourceError` for anything but a web URL."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError) as error:
        raise ToolSourceError(f"{str(url)[:200]!r} is not an address.") from error
    if parsed.scheme not in _DEFAULT_PORTS or not parsed.host or parsed.userinfo:
        raise ToolSourceError(f"{str(url)[:200]!r} is not an address of the web.")
    host = parsed.host.lower().rstrip(".")
    port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
    return host if port == _DEFAULT_PORTS[parsed.scheme] else f"{host}:{port}"


def check_host(url: str | httpx2.URL, allowed: Sequence[str]) -> None:
    """Raise `ToolSourceError` unless the address's host is one of `allowed`."""
    host = host_of(url)
    if host not in {entry.lower() for entry in allowed}:
        raise ToolSourceError(f"The host {host} is not among the allowed ones.")


def guarded_client(
    *, allowed: Sequence[str], timeout: float, headers: Mapping[str, str] | None = None
) -> httpx2.Client:
    """A client that reaches allowed hosts only, and follows no redirect."""
    return httpx2.Client(
        transport=_GuardedTransport(allowed),
        timeout=timeout,
        headers=resolved_headers(headers or {}),
        follow_redirects=False,
        trust_env=False,
    )


def guarded_async_client(
    *, allowed: Sequence[str], timeout: float, headers: Mapping[str, str] | None = None
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=_GuardedAsyncTransport(allowed),
        timeout=timeout,
        headers=resolved_headers(headers or {}),
        follow_redirects=False,
        trust_env=False,
    )


class _GuardedTransport(httpx2.HTTPTransport):
    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(trust_env=False)
        self._allowed = tuple(allowed)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        check_host(request.url, self._allowed)
        found = _lookup(request.url.host, request.url.port)
        response = super().handle_request(_pinned(request, found))
        response.stream = _BoundedStream(response.stream)
        return response


class _GuardedAsyncTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(trust_env=False)
        self._allowed = tuple(allowed)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_host(request.url, self._allowed)
        found = await asyncio.to_thread(_lookup, request.url.host, request.url.port)
        response = await super().handle_async_request(_pinned(request, found))
        response.stream = _BoundedAsyncStream(response.stream)
        return response


def _lookup(host: str, port: int | None) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolSourceError(f"The host {host} has no address.") from error
    return [str(entry[4][0]) for entry in found]


def _pinned(request: httpx2.Request, addresses: Sequence[str]) -> httpx2.Request:
    """The request to the checked address, under the host's own name."""
    host = host_of(request.url)
    if host not in {entry.lower() for entry in settings.TOOL_INTERNAL_HOSTS}:
        internal = [address for address in addresses if not _is_public(address)]
        if internal:
            raise ToolSourceError(f"The host {host} has an internal address.")
    name = request.url.host
    request.extensions = {**request.extensions, "sni_hostname": name}
    request.url = request.url.copy_with(host=addresses[0])
    return request


def _is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.split("%", 1)[0])
    mapped = getattr(parsed, "ipv4_mapped", None) or getattr(parsed, "sixtofour", None)
    return (mapped or parsed).is_global and parsed.is_global and not parsed.is_multicast


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        left = settings.TOOL_MAX_RESPONSE_BYTES
        for piece in self._stream:
            left -= len(piece)
            _require_room(left)
            yield piece

    def close(self) -> None:
        self._stream.close()


class _BoundedAsyncStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = settings.TOOL_MAX_RESPONSE_BYTES
        async for piece in self._stream:
            left -= len(piece)
            _require_room(left)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _require_room(left: int) -> None:
    if left < 0:
        raise ToolSourceError(f"An answer is longer than {settings.TOOL_MAX_RESPONSE_BYTES} bytes.")
