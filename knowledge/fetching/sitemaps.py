"""Sitemaps: the addresses that a site lists, in XML (plain or gzip) or as lines of text, and through one level of
index.

Only addresses of the sitemap's own host count, as the protocol says. No entity is resolved and nothing else is fetched
by the XML parser. Everything is bounded: bytes after unpacking, files, addresses.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.utils.translation import gettext as _
from lxml import etree

from knowledge.exceptions import KnowledgeError, PageRefusedError
from knowledge.fetching.addresses import normal_address, same_host
from knowledge.fetching.pages import Fetched, fetch_page
from knowledge.models import page_address

#: Sitemaps that an index of sitemaps may name.
SITEMAP_MAX_FILES = 50

#: Addresses of one file (the protocol's own limit).
_MOST_ADDRESSES = 50_000
_ROOTS = ("urlset", "sitemapindex")
_GZIP = b"\x1f\x8b"
_BYTES = 50 * 1024 * 1024


@dataclass(slots=True)
class Sitemap:
    """Addresses in their order. `is_complete`: every file was read, so that what is missing has really left."""

    addresses: list[str] = field(default_factory=list)
    #: `(item, reason)` of what was left out.
    notices: list[tuple[str, str]] = field(default_factory=list)
    is_complete: bool = True


def is_sitemap(data: bytes) -> bool:
    try:
        return _local(_tree(_unpacked(data))) in _ROOTS
    except KnowledgeError:
        return False


def read_sitemap(address: str) -> Sitemap:
    """Every page that the sitemap lists. Raises `PageRefusedError`, `PageUnavailableError` where it cannot be read
    itself.
    """
    sitemap = Sitemap()
    seen: dict[str, None] = {}
    files = _add(sitemap, seen, address, _fetched(address))
    for file in files[:SITEMAP_MAX_FILES]:
        try:
            _add(sitemap, seen, file, _fetched(file))
        except KnowledgeError as error:
            sitemap.is_complete = False
            sitemap.notices.append((file, f"{error.public_message} ({error})"))
    if len(files) > SITEMAP_MAX_FILES:
        sitemap.is_complete = False
        sitemap.notices.append(
            (
                address,
                _("Ce plan renvoie à %(count)d autres ; les %(limit)d premiers sont lus.")
                % {"count": len(files), "limit": SITEMAP_MAX_FILES},
            )
        )
    sitemap.addresses = list(seen)
    if not seen:
        raise PageRefusedError(
            f"{address} lists no page of its host.", public_message=_("Ce plan de site ne liste aucune page.")
        )
    return sitemap


def _fetched(address: str) -> bytes:
    found = fetch_page(address)
    if not isinstance(found, Fetched):
        raise PageRefusedError(f"{address} is not there.", public_message=_("Ce plan de site n’existe pas ou plus."))
    return _unpacked(found.data)


def _add(sitemap: Sitemap, seen: dict[str, None], address: str, data: bytes) -> list[str]:
    """Take the pages of one file along; returns the files that an index names."""
    files, foreign = [], 0
    for is_file, text in _listed(data):
        try:
            listed = normal_address(text)
            is_ours = same_host(listed, address)
        except PageRefusedError:
            is_ours = False
        if not is_ours:
            foreign += 1
        elif is_file:
            files.append(listed)
        else:
            seen[listed] = None
    if foreign:
        reason = _("%(count)d adresses d’un autre site, ou mal écrites, sont ignorées.")
        sitemap.notices.append((address, reason % {"count": foreign}))
    return files


def _listed(data: bytes) -> Iterator[tuple[bool, str]]:
    """(whether it is another sitemap, address) for each entry."""
    if not data.lstrip().startswith(b"<"):
        lines = data[:_BYTES].decode("utf-8", "replace").splitlines()[:_MOST_ADDRESSES]
        yield from ((False, line.strip()) for line in lines if page_address(line.strip()))
        return
    tree = _tree(data)
    if _local(tree) not in _ROOTS:
        raise _not_a_sitemap(f"The root is {_local(tree)[:50]!r}.")
    count = 0
    for entry in tree:
        location = next((child for child in entry if _local(child) == "loc"), None)
        if _local(entry) in ("url", "sitemap") and location is not None and location.text:
            yield _local(entry) == "sitemap", location.text.strip()
            count += 1
        if count >= _MOST_ADDRESSES:
            return


def _tree(data: bytes) -> "etree._Element":
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False)
    try:
        return etree.fromstring(data, parser)
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
