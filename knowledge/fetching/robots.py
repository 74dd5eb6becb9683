"""robots.txt (RFC 9309): which paths of a site a robot may read. `protego` reads the file."""

import httpx2
from protego import Protego

from knowledge.exceptions import PageRefusedError
from knowledge.fetching.pages import URL_USER_AGENT, Fetched, fetch_page

#: What crawlers must read of the file at least (RFC 9309, section 2.5).
_MOST_CHARACTERS = 512_000


class Robots:
    """The rules that hold for us: those for our product, else those for all."""

    def __init__(self, text: str = "") -> None:
        self._rules = Protego.parse(text.lstrip("\ufeff")[:_MOST_CHARACTERS])

    def allows(self, address: str) -> bool:
        allowed: bool = self._rules.can_fetch(address, URL_USER_AGENT.split("/")[0])
        return allowed


def site_robots(address: str) -> Robots:
    """The rules of an address's site; a file that is not there or is refused (4xx) sets none (RFC 9309, section
    2.3.1.3).
    """
    try:
        found = fetch_page(str(httpx2.URL(address).copy_with(raw_path=b"/robots.txt")))
    except PageRefusedError:
        return Robots()
    return Robots(found.data.decode("utf-8", "replace")) if isinstance(found, Fetched) else Robots()
