"""The words of this package, read once from `words.toml`; `words.toml` says how they are written. Pure."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from faqs.second_key.lexicon import lexicon_of
from faqs.second_key.rewrites import Fragments, Rule, alternatives
from knowledge.language.classes import LANGUAGES

_FILE = Path(__file__).with_name("words.toml")
_SYNONYMS = Path(__file__).with_name("synonyms.toml")
_HOURS = (
    "une deux trois quatre cinq six sept huit neuf dix onze douze",
    "one two three four five six seven eight nine ten eleven twelve",
)

#: Keys of a group that are none of its values.
_NO_VALUES = frozenset(("narrow", "apart", "clash"))
#: The values of a group, by the expression that finds each.
Group = Mapping[str, re.Pattern[str]]


class Words:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        words = data["words"]
        self.rewrites: tuple[Rule, ...] = Fragments({}).rules(data["rewrites"])
        self.streets_before = "|".join(alternatives(words["streets_before"]))
        self.streets_after = "|".join(alternatives(words["streets_after"]))
        #: Monday first.
        self.weekdays = [_one_of(row) for row in words["weekdays"]]
        self.weekend, self.working_days = _one_of(words["weekend"]), _one_of(words["working_days"])
        self.all_days, self.closed = _one_of(words["all_days"]), _one_of(words["closed"])
        self.yes, self.no = _one_of(words["yes"]), _one_of(words["no"])
        self.negation, self.not_negation = (_one_of(words["negation"]), _one_of(words["not_negation"]))
        self.refusal, self.lacking = _one_of(words["refusal"]), _one_of(words["lacking"])
        self.limiting, self.exclusive = _one_of(words["limiting"]), _one_of(words["exclusive"])
        self.numbered = frozenset(alternatives(words["numbered"]))
        self.hours = {word: hour for row in _HOURS for hour, word in enumerate(row.split(), 1)}
        self.groups: dict[str, Group] = {name: _group(rows) for name, rows in data["groups"].items()}
        #: Group and value that make a question about a part.
        self.narrow = [
            (name, value) for name, group in data["groups"].items() for value in group.get("narrow", "").split()
        ]
        self.limits, self.channels = _group(data["limits"]), _group(data["channels"])
        self.axes: dict[str, Group] = {name: _group(rows) for name, rows in data["axes"].items()}
        self.asked: str = words["asked"]


def _group(rows: Mapping[str, Any]) -> Group:
    return {name: _one_of(row) for name, row in rows.items() if name not in _NO_VALUES}


def _one_of(row: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives(row))})(?!\w)")


WORDS = Words(tomllib.loads(_FILE.read_text(encoding="utf-8")))


def values_in(text: str, group: Group) -> frozenset[str]:
    return frozenset(value for value, pattern in group.items() if pattern.search(text))


@cache
def synonyms(language: str) -> Mapping[str, frozenset[int]]:
    """Concepts of a language with the groups of the dictionary that they are in."""
    lexicon, side = lexicon_of(language), LANGUAGES.index(language)
    found: dict[str, set[int]] = defaultdict(set)
    data = tomllib.loads(_SYNONYMS.read_text(encoding="utf-8"))
    for number, group in enumerate(filter(str.strip, ";".join(data.values()).split(";"))):
        for concept in lexicon.concepts(group.split("=")[side].split()):
            found[concept].add(number)
    return {concept: frozenset(numbers) for concept, numbers in found.items()}


@cache
def asked_concepts(language: str) -> frozenset[str]:
    """What is asked about anything (a price, a delay), as the lexicon of a language names it."""
    lexicon = lexicon_of(language)
    written = WORDS.asked.split()
    return lexicon.concepts(written) | frozenset(map(lexicon.stem, written)) | lexicon.weak
