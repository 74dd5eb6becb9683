"""Pages of the web, fetched within bounds: addresses, one page, robots.txt, sitemaps.

A page has one address however it was typed. A conditional GET fetches it, with redirects, size and total time bounded;
each hop is a new request through `agents.network`, which refuses internal addresses. Only addresses of a
sitemap's own host count. `knowledge.indexing.refresh` makes documents of the pages.
"""

import asyncio
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import urljoin

import httpx2
from django.conf import settings
from django.utils.translation import gettext as _
from lxml import etree
from protego import Protego

from agents.network import Reach, guarded_client, host_of
from knowledge.errors import KnowledgeError, PageRefusedError, PageUnavailableError
from knowledge.models import page_address

#: A page's address is its document's name.
LONGEST_ADDRESS = 500
_SITEMAP_SUFFIXES = (".xml", ".xml.gz")


def normal_address(text: str) -> str:
    """The address without its fragment, its host in lower case and ASCII; raises `PageRefusedError` for no address."""
    text = text.strip()
    if any(ord(character) <= 32 for character in text):
        raise _refused(f"{text[:200]!r} holds spaces or control characters.")
    host_of(text, PageRefusedError)
    url = httpx2.URL(text)
    host = url.raw_host.decode("ascii").lower().rstrip(".").strip("[]")
    # The path as it is sent, which is never empty.
    url = url.copy_with(host=host, raw_path=url.raw_path, fragment=None)
    address = str(url)
    if len(address) > LONGEST_ADDRESS:
        raise _refused(f"An address of {len(address)} characters; {LONGEST_ADDRESS} at most.")
    return address


def same_host(first: str, second: str) -> bool:
    return host_of(first, PageRefusedError) == host_of(second, PageRefusedError)


def looks_like_sitemap(address: str) -> bool:
    """By its name; what it holds decides in the end."""
    return httpx2.URL(address).path.lower().endswith(_SITEMAP_SUFFIXES)


def _refused(detail: str) -> PageRefusedError:
    return PageRefusedError(detail, public_message=_("Cette adresse n’est pas valable."))


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
    """GET the page, unless it is what those marks stand for. Raises `PageRefusedError` for what may not be fetched or
    was refused, `PageUnavailableError` for what may pass. Waits first, so that a host is not asked more often than
    every `URL_HOST_PAUSE_SECONDS` by this process."""
    _wait_for_turn(host_of(address, PageRefusedError))
    marks = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    try:
        return asyncio.run(_followed(address, {name: value for name, value in marks.items() if value}))
    except TimeoutError as error:
        raise PageUnavailableError(f"{address} took more than {URL_TOTAL_SECONDS} s.") from error
    except httpx2.InvalidURL as error:
        # Where a redirect leads: the address itself was looked at before.
        raise PageRefusedError(f"{address} redirects to what is no address: {error}") from error
    except httpx2.HTTPError as error:
        raise PageUnavailableError(f"{address}: {type(error).__name__} {error}") from error


async def _followed(address: str, marks: dict[str, str]) -> Fetched | Unchanged | Gone:
    reach = Reach(
        max_bytes=settings.MAX_DOCUMENT_BYTES,
        ports=settings.URL_PORTS,
        internal=settings.URL_INTERNAL_HOSTS,
        error=PageRefusedError,
    )
    # The usual authorities, and the operator's own, for an intranet.
    authorities = httpx2.create_ssl_context(trust_env=False)
    if settings.URL_CA_FILE:
        authorities.load_verify_locations(settings.URL_CA_FILE)
    client = guarded_client(
        reach,
        timeout=URL_TIMEOUT_SECONDS,
        headers={"User-Agent": URL_USER_AGENT, "Accept": "*/*", **marks},
        verify=authorities,
    )
    async with asyncio.timeout(URL_TOTAL_SECONDS), client:
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


#: What crawlers must read of the file at least (RFC 9309, section 2.5).
_MOST_CHARACTERS = 512_000


def robots_rule(text: str = "") -> Callable[[str], bool]:
    """Whether an address may be fetched, by the rules for our product, else those for all."""
    rules = Protego.parse(text.lstrip("\ufeff")[:_MOST_CHARACTERS])
    return lambda address: bool(rules.can_fetch(address, URL_USER_AGENT.split("/")[0]))


def site_robots(address: str) -> Callable[[str], bool]:
    """The rules of an address's site; a file that is missing or refused (4xx) sets none (RFC 9309, 2.3.1.3)."""
    try:
        found = fetch_page(str(httpx2.URL(address).copy_with(raw_path=b"/robots.txt")))
    except PageRefusedError:
        return robots_rule()
    return robots_rule(found.data.decode("utf-8", "replace") if isinstance(found, Fetched) else "")


#: Sitemaps that an index of sitemaps may name.
SITEMAP_MAX_FILES = 50

#: Addresses of one file (the protocol's own limit).
_MOST_ADDRESSES = 50_000
#: What is looked at of a page for its head.
_HEAD_BYTES = 100_000
_ROOTS = ("urlset", "sitemapindex")
_GZIP = b"\x1f\x8b"
_BYTES = 50 * 1024 * 1024
#: What many programs write before the declaration of an XML file, and an ampersand that begins no entity.
_BEFORE_XML = b"\xef\xbb\xbf \t\r\n"
_BARE_SIGN = re.compile(rb"&(?!#?\w{1,32};)")


