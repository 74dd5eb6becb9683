"""Spelling: the words of a typed text, the words that are known, and the mending of accents, capitals and faults."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from string import ascii_lowercase
from typing import Any, Generic, TypeVar

from spellchecker import SpellChecker

from knowledge.language.words import LANGUAGES, fold, language_data, light_stem, word_class

T = TypeVar("T")

_CHUNK = re.compile(r"\S+")
_WORD = re.compile(r"[^\W\d_]+")
#: Inside a run without spaces these make it an address, a path or a code.
_CODE = re.compile(r"[\d@_\\#&+*=<>|~^€$£%°]|\w[./:]\w")
_MARKS = re.compile(r"[.,;:!?…\n()«»\"“”]")


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    folded: str
    start: int
    end: int
    #: A mark or a line stands between it and the word before; nothing is before the first.
    starts: bool
    #: Part of a code, an address or a number.
    is_protected: bool


@lru_cache(maxsize=64)
def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text; cached, because several steps read the same question."""
    found: list[Token] = []
    last = 0
    for chunk in _CHUNK.finditer(text):
        is_protected = _CODE.search(chunk[0]) is not None
        for word in _WORD.finditer(text, chunk.start(), chunk.end()):
            starts = not found or _MARKS.search(text, last, word.start()) is not None
            found.append(Token(word[0], fold(word[0]), word.start(), word.end(), starts, is_protected))
            last = word.end()
    return tuple(found)


class Phrases(Generic[T]):
    """Phrases, each with what it is read as."""

    def __init__(self, phrases: Mapping[str, T]) -> None:
        self._read = {tuple(phrase.split()): read for phrase, read in phrases.items()}
        self._longest = max(map(len, self._read), default=0)

    def length_at(self, words: Sequence[str], at: int) -> int:
        """How many words the longest phrase that begins there has; 0: none does."""
        lengths = range(min(self._longest, len(words) - at), 0, -1)
        return next((length for length in lengths if tuple(words[at : at + length]) in self._read), 0)

    def length_before(self, words: Sequence[str], end: int) -> int:
        """The same for the phrase that ends before `end`."""
        lengths = range(min(self._longest, end), 0, -1)
        return next((length for length in lengths if tuple(words[end - length : end]) in self._read), 0)

    def read_as(self, words: Sequence[str]) -> T:
        return self._read[tuple(words)]


@cache
def phrases(name: str, language: str = "") -> Phrases[str]:
    """An entry of one language, or of all; the phrases of a table are read as its values."""
    table: dict[str, str] = {}
    for code in (language,) if language else LANGUAGES:
        entry: Any = language_data(code, "typed")[name]
        if isinstance(entry, str):
            table.update((" ".join(part.split()), "") for part in entry.split("|") if part.strip())
        else:
            table.update(entry)
    return Phrases(table)


#: Words seen less often in the subtitles are too rare to be what a fault was meant to be (about 30,000 are not).
_FREQUENT = 100
#: Accents come back where the spelling with them is so much more frequent (« ou » and « où » stay).
_CLEARLY = 4
#: Of one agent's words the most frequent are kept.
MOST_WORDS = 30_000
#: From so many letters a mistyped word is taken for the one near it: one of the agent's, any other (« cerfa », « cerf »).
_SURE_OWN, _SURE = 5, 7
#: The part of a word's places in small letters from which it is no name.
_SMALL_LETTERS = 0.1
_FORM = re.compile(r"[^\W\d_]{2,}")


