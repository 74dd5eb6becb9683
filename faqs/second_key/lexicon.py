"""The words, expressions and rewrite rules of one language, compiled from `lexicon/<language>*.toml`. Read only.

Entries are written folded. A rewrite rule has an id, a `why`, what it matches (`match`, a regular expression or several;
or `phrases`, whole words between bars), what it puts `to` in its place, and examples that run as tests (`same`,
`different`). `{name}` stands for a named expression. Another language is another file, and its stemmer.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from knowledge.language.words import light_stem, word_class

_FRAGMENT = re.compile(r"\{([a-z]\w*)\}")
_BAR = re.compile(r"\s+\|\s+")

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    why: str
    pattern: re.Pattern[str]
    to: str
    same: Pairs = ()
    different: Pairs = ()


class Fragments:
    """Named parts of expressions; a part may hold parts that were named before it."""

    def __init__(self, written: Mapping[str, str]) -> None:
        self._parts: dict[str, str] = {}
        for name, text in written.items():
            self._parts[name] = self.one_of(text)

    def one_of(self, text: str) -> str:
        """An expression out of alternatives between bars."""
        return f"(?:{'|'.join(map(self.filled, alternatives(text)))})"

    def filled(self, text: str) -> str:
        return _FRAGMENT.sub(lambda match: self._parts[match[1]], text)

    def expression(self, written: str | list[str]) -> re.Pattern[str]:
        parts = [written] if isinstance(written, str) else written
        return re.compile("|".join(map(self.filled, parts)))

    def rules(self, table: Mapping[str, Mapping[str, Any]]) -> tuple[Rule, ...]:
        return tuple(self._rule(name, row) for name, row in table.items())

    def _rule(self, name: str, row: Mapping[str, Any]) -> Rule:
        phrases = row.get("phrases")
        return Rule(
            id=name,
            why=row["why"],
            pattern=self.expression(row["match"] if phrases is None else self.phrases(phrases)),
            to=row["to"],
            same=tuple((one, two) for one, two in row.get("same", ())),
            different=tuple((one, two) for one, two in row.get("different", ())),
        )

    def phrases(self, text: str) -> str:
        return rf"\b{self.one_of(text)}\b"


def alternatives(text: str) -> list[str]:
    return _BAR.split(text.strip())


def rewritten(text: str, rules: Iterable[Rule]) -> str:
    """The text after every rule in turn."""
    for rule in rules:
        text = rule.pattern.sub(rule.to, text)
    return text


_FOLDER = Path(__file__).parent / "lexicon"


class Marker(StrEnum):
    """What a preposition says about the words after it; only directions and agents can contradict each other."""

    FROM = "from"
    TO = "to"
    OF = "of"
    AT = "at"
    FOR = "for"
    BY = "by"
    WITH = "with"
    PLACE = "place"
    CLAUSE = "clause"


class Kind(StrEnum):
    """What a question asks for. `NONE`: a statement, a title or keywords."""

    NONE = "none"
    WHO = "who"
    WHEN = "when"
    WHERE = "where"
    WHY = "why"
    HOW = "how"
    WHAT = "what"
    HOW_MUCH = "how_much"
    HOW_MANY = "how_many"
    HOW_LONG = "how_long"
    HOW_OFTEN = "how_often"
    YES_NO = "yes_no"


class Modality(StrEnum):
    """Being allowed, being obliged and being well advised are three different questions."""

    PERMISSION = "permission"
    OBLIGATION = "obligation"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Classes of words, the table `[words]`."""

    #: Small words without content, which no item is made of.
    ignored: frozenset[str]
    #: Single letters that are words, or what an elision leaves behind.
    letters: frozenset[str]
    #: Conjunctions that can begin another question (« … et combien »).
    leading_on: frozenset[str]
    negations: frozenset[str]
    #: Words that open a negation which another word completes (« ne … pas »).
    negation_openers: frozenset[str]
    #: Negative words that only strengthen a negation before them (« sans aucun »).
    concordant: frozenset[str]
    #: The asker as the one who acts, and as the one who undergoes; and who is asked.
    subjects: frozenset[str]
    objects: frozenset[str]
    addressees: frozenset[str]
    determiners: frozenset[str]
    #: What belongs to the asker, and what belongs to who is asked.
    mine: frozenset[str]
    yours: frozenset[str]
    #: What belongs to neither of the two who speak: to anyone (« son » is also that of « on »), or to others.
    theirs: frozenset[str]
    others: frozenset[str]
    #: Words whose own preposition says nothing (« droit à », "get in touch with").
    governing: frozenset[str]
    #: Words that make « a » a verb (« on m'a volé », « a été »); empty where no preposition is spelled like one.
    before_auxiliary: frozenset[str]
    after_auxiliary: frozenset[str]
    #: Conjunctions that join, and that leave a choice.
    joining: frozenset[str]
    choosing: frozenset[str]
    #: Words that make a weak preposition (« de », « à ») a direction.
    directional: frozenset[str]
    #: Words that make a question about a part, a rank or a degree.
    scope: frozenset[str]
    temporal: frozenset[str]
    #: Pairs of real words that look like a typing error of each other.
    lookalikes: frozenset[str]
    #: Small words that a phrase may hold or leave out (« carte d'identité », « carte identité »).
    linking: frozenset[str]
    #: Words that say next to nothing beside a question word (« comment obtenir un acte », « … avoir un acte »).
    weak: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressions:
    """The table `[expressions]`; an empty one is found nowhere."""

    #: A conjunction with another question right behind it.
    asks_again: re.Pattern[str]
    #: A past that no paraphrase in the present has (« ouvrait »).
    imperfect: re.Pattern[str]
    past: re.Pattern[str]
    present: re.Pattern[str]
    future: re.Pattern[str]
    #: A pronoun for someone else than the two who speak, impersonal ones left out.
    third_person: re.Pattern[str]
    #: Words that make the order of a sentence its meaning (« payer puis signer »).
    sequence: re.Pattern[str]
    #: In the text as written: a verb before its subject (« ferment-ils »), and what is done to a thing that is asked for.
    inversion: re.Pattern[str]
    which_done: re.Pattern[str]


