"""What a question and its answer say together: which words hold and which do not, on which days, by which ways. Pure.

« Faut-il une ordonnance ? » « Non. » denies the prescription, and so does « L'ordonnance n'est pas demandée. »
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache

from faqs.contradiction.facts import Fact, facts_of
from faqs.contradiction.words import WORDS, Group, asked_concepts, synonyms, values_in
from faqs.second_key.lexicon import Kind, Lexicon, Modality, lexicon_of
from faqs.second_key.reading import Reading, read_question
from faqs.second_key.text import names, unified
from knowledge.language.detection import language_of
from knowledge.language.folding import fold

_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=[^\W\da-zà-ÿ]|\d)|\n+")
_CLAUSE = re.compile(
    r"[.;:!?\n]+(?:\s+|$)|,\s+|\s(?:mais|but|although|et non|and not)\s"
    r"|\s(?=(?:sauf|except|unless|excepte|hors|sinon|otherwise)\b)"
)
_EXCEPTION = re.compile(r"(?:sauf|except|unless|excepte|hors)\b")
_PRONOUN = re.compile(r"\b(?:ils?|elles?|they|it|cela|ce|this)\b")
_SHORTENED = re.compile(r"\b[ldjmtsc]'")
_DAY_RANGE = re.compile(r"weekday(\d)\.? ?(?:au|a|to|through|thru|-|–) ?(?:le )?weekday(\d)")
_EVERY_DAY = frozenset(range(7))
#: « Peut-on … ? » and « Faut-il … ? » ask for a side of an axis.
_MODALITIES = {"allowed": Modality.PERMISSION, "needed": Modality.OBLIGATION}
#: The longest phrase of the lexicon that is looked for.
_PHRASE = 3
#: A longer answer speaks of much that the question does not ask: only its first sentence is its yes or no.
_LONG = 60
#: In a longer clause nobody knows what the « pas » denies.
_LONG_CLAUSE = 16
#: Words behind « sans » that it denies.
_LACKING = 3


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact with what its sentence speaks of."""

    fact: Fact
    about: frozenset[str]


