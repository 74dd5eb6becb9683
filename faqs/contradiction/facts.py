"""What a text states that can be compared: quantities, times, dates, addresses, ways to reach somebody. Pure.

A fact has a kind, and facts of two kinds never clash. Numbers, dates and times are read alike in French and in English,
by the quantities of the second key.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from faqs.contradiction.words import WORDS
from faqs.second_key.quantities import Quantity, prepare, quantities, tokens
from faqs.second_key.rewrites import rewritten
from faqs.second_key.text import unified
from knowledge.language.folding import fold

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_WEB = re.compile(r"\b(?:https?://|www\.)[^\s,;()]+[^\s,;().]")
_PHONE = re.compile(
    r"(?<![\w.,/])(?:(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]\d{2,4}){2,5}|\(\d{3}\) ?\d{3}-\d{4})(?![\w/])"
)
_LIST_MARK = re.compile(r"(?m)^\s*(?:\d{1,2}[.)]|[-*•])\s+")
_SHORT_DATE = re.compile(r"\b(0?[1-9]|[12]\d|3[01])/(0[1-9]|1[0-2])\b(?!/)")
_MONTHS = "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre".split()
_ELISION = re.compile(r"\b([ldjmtscn]|qu)'")
_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?=,\d{1,2}\b)")
_EUROS_CENTS = re.compile(r"(\d) ?€ ?(\d\d)\b")
_CENTS = re.compile(r"(\d) cents\b")
_CLOCK = re.compile(r"\b(\w+)(?:[.:h](\d\d))? ?([ap])\.? ?m\b\.?")
_CLOCK_RANGE = re.compile(r"\b(\d{1,2})(?:[.:](\d\d))? ?(?:-|–|to|until|till) ?(?=\d{1,2}(?:[.:]\d\d)? ?([ap])\.?m)")
_DASH = re.compile(r"(?<=[\dh€]) ?[-–—] ?(?=[\d€$£])")
_STREET = r"(?:(?:de|du|des|de la|d'|l'|de l')? ?[\w'-]+(?: (?!rue|au|numero|a |derriere|en |dans|pour|et |entree)[\w'-]+){0,4})"
_ADDRESSES = tuple(
    map(
        re.compile,
        (
            rf"(?P<number>\b\d{{1,4}}(?: ?(?:bis|ter))?),? (?:{WORDS.streets_before}) (?P<name>{_STREET})",
            rf"(?P<number>\b\d{{1,4}}[a-z]?) (?P<name>(?:(?!h |sur |le |la |les |de |du |des |au |a )[\w'-]+ ){{1,3}}(?:{WORDS.streets_after}))\b",
            rf"\b(?:{WORDS.streets_before}) (?P<name>{_STREET}), (?:au )?(?:numero )?(?P<number>\d{{1,4}})\b",
        ),
    )
)
_STREET_WORDS = frozenset("de la du des le les d l".split())
_ENDING = frozenset(",.;:!?")
_FLOOR = frozenset("etage floor niveau level".split())
_BESIDE_TIMES = frozenset("a des de jusqu avant apres entre vers et le at from to until till by before after around".split())  # fmt: skip
_JOINING = frozenset(("a", "to", "et", "and", "ou", "or"))
_ONE = frozenset(("a", "an", "one", "un", "une"))
_TIMES_OVER = frozenset(("once", "twice", "times", "fois", "days", "jours"))
_CURRENCIES = frozenset(("euro", "dollar", "pound", "franc", "yen"))
_DAYS = {"month": 30.4375, "day": 1.0, "hour": 1 / 24}
#: A month has 28 to 31 days.
_TOLERANCE = 0.045


@dataclass(frozen=True, slots=True)
class Fact:
    """`value` is compared within a kind; `text` is how it is said."""

    kind: str
    value: float | str
    text: str
    #: The number as it is written, for an answer that leaves the unit to the question.
    raw: float | None = None
    #: What a bare number counts.
    counted: str = ""

    def matches(self, other: "Fact") -> bool:
        if isinstance(self.value, str) or isinstance(other.value, str):
            return self.value == other.value
        spread = _TOLERANCE if self.kind == "duration" else 1e-6
        return abs(self.value - other.value) <= spread * max(abs(self.value), abs(other.value))


def facts_of(text: str) -> list[Fact]:
    """Each fact once, in no order that says anything."""
    text = _LIST_MARK.sub(" ", unified(text))
    found: list[Fact] = []
    for kind, pattern, value in _WRITTEN:
        found += (Fact(kind, value(m[0]), m[0].strip()) for m in pattern.finditer(text))
        text = pattern.sub(" . ", text)
    text = fold(text)
    for pattern in _ADDRESSES:
        found += (Fact("address", _street(m), m[0].strip()) for m in pattern.finditer(text))
        text = pattern.sub(" . ", text)
    found += _quantities(tokens(prepare(_plain(text))))
    return list(dict.fromkeys(found))


def _digits(text: str) -> str:
    """The last nine digits: « +33 4 … » is « 04 … »."""
    return re.sub(r"\D", "", text)[-9:]


_WRITTEN: tuple[tuple[str, re.Pattern[str], Callable[[str], str]], ...] = (
    ("email", _EMAIL, str.casefold),
    ("web", _WEB, lambda text: re.sub(r"^https?://|^www\.|/$", "", text.casefold())),
    ("phone", _PHONE, _digits),
)


def _street(match: re.Match[str]) -> str:
    name = [word for word in re.findall(r"\w+", match["name"]) if word not in _STREET_WORDS]
    return " ".join((*name, match["number"]))


def _plain(folded: str) -> str:
    """Numbers, prices and times as the quantities of the second key are written."""
    text = _SHORT_DATE.sub(lambda m: f"{int(m[1])} {_MONTHS[int(m[2]) - 1]}", folded)
    text = _THOUSANDS.sub(lambda m: m[0].replace(" ", ""), text)
    text = _EUROS_CENTS.sub(r"\1,\2 €", text)
    text = _CENTS.sub(r"\1 centimes", _ELISION.sub(r"\1e ", text))
    text = rewritten(text, WORDS.rewrites)
    text = _CLOCK_RANGE.sub(lambda m: f"{m[1]}:{m[2] or '00'} {m[3]}m to ", text)
    return _DASH.sub(" a ", _CLOCK.sub(_hours, text))


def _hours(match: re.Match[str]) -> str:
    hour = int(match[1]) if match[1].isdigit() else WORDS.hours.get(match[1], 0)
    if not 1 <= hour <= 12:
        return match[0]
    hour = hour % 12 + (12 if match[3] == "p" else 0)
    return f"{hour + int(match[2] or 0) / 60:g} h "


def _quantities(words: list[str]) -> Iterator[Fact]:
    spans = list(quantities(words))
    used_up = -1
    for index, (start, end, quantity) in enumerate(spans):
        following = spans[index + 1] if index + 1 < len(spans) else None
        if index == used_up or _is_rate(words, start, spans[index - 1][1] if index else -1):
            continue
        if following and (date := _date(quantity, following[2], words[end : following[0]])):
            used_up = index + 1
            yield date
        elif quantity.unit == "ordinal":
            if _FLOOR.intersection((*words[max(start - 1, 0) : start], *words[end : end + 1])):
                yield Fact("floor", quantity.value, " ".join(words[start : end + 1]))
        elif quantity.unit != "month-name":
            yield _fact(words, start, end, _with_unit(quantity, following, words[end : end + 1], end))


def _is_rate(words: list[str], start: int, end_before: int) -> bool:
    """ "$5 an hour", "twice a week": not a time that something takes."""
    before = words[start - 1] if start else ""
    return words[start] in _ONE and (start == end_before or before in _TIMES_OVER)


def _date(quantity: Quantity, other: Quantity, between: list[str]) -> Fact | None:
    if between not in ([], [","], ["de"], ["of"]):
        return None
    for day, month in ((quantity, other), (other, quantity)):
        if month.unit == "month-name" and day.unit in ("", "ordinal") and 1 <= day.raw <= 31:
            code = f"{int(month.value):02}-{int(day.raw):02}"
            return Fact("date", code, f"{quantity.text} {other.text}")
    return None


def _with_unit(
    quantity: Quantity, following: tuple[int, int, Quantity] | None, next_word: list[str], end: int
) -> Quantity:
    """« De 9 à 17 h »: a number takes the unit of the one it is joined to."""
    if quantity.unit or not following or following[0] != end + 1 or not _JOINING & set(next_word):
        return quantity
    other = following[2]
    if not other.unit or not other.raw or other.unit in ("month-name", "ordinal"):
        return quantity
    value = quantity.raw * other.value / other.raw
    return Quantity("number", value, other.unit, quantity.raw, quantity.text)


def _fact(words: list[str], start: int, end: int, quantity: Quantity) -> Fact:
    unit, value, text, raw = quantity.unit, quantity.value, quantity.text, quantity.raw
    if (
        unit == "hour"
        and (text.endswith(" h") or _BESIDE_TIMES & set(words[max(start - 1, 0) : start]))
        and "min" not in text
    ):
        return Fact("hour", value, f"{int(value):02}:{round(value % 1 * 60):02}", raw)
    if unit in _DAYS:
        return Fact("duration", value * _DAYS[unit], text, raw)
    if unit in _CURRENCIES:
        return Fact("money", value, text, raw)
    if quantity.kind == "date":
        return Fact("year", value, text)
    if unit:
        return Fact(unit, value, text, raw)
    following = words[end] if end < len(words) else "."
    if start and words[start - 1] in WORDS.numbered and following in _ENDING:
        return Fact("number", value, f"{words[start - 1]} {text}", raw)
    return Fact("count", value, text, raw, following if following.isalpha() else "")
