"""Numbers of a folded text as values, in French and English: amounts, durations, times of day, dates and ordinals.

« 12 mois », « un an » and "1 year" are equal, while a code such as "covid-19" is a name. Pure.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.language.words import fold

_DATA = tomllib.loads((Path(__file__).parent / "data" / "numbers.toml").read_text(encoding="utf-8"))


def _values(name: str) -> dict[str, float]:
    pairs = (pair.split("=") for pair in _DATA[name].split())
    return {word: float(value) for word, value in pairs}


_NUMBER_WORDS, _AMBIGUOUS, _SCALES = map(_values, ("number_words", "ambiguous", "scales"))
_ORDINALS = _values("ordinals")
_UNITS: dict[str, tuple[str, float]] = {
    word: (unit, factor) for words, unit, factor in _DATA["units"] for word in words.split()
}
_MONTHS = {name: month for names in _DATA["months"] for month, name in enumerate(names.split(), start=1)}
_BEFORE_MAY = frozenset(_DATA["before_may"].split())
_DIGIT = re.compile(r"\d")
_MONTH_YEAR = re.compile(r"(?<![\d/])(0?[1-9]|1[0-2])/((?:19|20)\d\d)\b")
_SPACED = re.compile(r"(?<=\d)[ \u00a0\u202f](?=\d{3}(?!\d))")
_GROUPED = re.compile(r"(?<![\w.,])(\d{1,3})((?:[ \u00a0\u202f.,]\d{3})+)(?![\d])(?!,\d)")
_DATE = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.](\d{2,4})\b")
_CLOCK = re.compile(
    r"\b(\d{1,2})(?: ?(?:h|:) ?([0-5]\d))?(?: ?(am|pm|a\.m\.|p\.m\.))\b|\b(\d{1,2}) ?(?:h|:) ?([0-5]\d)\b"
)
_CODE = re.compile(
    r"\b[a-z]+[-_]?\d+[a-z\d]*\b|\b(covid|article|annexe|form|formulaire|cerfa|windows|route|terminal|part|level|step) (\d+)\b"
)
_GLUED = re.compile(
    r"(\d)(?=(?:euros?|eur|ans|mois|jours|heures|km|kg|cm|mm|mg|ml|go|gb|mo|mb|h|min|k|m|g|l|years?|days?|weeks?|months?|hours?)\b)|(\d)(?=[€$£%°])|([€$£])(?=\d)"
)
_TOKEN = re.compile(r"\d+(?:[.,]\d+)?(?:st|nd|rd|th|er|ere|e|eme)?(?!\w)|[^\W\d][\w·]*|[€$£%]|°c?|[,:;.?!]|\w+")
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)?)(st|nd|rd|th|er|ere|e|eme)?$")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in its base unit; `raw` is the number as written, for a text that leaves the unit out."""

    kind: str
    value: float
    unit: str
    raw: float
    text: str

    def matches(self, other: "Quantity") -> bool:
        return self.unit == other.unit and abs(self.value - other.value) < 1e-9 * max(1.0, abs(self.value))


def prepare(text: str) -> str:
    """Make numbers one token each: thousands joined, units split off, dates and codes in one form."""
    if _DIGIT.search(text):
        text = _DATE.sub(_spelled_date, text)
        text = _MONTH_YEAR.sub(lambda m: f"{list(_MONTHS)[int(m[1]) - 1]} {m[2]}", text)
        text = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), text)
        text = _CLOCK.sub(_hours, text)
    if _DIGIT.search(text):
        text = _CODE.sub(lambda m: f"{m[1]}{m[2]}" if m[1] else re.sub(r"[-_]", "", m[0]), text)
        text = _GLUED.sub(lambda m: f"{m[1] or m[2] or m[3]} ", text)
    return text.replace("pour cent", "%").replace("per cent", "%")


def _spelled_date(match: re.Match[str]) -> str:
    names = list(_MONTHS)[:12]
    month = int(match[2])
    year = match[3] if len(match[3]) == 4 else f"20{match[3]}"
    return f"{int(match[1])} {names[month - 1]} {year}" if 1 <= month <= 12 else match[0]


def _hours(match: re.Match[str]) -> str:
    hour, minutes = int(match[1] or match[4]), int(match[2] or match[5] or 0)
    if match[3]:
        hour = hour % 12 + (12 if match[3].startswith("p") else 0)
    return f"{hour + minutes / 60:g} h"


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def values_in(text: str, *, digits_only: bool = False) -> frozenset[float]:
    """The numbers that a text gives, as values; with `digits_only`, without those that it writes as words."""
    items = tokens(prepare(fold(_SPACED.sub("", text))))
    found = [quantity for _start, _end, quantity in quantities(items)]
    if digits_only:
        return frozenset(each.raw for each in found if _DIGIT.search(each.text))
    written = (float(match[1].replace(",", ".")) for item in items if (match := _NUMBER.match(item)))
    return frozenset({*written, *(each.raw for each in found), *(each.value for each in found)})