@dataclass(frozen=True, slots=True)
class Clause:
    """`concepts`: what it speaks of, with the words for it; `sign`: 1 where what it says holds, -1 where it does not.

    `is_negated`: by a « pas », whatever else it says.
    """

    text: str
    concepts: dict[str, str]
    sign: int
    is_negated: bool
    lacking: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Exchange:
    """A question with its answer. Everything is read when it is first asked for."""

    question: str
    answer: str

    @cached_property
    def language(self) -> str:
        return language_of(f"{self.question} {self.answer}") or "fr"

    @property
    def lexicon(self) -> Lexicon:
        return lexicon_of(self.language)

    @cached_property
    def reading(self) -> Reading:
        return read_question(self.question, self.language)

    @cached_property
    def asked(self) -> str:
        return fold(unified(self.question))

    @cached_property
    def said(self) -> str:
        """The answer; of a long one the first sentence."""
        return fold(unified(self.sentences[0] if self.is_long else self.answer))

    @cached_property
    def sentences(self) -> list[str]:
        return [each.strip() for each in _SENTENCE.split(self.answer) if each.strip()] or [""]

    @cached_property
    def is_long(self) -> bool:
        return len(self.answer.split()) > _LONG

    @cached_property
    def words(self) -> list[str]:
        return _words(self.asked)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(self.lexicon.stem, (*self.words, *_words(self.said))))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(map(self.lexicon.stem, names(unified(self.question))))

    @cached_property
    def in_question(self) -> dict[str, str]:
        return concepts(self.asked, self.lexicon)

    @cached_property
    def subject(self) -> frozenset[str]:
        """The concepts of the question that say what it is about, without what anything is asked of (a price, a delay)."""
        plain = asked_concepts(self.language)
        return frozenset(
            concept
            for concept, word in self.in_question.items()
            if concept not in plain and not concept[0].isdigit() and not _is_of_a_group(word)
        )

    @cached_property
    def spoken_of(self) -> frozenset[str]:
        return frozenset((*self.in_question, *concepts(self.said, self.lexicon)))

    @cached_property
    def groups(self) -> frozenset[int]:
        """The groups of synonyms that the question and the answer speak of."""
        known = synonyms(self.language)
        return frozenset(group for c in self.spoken_of for group in known.get(c, ()))

    @cached_property
    def verdict(self) -> int:
        """Whether the answer says yes (1) or no (-1) to a question that asks for one of them; 0 for other questions."""
        if self.reading.kind is not Kind.YES_NO:
            return 0
        sign = _lead(self.said) or self._verdict_in_words()
        return -sign if self.reading.negations else sign

    def _verdict_in_words(self) -> int:
        """« Est-ce payant ? » « C'est gratuit. » is a no."""
        for group in WORDS.axes.values():
            asked = _sides(self.asked, group)
            told = self._told(group)
            if len(asked) == len(told) == 1:
                return asked.pop() * told.pop()
        return next((each.sign for each in self.clauses), 0)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        return tuple(_clauses(self.said, self.lexicon))

    @cached_property
    def signs(self) -> dict[str, frozenset[int]]:
        """Each concept with the signs under which it is spoken of."""
        found: dict[str, set[int]] = defaultdict(set)
        for clause in self.clauses:
            is_vague = clause.sign < 0 and len(clause.text.split()) > _LONG_CLAUSE
            for concept in clause.concepts:
                found[concept] |= {-1, 1} if is_vague else {clause.sign}
            for concept in clause.lacking:
                found[concept] = {-1}
        if self.verdict:
            for concept in self.in_question:
                found[concept] = found[concept] or {self.verdict}
        return {concept: frozenset(signs) for concept, signs in found.items()}

    def word_for(self, concept: str) -> str:
        told = (each.concepts[concept] for each in self.clauses if concept in each.concepts)
        return self.in_question.get(concept) or next(told, concept)

    @cached_property
    def limits(self) -> frozenset[str]:
        """What exceptions and conditions of the answer speak of, and the question does not."""
        limiting = (each for each in self.clauses if WORDS.limiting.search(each.text))
        found = {c: word for each in limiting for c, word in each.concepts.items()}
        plain = asked_concepts(self.language) | self.in_question.keys()
        return frozenset(c for c in found.keys() - plain if not WORDS.limiting.search(found[c]))

    @cached_property
    def stated(self) -> list[Stated]:
        """Every fact of the answer; « oui » to « est-ce gratuit ? » is a price. « Une » is a number where that is
        asked.
        """
        sentences = list(self.sentences)
        if self.reading.kind is Kind.HOW_MANY:
            sentences[0] = re.sub(r"^(?:[Uu]ne?|[Aa]n?|[Oo]ne)\b", "1", sentences[0])
        plain = asked_concepts(self.language)
        found = []
        for sentence in sentences:
            about = concepts(fold(unified(sentence)), self.lexicon).keys() - plain
            found += [Stated(fact, frozenset(about)) for fact in facts_of(sentence)]
        paid = {side * self.verdict for side in _sides(self.asked, WORDS.axes["paid"])}
        if paid == {-1} and not any(each.fact.kind == "money" for each in found):
            found.append(Stated(Fact("money", 0.0, "0 euro"), frozenset()))
        return found

    @cached_property
    def asked_facts(self) -> list[Fact]:
        return facts_of(self.question)

    def asks_about(self, axis: str) -> bool:
        if self._is_asked_by_its_verb(axis):
            return True
        return any(pattern.search(self.asked) for pattern in WORDS.axes[axis].values())

    def _is_asked_by_its_verb(self, axis: str) -> bool:
        return bool(self.verdict) and axis in _MODALITIES and self.reading.modality is _MODALITIES[axis]

    def sides_of(self, axis: str) -> set[int]:
        """On which sides of an axis the answer is, in its own words or as a yes or a no to those of the question."""
        group = WORDS.axes[axis]
        if self._is_asked_by_its_verb(axis):
            signs = {each.sign for each in self.clauses if each.concepts}
            return signs if len(signs) > 1 else {self.verdict}
        return self._told(group) or {side * self.verdict for side in _sides(self.asked, group)} - {0}

    def _told(self, group: Group) -> set[int]:
        return {-side if clause.is_negated else side for clause in self.clauses for side in _sides(clause.text, group)}

    @cached_property
    def days(self) -> dict[int, frozenset[int]]:
        """Weekdays by the sign under which they are spoken of."""
        found: dict[int, frozenset[int]] = {1: frozenset(), -1: frozenset()}
        for clause in self.clauses:
            sign = -1 if clause.sign < 0 or WORDS.closed.search(clause.text) else 1
            found[sign] |= days_in(clause.text)
        asked = days_in(self.asked)
        if self.verdict and not asked & (found[1] | found[-1]):
            found[self.verdict] |= asked
        if WORDS.all_days.search(self.said):
            found[1] |= _EVERY_DAY - found[-1]
        return found

    @cached_property
    def channels(self) -> dict[int, frozenset[str]]:
        """Ways of doing it by the sign under which they are spoken of."""
        found: dict[int, frozenset[str]] = {1: frozenset(), -1: frozenset()}
        for clause in self.clauses:
            found[clause.sign] |= values_in(clause.text, WORDS.channels)
        if self.verdict:
            found[self.verdict] |= values_in(self.asked, WORDS.channels)
        return found

    @cached_property
    def is_exclusive(self) -> bool:
        return bool(WORDS.exclusive.search(self.said))


