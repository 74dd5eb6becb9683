"""Numbers, amounts, durations, times of day and dates in a folded French or English question.

« 12 mois », « un an » and "1 year" become the same value; a code such as "covid-19" is a name, not a number. Pure text
in, values and the remaining text out; every quantity is replaced in the text by a placeholder so that its place in
the sentence is kept.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_UNITS_WORDS = {
    "zero": 0, "deux": 2, "trois": 3, "quatre": 4, "cinq": 5, "sept": 7, "huit": 8,
    "dix": 10, "onze": 11, "douze": 12, "treize": 13, "quatorze": 14, "quinze": 15, "seize": 16, "vingt": 20,
    "vingts": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60, "septante": 70, "huitante": 80,
    "nonante": 90, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
#: « neuf » is also "new", « un » and "one" are articles: they count only before a unit or inside a larger number.
_AMBIGUOUS = {"un": 1, "une": 1, "one": 1, "neuf": 9, "a": 1, "an": 1, "demi": 0.5, "half": 0.5}
_SCALES = {"cent": 100, "cents": 100, "hundred": 100, "mille": 1000, "thousand": 1000, "million": 1e6, "millions": 1e6,
           "milliard": 1e9, "milliards": 1e9, "billion": 1e9}  # fmt: skip

_UNITS: dict[str, tuple[str, float]] = {}
for _names, _unit, _factor in (
    ("an ans annee annees year years yr yrs", "month", 12),
    ("semestre semestres", "month", 6),
    ("trimestre trimestres quarter quarters", "month", 3),
    ("mois month months", "month", 1),
    ("semaine semaines week weeks", "day", 7),
    ("fortnight fortnights", "day", 14),
    ("jour jours day days j", "day", 1),
    ("heure heures h hour hours hr hrs", "hour", 1),
    ("minute minutes min mins mn", "hour", 1 / 60),
    ("seconde secondes second_unit seconds sec", "hour", 1 / 3600),
    ("euro euros eur €", "euro", 1),
    ("dollar dollars usd $", "dollar", 1),
    ("livre_sterling pound pounds gbp £ quid", "pound", 1),
    ("% pourcent percent pct", "percent", 1),
    ("kilometre kilometres km kms", "metre", 1000),
    ("metre metres m", "metre", 1),
    ("centimetre centimetres cm", "metre", 0.01),
    ("millimetre millimetres mm", "metre", 0.001),
    ("mile miles", "mile", 1),
    ("kilo kilos kg kilogramme kilogrammes kilogram kilograms", "gram", 1000),
    ("gramme grammes g gram grams", "gram", 1),
    ("mg milligramme milligrammes milligram milligrams", "gram", 0.001),
    ("tonne tonnes ton tons", "gram", 1e6),
    ("litre litres l liter liters", "litre", 1),
    ("ml millilitre millilitres", "litre", 0.001),
    ("go gb giga gigas gigabyte gigabytes", "gigabyte", 1),
    ("mo mb mega megas megabyte megabytes", "gigabyte", 0.001),
    ("terabyte terabytes teraoctet teraoctets tera", "gigabyte", 1000),
    ("ko kilooctet kilooctets kilobyte kilobytes", "gigabyte", 1e-6),
    ("gigabit gigabits gbit gbits gbps", "gigabit", 1),
    ("megabit megabits mbit mbits mbps", "gigabit", 0.001),
    ("kilobit kilobits kbit kbits kbps", "gigabit", 1e-6),
    ("terabit terabits", "gigabit", 1000),
    ("lb lbs", "pound_weight", 1),
    ("ounce ounces oz", "ounce", 1),
    ("inch inches", "inch", 1),
    ("feet ft", "foot", 1),
    ("yard yards", "yard", 1),
    ("gallon gallons", "gallon", 1),
    ("acre acres", "acre", 1),
    ("hectare hectares", "hectare", 1),
    ("cl centilitre centilitres", "litre", 0.01),
    ("kwh kilowattheure kilowattheures", "kwh", 1),
    ("mwh", "kwh", 1000),
    ("kw kilowatt kilowatts", "watt", 1000),
    ("watt watts w", "watt", 1),
    ("volt volts", "volt", 1),
    ("ampere amperes", "ampere", 1),
    ("centime centimes", "euro", 0.01),
    ("pence penny", "pound", 0.01),
    ("franc francs chf", "franc", 1),
    ("yen yens", "yen", 1),
    ("siecle siecles century centuries", "month", 1200),
    ("decennie decennies decade decades", "month", 120),
    ("millisecond milliseconds milliseconde millisecondes ms", "hour", 1 / 3_600_000),
    ("degre degres degree degrees °c °", "degree", 1),
):
    for _name in _names.split():
        _UNITS[_name] = (_unit, _factor)

_MONTHS = {
    name: month
    for names in (
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
        "january february march april may june july august september october november december",
    )
    for month, name in enumerate(names.split(), start=1)
}
_ORDINALS = {
    "premier": 1, "premiere": 1, "1er": 1, "1ere": 1, "deuxieme": 2, "troisieme": 3, "quatrieme": 4, "cinquieme": 5,
    "sixieme": 6, "first": 1, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "second": 2, "seconde": 2,
}  # fmt: skip

_OMITTED = frozenset(("", "euro", "dollar", "pound", "hour", "degree"))
_CURRENCIES = frozenset("€ euro euros eur $ dollar dollars usd £ pound pounds gbp".split())
_MONEY_SCALES = {"k": 1e3, "m": 1e6, "md": 1e9, "bn": 1e9}
#: « un quart de mon salaire » is 25 %, « un quart d'heure » 15 minutes.
_FRACTIONS = (
    (re.compile(r"\b(?:un )?quart d.heure\b|\ba quarter of an hour\b"), "15 minutes"),
    (re.compile(r"\b(?:une )?demie?[- ]heure\b|\bhalf an hour\b"), "30 minutes"),
    (re.compile(r"\btrois quarts d.heure\b|\bthree quarters of an hour\b"), "45 minutes"),
    (re.compile(r"\bune heure et demie\b|\ban hour and a half\b"), "90 minutes"),
    (re.compile(r"\b(?:un an|une annee) et demie?\b|\ba year and a half\b"), "18 mois"),
    (re.compile(r"\btrois quarts (?=d[eu' ])|\bthree quarters of\b"), "75 % "),
    (re.compile(r"\bun quart (?=d[eu' ])|\ba quarter of\b"), "25 % "),
    (re.compile(r"\bla moitie (?=d[eu' ])|\bhalf (?:of )?(?=my|the|his|her|our)"), "50 % "),
    (re.compile(r"\b(?:la )?quinzaine(?: de)? jours\b"), "15 jours"),
)
_DIGIT = re.compile(r"\d")
_MONTH_YEAR = re.compile(r"(?<![\d/])(0?[1-9]|1[0-2])/((?:19|20)\d\d)\b")
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)-(0[1-9]|1[0-2])-([0-2]\d|3[01])\b")
_GROUPED = re.compile(r"(?<![\w.,])(\d{1,3})((?:[ \u00a0\u202f.,]\d{3})+)(?![\d])(?!,\d)")
_DATE = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.](\d{2,4})\b")
_CLOCK = re.compile(
    r"\b(\d{1,2})(?: ?(?:h|:) ?([0-5]\d))?(?: ?(am|pm|a\.m\.|p\.m\.))\b|\b(\d{1,2}) ?(?:h|:) ?([0-5]\d)\b"
)
_SPOKEN = re.compile(r"\b(midi|noon|midday|minuit|midnight)\b")
_CODE = re.compile(
    r"\b[a-z]+[-_]?\d+[a-z\d]*\b|\b(covid|article|annexe|form|formulaire|cerfa|windows|route|terminal|part|level|step) (\d+)\b"
)
_GLUED = re.compile(
    r"(\d)(?=(?:euros?|eur|ans|mois|jours|heures|km|kg|cm|mm|mg|ml|go|gb|mo|mb|h|min|k|m|g|l|years?|days?|weeks?|months?|hours?)\b)|(\d)(?=[€$£%°])|([€$£])(?=\d)"
)
_TOKEN = re.compile(
    r"\d+(?:[.,]\d+)?(?:st|nd|rd|th|er|ere|e|eme)?(?!\w)|[^\W\d][\w·]*|[€$£%]|°c?|[,:;.?!]|\w+"
)
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
        if self.unit == other.unit:
            return abs(self.value - other.value) < 1e-9 * max(1.0, abs(self.value))
        # A unit may be left unsaid (« à 14 », « 500 »), but « 10 % » is never « 10 ».
        units = {self.unit, other.unit}
        return "" in units and units <= _OMITTED and self.raw == other.raw


def prepare(text: str) -> str:
    """Make numbers one token each: thousands joined, units split off, dates and codes in one form."""
    for pattern, replacement in _FRACTIONS:
        text = pattern.sub(replacement, text)
    if _DIGIT.search(text):
        text = _ISO_DATE.sub(r"\3/\2/\1", text)
        text = _DATE.sub(_spelled_date, text)
        text = _MONTH_YEAR.sub(lambda m: f"{list(_MONTHS)[int(m[1]) - 1]} {m[2]}", text)
        text = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), text)
        text = _CLOCK.sub(_hours, text)
    text = _SPOKEN.sub(lambda m: "12 h" if m[1] in ("midi", "noon", "midday") else "0 h", text)
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


#: What a quantity can begin with beside a digit: most words are passed over without a closer look.
_BEGINNINGS = frozenset((*_ORDINALS, *_MONTHS, *_UNITS_WORDS, *_SCALES, *_AMBIGUOUS, "€", "$", "£"))


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
        items[start] == "may"
        and not _beside_number(items, start)
        and not (start and items[start - 1] in _BEFORE_MAY)
    ):
        return None
    return start + 1, Quantity("date", month, "month-name", month, items[start])


_BEFORE_MAY = frozenset(
    "in by of until till since from before after during next last this every early late mid".split()
)


def _beside_number(items: list[str], position: int) -> bool:
    return any(
        0 <= near < len(items) and _NUMBER.match(items[near])
        for near in (position - 1, position + 1)
    )


def _quantity(items: list[str], start: int) -> tuple[int, Quantity] | None:
    symbol = items[start] if items[start] in ("€", "$", "£") else ""
    end, value = _number(items, start + bool(symbol))
    if value is None:
        return None
    unit, factor = _UNITS.get(symbol, ("", 1.0))
    scale = _MONEY_SCALES.get(items[end]) if end < len(items) else None
    if scale and (symbol or (end + 1 < len(items) and items[end + 1] in _CURRENCIES)):
        value, end = value * scale, end + 1
    if not unit and end < len(items) and items[end] in _UNITS:
        unit, factor = _UNITS[items[end]]
        end += 1
    elif not unit and items[start] in _AMBIGUOUS and end == start + 1:
        return None
    text = " ".join(items[start:end])
    total = value * factor
    if unit == "hour" and total >= 24 and total % 24 == 0:
        unit, total = "day", total / 24
    kind = _kind(unit, value)
    return end, Quantity(kind, round(total, 6), unit, value, text)


def _kind(unit: str, value: float) -> str:
    if not unit and 1900 <= value <= 2100 and value == int(value):
        return "date"
    return "number"


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
        elif seen and word[0].isdigit():
            break
        elif word in ("vingt", "vingts") and group % 100 == 4:
            group += 76
        else:
            group += value
        position, seen = position + 1, True
        if (
            position < len(items)
            and items[position] in ("et", "and")
            and word
            in ("vingt", "trente", "quarante", "cinquante", "soixante", "hundred", "thousand")
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
    if word in _UNITS_WORDS:
        return float(_UNITS_WORDS[word])
    following = items[position + 1] if position + 1 < len(items) else ""
    if word == "k" and inside:
        return None
    if word in _SCALES and (
        inside or following in _UNITS or word in ("mille", "cent", "thousand", "hundred")
    ):
        return float(_SCALES[word])
    if word in _AMBIGUOUS:
        scaled = following in _SCALES and word not in ("an", "demi", "half")
        if inside and word in ("un", "une", "one", "neuf"):
            return float(_AMBIGUOUS[word])
        if scaled or (
            following in _UNITS and following not in ("l", "m", "j", "g", "h", "go", "second_unit")
        ):
            return float(_AMBIGUOUS[word])
    return None