#: What a quantity can begin with beside a digit: most words are passed over without a closer look.
_BEGINNINGS = frozenset((*_ORDINALS, *_MONTHS, *_NUMBER_WORDS, *_SCALES, *_AMBIGUOUS, "€", "$", "£"))


def quantities(items: list[str]) -> Iterator[tuple[int, int, Quantity]]:
    """Each quantity with the range of tokens it covers."""
    position = 0
    while position < len(items):
        word = items[position]
        if word not in _BEGINNINGS and not word[0].isdigit():
            position += 1
            continue
        found = _ordinal(items, position) or _month(items, position) or _quantity(items, position)
        if found is None:
            position += 1
            continue
        end, quantity = found
        yield position, end, quantity
        position = end


def _ordinal(items: list[str], start: int) -> tuple[int, Quantity] | None:
    word = items[start]
    number = _NUMBER.match(word)
    value = float(number[1].replace(",", ".")) if number and number[2] else _ORDINALS.get(word)
    if value is None or (start + 1 < len(items) and items[start + 1] in _MONTHS):
        return None
    return start + 1, Quantity("scope", value, "ordinal", value, word)


def _month(items: list[str], start: int) -> tuple[int, Quantity] | None:
    month = _MONTHS.get(items[start])
    # "may" is a verb unless a number or a preposition stands beside it.
    if month is None or (
        items[start] == "may" and not _beside_number(items, start) and not (start and items[start - 1] in _BEFORE_MAY)
    ):
        return None
    return start + 1, Quantity("date", month, "month-name", month, items[start])


def _beside_number(items: list[str], position: int) -> bool:
    return any(0 <= near < len(items) and _NUMBER.match(items[near]) for near in (position - 1, position + 1))


def _quantity(items: list[str], start: int) -> tuple[int, Quantity] | None:
    symbol = items[start] if items[start] in ("€", "$", "£") else ""
    end, value = _number(items, start + bool(symbol))
    if value is None:
        return None
    unit, factor = _UNITS.get(symbol, ("", 1.0))
    if items[start] in _AMBIGUOUS and items[end : end + 1] in (["€"], ["$"], ["£"]):
        return None  # « a £5 charge »
    if not unit and end < len(items) and items[end] in _UNITS:
        unit, factor = _UNITS[items[end]]
        end += 1
    elif not unit and items[start] in _AMBIGUOUS and end == start + 1:
        return None
    text = " ".join(items[start:end])
    total = value * factor
    if unit == "hour" and total >= 24 and total % 24 == 0:
        unit, total = "day", total / 24
    is_year = not unit and 1900 <= value <= 2100 and value == int(value)
    return end, Quantity("date" if is_year else "number", round(total, 6), unit, value, text)


def _number(items: list[str], start: int) -> tuple[int, float | None]:
    """Read digits or number words from `start`; the value is None when there is no number."""
    position, total, group, seen = start, 0.0, 0.0, False
    while position < len(items):
        value = _word_value(items, position, inside=seen)
        if value is None:
            break
        word = items[position]
        if word in _SCALES:
            group = max(group, 1.0) * value
            if value >= 1000:
                total, group = total + group, 0.0
        elif seen and (word[0].isdigit() or (word in _AMBIGUOUS and items[position - 1][0].isdigit())):
            break  # « 5 $ an hour » is no 6
        elif word in ("vingt", "vingts") and group % 100 == 4:
            group += 76
        else:
            group += value
        position, seen = position + 1, True
        if (
            position < len(items)
            and items[position] in ("et", "and")
            and word in ("vingt", "trente", "quarante", "cinquante", "soixante", "hundred", "thousand")
            and _word_value(items, position + 1, inside=True) is not None
        ):
            position += 1
    return (position, total + group) if seen else (start, None)


def _word_value(items: list[str], position: int, *, inside: bool) -> float | None:
    if position >= len(items):
        return None
    word = items[position]
    number = _NUMBER.match(word)
    if number:
        return float(number[1].replace(",", "."))
    if word in _NUMBER_WORDS:
        return _NUMBER_WORDS[word]
    following = items[position + 1] if position + 1 < len(items) else ""
    if word == "k" and inside:
        return None
    if word in _SCALES and (inside or following in _UNITS or word in ("mille", "cent", "thousand", "hundred")):
        return _SCALES[word]
    if word in _AMBIGUOUS:
        scaled = following in _SCALES and word not in ("an", "demi", "half")
        if inside and word in ("un", "une", "one", "neuf"):
            return _AMBIGUOUS[word]
        if scaled or (following in _UNITS and following not in ("l", "m", "j", "g", "h", "go", "second_unit")):
            return _AMBIGUOUS[word]
    return None
