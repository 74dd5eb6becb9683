"""What a sheet shows of a number: the grammar of number formats (ECMA-376, part 1, 18.8.31) in the site's language."""

import operator
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from django.conf import settings
from django.utils import dateformat
from django.utils.formats import get_format
from django.utils.translation import get_language, override
from openpyxl.utils.datetime import CALENDAR_WINDOWS_1900, from_excel

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|[\\!](?P<escaped>.)|_(?P<space>.)|\*.|\[\$(?P<currency>[^\]-]*)-?(?P<locale>[0-9A-Fa-f]*)\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[(?P<condition>[<>=]+-?\d+(?:\.\d+)?)\]|\[[^\]]*\]|(?P<general>General|Standard)"
    r"|(?P<half>AM/PM|A/P)|(?P<exponent>E[+-]0*)|(?P<date>y+|m+|d+|h+|s+|e+)|(?P<digit>[0#?])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_COMPARED = dict(
    zip("< > = <= >= <>".split(), (getattr(operator, n) for n in "lt gt eq le ge ne".split()), strict=True)
)
#: Languages by the lower byte of Windows' numbers for them.
_LANGUAGES = {"07": "de", "09": "en", "0a": "es", "0c": "fr", "10": "it"}
#: Formats that Excel shows as the reader's country writes them: dates, a date with its time, long dates, times.
_SYSTEM = (
    (r"mm-dd-yy", "dd/mm/yyyy", "m/d/yyyy"),
    (r"m/d/yy h:mm", "dd/mm/yyyy hh:mm", "m/d/yyyy h:mm"),
    (r"\[\$-F800\].*", "dddd d mmmm yyyy", "dddd, mmmm d, yyyy"),
    (r"\[\$-F400\].*", "hh:mm:ss", "h:mm:ss AM/PM"),
)
_DATE_PARTS = dict(zip("yyyy yyy yy y e mmmm mmm mm m dddd ddd dd d hh h".split(), "YYyyYFMmnlDdjHG", strict=True))
_FRENCH_MONTHS = "janv févr mars avr mai juin juil août sept oct nov déc".split()
_MOST_DIGITS = 11
_LONGEST_FORMAT = 255
#: Beyond it no format is applied.
_LARGEST = 10**21
#: Room for the largest number with as many decimals as a format has places.
_EXACT = Context(prec=2 * _LONGEST_FORMAT, rounding=ROUND_HALF_UP)


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def literal(self) -> str:
        return " " if self.kind == "space" else self.text if self.kind in ("quoted", "escaped", "other") else ""


_TEXT, _PERCENT, _COMMA, _POINT, _SLASH = (_Token("other", sign) for sign in "@%,./")
_GENERAL = _Token("general", "general")


def shown(value: float | str, code: str, epoch: datetime = CALENDAR_WINDOWS_1900) -> str:
    """A value of a cell as its format shows it."""
    sections = _sections(code if len(code) <= _LONGEST_FORMAT else "General")
    if isinstance(value, str):
        texts = next((section for section in sections[::-1] if _TEXT in section), [_TEXT])
        return "".join(value if token == _TEXT else token.literal for token in texts)
    if not abs(value) < _LARGEST:
        return str(value)
    section, value = _chosen(sections, value)
    if _GENERAL in section:
        return "".join(_general(value) if token == _GENERAL else token.literal for token in section)
    if any(token.kind in ("date", "elapsed") for token in section):
        return _date(value, section, epoch)
    return _number(value, section)


def _general(value: float) -> str:
    """A number without a format, with as many digits as Excel shows."""
    if abs(value) >= 10**_MOST_DIGITS and value == int(value):
        return str(int(value))
    return _in_language(f"{value:.{_MOST_DIGITS - 1}g}".replace("e", "E"))


def _in_language(text: str) -> str:
    return text.replace(".", str(get_format("DECIMAL_SEPARATOR", settings.LANGUAGE_CODE, use_l10n=True)))


def _sections(code: str) -> list[list[_Token]]:
    for pattern, elsewhere, english in _SYSTEM:
        if re.fullmatch(pattern, code, re.IGNORECASE):
            code = english if settings.LANGUAGE_CODE.startswith("en") else elsewhere
    sections: list[list[_Token]] = [[]]
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup or ""
        if found["currency"] is not None:
            sections[-1] += [_Token("quoted", found["currency"]), _Token("locale", found["locale"].lower()[-2:])]
        elif kind == "other" and found[kind] == ";":
            sections.append([])
        elif kind:
            is_name = kind in ("date", "elapsed", "general")
            text = found[kind].lower() if is_name else found[kind]
            sections[-1].append(_GENERAL if kind == "general" else _Token(kind, text))
    return sections[:4]


def _chosen(sections: Sequence[list[_Token]], value: float) -> tuple[list[_Token], float]:
    """The section that shows a value, and what it shows of it: a section for negative numbers has its own sign."""
    sections = [section for section in sections if _TEXT not in section] or [[_GENERAL]]
    conditions = [next((t.text for t in section if t.kind == "condition"), "") for section in sections]
    if not any(conditions):
        at = 1 if value < 0 and len(sections) > 1 else 2 if value == 0 and len(sections) > 2 else 0
        return sections[at], abs(value) if at == 1 else value
    for section, condition in zip(sections, conditions, strict=True):
        sign = condition.rstrip("-.0123456789")
        bound = float(condition[len(sign) :] or 1)
        if not condition or (sign in _COMPARED and _COMPARED[sign](value, bound)):
            return section, abs(value) if sign.startswith("<") and bound <= 0 else value
    return sections[-1], value


