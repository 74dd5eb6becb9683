"""Small letters, apostrophes, accents and mistyped words: how the words of a question are spelled. Pure.

Names and codes are left alone: what holds a digit or a sign, what has a capital inside a sentence. A word that is one
is never changed into another; one that is none is mended where a known word is one slip of the finger away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from knowledge.language.classes import LANGUAGES, language_data, word_class
from knowledge.language.folding import fold
from knowledge.language.typed.phrases import phrases
from knowledge.language.typed.tokens import Token, tokens_of
from knowledge.language.typed.vocabulary import Vocabulary

#: Fewer words or letters in capitals are an acronym or a title, not shouting.
_SHOUTED_WORDS, _SHOUTED_LETTERS = 2, 8
#: Capitals of so few letters that no list knows are an acronym, even inside shouting.
_ACRONYM_LETTERS = 5
#: Bounds the work for one question: further unknown words stay as typed.
MOST_MENDED = 12
_VOWELS = frozenset("aeiouyh")
#: How long the rest of a word is that lost its apostrophe (« leau », « jaimerais »); shorter ones stand among the
#: forms.
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
    first = edits[0].start
    return text if edits[0].start else text[:first] + text[first].upper() + text[first + 1 :]


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
    if vocabulary.is_capital(token.folded):
        return vocabulary.forms[token.folded]
    if len(token.text) <= _ACRONYM_LETTERS and len(token.text) > 1:
        if not vocabulary.knows(token.folded) and not _is_form(token.folded):
            return token.text
    return token.text.lower()


def _is_form(folded: str) -> bool:
    return any(phrases("forms", code).length_at([folded], 0) for code in LANGUAGES)


def spelled(text: str, vocabulary: Vocabulary, language: str) -> tuple[str, str]:
    """The text with its signs, accents and letters, as surely as it can be told, and as it is guessed where that
    differs.
    """
    return _Speller(text, vocabulary, language).read()


class _Speller:
    """One pass over the words of one text."""

    def __init__(self, text: str, vocabulary: Vocabulary, language: str) -> None:
        self.text, self.vocabulary, self.language = text, vocabulary, language
        self.tokens = tokens_of(text)
        self.words = [token.folded for token in self.tokens]
        self.sure: list[Edit] = []
        self.guessed: list[Edit] = []
        #: Who writes accents writes those that are wanted.
        self._lacks_accents = text.isascii()
        self._left = MOST_MENDED

    def read(self) -> tuple[str, str]:
        at = 0
        while at < len(self.tokens):
            at += self._read_at(at)
        both = sorted([*self.sure, *self.guessed], key=lambda edit: edit.start)
        return applied(self.text, self.sure), applied(self.text, both)

    def _read_at(self, at: int) -> int:
        """How many words were read."""
        token = self.tokens[at]
        if token.is_protected:
            return 1
        if taken := self._read_form(at):
            return taken
        if self._is_name(token):
            return 1
        if self._read_elision(at):
            return 1
        if self.vocabulary.knows(token.folded):
            self._restore_accents(token)
        elif not self._split_elision(token):
            self._mend(token)
        return 1

    def _is_name(self, token: Token) -> bool:
        """A capital inside a sentence, or capitals."""
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
            if read.endswith("'") and self.text[last.end : last.end + 1] in "'’ ":
                return self._read_before(first, last, read)
            written = self.text[first.start : last.end]
            if written.replace("’", "'") != read:
                self.sure.append(Edit(first.start, last.end, read))
            return length
        return 0

    def _read_before(self, first: Token, last: Token, read: str) -> int:
        """A form that ends with an apostrophe takes the space or the apostrophe behind it."""
        if self.text[first.start : last.end + 1].replace("’", "'") != read:
            self.sure.append(Edit(first.start, last.end + 1, read))
        return self.tokens.index(last) - self.tokens.index(first) + 1

    def _may_read(self, code: str, at: int, length: int) -> bool:
        """In a text of that language; elsewhere a single word that no language has."""
        run = self.tokens[at : at + length]
        if any(token.is_protected or self._is_name(token) for token in run):
            return False
        if any(self._has_apostrophe(token) for token in run) and length == 1:
            return False
        if self.language == code:
            return True
        return (length > 1 and not self.language) or not self.vocabulary.knows(run[0].folded)

    def _has_apostrophe(self, token: Token) -> bool:
        around = self.text[max(token.start - 1, 0) : token.start]
        return around in ("'", "’") or self.text[token.end : token.end + 1] in ("'", "’")

    def _read_elision(self, at: int) -> bool:
        """« l attestation »: a letter alone before a vowel."""
        token = self.tokens[at]
        elisions = _elisions()
        if token.folded not in elisions or self.language == "en" or at + 1 == len(self.tokens):
            return False
        following = self.tokens[at + 1]
        if self.text[token.end : following.start] != " " or following.folded[0] not in _VOWELS:
            return False
        if following.is_protected or (len(following.folded) == 1 and following.folded != "y"):
            return False
        read = _cased_as(elisions[token.folded], token)
        self.sure.append(Edit(token.start, following.start, read))
        return True

    def _restore_accents(self, token: Token) -> None:
        if not self._lacks_accents or self._has_apostrophe_after(token):
            return
        form = self.vocabulary.spelled(token.folded, self.language)
        if form and form != token.text:
            self._replace(token, form)

    def _has_apostrophe_after(self, token: Token) -> bool:
        return self.text[token.end : token.end + 1] in ("'", "’")

    def _split_elision(self, token: Token) -> bool:
        """« lattestation »: no word, but one behind its first letter."""
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
        mending = self.vocabulary.mended(token.folded, self.language)
        if mending is None:
            return
        # With a capital it may be a name, unless a question or a greeting begins so.
        is_small = token.text == token.text.lower() or fold(mending.word) in _beginnings()
        is_sure = mending.is_sure and is_small
        edits = self.sure if is_sure else self.guessed
        edits.append(Edit(token.start, token.end, _cased_as(mending.word, token)))

    def _replace(self, token: Token, form: str) -> None:
        self.sure.append(Edit(token.start, token.end, _cased_as(form, token)))


@cache
def _elisions() -> dict[str, str]:
    """The longest first."""
    table: dict[str, str] = {}
    for code in LANGUAGES:
        table.update(language_data(code, "typed")["elisions"])
    return dict(sorted(table.items(), key=lambda each: -len(each[0])))


@cache
def _beginnings() -> frozenset[str]:
    return word_class("signature") | word_class("courtesies")


def _cased_as(form: str, token: Token) -> str:
    return form[0].upper() + form[1:] if token.text[0].isupper() else form