def own_address(address: str, found: Fetched) -> str:
    """The address that a page has by its redirects and its head; empty for one that asks not to be found."""
    at = found.address if same_host(found.address, address) else address
    root = etree.HTML(found.data[:_HEAD_BYTES]) if re.search(rb"(?i)<(?:!doctype )?html", found.data[:4096]) else None
    said: dict[str, str] = {}
    for tag in root.iter("meta", "link") if root is not None else ():
        name = tag.get("rel") or tag.get("name") or tag.get("http-equiv") or ""
        said.setdefault(name.lower(), tag.get("href") or tag.get("content") or "")
    if re.search(r"\b(?:noindex|none)\b", said.get("robots", ""), re.IGNORECASE):
        return ""
    led = re.match(r"\s*[0-5](?:\.\d*)?\s*[;,]\s*url\s*=\s*[\"']?([^\"'\s]+)", said.get("refresh", ""), re.IGNORECASE)
    for target in (led[1] if led else "", said.get("canonical", "")):
        with suppress(PageRefusedError, ValueError):
            named = normal_address(urljoin(at, target))
            # Some sites name their first page as that of all others.
            if target and same_host(named, address) and httpx2.URL(named).path != "/":
                return named
    return normal_address(at)


@dataclass(slots=True)
class Sitemap:
    """Addresses in their order, each once. `is_complete`: every file was read, so that what is missing has really left."""

    addresses: dict[str, None] = field(default_factory=dict)
    #: `(item, reason)` of what was left out.
    notices: list[tuple[str, str]] = field(default_factory=list)
    is_complete: bool = True


def is_sitemap(data: bytes) -> bool:
    try:
        return _local(_tree(_unpacked(data))) in _ROOTS
    except KnowledgeError:
        return False


def read_sitemap(address: str) -> Sitemap:
    """Every page that the sitemap lists. Raises `PageRefusedError` and `PageUnavailableError` as `fetch_page` does."""
    sitemap = Sitemap()
    files = dict.fromkeys(_add(sitemap, address, _fetched(address)))
    read = {address}
    while (file := next((file for file in files if file not in read), "")) and len(read) <= SITEMAP_MAX_FILES:
        read.add(file)
        try:
            files |= dict.fromkeys(_add(sitemap, file, _fetched(file)))
        except KnowledgeError as error:
            sitemap.is_complete = False
            sitemap.notices.append((file, f"{error.public_message} ({error})"))
    if file:
        sitemap.is_complete = False
        sitemap.notices.append(
            (
                address,
                _("Ce plan renvoie à %(count)d autres ; les %(limit)d premiers sont lus.")
                % {"count": len(files), "limit": SITEMAP_MAX_FILES},
            )
        )
    if not sitemap.addresses:
        raise PageRefusedError(
            f"{address} lists no page of its host.", public_message=_("Ce plan de site ne liste aucune page.")
        )
    return sitemap


def _fetched(address: str) -> bytes:
    found = fetch_page(address)
    if not isinstance(found, Fetched):
        raise PageRefusedError(f"{address} is not there.", public_message=_("Ce plan de site n’existe pas ou plus."))
    return _unpacked(found.data)


def _add(sitemap: Sitemap, address: str, data: bytes) -> list[str]:
    """Take the pages of one file along; returns the files that an index names."""
    files, foreign = [], 0
    for is_file, text in _listed(data):
        try:
            listed = normal_address(urljoin(address, text))
            is_ours = same_host(listed, address)
        except PageRefusedError:
            is_ours = False
        if not is_ours:
            foreign += 1
        elif is_file:
            files.append(listed)
        else:
            sitemap.addresses[listed] = None
    if foreign:
        reason = _("%(count)d adresses d’un autre site, ou mal écrites, sont ignorées.")
        sitemap.notices.append((address, reason % {"count": foreign}))
    return files


def _listed(data: bytes) -> Iterator[tuple[bool, str]]:
    """(whether it is another sitemap, address) for each entry."""
    if not data.lstrip(_BEFORE_XML).startswith(b"<"):
        lines = data[:_BYTES].decode("utf-8", "replace").splitlines()[:_MOST_ADDRESSES]
        yield from ((False, line.strip("\ufeff ")) for line in lines if page_address(line.strip("\ufeff ")))
        return
    tree = _tree(data)
    if _local(tree) not in _ROOTS:
        raise _not_a_sitemap(f"The root is {_local(tree)[:50]!r}.")
    locations = tree.xpath("*[local-name()='url' or local-name()='sitemap']/*[local-name()='loc'][1][text()]")
    for location in locations[:_MOST_ADDRESSES]:
        yield _local(location.getparent()) == "sitemap", (location.text or "").strip()


def _tree(data: bytes) -> "etree._Element":
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False)
    try:
        return etree.fromstring(_BARE_SIGN.sub(b"&amp;", data.lstrip(_BEFORE_XML)), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _not_a_sitemap(str(error)) from error


def _local(node: "etree._Element") -> str:
    return etree.QName(node).localname if isinstance(node.tag, str) else ""


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(data, _BYTES)
    except zlib.error as error:
        raise _not_a_sitemap("It is packed wrongly.") from error
    if unpacker.unconsumed_tail:
        raise _not_a_sitemap(f"It unpacks to more than {_BYTES} bytes.")
    return unpacked


def _not_a_sitemap(detail: str) -> PageRefusedError:
    return PageRefusedError(detail, public_message=_("Ce n’est pas un plan de site lisible."))
