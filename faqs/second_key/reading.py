"""What one question says, as far as plain rules can tell: its kind, its words as concepts, its numbers, its negations.

`read_question` is pure, deterministic and cached. Each word or phrase with content is an `Item`, which keeps what the
small words before it say. Only the vetoes use what is found here.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from faqs.second_key.lexicon import Kind, Lexicon, Marker, Modality, lexicon_of, rewritten
from knowledge.language.numbers import Quantity, prepare, quantities, tokens
from knowledge.language.words import bounded_marks, fold, language_of

# A question as it was typed becomes folded words between single spaces, with one form for each way to say a thing; what
# capitals, accents and signs say is put into words before they go.

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
    # « DMP (dossier médical personnel) » names one thing twice: what spells out the acronym is left out.
    return _GLOSS.sub(lambda m: m[1] if m[2][0].casefold() == m[1][0].casefold() and " " in m[2] else m[0], text)


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
    if text.endswith("?"):
        text = f"{text[:-1]} ?"
    text = " ".join(lexicon.abbreviations.get(word, word) for word in text.split())
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


def _signs(text: str) -> str:
    """Signs that carry meaning beside a digit or a letter, in words."""
    if not _SIGN.search(text):
        return text
    text = text.replace("c++", "cplusplus").replace("c#", "csharp").replace("f#", "fsharp")
    for pattern, replacement in _COMPARISONS:
        text = pattern.sub(replacement, text)
    return text


# What these words say.

_PUNCTUATION = frozenset(",:;.?!")
#: Between a comparator and its number.
_COUNTED = frozenset("de d du des l la le les un une of the a an than".split())
#: « jusqu'à », « près de »: the weaker word behind only completes it.
_COMPLETING = frozenset(("of", "at", "in"))
_WEAK_RELATIONS = frozenset(("none", "of", "in", "for", "by", "and", "but", "if", "when", "because"))


@dataclass(frozen=True, slots=True)
class Item:
    """One meaningful word or phrase of a question, in its place."""

    concept: str
    text: str
    marker: Marker | None = None
    #: A preposition, a comma or a conjunction stands before it: it can be moved as a block.
    opens: bool = False
    starts_clause: bool = False
    is_noun: bool = False
    is_name: bool = False
    quantity: Quantity | None = None
    #: "my" and « mon » against "your" and « votre ».
    owner: str = ""
    #: What the preposition before it says, `none` without one.
    relation: str = "none"
    #: `and` or `or`, when it is joined to what stands before.
    joined: str = ""
    #: `over`, `min` and so on: the comparator beside a quantity is part of the quantity.
    bound: str = ""


@dataclass(frozen=True, slots=True)
class _Before:
    """What the small words since the last item say about the next one."""

    marker: Marker | None = None
    opens: bool = False
    starts_clause: bool = False
    is_noun: bool = False
    owner: str = ""
    relation: str = "none"
    joined: str = ""
    bound: str = ""
    governed: bool = False

    def after(self, word: str, lexicon: Lexicon) -> "_Before":
        if word in _PUNCTUATION:
            return _Before(opens=True, starts_clause=True)
        if word in lexicon.inert:
            return self
        words = lexicon.words
        marker = lexicon.markers.get(word)
        joins = "or" if word in words.choosing else "and" if word in words.joining else self.joined
        # Not `replace`, which takes longer than all the rest.
        return _Before(
            marker=marker or self.marker,
            opens=self.opens or marker is not None,
            starts_clause=self.starts_clause,
            is_noun=self.is_noun or word in words.determiners,
            owner=lexicon.owners.get(word, self.owner),
            relation=self._relation(word, lexicon),
            joined=joins,
            bound=self.bound,
            governed=self.governed,
        )

    def _relation(self, word: str, lexicon: Lexicon) -> str:
        relation = None if self.governed else lexicon.relations.get(word)
        if relation is None or (relation in _COMPLETING and self.relation not in _WEAK_RELATIONS):
            return self.relation
        return relation

    def item(self, concept: str, text: str, *, is_name: bool = False, quantity: Quantity | None = None) -> Item:
        return Item(
            concept=concept,
            text=text,
            marker=self.marker,
            opens=self.opens,
            starts_clause=self.starts_clause,
            is_noun=self.is_noun or is_name,
            is_name=is_name,
            quantity=quantity,
            owner=self.owner,
            relation=self.relation,
            joined=self.joined,
            bound=self.bound if quantity else "",
        )


_NOTHING, _GOVERNED = _Before(), _Before(governed=True)


class Items:
    """Walks over the words once; `found` holds each item with the position of its first word."""

    def __init__(self, words: list[str], names: frozenset[str], kind: Kind, lexicon: Lexicon) -> None:
        self.words, self.names, self.lexicon = words, names, lexicon
        self._spans = {start: (end, quantity) for start, end, quantity in quantities(words)}
        self._consumed = lexicon.consumed.get(kind, frozenset())
        #: A word that says no more than the kind (« coûter » in « combien ») was there.
        self.has_consumed = False
        self._where = self._interrogative_where(kind)
        self._before = _Before(starts_clause=True, opens=True)
        self.found = list(self._walk())

    def _walk(self) -> Iterator[tuple[int, Item]]:
        position = 0
        while position < len(self.words):
            start = position
            if bound := self._bound_before(start):
                position, name = bound
                self._before = replace(self._before, bound=name, opens=True)
                continue
            if start in self._spans:
                position, quantity = self._spans[start]
                position = self._bound_after(position)
                concept = f"#{quantity.unit}:{quantity.value:g}"
                yield start, self._before.item(concept, quantity.text, quantity=quantity)
            else:
                position, concept = self._concept(start)
                if not concept:
                    self._pass_over(start)
                    continue
                if concept in self._consumed:
                    self.has_consumed = True
                else:
                    yield start, self._word(concept, start, position)
            governs = self.words[position - 1] in self.lexicon.words.governing
            self._before = _GOVERNED if governs else _NOTHING

    def _word(self, concept: str, start: int, end: int) -> Item:
        words = self.words[start:end]
        return self._before.item(concept, " ".join(words), is_name=not self.names.isdisjoint(words))

    def _pass_over(self, position: int) -> None:
        if self._is_auxiliary(position):
            return
        self._before = self._before.after(self.words[position], self.lexicon)
        if position == self._where:
            self._before = replace(self._before, joined="")

    def _is_auxiliary(self, position: int) -> bool:
        """« On m'a volé »: without its accent « à » reads like « a »."""
        words = self.words
        if words[position] != "a":
            return False
        classes = self.lexicon.words
        before, after = words[max(position - 1, 0) : position], words[position + 1 : position + 2]
        return not (classes.before_auxiliary.isdisjoint(before) and classes.after_auxiliary.isdisjoint(after))

    def _bound_before(self, start: int) -> tuple[int, str] | None:
        """A comparator with a quantity right behind it: where the quantity starts, and the comparator's class."""
        for entry, name in self.lexicon.bounds.get(self.words[start], ()):
            end = start + len(entry)
            if tuple(self.words[start:end]) != entry:
                continue
            for position in range(end, min(end + 3, len(self.words))):
                if position in self._spans:
                    return position, name
                if self.words[position] not in _COUNTED:
                    break
        return None

    def _bound_after(self, position: int) -> int:
        words = self.words
        if position < len(words):
            for entry, name in self.lexicon.bounds_after.get(words[position], ()):
                end = position + len(entry)
                if tuple(words[position:end]) == entry and words[end : end + 1] not in (["de"], ["d"]):
                    self._before = replace(self._before, bound=name)
                    return end
        return position

    def _interrogative_where(self, kind: Kind) -> int:
        """Where « ou » stands for « où »; -1 when it does nowhere."""
        if not self.lexicon.has_inversion or "ou" not in self.words:
            return -1
        first = self.words.index("ou")
        return first if first == 0 or kind is Kind.WHERE else -1

    def _concept(self, start: int) -> tuple[int, str]:
        """The longest known phrase at `start`, else the word's stem; an empty concept for words without content."""
        if found := self._phrase(start):
            return found
        word, lexicon = self.words[start], self.lexicon
        is_empty = (
            not word[0].isalnum()
            or word in lexicon.words.negations
            or word in lexicon.words.negation_openers
            or word in lexicon.small
            or word in lexicon.words.letters
        )
        return start + 1, "" if is_empty else lexicon.concept((word,))

    def _phrase(self, start: int) -> tuple[int, str] | None:
        """The longest phrase of the lexicon at `start`, read across linking words."""
        words, lexicon = self.words, self.lexicon
        first = lexicon.stem(words[start])
        lengths = lexicon.phrase_lengths.get(first)
        if not lengths:
            return None
        stems, ends = [first], [start + 1]
        position = start + 1
        while position < len(words) and len(stems) < lengths[0]:
            word = words[position]
            if position in self._spans or word in _PUNCTUATION:
                break
            position += 1
            if word not in lexicon.words.linking:
                stems.append(lexicon.stem(word))
                ends.append(position)
        for length in lengths:
            if length <= len(stems) and (concept := lexicon.phrases.get(tuple(stems[:length]))):
                return ends[length - 1], concept
        return None


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
    #: The words close behind a form of "be" that is no « est-ce que », and the participles of a « quel est le »: they
    #: tell what is done to its subject.
    behind_being: frozenset[str]
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
        # « Quel (est l') agent signalé »: only the accent tells it from « quel agent signale ».
        behind_being=_behind_being(words).union(map(fold, expressions.which_done.findall(text))),
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
