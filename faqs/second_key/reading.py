"""What one question says, as far as plain rules can tell: its kind, its words as concepts, its numbers, its negations.

`read_question` is pure, deterministic and cached; it knows French and English through their lexicons and understands
neither. What it finds is for the vetoes alone.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from faqs.second_key.items import Item, Items
from faqs.second_key.lexicon import Kind, Lexicon, Modality, lexicon_of
from faqs.second_key.quantities import tokens
from faqs.second_key.text import names, plain, unified
from knowledge.language.detection import language_of
from knowledge.language.folding import fold

#: Longer texts are not compared: what stands beyond would be ignored.
MAX_CHARACTERS = 2_000
_PAUSES = frozenset(",:;?!.")
_CLAUSE = re.compile(r"(?:[,:;!?]|\.(?!\d))+")
_PASSIVE = frozenset("be is are was were been being est sont etre ete sera seront".split())
#: « Se faire rembourser » is being refunded.
_ONESELF = frozenset("me m te t se s nous vous".split())
_BEING = _PASSIVE | frozenset("am suis etait etaient faire get gets got getting".split())


@dataclass(frozen=True, slots=True)
class Reading:
    lexicon: Lexicon
    kind: Kind
    #: What it asks for besides, by another question word; empty for one question.
    further: frozenset[Kind]
    #: `deadline` for the time that somebody has, `duration` for the time that something takes, `waiting` until one has
    #: it, and `lasting` from then on; `cost` and `received` for amounts; empty for none.
    span: str
    #: « Combien coûte », and not « combien de ».
    asks_price: bool
    modality: Modality | None
    tense: str
    items: tuple[Item, ...]
    negations: tuple[str, ...]
    #: The concept that a lone negation bears on.
    negated: str
    person: str
    #: « je vous … » or « vous me … »: who acts on whom, of the two who speak.
    act: str
    is_passive: bool
    #: The words close behind a form of "be" that is no « est-ce que »: as participles they tell what is done to its
    #: subject.
    behind_being: frozenset[str]
    #: « on », who is nobody.
    is_impersonal: bool
    #: What comes first and what comes next is said in so many words.
    is_sequence: bool
    #: « vous », "you": whose things « vos » and "your" are is then open.
    addresses: bool


def read_pair(first: str, second: str) -> tuple[Reading, Reading]:
    """Read both; a question too short to show its language is read in the other's."""
    one, two = language_of(first), language_of(second)
    return read_question(first, one or two or "fr"), read_question(second, two or one or "fr")


@lru_cache(maxsize=4096)
def read_question(text: str, language: str) -> Reading:
    lexicon = lexicon_of(language)
    text = unified(text)
    written = plain(text, lexicon)
    words = tokens(written)
    kind = _kind(written, lexicon)
    if kind is Kind.NONE and lexicon.expressions.inversion.search(fold(text)):
        kind = Kind.YES_NO
    walk = Items(words, names(text), kind, lexicon)
    items = walk.found
    negations, negated = _negations(words, items, lexicon)
    expressions = lexicon.expressions
    return Reading(
        lexicon=lexicon,
        kind=kind,
        further=_further(written, words, kind, lexicon),
        span=_span(text, lexicon) if kind in (Kind.HOW_LONG, Kind.HOW_MUCH) else "",
        asks_price=kind is Kind.HOW_MUCH and walk.has_consumed,
        modality=next((m for pattern, m in lexicon.modalities if pattern.search(written)), None),
        tense=_tense(written, lexicon),
        items=tuple(item for _, item in items),
        negations=negations,
        negated=negated,
        person=_person(words, written, lexicon),
        act=next((act for pattern, act in lexicon.acts if pattern.search(written)), ""),
        is_passive=not _PASSIVE.isdisjoint(words),
        behind_being=_behind_being(words),
        is_impersonal=lexicon.has_inversion and "on" in words,
        is_sequence=bool(expressions.sequence.search(written)),
        addresses=not lexicon.words.addressees.isdisjoint(words),
    )


def _kind(written: str, lexicon: Lexicon) -> Kind:
    """The kind at the head of the last clause that shows one; else one inside the text."""
    found = Kind.NONE
    for clause in _clauses(written):
        head = next((kind for pattern, kind in lexicon.kinds if pattern.match(clause)), None)
        if head in (None, Kind.YES_NO):
            inside = next((kind for row, kind in lexicon.loose_kinds if row.search(clause)), None)
            head = head if inside in (None, Kind.WHAT) and head else inside
        found = head or found
    return found