def _date(value: float, section: Sequence[_Token], epoch: datetime) -> str:
    fraction = re.search(r"s\.(0{1,3})", "".join(token.text for token in section))
    places = len(fraction[1]) if fraction else 0
    unit = 86_400 * 10**places
    try:
        # A tenth of a second before the minute is the minute: numbers of days are not exact.
        moment = from_excel(round(value * unit) / unit, epoch)
    except (ValueError, OverflowError):
        return _general(value)
    if not isinstance(moment, datetime):
        moment = epoch + timedelta(days=value)  # before the calendar's first day: a time of day
    seconds = round(abs(value) * unit) * 86_400 // unit
    digits = f"{moment.microsecond:06}"
    pieces = ["-"] if value < 0 else []
    is_half = any(token.kind == "half" for token in section)
    names = [token.text[0] for token in section if token.kind in ("date", "elapsed")] + [""]
    before, seen = "", 0
    language = next((_LANGUAGES.get(t.text, "") for t in section if t.kind == "locale"), "") or settings.LANGUAGE_CODE
    with override(language):
        for kind, text in section:
            if kind in ("date", "elapsed"):
                is_minute = text in ("m", "mm") and (before == "h" or names[seen + 1] == "s")
                before, seen = text[0], seen + 1
            if kind == "elapsed":
                pieces.append(str(seconds // {"h": 3_600, "m": 60, "s": 1}[text[0]]).zfill(len(text)))
            elif kind == "date":
                pieces.append(_part(moment, text, is_minute=is_minute, is_half=is_half))
            elif kind == "half":
                pieces.append(("PM" if moment.hour >= 12 else "AM")[: 2 if len(text) > 3 else 1])
            elif kind == "digit" and places:
                pieces.append(digits[:1])
                digits = digits[1:]
            else:
                pieces.append("," if text == "." and places else _Token(kind, text).literal)
    return "".join(pieces)


def _part(moment: datetime, code: str, *, is_minute: bool, is_half: bool) -> str:
    if is_minute or code[0] == "s":
        return str(moment.minute if is_minute else moment.second).zfill(len(code))
    if code == "mmm" and get_language() == "fr":
        return _FRENCH_MONTHS[moment.month - 1]
    if code[0] == "h" and is_half:
        return str(moment.hour % 12 or 12).zfill(len(code))
    return dateformat.format(moment, _DATE_PARTS.get(code[:4]) or _DATE_PARTS[code[0]])


def _number(value: float, section: Sequence[_Token]) -> str:
    tokens = list(section)
    digits = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    number = abs(Decimal(repr(value))) * (100 if _PERCENT in tokens else 1)
    sign = "-" if value < 0 else ""
    if not digits:
        return (sign + said) if (said := "".join(token.literal for token in tokens)) else ""
    while tokens[digits[-1] + 1 : digits[-1] + 2] == [_COMMA]:
        del tokens[digits[-1] + 1]
        number /= 1_000
    if _SLASH in tokens[digits[0] :]:
        return sign + _fraction(number, tokens, tokens.index(_SLASH, digits[0]))
    if exponent := next((token for token in tokens if token.kind == "exponent"), None):
        places = sum(at < tokens.index(exponent) for at in digits[1:])
        mantissa, _e, power = f"{float(number):.{places}e}".partition("e")
        return f"{sign}{_in_language(mantissa)}E{int(power):+0{len(exponent.text) - 1}}"
    point = tokens.index(_POINT) if _POINT in tokens else len(tokens)
    number = number.quantize(Decimal(1).scaleb(-sum(at > point for at in digits)), context=_EXACT)
    whole, _point, part = f"{number:f}".partition(".")
    text = _whole("" if whole == "0" else whole, tokens[:point])
    for token in tokens[point:]:
        if token.kind == "digit":
            text += part[0] if token.text == "0" or part.strip("0") else " " if token.text == "?" else ""
            part = part[1:]
        else:
            text += _in_language(".") if token == _POINT else token.literal
    return (sign if number else "") + text


def _whole(number: str, tokens: Sequence[_Token]) -> str:
    """Digits in their places from the right, what is left over before the first; grouped where a comma is among them."""
    places = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    between = str(get_format("THOUSAND_SEPARATOR", settings.LANGUAGE_CODE, use_l10n=True)) if _COMMA in tokens else ""
    pieces: list[str] = []
    count = 0
    for at, token in reversed(list(enumerate(tokens))):
        if token.kind != "digit":
            pieces.append("" if token == _COMMA else token.literal)
            continue
        taken, number = (number, "") if at == places[0] else (number[-1:], number[:-1])
        for digit in taken[::-1] or {"0": "0", "?": " "}.get(token.text, ""):
            pieces += [between if count and count % 3 == 0 and digit != " " else "", digit]
            count += 1
    return "".join(pieces[::-1])


def _fraction(number: Decimal, tokens: Sequence[_Token], slash: int) -> str:
    """A whole number where the format has a place for one, a numerator and a denominator."""
    start, end = slash, slash + 1
    while start and tokens[start - 1].kind == "digit":
        start -= 1
    while end < len(tokens) and (tokens[end].kind == "digit" or tokens[end].text.strip("0123456789 ") == ""):
        end += 1
    below = "".join(token.text for token in tokens[slash + 1 : end]).strip()
    most = int(below) if below.isdecimal() and int(below) else 10 ** max(1, min(len(below), 5)) - 1
    has_whole = any(token.kind == "digit" for token in tokens[:start])
    whole = int(number) if has_whole else 0
    rest = Fraction(number) - whole
    above, most = (round(rest * most), most) if below.isdecimal() else rest.limit_denominator(most).as_integer_ratio()
    if has_whole and above >= most:
        whole, above = whole + 1, 0
    before = _whole(str(whole or ""), tokens[:start])
    text = f"{before}{above}/{most}" if above or not has_whole else before.rstrip() or "0"
    return text + "".join(token.literal for token in tokens[end:])
