"""Texts brought to one form, so that two spellings of the same words are equal, and their words. Pure.

There is a form for each thing that is compared: `fold` for words, `fold_to_letters` for the names of columns,
`fold_keeping_accents` where an accent tells two words apart, `fold_letters` where every sign stays one sign, in a
database as in the rules for follow-ups, `same_writing` for whole answers.
"""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")


class _Marks(dict[int, str | None]):
    """For `str.translate`: combining marks go. Each character is looked up once."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        kept = self[code] = None if unicodedata.combining(character) else character
        return kept


_WITHOUT_MARKS = _Marks()
#: Marks that one letter may carry: what Unicode calls stream-safe text (UAX 15, section 13). Putting a run of marks in
#: order takes the square of its length: 28 s for 100,000 of them.
MOST_MARKS = 30
_LONG_RUN = re.compile(rf"[^\w\s\x00-\x7f]{{{MOST_MARKS + 1},}}")
#: The lower-case letters that PostgreSQL folds with TRANSLATE, and what each becomes.
ACCENTED = "àáâãäåçèéêëìíîïñòóôõöùúûüýÿ’"
PLAIN = "aaaaaaceeeeiiiinooooouuuuyy'"


def bounded_marks(text: str) -> str:
    """The text without the combining marks of a letter after its 30th: to be called before any normalisation."""
    return text if text.isascii() else _LONG_RUN.sub(_with_few_marks, text)


def _with_few_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for character in run[0]:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def fold(text: str) -> str:
    """Lower case, without accents, ligatures and curly apostrophes: the form in which words are compared."""
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFKD", bounded_marks(text).replace("’", "'").casefold())
    return decomposed.translate(_WITHOUT_MARKS).replace("œ", "oe")


def fold_to_letters(text: str) -> str:
    """The folded letters alone, one after the other: the form in which the name of a column is looked up."""
    return "".join(filter(str.isalpha, fold(text)))


def fold_keeping_accents(text: str) -> str:
    """Lower case and one form of each character, accents kept: « ou » is not « où ». Stored keys are made of it."""
    return unicodedata.normalize("NFKC", bounded_marks(text)).casefold().replace("’", "'")


def fold_letters(text: str) -> str:
    """Lower case, without accents, letter for letter: « œ », « ½ » and « nº » stay, as LOWER and TRANSLATE leave them
    too.
    """
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", bounded_marks(text).lower()).translate(_WITHOUT_MARKS)
    return parts.replace("’", "'")


def same_writing(first: str, second: str) -> bool:
    """Whether two texts differ in case and spaces at most: accents, signs and exponents are what an answer says."""
    return first.casefold().split() == second.casefold().split()


def words(text: str) -> list[str]:
    """The runs of letters and digits of a text, in their order, as they are written: fold the text first."""
    return _WORD.findall(text)