@lru_cache(maxsize=256)
def read_exchange(question: str, answer: str) -> Exchange:
    return Exchange(question, answer)


def concepts(folded: str, lexicon: Lexicon) -> dict[str, str]:
    """What a folded text speaks of, as the lexicon of its language names it, with the word that says so."""
    small = lexicon.small | lexicon.words.negations | lexicon.words.negation_openers
    words = [word for word in _words(folded) if word not in small and len(word) > 1]
    found = {lexicon.concept((word,)): word for word in words}
    stems = [lexicon.stem(word) for word in words]
    for size in range(2, _PHRASE + 1):
        for start in range(len(stems) - size + 1):
            if concept := lexicon.phrases.get(tuple(stems[start : start + size])):
                found[concept] = " ".join(words[start : start + size])
    return found


def days_in(folded: str) -> frozenset[int]:
    """Weekdays, Monday 0; « du lundi au vendredi » is five of them."""
    for number, pattern in enumerate(WORDS.weekdays):
        folded = pattern.sub(f"weekday{number}", folded)
    found = {int(number) for number in re.findall(r"weekday(\d)", folded)}
    for first, last in _DAY_RANGE.findall(folded):
        found.update(range(int(first), int(last) + 1))
    if WORDS.weekend.search(folded):
        found |= {5, 6}
    if WORDS.working_days.search(folded):
        found |= {0, 1, 2, 3, 4}
    return frozenset(found)


def _lead(said: str) -> int:
    """1 for an answer that begins with yes, -1 with no (« malheureusement non »), 0 where it begins otherwise."""
    words = re.findall(r"[a-z']+", said[:60])
    if any(WORDS.no.match(" ".join(words[start:])) for start in (0, 1)):
        return -1
    return 1 if WORDS.yes.match(" ".join(words)) else 0


def _clauses(folded: str, lexicon: Lexicon) -> list[Clause]:
    found: list[Clause] = []
    for part in _CLAUSE.split(folded):
        text = " ".join(_words(part))
        if not text:
            continue
        is_negated = bool(WORDS.negation.search(WORDS.not_negation.sub(" ", text)))
        sign = -1 if is_negated is not bool(WORDS.refusal.search(text)) else 1
        said = concepts(part, lexicon)
        if found and _EXCEPTION.match(part):
            sign = -found[-1].sign
        elif found and sign < 0 < found[-1].sign and _PRONOUN.search(text):
            # "From May to September they are not."
            said = {**found[-1].concepts, **said}
        lacking = (text[m.end() :].split()[:_LACKING] for m in WORDS.lacking.finditer(text))
        denied = (concepts(" ".join(words), lexicon) for words in lacking)
        denied_concepts = frozenset(c for each in denied for c in each)
        found.append(Clause(part, said, sign, is_negated, denied_concepts))
    return found


def _sides(text: str, group: Group) -> set[int]:
    return {1 if name == "plus" else -1 for name in values_in(text, group)}


@lru_cache(maxsize=4096)
def _is_of_a_group(word: str) -> bool:
    """« Adulte » says for whom, and is no subject."""
    return any(p.fullmatch(word) for group in WORDS.groups.values() for p in group.values())


def _words(folded: str) -> list[str]:
    text = folded.replace("n't", " not").replace("cannot", "can not").replace("qu'", "que ")
    return re.findall(r"[a-z0-9]+", _SHORTENED.sub(" ", re.sub(r"\bn'", "ne ", text)))
