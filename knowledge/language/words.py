"""Words of French and English: their data files, folding, stems, and the language of a text.

Each language has the same files in `data/<language>/`, with the same entries: `classes.toml` lists words that only
grammar, courtesy or habit puts into a text, `typed.toml` what reading a typed question needs. Words are folded there.
"""

import re
import threading
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import Stemmer

#: In the order in which their stemmers and word lists are applied.
LANGUAGES = ("fr", "en")
_FOLDER = Path(__file__).parent / "data"


@cache
def language_data(language: str, file: str) -> dict[str, Any]:
    """One file of one language, as it stands."""
    path = _FOLDER / language / f"{file}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def word_class(name: str, language: str = "") -> frozenset[str]:
    """The words of a class in one language, or in all of them."""
    chosen = (language,) if language else LANGUAGES
    return frozenset(word for code in chosen for word in language_data(code, "classes")[name].split())


def one_of(name: str) -> str:
    """The expression that any entry of a class matches, in any language; an entry may be an expression itself."""
    return "|".join(sorted(word_class(name))).replace("_", " ")


_WORD = re.compile(r"[^\W_]+")
#: Behind a stop (a part of a pattern): a short word before it is an abbreviation (« art. L. 512 », « M. Dupont »). Where
#: it ends a sentence, two sentences stay together, which is harmless.
NO_ABBREVIATION = "".join(rf"(?<!\b[^\W\d_]{{{letters}}}\.)" for letters in range(1, 5))


class _Marks(dict[int, str | None]):
    """For `str.translate`: combining marks go. Each character is looked up once."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        kept = self[code] = None if unicodedata.combining(character) else character
        return kept


_WITHOUT_MARKS = _Marks()
#: Marks that one letter may carry (stream-safe text: UAX 15, section 13): sorting a run takes the square of its length.
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


def fold_keeping_accents(text: str) -> str:
    """Lower case and one form of each character, accents kept: « ou » is not « où ». Stored keys are made of it."""
    return unicodedata.normalize("NFKC", bounded_marks(text)).casefold().replace("’", "'")


def fold_letters(text: str) -> str:
    """Lower case, without accents, letter for letter: « œ », « ½ » and « nº » stay, as in LOWER and TRANSLATE."""
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


_STEMMERS = (Stemmer.Stemmer("french"), Stemmer.Stemmer("english"))
_stemming = threading.Lock()  # a stemmer has a state of its own


@lru_cache(maxsize=32_768)
def common_stem(word: str) -> str:
    """The stem of a word whose language is not known: each language's stemmer in turn."""
    with _stemming:
        for stemmer in _STEMMERS:
            word = str(stemmer.stemWord(word))
    return word


def content_stems(text: str) -> set[str]:
    """The stems of a text's words, without the small ones."""
    return {common_stem(word) for word in words(fold(text)) if word not in word_class("stop_words")}


_STEMS_FILE = _FOLDER / "light_stems.toml"


@lru_cache(maxsize=32_768)
def light_stem(word: str, language: str) -> str:
    """The part of a word that its plural, feminine, conjugation and noun of action share."""
    return _stemmer(language)(word)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    data = tomllib.loads(_STEMS_FILE.read_text(encoding="utf-8"))[language]
    return _French(data) if language == "fr" else _English(data)


class _French:
    def __init__(self, data: dict[str, Any]) -> None:
        self._kept = frozenset(data["kept"].split())
        self._endings: dict[str, str] = data["endings"]
        self._suffixes: list[str] = data["suffixes"].split()
        self._infinitives = frozenset(data["infinitives"].split())
        self._kept_stems = frozenset(data["kept_stems"].split())

    def __call__(self, word: str) -> str:
        if word in self._kept or len(word) < 4 or not word.isalpha():
            return word
        for ending, replacement in self._endings.items():
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)] + replacement
        if word.endswith("aux") and len(word) > 5:
            return word[:-3] + "al"
        if word.endswith("s") and len(word) > 4:
            word = word if word.endswith(("is", "us", "ss", "ons", "eas")) else word[:-1]
        word = self._without_suffix(word)
        if len(word) > 4 and word[-1] == "r" and word[-2] in "tdv" and word not in self._kept_stems:
            word = word[:-1]
        if len(word) > 4 and word[-1] == word[-2]:
            word = word[:-1]
        # « modifi(er) », « resili(er) » and « modifi(cation) » meet on the same letter.
        return word[:-1] if len(word) > 5 and word[-1] == "i" else word

    def _without_suffix(self, word: str) -> str:
        for suffix in self._suffixes:
            if word.endswith(suffix) and len(word) - len(suffix) >= 4:
                rest = word[: -len(suffix)]
                if suffix.startswith("fic"):
                    return rest + "fi"
                return rest + suffix[:-2] if suffix in self._infinitives else rest
        return word


