"""The shape of a language's lexicon, and how its plain data are compiled for `faqs.question_reading`.

The words themselves are data in `lexicon_fr.py` and `lexicon_en.py`; this module turns them into lookup tables once,
at import. All entries are written folded: lower case, without accents, without apostrophes. Callers read a compiled
`Lexicon` and never change it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from faqs.gates import rewrites


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


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _groups(text: str) -> list[list[tuple[str, ...]]]:
    """One group of synonyms a line, alternatives between bars, the first one names the concept."""
    lines = (line.strip() for line in text.splitlines())
    return [[tuple(entry.split()) for entry in line.split("|")] for line in lines if line]


def _patterns(rows: Iterable[tuple[str, str]]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rows)


@dataclass(frozen=True, slots=True)
class LexiconData:
    """What one language's module provides, in plain words."""

    language: str
    stem: Callable[[str], str]
    #: Words that tell this language apart from the other one.
    signature: frozenset[str]
    #: Short forms that are written for one word only ("appt"), and that word.
    abbreviations: Mapping[str, str]
    rewrites: tuple[tuple[str, str], ...]
    kinds: tuple[tuple[str, str], ...]
    loose_kinds: tuple[tuple[str, str], ...]
    #: A conjunction with another question right behind it (« … et combien »), and the words that can begin it.
    asks_again: str
    leading_on: frozenset[str]
    #: Words that always ask, with the kinds that they ask for.
    question_words: Mapping[str, frozenset[Kind]]
    #: A time that somebody has (`deadline`) against the time that something takes (`duration`), before the rewrites.
    spans: tuple[tuple[str, str], ...]
    modalities: tuple[tuple[str, str], ...]
    #: A past that no paraphrase in the present has (« ouvrait »).
    imperfect: str
    future: str
    #: Who does something to whom, between the asker and who is asked.
    acts: tuple[tuple[str, str], ...]
    past: str
    present: str
    ignored: frozenset[str]
    negations: frozenset[str]
    #: Words that open a negation which another word completes (« ne … pas »).
    negation_openers: frozenset[str]
    #: Negative words that only strengthen a negation before them (« sans aucun »).
    concordant: frozenset[str]
    #: A verb may stand before or after its subject, and nouns carry a determiner (true of French).
    has_inversion: bool
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
    #: A pronoun for someone else than the two who speak, impersonal ones left out.
    third_person: str
    markers: Mapping[Marker, str]
    #: Prepositions by what they say, finer than `markers`, and the groups of them that paraphrases exchange (`none`:
    #: no preposition). All others contradict each other.
    relations: Mapping[str, str]
    alike: str
    #: The same before a number or a date.
    alike_before_numbers: str
    #: Comparators that stand right before a number (« au-dessus de 10 kg »), and right after (« 10 kg et plus »).
    bounds: str
    bounds_after: str
    #: Words whose own preposition says nothing (« droit à », "get in touch with").
    governing: frozenset[str]
    #: Words that make « a » a verb (« on m'a volé », « a été »); empty where no preposition is spelled like one.
    before_auxiliary: frozenset[str]
    after_auxiliary: frozenset[str]
    #: Words that make the order of a sentence its meaning (« payer puis signer »).
    sequence: str
    #: Conjunctions that join, and that leave a choice.
    joining: frozenset[str]
    choosing: frozenset[str]
    #: Words that make a weak preposition (« de », « à ») a direction.
    directional: frozenset[str]
    synonyms: str
    antonyms: str
    negative_prefixes: tuple[str, ...]
    answers_in_kind: Mapping[Kind, frozenset[str]]
    scope: frozenset[str]
    temporal: frozenset[str]
    #: Pairs of real words that look like a typing error of each other.
    lookalikes: frozenset[str]
    #: Real words that a slip in a small word would give ("cold" is not "could").
    not_slips: frozenset[str]
    #: Small words that a phrase may hold or leave out (« carte d'identité », « carte identité »).
    linking: frozenset[str]
    #: Words that say next to nothing beside a question word (« comment obtenir un acte », « … avoir un acte »).
    weak: frozenset[str]


def _slips_of(word: str) -> set[str]:
    """Two letters exchanged, one doubled, one left out; the first and the last stay."""
    inner = range(1, len(word) - 1)
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in inner}
    doubled = {word[:i] + word[i] + word[i:] for i in inner}
    dropped = {word[:i] + word[i + 1 :] for i in inner}
    return (swapped | doubled | dropped) - {word}


def _alike(text: str) -> frozenset[frozenset[str]]:
    """All pairs within each group."""
    groups = [line.split() for line in text.splitlines() if line.strip()]
    return frozenset(frozenset((a, b)) for group in groups for a in group for b in group)


def _bounds(text: str) -> dict[str, tuple[tuple[tuple[str, ...], str], ...]]:
    """First word → the comparators that begin with it, longest first, each with its class."""
    table: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for (name,), *entries in _groups(text):
        for entry in entries:
            table.setdefault(entry[0], []).append((entry, name))
    return {
        first: tuple(sorted(rows, key=lambda row: len(row[0]), reverse=True))
        for first, rows in table.items()
    }