def _further(written: str, words: list[str], kind: Kind, lexicon: Lexicon) -> frozenset[Kind]:
    """« Comment demander l'aide et combien vais-je toucher »: the kinds behind a conjunction or in another clause."""
    found: set[Kind] = set()
    if not lexicon.words.leading_on.isdisjoint(words):
        for match in lexicon.expressions.asks_again.finditer(written):
            if not found:
                found.add(_kind(written[: match.start()], lexicon))
            found.add(_kind_at(written, match.end(), lexicon))
    if not _PAUSES.isdisjoint(words[:-1]):
        *before, _last = _clauses(written) or [""]
        heads = (_kind_at(clause, 0, lexicon) for clause in before if " " in clause)
        found.update(head for head in heads if head not in (Kind.WHEN, Kind.YES_NO))
        questions = written[:-1].split("?")
        if len(questions) > 1:
            found.update(_kind(question, lexicon) for question in questions)
    for word, pattern, kinds in lexicon.question_words:
        count = words.count(word)
        if count > 1 or (count and kind not in kinds):
            places = (match.start() for match in pattern.finditer(written))
            found.update(_kind_at(written, place, lexicon) for place in places)
    return frozenset(found - {kind, Kind.NONE})


def _kind_at(written: str, position: int, lexicon: Lexicon) -> Kind:
    return next((kind for pattern, kind in lexicon.kinds if pattern.match(written, position)), Kind.NONE)


def _span(text: str, lexicon: Lexicon) -> str:
    folded = " ".join(re.sub(r"[^\w,;:.?]", " ", fold(text)).split())
    return next((span for pattern, span in lexicon.spans if pattern.search(folded)), "")


def _clauses(written: str) -> list[str]:
    end = "?" if written.endswith("?") else ""
    parts = [part.strip() for part in _CLAUSE.split(written) if part.strip()]
    return [*parts[:-1], f"{parts[-1]} {end}".strip()] if parts else []


def _tense(written: str, lexicon: Lexicon) -> str:
    for tense in ("imperfect", "past", "future", "present"):
        if getattr(lexicon.expressions, tense).search(written):
            return tense
    return ""


def _behind_being(words: list[str]) -> frozenset[str]:
    if _BEING.isdisjoint(words):
        return frozenset()
    places = (
        i
        for i, word in enumerate(words)
        if word in _BEING
        and words[i + 1 : i + 2] != ["ce"]
        and (word != "faire" or not _ONESELF.isdisjoint(words[max(i - 1, 0) : i]))
    )
    return frozenset(word for i in places for word in words[i + 1 : i + 4])


def _person(words: list[str], written: str, lexicon: Lexicon) -> str:
    """Whether the asker acts or undergoes, or someone else acts; empty when both, neither, or the reader is addressed."""
    classes = lexicon.words
    if not classes.addressees.isdisjoint(words):
        return ""
    if not classes.subjects.isdisjoint(words):
        return "subject"
    if not classes.objects.isdisjoint(words):
        return "object"
    return "other" if lexicon.expressions.third_person.search(written) else ""


def _negations(words: list[str], items: list[tuple[int, Item]], lexicon: Lexicon) -> tuple[tuple[str, ...], str]:
    """The words that negate, and the concept that the first of them bears on."""
    found = _negating(words, lexicon)
    if not found:
        return (), ""
    start = found[0][0]
    following = [item.concept for place, item in items if place > start]
    # "isn't my card working": the subject stands between the negation and what it negates.
    inverted = start + 1 < len(words) and words[start + 1] in lexicon.words.determiners
    after = next(iter(following[1:] if inverted and not lexicon.has_inversion else following), "")
    return tuple(word for _, word in found), after or (items[-1][1].concept if items else "")


def _negating(words: list[str], lexicon: Lexicon) -> list[tuple[int, str]]:
    """Each word that negates, with the place where its negation begins (« ne » of « ne … pas »)."""
    classes = lexicon.words
    found: list[tuple[int, str]] = []
    opener = -1
    for position, word in enumerate(words):
        if word in classes.negation_openers:
            opener = position
        elif word in classes.negations or (word == "plus" and 0 <= opener >= position - 4):
            if word in classes.concordant and found and position - found[-1][0] <= 6:
                continue
            found.append((opener if 0 <= opener >= position - 5 else position, word))
            opener = -1
    if opener >= 0 and "que" not in words[opener : opener + 6]:
        found.append((opener, words[opener]))
    return found
