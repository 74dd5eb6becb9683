"""Rewrite rules: different ways to say one thing, brought to one form before a question is read.

The rules are data (`lexicon/*.toml`), applied in the order in which they stand there. Each has an id, a `why`, what it
matches and what it puts `to` in its place, and examples: `same` holds pairs that agree, `different` pairs that must
not. The examples run as tests, which also take each rule away to see that one of them needs it.

What a rule matches is written over folded text as `match`, a regular expression or a list of them of which one has to
match, or as `phrases`, whole words and phrases between bars. `{name}` stands for a fragment: an expression with a name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_FRAGMENT = re.compile(r"\{([a-z]\w*)\}")
_BAR = re.compile(r"\s+\|\s+")

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    why: str
    pattern: re.Pattern[str]
    to: str
    same: Pairs = ()
    different: Pairs = ()


class Fragments:
    """Named parts of expressions; a part may hold parts that were named before it."""

    def __init__(self, written: Mapping[str, str]) -> None:
        self._parts: dict[str, str] = {}
        for name, text in written.items():
            self._parts[name] = self.one_of(text)

    def one_of(self, text: str) -> str:
        """An expression out of alternatives between bars."""
        return f"(?:{'|'.join(map(self.filled, alternatives(text)))})"

    def filled(self, text: str) -> str:
        return _FRAGMENT.sub(lambda match: self._parts[match[1]], text)

    def expression(self, written: str | list[str]) -> re.Pattern[str]:
        parts = [written] if isinstance(written, str) else written
        return re.compile("|".join(map(self.filled, parts)))

    def rules(self, table: Mapping[str, Mapping[str, Any]]) -> tuple[Rule, ...]:
        return tuple(self._rule(name, row) for name, row in table.items())

    def _rule(self, name: str, row: Mapping[str, Any]) -> Rule:
        phrases = row.get("phrases")
        return Rule(
            id=name,
            why=row["why"],
            pattern=self.expression(row["match"] if phrases is None else self.phrases(phrases)),
            to=row["to"],
            same=tuple((one, two) for one, two in row.get("same", ())),
            different=tuple((one, two) for one, two in row.get("different", ())),
        )

    def phrases(self, text: str) -> str:
        return rf"\b{self.one_of(text)}\b"


def alternatives(text: str) -> list[str]:
    return _BAR.split(text.strip())


def rewritten(text: str, rules: Iterable[Rule]) -> str:
    """The text after every rule in turn."""
    for rule in rules:
        text = rule.pattern.sub(rule.to, text)
    return text
