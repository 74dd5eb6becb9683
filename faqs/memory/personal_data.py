"""Is there personal data in a text? Rules only, French and English, pure.

They look for what names or reaches a person: addresses, numbers, names given as one's own. Each pattern is bounded, so
that a text made to be slow is not. They lean towards "yes": the price of that error is an answer not kept. What the
documents themselves say (`public_texts`: the telephone of a town hall) is not personal.
"""

import re
from collections.abc import Iterable

_SPACE = r"[ \u00a0\u202f.\-]?"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")),
    ("iban", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")),
    # A French social security number: sex, year, month, department, commune, order, key.
    (
        "social_security",
        re.compile(
            rf"\b[12]{_SPACE}\d{{2}}{_SPACE}(?:0[1-9]|1[0-2]|[2-9]\d){_SPACE}(?:\d{{2}}|2[AB]){_SPACE}"
            rf"\d{{3}}{_SPACE}\d{{3}}(?:{_SPACE}\d{{2}})?\b",
            re.IGNORECASE,
        ),
    ),
    ("card", re.compile(rf"\b\d{{4}}(?:{_SPACE}\d{{4}}){{3}}\b")),
    # A French number has ten digits in pairs, or its country's code; another country's opens with + or 00.
    ("phone", re.compile(rf"(?<![\w+])0[1-9](?:{_SPACE}\d{{2}}){{4}}(?!\d)")),
    ("phone", re.compile(rf"(?<!\w)(?:\+|00)[1-9]\d{{0,2}}(?:{_SPACE}\(?\d{{1,4}}\)?){{2,6}}")),
    ("phone", re.compile(r"(?<![\w.])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)")),
    ("ip_address", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    (
        "own_number",
        re.compile(
            r"\b(?:mon|ma|my|son|sa|his|her|notre|our)\b[^\n.?!]{0,40}?(?:num[ée]ro|n°|nº|number|no\.|#|"
            r"dossier|compte|account|contrat|contract|matricule|r[ée]f[ée]rence|reference|file)[^\n.?!]{0,15}?"
            r"[A-Z]{0,4}[ -]?\d{4,}",
            re.IGNORECASE,
        ),
    ),
    (
        "name",
        re.compile(
            r"\b(?:je m'appelle|je me nomme|mon nom est|my name is|je suis (?:m\.|mme|monsieur|madame)|"
            r"i am (?:mr|mrs|ms)\b\.?)[ ]{0,3}\w",
            re.IGNORECASE,
        ),
    ),
    (
        "birth_date",
        re.compile(
            r"\b(?:n[ée]e?(?:\(e\))? le|born on(?: the)?|date de naissance|date of birth)\b"
            r"[^\n?!]{0,20}\d{1,4}[ /.-](?:\d{1,2}|\w{3,9})[ /.-]\d{2,4}",
            re.IGNORECASE,
        ),
    ),
    (
        "address",
        re.compile(
            r"\b(?:j'habite|je r[ée]side|i live|mon adresse|my address)\b[^\n?!]{0,30}?\d{1,4}[ ,]", re.IGNORECASE
        ),
    ),
)


#: All but a name has a digit or an @; most answers have neither, and are read once in the place of twelve times.
_NEEDS_NEITHER = "name"
_DIGIT_OR_AT = re.compile(r"[\d@]")


def personal_data(text: str, *, public_texts: Iterable[str] = ()) -> str:
    """The kind of the first personal data found, or an empty string."""
    straight = text.replace("’", "'")
    has_either = _DIGIT_OR_AT.search(straight) is not None
    public = [_squeezed(each) for each in public_texts]
    for kind, pattern in _PATTERNS:
        if not has_either and kind != _NEEDS_NEITHER:
            continue
        for match in pattern.finditer(straight):
            if not any(_squeezed(match[0]) in each for each in public):
                return kind
    return ""


def _squeezed(text: str) -> str:
    return re.sub(r"[\s.\-]", "", text.replace("’", "'")).casefold()