class LanguageWords:
    """The words of one language, folded."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        plain = {word: count for word, count in counts.items() if word.isascii()}
        accented: dict[str, tuple[int, str]] = {}
        written = [word for word in counts if not word.isascii()]
        # As one text: word by word takes longer.
        for word, folded in zip(written, fold("\n".join(written)).split("\n"), strict=True):
            accented[folded] = max((counts[word], word), accented.get(folded, (0, "")))
        self._counts = {**plain}
        for folded, (count, _word) in accented.items():
            self._counts[folded] = self._counts.get(folded, 0) + count
        #: The words that are usually written with accents, and how.
        self._usual = {
            folded: word
            for folded, (count, word) in accented.items()
            # « embauché » beside « embauche »: both are words, and only the writer knows which.
            if count >= _CLEARLY * plain.get(folded, 0)
            and not (folded in plain and (end := word.rstrip("s")).endswith("é") and end[:-1].isascii())
        }

    def has(self, folded: str) -> bool:
        return folded in self._counts

    def frequency(self, folded: str) -> int:
        """How often a frequent word was seen; 0 for any other."""
        count = self._counts.get(folded, 0)
        return count if count >= _FREQUENT else 0

    def spelled(self, folded: str) -> str:
        """Return the form with accents where it is clearly the usual one, else an empty text."""
        return self._usual.get(folded, "")


@cache
def language_words(language: str) -> LanguageWords:
    """Return the words of a language, which are read once: by `warm_up`, before the first question."""
    return LanguageWords(SpellChecker(language).word_frequency.dictionary)


def warm_up() -> None:
    for language in LANGUAGES:
        language_words(language)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of an agent's texts: folded → how they are written there, and how often."""

    forms: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        seen: Counter[str] = Counter()
        for text in texts:
            seen.update(_FORM.findall(text))
        forms: dict[str, list[tuple[int, str]]] = {}
        for form, count in seen.items():
            forms.setdefault(fold(form), []).append((count, form))
        counts = Counter({folded: sum(c for c, _form in each) for folded, each in forms.items()})
        kept = dict(counts.most_common(MOST_WORDS))
        return cls({folded: _usual(forms[folded]) for folded in kept}, kept)

    def knows(self, folded: str) -> bool:
        return folded in self.forms or any(language_words(code).has(folded) for code in LANGUAGES)

    def spelled(self, folded: str, language: str) -> str:
        """Return a known word with its accents; empty: it stays as typed. An empty `language` was not detected."""
        own = self.forms.get(folded, "")
        is_accented = bool(own) and fold(own) != own.lower()
        codes = (language,) if language else LANGUAGES
        known = [words for words in map(language_words, codes) if words.has(folded)]
        usual = [words.spelled(folded) for words in known]
        if not all(usual):
            return ""
        if is_accented:
            return own
        return usual[0] if usual else ""

    def is_common(self, folded: str) -> bool:
        """Whether it is a word of the agent's, or one that people often use."""
        return folded in self.forms or any(language_words(code).frequency(folded) for code in LANGUAGES)

    def mended(self, folded: str, language: str) -> str:
        """What an unknown word was surely meant to be: one typing slip away, and nothing else is near; else empty."""
        if len(folded) < _SURE_OWN:
            return ""
        near = _slips().edit_distance_1(folded)
        own = near & self.forms.keys()
        codes = (language,) if language else LANGUAGES
        general = Counter[str]()
        for code in codes:
            frequency = language_words(code).frequency
            general.update({word: count for word in near if (count := frequency(word))})
        stems = {light_stem(word, language or "fr") for word in own | general.keys()}
        if len(stems) != 1 or not own and len(folded) < _SURE or _is_variant(folded, own | general.keys(), codes):
            return ""
        counts = self.counts if own else general
        best = max(own or general, key=lambda word: (word[0] == folded[0], counts[word], word))
        return self.spelled(best, language) or self.forms.get(best, best) if best[0] == folded[0] else ""


def _is_variant(folded: str, near: Iterable[str], codes: Iterable[str]) -> bool:
    """ "neighbour" beside "neighbor": no fault. (French has no second spelling, and its stems hide faults.)"""
    return "en" in codes and any(light_stem(folded, "en") == light_stem(word, "en") for word in near)


#: Of no agent: the words of the languages alone.
NO_WORDS = Vocabulary()


