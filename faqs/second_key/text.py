"""A question as it was typed becomes folded words between single spaces, with one form for each way to say a thing. Pure.

What capitals, accents and signs say is put into words before they go.
"""

import re
import unicodedata

from faqs.second_key.lexicon import Lexicon, rewritten
from knowledge.language.numbers import prepare
from knowledge.language.words import bounded_marks, fold

_ELISION = re.compile(r"\b(l|d|j|m|t|s|c|n|qu|jusqu|lorsqu|puisqu|quoiqu)'")
#: A lone capital inside a sentence is a name (« permis A », "U visa"), not an article or "you".
_LETTER = re.compile(r"(?<=[^\s.?!:] )[AU](?=\W|$)")
_SIGN = re.compile(r"[<>≤≥⩽⩾+#−–-]")
_COMPARISONS = (
    (re.compile(r"(?:>=|≥|⩾) ?(?=[€$£]? ?\d)"), " sign_min "),
    (re.compile(r"(?:<=|≤|⩽) ?(?=[€$£]? ?\d)"), " sign_max "),
    (re.compile(r"> ?(?=[€$£]? ?\d)"), " sign_over "),
    (re.compile(r"< ?(?=[€$£]? ?\d)"), " sign_under "),
    (re.compile(r"(?<!\S)\+ (?:de |d')(?=\d)"), "sign_over "),
    (re.compile(r"(?<!\S)[-−–] (?:de |d')(?=\d)"), "sign_under "),
    (re.compile(r"(?<= et )\+(?= |$|[?.,;])"), "plus"),
    (re.compile(r"(?<=\d) ?\+(?![\w ]*\d)"), " sign_more "),
    (re.compile(r"(?<![\w.,])[-−](?=\d)"), " minus_sign "),
    (re.compile(r"(?<=\d) ?\+ ?(?=\d)"), " plus_sign "),
)
_GLOSS = re.compile(r"\b([A-Z]{3,8}) \(([^()]+)\)")
#: Only their capitals tell bits from bytes, and a terabyte from the word "to".
_DATA_UNITS = re.compile(r"(\d) ?(Kb|Mb|Gb|Tb|kb|To|TB)(?:it|its|ps)?(?![A-Za-z])")
_DATA_NAMES = {
    "Kb": "kilobit", "kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Tb": "terabit", "To": "terabyte", "TB": "terabyte",
}  # fmt: skip
_INNER_SIGNS = re.compile(r"(?<=\w)[-/](?=\w)")
_OTHER_SIGNS = re.compile(r"[^\w\s,:;.?!%€$£°·]")
_NUMERO = re.compile(r"\bn ?° ?")
_WORD = re.compile(r"[^\W\d_][\w-]*")
_SENTENCE_END = frozenset(".?!:\n")


def unified(text: str) -> str:
    """One way of writing the same characters."""
    text = unicodedata.normalize("NFKC", bounded_marks(text)).replace("’", "'").replace("ʼ", "'")
    return _without_gloss(text)


def plain(text: str, lexicon: Lexicon) -> str:
    """The text that the expressions of the lexicon are written for."""
    text = _DATA_UNITS.sub(lambda m: f"{m[1]} {_DATA_NAMES[m[2]]}", text)
    if not text.isascii():
        text = rewritten(text, lexicon.accents)
    if (" A" in text or " U" in text) and any(c.islower() for c in text):
        text = _LETTER.sub(lambda m: f"{m[0].lower()}·", text)
    text = fold(text)
    text = prepare(_signs(_NUMERO.sub("numero ", text) if "°" in text else text))
    text = rewritten(text, lexicon.contractions)
    if "'" in text:
        text = text.replace("aujourd'hui", "aujourdhui")
        text = _ELISION.sub(lambda m: f"{m[1]}{'e' if m[1] == 'n' else ''} ", text)
    text = _OTHER_SIGNS.sub(" ", _INNER_SIGNS.sub(" ", text))
    slips = lexicon.slips
    if text.endswith("?"):
        text = f"{text[:-1]} ?"
    text = " ".join(slips.get(word, word) for word in text.split())
    return " ".join(rewritten(text, lexicon.rewrites).split())


def names(text: str) -> frozenset[str]:
    """Folded words written with a capital inside a sentence, and acronyms; none in a text all in capitals."""
    if (rest := text[1:]) == rest.lower():
        # A capital at the beginning says nothing.
        return frozenset()
    letters = [c for c in text if c.isalpha()]
    if sum(c.isupper() for c in letters) > 0.6 * len(letters):
        return frozenset()
    found: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0]
        before = text[: match.start()].rstrip(" \"'«(\u00a0")
        starts = not before or before[-1] in _SENTENCE_END
        acronym = len(word) > 1 and word.isupper()
        if acronym or (word[0].isupper() and not starts):
            found.update(part for part in re.split(r"[-_]", fold(word)) if part)
    return frozenset(found - {"i", "je", "bonjour"})


def _without_gloss(text: str) -> str:
    """« DMP (dossier médical personnel) » names one thing twice."""
    return _GLOSS.sub(lambda m: m[1] if m[2][0].casefold() == m[1][0].casefold() and " " in m[2] else m[0], text)


def _signs(text: str) -> str:
    """Signs that carry meaning beside a digit or a letter, in words."""
    if not _SIGN.search(text):
        return text
    text = text.replace("c++", "cplusplus").replace("c#", "csharp").replace("f#", "fsharp")
    for pattern, replacement in _COMPARISONS:
        text = pattern.sub(replacement, text)
    return text
