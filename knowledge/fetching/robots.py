"""robots.txt (RFC 9309): which paths of a site a robot may read.

The group that names our product counts, else the one for all; the longest matching rule wins, `Allow` where two are as
long. A pattern is matched piece by piece, never by a regular expression, which somebody else's file could make slow.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
from django.conf import settings

from knowledge.exceptions import PageRefusedError
from knowledge.fetching.pages import Fetched, fetch_page

#: What crawlers must read of the file at least (RFC 9309, section 2.5).
_MOST_CHARACTERS = 512_000


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules that hold for us: (pattern, whether it allows)."""

    rules: tuple[tuple[str, bool], ...] = ()

    def allows(self, address: str) -> bool:
        path = httpx2.URL(address).raw_path.decode("ascii")
        matching = [(len(rule), allowed) for rule, allowed in self.rules if _matches(rule, path)]
        return max(matching, default=(0, True))[1]


def site_robots(address: str) -> Robots:
    """The rules of an address's site; a file that is not there or is refused (4xx) sets none (RFC 9309, section
    2.3.1.3).
    """
    try:
        found = fetch_page(str(httpx2.URL(address).copy_with(raw_path=b"/robots.txt")))
    except PageRefusedError:
        return Robots()
    if not isinstance(found, Fetched):
        return Robots()
    text = found.data[:_MOST_CHARACTERS].decode("utf-8", "replace")
    return parse_robots(text, product=settings.URL_USER_AGENT.split("/")[0])


def parse_robots(text: str, *, product: str) -> Robots:
    rules: dict[str, list[tuple[str, bool]]] = {}
    agents: list[str] = []
    in_rules = False
    for key, value in _lines(text):
        if key == "user-agent":
            if in_rules:
                agents, in_rules = [], False
            agents.append(value.lower())
        elif key in ("allow", "disallow"):
            in_rules = True
            for agent in agents:
                # A rule without a path forbids nothing.
                rules.setdefault(agent, []).extend([(value, key == "allow")] if value else [])
    own = rules.get(product.lower())
    return Robots(tuple(rules.get("*", []) if own is None else own))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.lstrip("\ufeff").splitlines():
        key, colon, value = line.split("#", 1)[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _matches(rule: str, path: str) -> bool:
    is_whole = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if not others:
        return not is_whole or at == len(path)
    for piece in others[:-1]:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    if is_whole:
        return len(path) - len(others[-1]) >= at and path.endswith(others[-1])
    return path.find(others[-1], at) >= 0