def _usual(forms: Sequence[tuple[int, str]]) -> str:
    """The most frequent form, in small letters where it has any: what begins a sentence is no name."""
    total = sum(count for count, _form in forms)
    small = [each for each in forms if each[1] == each[1].lower()]
    is_small = sum(count for count, _form in small) >= _SMALL_LETTERS * total
    return max(small if is_small else forms)[1]


@cache
def _slips() -> SpellChecker:
    """What knows the words one typing slip away; it leaves alone what is much longer than the alphabet."""
    slips = SpellChecker(language=None)
    slips.word_frequency.load_words([ascii_lowercase])
    return slips


#: Fewer words or letters in capitals are an acronym or a title, not shouting.
_SHOUTED_WORDS, _SHOUTED_LETTERS = 2, 8
#: Capitals of so few letters that no list knows are an acronym, even inside shouting.
_ACRONYM_LETTERS = 5
#: Bounds the work for one question: further unknown words stay as typed.
MOST_MENDED = 12
_VOWELS = frozenset("aeiouyh")
#: How long the rest of a word is that lost its apostrophe (« leau », « jaimerais »); shorter ones are forms.
_ARTICLES = frozenset("ld")
_LEAST_BEHIND_ARTICLE, _LEAST_BEHIND = 3, 4


@dataclass(frozen=True, slots=True)
class Edit:
    start: int
    end: int
    text: str