class _English:
    def __init__(self, data: dict[str, Any]) -> None:
        self._kept = frozenset(data["kept"].split())
        self._endings = [(e, r, 3 if e in data["short"].split() else 4) for e, r in data["endings"]]
        self._spellings = [(re.compile(pattern), to) for pattern, to in data["spellings"]]
        self._alike = frozenset(data["alike_spelled"].split())
        self._american_words: dict[str, str] = data["american"]

    def __call__(self, word: str) -> str:
        word = self._american(word)
        if word in self._kept or len(word) < 4 or not word.isalpha():
            return word
        if word.endswith(("ss", "us", "is")):
            return word
        if word.endswith("ly") and len(word) > 5:
            word = word[:-3] + "y" if word.endswith("ily") else word[:-2]
        for ending, replacement, least in self._endings:
            if word.endswith(ending) and len(word) - len(ending) >= least:
                word = word[: -len(ending)] + replacement
                break
        if len(word) > 3 and word.endswith("e"):
            word = word[:-1]
        if len(word) > 3 and word[-1] == word[-2]:
            word = word[:-1]
        return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word

    def _american(self, word: str) -> str:
        """One spelling for both sides of the ocean: « centre » and « center »."""
        if word in self._american_words:
            return self._american_words[word]
        if len(word) < 5 or word in self._alike:
            return word
        for pattern, replacement in self._spellings:
            word = pattern.sub(replacement, word)
        return word


#: So many letters of a word count, as in the words of tools.
BEGINNING = 5
_MEANINGS_FILE = _FOLDER / "meanings.toml"


def meanings_of(word: str) -> tuple[str, ...]:
    """The meanings of a folded word, or of its first five letters; of a short plural, those of its singular."""
    known, beginning = _by_beginning(), word[:BEGINNING]
    return known.get(beginning) or known.get(beginning.removesuffix("s"), ())


@cache
def _by_beginning() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for meaning, listed in tomllib.loads(_MEANINGS_FILE.read_text(encoding="utf-8")).items():
        for word in listed.split():
            found.setdefault(word[:BEGINNING], {})[meaning] = None
    return {beginning: tuple(meanings) for beginning, meanings in found.items()}


_LETTERS = re.compile(r"[a-z]+")
_SIGNATURES = [word_class("signature", code) for code in LANGUAGES]
#: Below, names and figures outweigh the language.
_ENOUGH_LETTERS = 60
#: So many passages, spread over a document, tell its language; of each its beginning is read.
SAMPLES = 40
_SAMPLE_CHARACTERS = 500


def language_of(text: str, *, least: int = 1) -> str:
    """The code of the language whose small words a text has most of; empty when fewer than `least`, or two alike."""
    found = set(_LETTERS.findall(fold(text)))
    counts = [len(found & small) for small in _SIGNATURES]
    most = max(counts)
    return "" if counts.count(most) > 1 or most < least else LANGUAGES[counts.index(most)]


@lru_cache(maxsize=2_048)
def passage_language(text: str) -> str:
    """The language of a text that many answers quote. Never call it with a visitor's text: the cache holds texts."""
    return language_of(text)


#: Fewer words tell no language, and no answer twice as long is written without the small words of its own.
_ENOUGH_WORDS, _LEAST_SMALL, _SURE = 12, 0.04, 3
#: A run of so many words that comes back so often, as this share of a text, is a model that turns in circles.
_RUN, _RETURNS, _SHARE = 6, 4, 0.25
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def turns_in_circles(said: Sequence[str]) -> bool:
    """Whether the same run of words comes back and back."""
    runs = Counter(tuple(said[at : at + _RUN]) for at in range(len(said) - _RUN + 1))
    run, times = runs.most_common(1)[0] if runs else ((), 0)
    return times >= _RETURNS and times * len(set(run)) >= _SHARE * len(said)


def is_foreign(text: str, question: str, language: str, *, is_sure: bool) -> bool:
    """Whether a text is surely in another language; `is_sure`: the question is in this one."""
    letters = [letter for letter in text if letter.isalpha()]
    if sum(ord(letter) > 0x24F for letter in letters) > 0.3 * len(letters):
        return not any(ord(letter) > 0x24F for letter in question)
    prose = [word for word in words(fold(_CODE.sub(" ", text))) if word.isalpha()]
    small = {code: sum(word in word_class("signature", code) for word in prose) for code in LANGUAGES}
    own = small.pop(language, 0)
    if len(prose) >= _ENOUGH_WORDS and max(small.values(), default=0) >= _SURE * max(1, own):
        return True
    return is_sure and len(prose) >= 2 * _ENOUGH_WORDS and own < _LEAST_SMALL * len(prose)


def document_language(passages: Sequence[str]) -> str:
    """A code of two or three letters, or empty; only what reads files calls this, as the model is large."""
    sample = " ".join(text[:_SAMPLE_CHARACTERS] for text in passages[: 2 * SAMPLES])
    if sum(map(str.isalpha, sample)) < _ENOUGH_LETTERS:
        return ""
    import py3langid  # loads its model where it is imported first

    code, _score = py3langid.classify(sample)
    return str(code)
