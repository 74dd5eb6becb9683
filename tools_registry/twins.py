"""Near-twins: tools of one source that hardly differ (`merge`, `merge-async`). A question says no more of the one than
of the other, so that the model is given both to choose from. Pure; no ORM.

Two tools are twins where the first sentences of their descriptions differ in one word at most, or where the name of one
is the other's and a word more, and most words of these sentences are the same.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

from knowledge.language.folding import fold, words
from tools_registry.ranking import spoken_name
from tools_registry.tool import ToolSpec

#: Twins that one tool brings with it.
MOST_TWINS = 2
#: Words that two sentences which differ in one word share at least.
_LEAST_SHARED = 3
#: The share of their words that the sentences of two tools have in common, where the names are nearly the same.
_ALIKE = 0.6
#: Articles and the like, which tell nothing apart.
_SHORT = 2
_END = re.compile(r"[.!?](?=\s)|\n")


def near_twins(specs: Iterable[ToolSpec]) -> Mapping[str, tuple[ToolSpec, ...]]:
    """By name, the twins of the tools that have any: those with nearly the same name first."""
    sources: dict[int | None, list[ToolSpec]] = defaultdict(list)
    for spec in specs:
        sources[spec.source_id].append(spec)
    found: dict[str, dict[str, ToolSpec]] = defaultdict(dict)
    for tools in sources.values():
        for one, other in [*_named_alike(tools), *_told_alike(tools)]:
            found[one.name][other.name] = other
            found[other.name][one.name] = one
    return {name: tuple(others.values())[:MOST_TWINS] for name, others in found.items()}


def _named_alike(tools: Sequence[ToolSpec]) -> Iterator[tuple[ToolSpec, ToolSpec]]:
    named = {tuple(words(fold(spoken_name(spec.name)))): spec for spec in tools}
    for name, spec in named.items():
        other = named.get(name[:-1])
        if other is None:
            continue
        one_says, other_says = _first_sentence(spec), _first_sentence(other)
        if len(one_says & other_says) >= _ALIKE * len(one_says | other_says):
            yield other, spec


def _told_alike(tools: Sequence[ToolSpec]) -> Iterator[tuple[ToolSpec, ToolSpec]]:
    told: dict[frozenset[str], list[ToolSpec]] = defaultdict(list)
    for spec in tools:
        told[_first_sentence(spec)].append(spec)
    for said, alike in told.items():
        if len(said) >= _LEAST_SHARED:
            yield from combinations(alike, 2)
        if len(said) > _LEAST_SHARED:
            for word in said:
                yield from product(alike, told.get(said - {word}, ()))


def _first_sentence(spec: ToolSpec) -> frozenset[str]:
    first = _END.split(spec.description.strip(), maxsplit=1)[0]
    return frozenset(word for word in words(fold(first)) if len(word) > _SHORT)