class Lexicon:
    """Compiled tables of one language."""

    def __init__(self, data: LexiconData) -> None:
        self.data = data
        self.stem = lru_cache(maxsize=16_384)(data.stem)
        self.rewrites = rewrites(data.rewrites)
        self.kinds = tuple((re.compile(p), Kind(k)) for p, k in data.kinds)
        self.loose_kinds = tuple((re.compile(p), Kind(k)) for p, k in data.loose_kinds)
        self.asks_again = re.compile(data.asks_again)
        self.question_words = tuple(
            (word, re.compile(rf"\b{word}\b"), kinds) for word, kinds in data.question_words.items()
        )
        self.spans = tuple((re.compile(pattern), span) for pattern, span in data.spans)
        self.modalities = tuple((re.compile(p), Modality(m)) for p, m in data.modalities)
        self.imperfect = re.compile(data.imperfect)
        self.sequence = re.compile(data.sequence)
        self.future = re.compile(data.future)
        self.third_person = re.compile(data.third_person)
        self.acts = _patterns(data.acts)
        self.past = re.compile(data.past)
        self.present = re.compile(data.present)
        self.markers = {
            word: marker for marker, row in data.markers.items() for word in row.split()
        }
        self.relations = {
            word: relation for relation, row in data.relations.items() for word in row.split()
        }
        self.alike = _alike(data.alike)
        self.alike_before_numbers = _alike(data.alike_before_numbers)
        self.bounds = _bounds(data.bounds)
        self.bounds_after = _bounds(data.bounds_after)

    @cached_property
    def owners(self) -> dict[str, str]:
        return (
            dict.fromkeys(self.data.mine, "mine")
            | dict.fromkeys(self.data.yours, "yours")
            | dict.fromkeys(self.data.theirs, "theirs")
            | dict.fromkeys(self.data.others, "others")
        )

    @cached_property
    def inert(self) -> frozenset[str]:
        """Small words that say nothing about the word behind them."""
        data = self.data
        telling = {*self.markers, *self.relations, *self.owners}
        return data.ignored - telling - data.determiners - data.joining - data.choosing

    @cached_property
    def phrases(self) -> dict[tuple[str, ...], str]:
        """Stems of every entry of the synonym groups → the concept's name."""
        table: dict[tuple[str, ...], str] = {}
        for group in _groups(self.data.synonyms):
            concept = " ".join(group[0])
            for entry in group:
                table.setdefault(self.key(entry), concept)
        return table

    def knows(self, word: str) -> bool:
        return (self.stem(word),) in self.phrases

    @cached_property
    def slips(self) -> dict[str, str]:
        """Each slip of the finger in a longer small word → that word (« conbien » is no slip, « combein » is).

        Short forms with their words as well.
        """
        data = self.data
        small = data.ignored | data.negations | data.determiners | frozenset(self.markers)
        found: dict[str, str] = {}
        for word in sorted(small):
            if len(word) >= 5 and word.isalpha():
                found.update(dict.fromkeys(_slips_of(word), word))
        taken = small | data.signature | data.lookalikes | data.temporal | data.scope
        return {
            slip: word
            for slip, word in found.items()
            if slip not in taken and not self.knows(slip) and slip not in data.not_slips
        } | dict(data.abbreviations)

    @cached_property
    def phrase_lengths(self) -> dict[str, tuple[int, ...]]:
        """First stem of each entry of several words → the lengths to try, longest first."""
        lengths: dict[str, set[int]] = {}
        for key in self.phrases:
            if len(key) > 1:
                lengths.setdefault(key[0], set()).add(len(key))
        return {first: tuple(sorted(row, reverse=True)) for first, row in lengths.items()}

    def key(self, entry: Iterable[str]) -> tuple[str, ...]:
        """The stems of an entry without its linking words, unless it has no others."""
        words_of = tuple(entry)
        kept = [word for word in words_of if word not in self.data.linking] or list(words_of)
        return tuple(self.stem(word) for word in kept)

    @cached_property
    def opposites(self) -> frozenset[frozenset[str]]:
        pairs: set[frozenset[str]] = set()
        for group in _groups(self.data.antonyms):
            first, second = (self.concept(entry) for entry in group)
            pairs.add(frozenset((first, second)))
        return frozenset(pairs)

    @cached_property
    def consumed(self) -> Mapping[Kind, frozenset[str]]:
        """Concepts that say no more than the kind already does (« coûter » in « combien »)."""
        return {
            kind: frozenset(self.concept((word,)) for word in row)
            for kind, row in self.data.answers_in_kind.items()
        }

    @cached_property
    def scope(self) -> frozenset[str]:
        return frozenset(self.concept((word,)) for word in self.data.scope)

    @cached_property
    def temporal(self) -> frozenset[str]:
        return frozenset(self.concept((word,)) for word in self.data.temporal)

    @cached_property
    def directional(self) -> frozenset[str]:
        return frozenset(self.concept((word,)) for word in self.data.directional)

    @cached_property
    def counters(self) -> frozenset[str]:
        return frozenset(self.concept((word,)) for word in ("numero", "number"))

    @cached_property
    def weak(self) -> frozenset[str]:
        return frozenset(self.concept((word,)) for word in self.data.weak)

    def concept(self, entry: tuple[str, ...]) -> str:
        stems = self.key(entry)
        return self.phrases.get(stems, " ".join(stems))