#: A comparator in its words, with its class.
Bound = tuple[tuple[str, ...], str]


class Lexicon:
    """One language."""

    def __init__(self, language: str, data: Mapping[str, Any]) -> None:
        self.data = data
        self.language = language
        #: A verb may stand before or after its subject, and nouns carry a determiner (true of French).
        self.has_inversion: bool = data["has_inversion"]
        self.negative_prefixes: tuple[str, ...] = tuple(data["negative_prefixes"].split())
        #: Short forms that are written for one word only ("appt"), and that word.
        self.abbreviations: dict[str, str] = data["abbreviations"]
        #: Words that tell this language apart from the other one.
        self.signature = word_class("signature", language)
        self.words = Words(**{name: frozenset(row.split()) for name, row in data["words"].items()})
        fragments = Fragments(data["fragments"])
        self.expressions = Expressions(**{name: fragments.expression(row) for name, row in data["expressions"].items()})
        self.accents = fragments.rules(data["accents"])
        self.contractions = fragments.rules(data["contractions"])
        self.rewrites = fragments.rules(data["rewrites"])
        signs = data["signs"]
        self.kinds = [(p, Kind(k)) for k, p in _patterns(signs["kinds"], fragments)]
        self.loose_kinds = [(p, Kind(k)) for k, p in _patterns(signs["loose_kinds"], fragments)]
        self.modalities = [(p, Modality(m)) for m, p in _patterns(signs["modalities"], fragments)]
        #: A time that somebody has (`deadline`) against the time that something takes (`duration`), before the
        #: rewrites.
        self.spans = [(pattern, name) for name, pattern in _patterns(signs["spans"], fragments)]
        #: Who does something to whom, between the asker and who is asked.
        self.acts = [(pattern, name) for name, pattern in _patterns(signs["acts"], fragments)]
        #: Words that always ask, with the kinds that they ask for.
        self.question_words = [
            (word, re.compile(rf"\b{word}\b"), frozenset(map(Kind, kinds.split())))
            for word, kinds in data["question_words"].items()
        ]
        self.markers = {word: Marker(name) for word, name in _by_word(data["markers"])}
        #: Prepositions by what they say, finer than `markers`, and those that paraphrases exchange (`none`: no
        #: preposition). All others contradict each other.
        self.relations = dict(_by_word(data["relations"]))
        self.alike = _pairs_within(data["alike"])
        self.alike_before_numbers = _pairs_within(data["alike_before_numbers"])
        #: Comparators that stand right before a number (« au-dessus de 10 kg »), and right after (« 10 kg et plus »).
        self.bounds = _bounds(data["bounds"])
        self.bounds_after = _bounds(data["bounds_after"])
        classes = self.words.scope, self.words.temporal, self.words.directional, self.words.weak
        self.scope, self.temporal, self.directional, self.weak = map(self.concepts, classes)

    def stem(self, word: str) -> str:
        return light_stem(word, self.language)

    @cached_property
    def owners(self) -> dict[str, str]:
        owning = ("mine", "yours", "theirs", "others")
        return {word: owner for owner in owning for word in getattr(self.words, owner)}

    @cached_property
    def small(self) -> frozenset[str]:
        """Words that no item is made of."""
        return self.words.ignored | self.words.determiners | frozenset(self.markers)

    @cached_property
    def inert(self) -> frozenset[str]:
        """Small words that say nothing about the word behind them."""
        telling = {*self.markers, *self.relations, *self.owners}
        words = self.words
        return words.ignored - telling - words.determiners - words.joining - words.choosing

    @cached_property
    def phrases(self) -> dict[tuple[str, ...], str]:
        """Stems of every entry of the synonym groups → the concept's name."""
        table: dict[tuple[str, ...], str] = {}
        for group in _groups(self.data["synonyms"]):
            concept = " ".join(group[0])
            for entry in group:
                table.setdefault(self.key(entry), concept)
        return table

    def knows(self, word: str) -> bool:
        return (self.stem(word),) in self.phrases

    @cached_property
    def phrase_lengths(self) -> dict[str, tuple[int, ...]]:
        """First stem of each entry → the lengths of entries of several words to try, longest first."""
        lengths: dict[str, set[int]] = {}
        for key in self.phrases:
            if len(key) > 1:
                lengths.setdefault(key[0], set()).add(len(key))
        return {first: tuple(sorted(row, reverse=True)) for first, row in lengths.items()}

    def key(self, entry: Iterable[str]) -> tuple[str, ...]:
        """The stems of an entry without its linking words, unless it has no others."""
        written = tuple(entry)
        kept = [word for word in written if word not in self.words.linking] or written
        return tuple(self.stem(word) for word in kept)

    def concept(self, entry: tuple[str, ...]) -> str:
        stems = self.key(entry)
        return self.phrases.get(stems, " ".join(stems))

    def concepts(self, words: Iterable[str]) -> frozenset[str]:
        return frozenset(self.concept((word,)) for word in words)

    @cached_property
    def opposites(self) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(self.concept(entry) for entry in group) for group in _groups(self.data["antonyms"]))

    @cached_property
    def consumed(self) -> dict[Kind, frozenset[str]]:
        """Concepts that say no more than the kind already does (« coûter » in « combien »)."""
        table = self.data["answers_in_kind"]
        return {Kind(kind): self.concepts(row.split()) for kind, row in table.items()}


