"""One page fetched: a conditional GET with bounded redirects, size and time, guarded at every step.

Each hop is a new request through `agents.network`, so a redirect to an internal address is refused like any other. The
total time is bounded by a cancellation, hence the asynchronous inside: a server that drips bytes would hold a
synchronous client for ever.
"""

import asyncio
import ssl
import threading
import time
from dataclasses import dataclass
from email.message import Message

import httpx2
from django.conf import settings
from django.utils.translation import gettext as _

from agents.network import Reach, guarded_async_client, host_of
from knowledge.exceptions import PageRefusedError, PageUnavailableError

#: Its first word, up to the slash, is the name that robots.txt knows us by.
URL_USER_AGENT = "Repondant/1.0"
#: Each wait for a site, and one page with all its redirects.
URL_TIMEOUT_SECONDS = 15.0
URL_TOTAL_SECONDS = 120.0
URL_MAX_REDIRECTS = 5
#: Between two requests of one process to one host: what a polite robot keeps.
URL_HOST_PAUSE_SECONDS = 1.0

_GONE = (404, 410)
#: Statuses that may pass: time-out, too early, too many requests, and the server's own failures.
_MAY_PASS = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page's bytes, with what its server says of them; `kind` is the media type without parameters."""

    data: bytes
    kind: str
    charset: str
    etag: str
    last_modified: str
    #: Where it was found in the end.
    address: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """As it was when its marks were taken (304)."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Not there (404) or there no more (410)."""

    status: int


def fetch_page(address: str, *, etag: str = "", last_modified: str = "") -> Fetched | Unchanged | Gone:
    """GET the page, unless it is what those marks stand for.

    Raises `PageRefusedError` for what may not be fetched or was refused, `PageUnavailableError` for what may pass.
    Waits first, so that a host is not asked more often than every `URL_HOST_PAUSE_SECONDS` by this process.
    """
    _wait_for_turn(host_of(address, PageRefusedError))
    marks = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    try:
        return asyncio.run(_bounded(address, {name: value for name, value in marks.items() if value}))
    except TimeoutError as error:
        raise PageUnavailableError(f"{address} took more than {URL_TOTAL_SECONDS} s.") from error
    except httpx2.InvalidURL as error:
        # Where a redirect leads: the address itself was looked at before.
        raise PageRefusedError(f"{address} redirects to what is no address: {error}") from error
    except httpx2.HTTPError as error:
        raise PageUnavailableError(f"{address}: {type(error).__name__} {error}") from error


async def _bounded(address: str, marks: dict[str, str]) -> Fetched | Unchanged | Gone:
    async with asyncio.timeout(URL_TOTAL_SECONDS):
        return await _followed(address, marks)


async def _followed(address: str, marks: dict[str, str]) -> Fetched | Unchanged | Gone:
    reach = Reach(
        max_bytes=settings.MAX_DOCUMENT_BYTES,
        ports=settings.URL_PORTS,
        internal=settings.URL_INTERNAL_HOSTS,
        error=PageRefusedError,
    )
    async with guarded_async_client(
        reach,
        timeout=URL_TIMEOUT_SECONDS,
        headers={"User-Agent": URL_USER_AGENT, "Accept": "*/*", **marks},
        verify=_trusted(),
    ) as client:
        url = httpx2.URL(address)
        for _hop in range(URL_MAX_REDIRECTS + 1):
            async with client.stream("GET", url) as response:
                if response.has_redirect_location:
                    url = url.join(response.headers["Location"])
                    continue
                return await _read(response, str(url))
    raise PageRefusedError(
        f"{address} redirects more than {URL_MAX_REDIRECTS} times.",
        public_message=_("Cette page renvoie trop souvent à une autre."),
    )


async def _read(response: httpx2.Response, address: str) -> Fetched | Unchanged | Gone:
    if response.status_code == 304:
        return Unchanged()
    if response.status_code in _GONE:
        return Gone(response.status_code)
    if response.status_code != 200:
        kind = PageUnavailableError if response.status_code in _MAY_PASS else PageRefusedError
        raise kind(
            f"{address}: HTTP {response.status_code}",
            public_message=_("Le site a répondu par l’erreur %(status)d.") % {"status": response.status_code},
        )
    data = b"".join([piece async for piece in response.aiter_bytes()])
    said = Message()
    said["Content-Type"] = response.headers.get("Content-Type", "")
    has_type = bool(said["Content-Type"])
    return Fetched(
        data=data,
        kind=said.get_content_type() if has_type else "",
        charset=str(said.get_content_charset() or ""),
        etag=response.headers.get("ETag", "")[:200],
        last_modified=response.headers.get("Last-Modified", "")[:100],
        address=address,
    )


def _trusted() -> ssl.SSLContext:
    """The usual authorities, and the operator's own (`URL_CA_FILE`, for an intranet)."""
    context = httpx2.create_ssl_context(trust_env=False)
    if settings.URL_CA_FILE:
        context.load_verify_locations(settings.URL_CA_FILE)
    return context


_turns: dict[str, float] = {}
_lock = threading.Lock()


def _wait_for_turn(host: str) -> None:
    """Sleep until the host may be asked again; those who wait are given times one after the other."""
    pause = URL_HOST_PAUSE_SECONDS
    with _lock:
        now = time.monotonic()
        for known in [known for known, at in _turns.items() if at <= now]:
            del _turns[known]
        mine = max(now, _turns.get(host, 0.0))
        _turns[host] = mine + pause
    time.sleep(mine - now)
