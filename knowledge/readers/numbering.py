"""Numbers that Word counts by itself ("Article 4", "2.", "b)"), by the rules of `numbering.xml` and of the styles.

Lists of one abstract numbering count on together; a list that overrides the start of a level starts it anew.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knowledge.readers.base import counted

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
#: How `counted` names a form; any other counts in digits.
_FORMS = {"none": "", "decimalZero": "01", "lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I"}
#: Styles that are based on one another, as far as they are followed.
LONGEST_STYLES = 20


def value_of(element: Any, path: str, default: str = "") -> str:
    found = element.find("/".join(W + name for name in path.split("/"))) if element is not None else None
    return default if found is None else found.get(f"{W}val", default)


def number_of(element: Any, path: str, default: int) -> int:
    value = value_of(element, path)
    return int(value) if value.isdecimal() and len(value) < 10 else default


@dataclass(frozen=True, slots=True)
class _Level:
    start: int
    form: str
    text: str
    is_legal: bool
    #: A paragraph of a level above this one starts it anew.
    restarts_below: int
    style: str


@dataclass(frozen=True, slots=True)
class _List:
    """`key` names what it counts on with; `anew` are the levels that it starts anew."""

    key: str
    levels: Mapping[int, _Level]
    anew: tuple[int, ...]


class Numbers:
    """Counts the paragraphs of a document, which are asked for once each, in order."""

    def __init__(self, document: Any) -> None:
        parts = [r.target_part for r in document.part.rels.values() if r.reltype.endswith("/numbering")]
        root = parts[0].element if parts else None
        self._lists: dict[str, _List] = {}
        if root is not None:
            abstracts = {found.get(f"{W}abstractNumId"): found for found in root.findall(f"{W}abstractNum")}
            linked = {value_of(found, "styleLink"): found for found in abstracts.values()}
            for number in root.findall(f"{W}num"):
                abstract = abstracts.get(value_of(number, "abstractNumId"))
                abstract = linked.get(value_of(abstract, "numStyleLink", "?"), abstract)
                if abstract is not None:
                    self._lists[number.get(f"{W}numId")] = _list(number, abstract)
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[str] = set()

    def mark(self, paragraph: Any) -> tuple[str, int] | None:
        """What stands before a paragraph, `-` for a bullet, and its level; `None` for one of no list."""
        number, depth = self._place(paragraph)
        found = self._lists.get(number)
        level = found.levels.get(depth) if found is not None else None
        if found is None or level is None or _is_hidden(paragraph):
            return None
        counts = self._counts.setdefault(found.key, {})
        if number not in self._begun:
            self._begun.add(number)
            for anew in found.anew:
                counts.pop(anew, None)
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [each for each in counts if each > depth]:
            if deeper not in found.levels or depth < found.levels[deeper].restarts_below:
                del counts[deeper]
        if level.form == "bullet":
            return "-", depth
        return re.sub(r"%(\d)", lambda at: _shown(found, counts, int(at[1]) - 1, level), level.text).strip(), depth

    def _place(self, paragraph: Any) -> tuple[str, int]:
        """The list and the level of a paragraph, by itself, its style or one that this is based on."""
        direct = paragraph._p.find(f"{W}pPr/{W}numPr")
        number = value_of(direct, "numId")
        if number:
            return number, number_of(direct, "ilvl", 0)
        style = paragraph.style
        for _step in range(LONGEST_STYLES):
            if style is None:
                break
            named = style.element.find(f"{W}pPr/{W}numPr")
            if number := value_of(named, "numId"):
                levels = self._lists[number].levels if number in self._lists else {}
                of_style = (depth for depth, level in levels.items() if level.style == style.style_id)
                return number, number_of(direct, "ilvl", next(of_style, number_of(named, "ilvl", 0)))
            style = style.base_style
        return "", 0


def _list(number: Any, abstract: Any) -> _List:
    overrides = {found.get(f"{W}ilvl"): found for found in number.findall(f"{W}lvlOverride")}
    levels, anew = {}, []
    for found in abstract.findall(f"{W}lvl"):
        override = overrides.get(found.get(f"{W}ilvl"))
        own = override.find(f"{W}lvl") if override is not None else None
        depth = int(found.get(f"{W}ilvl", 0))
        levels[depth] = _level(found if own is None else own, depth, override)
        if override is not None and override.find(f"{W}startOverride") is not None:
            anew.append(depth)
    return _List(abstract.get(f"{W}abstractNumId", ""), levels, tuple(anew))


def _level(found: Any, depth: int, override: Any) -> _Level:
    return _Level(
        start=number_of(override, "startOverride", number_of(found, "start", 1)),
        form=value_of(found, "numFmt", "decimal"),
        text=value_of(found, "lvlText"),
        is_legal=found.find(f"{W}isLgl") is not None,
        restarts_below=number_of(found, "lvlRestart", depth),
        style=value_of(found, "pStyle"),
    )


def _shown(found: _List, counts: dict[int, int], depth: int, level: _Level) -> str:
    of = found.levels.get(depth)
    if of is None:
        return ""
    number = counts.setdefault(depth, of.start)
    return counted(number, "1" if level.is_legal else _FORMS.get(of.form, "1"))


def _is_hidden(paragraph: Any) -> bool:
    """Whether the paragraph's own mark is deleted or hidden: Word does not count it."""
    return any(paragraph._p.find(f"{W}pPr/{W}rPr/{W}{name}") is not None for name in ("del", "moveFrom", "vanish"))
