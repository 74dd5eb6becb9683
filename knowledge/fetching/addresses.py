"""Addresses of pages: written in one way, so that a page is one document however its address was typed."""

import httpx2
from django.utils.translation import gettext as _

from agents.network import host_of
from knowledge.exceptions import PageRefusedError

#: A page's address is its document's name.
LONGEST_ADDRESS = 500
_SITEMAP_SUFFIXES = (".xml", ".xml.gz")


def normal_address(text: str) -> str:
    """The address without its fragment, its host in lower case and ASCII; raises `PageRefusedError` for any other
    thing.
    """
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