@lru_cache
def lexicon_of(language: str) -> Lexicon:
    """Read and compiled at the first question in the language."""
    files = (_FOLDER / f"{language}{part}.toml" for part in ("", "_rules"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return Lexicon(language, tomllib.loads(text))


def _groups(text: str) -> list[list[tuple[str, ...]]]:
    """Groups between semicolons, the entries of one between bars; the first entry names the concept."""
    return [[tuple(entry.split()) for entry in alternatives(group)] for group in text.split(";") if group.strip()]


def _patterns(
    rows: Iterable[tuple[str, str | list[str]]], fragments: Fragments
) -> Iterator[tuple[str, re.Pattern[str]]]:
    return ((name, fragments.expression(written)) for name, written in rows)


def _by_word(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((word, name) for name, row in table.items() for word in row.split())


def _pairs_within(groups: str) -> frozenset[frozenset[str]]:
    rows = [group.split() for group in groups.split(";")]
    return frozenset(frozenset((a, b)) for row in rows for a in row for b in row)


def _bounds(table: Mapping[str, str]) -> dict[str, tuple[Bound, ...]]:
    """First word → the comparators that begin with it, longest first, each with its class."""
    found: dict[str, list[Bound]] = {}
    for name, row in table.items():
        for entry in alternatives(row):
            words = tuple(entry.split())
            found.setdefault(words[0], []).append((words, name))
    return {first: tuple(sorted(rows, key=lambda row: len(row[0]), reverse=True)) for first, rows in found.items()}