def applied(text: str, edits: Sequence[Edit]) -> str:
    for edit in reversed(edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def lowered(text: str, vocabulary: Vocabulary) -> str:
    """Shouted runs in small letters; what the agent's texts write in capitals keeps them."""
    if text == text.lower():
        return text
    tokens = [token for token in tokens_of(text) if not token.is_protected]
    edits: list[Edit] = []
    for run in _shouted_runs(tokens):
        edits += [Edit(token.start, token.end, _in_small_letters(token, vocabulary)) for token in run]
    if not edits:
        return text
    text = applied(text, edits)
    return text if edits[0].start else text[0].upper() + text[1:]


def _shouted_runs(tokens: Sequence[Token]) -> list[list[Token]]:
    """Runs of words in capitals: three of them, or two that are all there is. A letter ("I") tells nothing."""
    runs: list[list[Token]] = [[]]
    for token in tokens:
        if token.text.isupper():
            runs[-1].append(token)
        elif runs[-1] and len(token.text) > 1:
            runs.append([])
    is_all = all(token.text.isupper() for token in tokens if len(token.text) > 1)
    least = _SHOUTED_WORDS if is_all else _SHOUTED_WORDS + 1
    return [
        run
        for run in runs
        if sum(len(token.text) > 1 for token in run) >= least
        and sum(len(token.text) for token in run) >= _SHOUTED_LETTERS
        and max(len(token.text) for token in run) > _ACRONYM_LETTERS
    ]


def _in_small_letters(token: Token, vocabulary: Vocabulary) -> str:
    own = vocabulary.forms.get(token.folded, "")
    if own != own.lower():
        return own
    is_form = any(phrases("forms", code).length_at([token.folded], 0) for code in LANGUAGES)
    is_word = is_form or vocabulary.knows(token.folded)
    return token.text if 1 < len(token.text) <= _ACRONYM_LETTERS and not is_word else token.text.lower()


def spelled(text: str, vocabulary: Vocabulary, language: str) -> str:
    """The text with its accents and apostrophes back, and with the typing faults mended that are surely one."""
    return _Speller(text, vocabulary, language).read()


class _Speller:
    """Collects the corrections of one text, in one pass over its words."""

    def __init__(self, text: str, vocabulary: Vocabulary, language: str) -> None:
        self.text, self.vocabulary, self.language = text, vocabulary, language
        self.tokens = tokens_of(text)
        self.words = [token.folded for token in self.tokens]
        self.edits: list[Edit] = []
        #: Who writes accents writes those that are wanted.
        self._lacks_accents = text.isascii()
        self._left = MOST_MENDED

    def read(self) -> str:
        at = 0
        while at < len(self.tokens):
            at += self._read_at(at)
        return applied(self.text, self.edits)

    def _read_at(self, at: int) -> int:
        """Read what begins at this word, and return how many words it has."""
        token = self.tokens[at]
        if token.is_protected:
            return 1
        if taken := self._read_form(at):
            return taken
        if self._is_name(token):
            return 1
        if self.vocabulary.knows(token.folded):
            self._restore_accents(token)
        elif not self._split_elision(token):
            self._mend(token)
        return 1

    def _is_name(self, token: Token) -> bool:
        """Whether a word looks like a name: it has a capital inside a sentence, or several."""
        text = token.text
        return text != text.lower() and (not token.starts or not text.istitle())

    def _read_form(self, at: int) -> int:
        for code in LANGUAGES:
            table = phrases("forms", code)
            length = table.length_at(self.words, at)
            if not length or not self._may_read(code, at, length):
                continue
            first, last = self.tokens[at], self.tokens[at + length - 1]
            read = _cased_as(table.read_as(self.words[at : at + length]), first)
            # A form that ends with an apostrophe takes the space or the apostrophe behind it.
            takes_next = read.endswith("'") and self.text[last.end : last.end + 1] in "'’ "
            end = last.end + takes_next
            if self.text[first.start : end].replace("’", "'") != read:
                self.edits.append(Edit(first.start, end, read))
            return length
        return 0

    def _may_read(self, code: str, at: int, length: int) -> bool:
        """Whether a form is read: in a text of its language, a phrase also where none is known, else if no list has its word."""
        run = self.tokens[at : at + length]
        if any(token.is_protected or self._is_name(token) for token in run):
            return False
        first = run[0]
        before = self.text[max(first.start - 1, 0) : first.start]
        if length == 1 and (before in ("'", "’") or self._has_apostrophe_after(first)):
            return False
        if self.language == code:
            return True
        return (length > 1 and not self.language) or not self.vocabulary.knows(first.folded)

    def _restore_accents(self, token: Token) -> None:
        if not self._lacks_accents or self._has_apostrophe_after(token):
            return
        if form := self.vocabulary.spelled(token.folded, self.language):
            self._replace(token, form)

    def _has_apostrophe_after(self, token: Token) -> bool:
        return self.text[token.end : token.end + 1] in ("'", "’")

    def _split_elision(self, token: Token) -> bool:
        """Restore the apostrophe of « lattestation »: an unknown word with a known one behind its beginning."""
        if self.language == "en":
            return False
        for head, read in _elisions().items():
            rest = token.folded[len(head) :]
            if (
                token.folded.startswith(head)
                and len(rest) >= (_LEAST_BEHIND_ARTICLE if head in _ARTICLES else _LEAST_BEHIND)
                and rest[0] in _VOWELS
                and self.vocabulary.is_common(rest)
                and len(token.text) == len(token.folded)
            ):
                tail = token.text[len(head) :]
                if tail.isascii():
                    tail = self.vocabulary.spelled(rest, self.language) or tail
                self._replace(token, read + tail)
                return True
        return False

    def _mend(self, token: Token) -> None:
        if self._left == 0 or self._has_apostrophe_after(token):
            return
        self._left -= 1
        word = self.vocabulary.mended(token.folded, self.language)
        # With a capital it may be a name, unless a question or a greeting begins so.
        if word and (token.text == token.text.lower() or fold(word) in _beginnings()):
            self._replace(token, word)

    def _replace(self, token: Token, form: str) -> None:
        self.edits.append(Edit(token.start, token.end, _cased_as(form, token)))


@cache
def _elisions() -> dict[str, str]:
    """The elided beginnings, each with its apostrophe, the longest first."""
    table: dict[str, str] = {}
    for code in LANGUAGES:
        table.update(language_data(code, "typed")["elisions"])
    return dict(sorted(table.items(), key=lambda each: -len(each[0])))


@cache
def _beginnings() -> frozenset[str]:
    return word_class("signature") | word_class("courtesies")


def _cased_as(form: str, token: Token) -> str:
    return form[0].upper() + form[1:] if token.text[0].isupper() else form
