"""Which generations of an index nobody needs any more, known from names and aliases alone.

A generation is a collection named after its alias and a time stamp; anything else is never touched. The generation in
service and the one that a rollback would go back to both have an alias.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable

from knowledge.vectors.base import CollectionInfo

_GENERATION = re.compile(r"(?P<alias>agent_.+)_(?P<stamp>\d{8}T\d{6,})")


def superseded_generations(
    infos: Iterable[CollectionInfo], *, in_use: Collection[str]
) -> list[CollectionInfo]:
    """The generations to drop: those with no alias that are not `in_use`.

    Where no generation is in service the newest one is kept, as it may be all there is.
    """
    by_alias: dict[str, list[CollectionInfo]] = defaultdict(list)
    for info in infos:
        match = _GENERATION.fullmatch(info.name)
        if match:
            by_alias[match["alias"]].append(info)
    return [
        info
        for alias, generations in sorted(by_alias.items())
        for info in generations
        if not info.aliases
        and info.name not in in_use
        and info.name != _last_resort(alias, generations)
    ]


def _last_resort(alias: str, generations: list[CollectionInfo]) -> str | None:
    if any(alias in info.aliases for info in generations):
        return None
    # Stamps sort by time and the rest of the names is the same.
    return max(info.name for info in generations)
