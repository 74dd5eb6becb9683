"""What one question says, as far as plain rules can tell: its kind, its words as concepts, its numbers, its negations.

`read_question` is pure, deterministic and cached; it knows French and English through their lexicons and understands
neither. It feeds `faqs.agreement`, the only module that should read a `Reading`.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache

from faqs.gates import rewrites, rewritten
from faqs.lexicon import Kind, Lexicon, Marker, Modality
from faqs.lexicon_en import LEXICON_EN
from faqs.lexicon_fr import LEXICON_FR
from faqs.quantities import Quantity, prepare, quantities, tokens

_FRENCH, _ENGLISH = Lexicon(LEXICON_FR), Lexicon(LEXICON_EN)
_LEXICONS = {"fr": _FRENCH, "en": _ENGLISH}
#: Longer texts are not compared: what stands beyond would be ignored.
MAX_CHARACTERS = 2_000
_PAUSES = frozenset(",:;?!.")
_PUNCTUATION = frozenset(",:;.?!")
_CLAUSE = re.compile(r"(?:[,:;!?]|\.(?!\d))+")
_CONTRACTIONS = rewrites(
    (
        (r"\bcan't\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bshan't\b", "shall not"),
        (r"n't\b", " not"),
        (r"\bi'd like\b", "i would like"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r"\b(i)'m\b", r"\1 am"),
        (r"'d\b", " would"),
        (r"\b(what|who|where|when|how|why|that|there|here|it|he|she|let)'s\b", r"\1 is"),
        (r"\b(what|who|where|how)s\b", r"\1 is"),
        (r"(?<=s)'(?= |$)|'s\b", ""),
    )
)
_BARE_NEGATIONS = re.compile(
    r"\b(do|does|is|ca|wo|did|was|are|have|has|could|should|would|were|had|must|need)nt\b"
)
_ELISION = re.compile(r"\b(l|d|j|m|t|s|c|n|qu|jusqu|lorsqu|puisqu|quoiqu)'")
#: Without its accent « né » would read as the negation « ne ».
_BORN = re.compile(r"\bnée?s?\b", re.IGNORECASE)
#: A lone capital inside a sentence is a name (« permis A », "U visa"), not an article or "you".
_LETTER = re.compile(r"(?<=[^\s.?!:] )[AU](?=\W|$)")
_PASSIVE = frozenset("be is are was were been being est sont etre ete sera seront".split())
#: « Se faire rembourser » is being refunded.
_ONESELF = frozenset("me m te t se s nous vous".split())
_BEING = _PASSIVE | frozenset("am suis etait etaient faire get gets got getting".split())
#: « les bureaux ferment-ils », not « rendez-vous ».
_INVERSION = re.compile(
    r"\b(?!rendez|allez|dites|chez|entre)\w+-(?:t-)?(?:ils?|elles?|on|je|tu|nous|vous)\b"
)
#: Without its accent « où » would read as « ou ».
_WHERE_INSIDE = re.compile(r"(?<=\w )où\b", re.IGNORECASE)
#: Without its accent « dès » would read as « des ».
_AS_FROM = re.compile(r"\bdès(?! (?:que|lors|quel|quand|qu['’]))\b", re.IGNORECASE)
#: Without its accent « bloqué » would leave « a » to be read as « à ».
_HAS_DONE = re.compile(r"(?<=\w )\ba(?= \w{2,}ée?s?\b)")
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
class Reading:
    lexicon: Lexicon
    kind: Kind
    #: What it asks for besides, by another question word; empty for one question.
    further: frozenset[Kind]
    #: `deadline` for the time that somebody has, `duration` for the time that something takes; empty for neither.
    span: str
    modality: Modality | None
    tense: str
    items: tuple[Item, ...]
    negations: tuple[str, ...]
    #: The concept that a lone negation bears on.
    negated: str
    person: str
    #: « je vous … » or « vous me … »: who acts on whom, of the two who speak.
    act: str = ""
    is_passive: bool = False
    #: The words close behind a form of "be" that is no « est-ce que »: as participles they tell what is done to its subject.
    behind_being: frozenset[str] = frozenset()
    #: « on », who is nobody.
    is_impersonal: bool = False
    #: What comes first and what comes next is said in so many words.
    is_sequence: bool = False
    #: « vous », "you": whose things « vos » and "your" are is then open.
    addresses: bool = False


def language_of(text: str) -> str:
    """`fr` or `en` by their small words, or an empty string when neither shows."""
    found = set(re.findall(r"[a-z]+", _fold(text)))
    french = len(found & LEXICON_FR.signature)
    english = len(found & LEXICON_EN.signature)
    if french == english:
        return ""
    return "fr" if french > english else "en"


def read_pair(first: str, second: str) -> tuple[Reading, Reading]:
    """Read both; a question too short to show its language is read in the other's."""
    languages = language_of(first), language_of(second)
    fallback = languages[0] or languages[1] or "fr"
    return (
        read_question(first, languages[0] or languages[1] or fallback),
        read_question(second, languages[1] or fallback),
    )


@lru_cache(maxsize=4096)
def read_question(text: str, language: str) -> Reading:
    lexicon = _LEXICONS[language]
    text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("ʼ", "'")
    text = _without_gloss(text)
    names = _names(text, lexicon)
    plain = _plain(text, language, lexicon)
    kind = _kind(plain, lexicon)
    if kind is Kind.NONE and language == "fr" and _INVERSION.search(_fold(text)):
        kind = Kind.YES_NO
    words = tokens(plain)
    items = _items(words, names, kind, lexicon)
    negations, negated = _negations(words, items, lexicon)
    return Reading(
        lexicon=lexicon,
        kind=kind,
        further=_further(plain, words, kind, lexicon),
        span=_span(text, lexicon) if kind is Kind.HOW_LONG else "",
        modality=_modality(plain, lexicon),
        tense=_tense(plain, lexicon),
        items=tuple(item for _, item in items),
        negations=negations,
        negated=negated,
        person=_person(words, plain, lexicon),
        act=next((act for pattern, act in lexicon.acts if pattern.search(plain)), ""),
        is_passive=not _PASSIVE.isdisjoint(words),
        behind_being=_behind_being(words),
        is_impersonal=lexicon.data.has_inversion and "on" in words,
        is_sequence=bool(lexicon.sequence.search(plain)),
        addresses=not lexicon.data.addressees.isdisjoint(words),
    )


def _fold(text: str) -> str:
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFKD", text.replace("’", "'").casefold())
    return decomposed.translate(_WITHOUT_MARKS).replace("œ", "oe")


class _Marks(dict[int, str | None]):
    """For `str.translate`: combining marks go. Each character is looked up once."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        kept = self[code] = None if unicodedata.combining(character) else character
        return kept


_WITHOUT_MARKS = _Marks()


def _signs(text: str) -> str:
    """Signs that carry meaning beside a digit or a letter, in words."""
    if not _SIGN.search(text):
        return text
    text = text.replace("c++", "cplusplus").replace("c#", "csharp").replace("f#", "fsharp")
    for pattern, replacement in _COMPARISONS:
        text = pattern.sub(replacement, text)
    text = re.sub(r"(?<![\w.,])[-−](?=\d)", " minus_sign ", text)
    return re.sub(r"(?<=\d) ?\+ ?(?=\d)", " plus_sign ", text)


def _names(text: str, lexicon: Lexicon) -> frozenset[str]:
    """Folded words written with a capital inside a sentence, and acronyms; none in a text all in capitals."""
    if (rest := text[1:]) == rest.lower():
        # A capital at the beginning says nothing.
        return frozenset()
    letters = [c for c in text if c.isalpha()]
    if sum(c.isupper() for c in letters) > 0.6 * len(letters):
        return frozenset()
    names: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0]
        before = text[: match.start()].rstrip(" \"'«(\u00a0")
        starts = not before or before[-1] in _SENTENCE_END
        acronym = len(word) > 1 and word.isupper()
        if acronym or (word[0].isupper() and not starts):
            names.update(part for part in re.split(r"[-_]", _fold(word)) if part)
    return frozenset(names - {"i", "je", "bonjour"})


def _without_gloss(text: str) -> str:
    """« DMP (dossier médical personnel) » names one thing twice."""
    return _GLOSS.sub(
        lambda m: m[1] if m[2][0].casefold() == m[1][0].casefold() and " " in m[2] else m[0], text
    )


def _plain(text: str, language: str, lexicon: Lexicon) -> str:
    text = _DATA_UNITS.sub(lambda m: f"{m[1]} {_DATA_NAMES[m[2]]}", text)
    if language == "fr" and not text.isascii():
        text = _AS_FROM.sub("des_le", text)
        text = _HAS_DONE.sub("a_", text)
        text = _WHERE_INSIDE.sub("ou_", _BORN.sub("naitre", text))
    if (" A" in text or " U" in text) and any(c.islower() for c in text):
        text = _LETTER.sub(lambda m: f"{m[0].lower()}·", text)
    text = _fold(text)
    text = prepare(_signs(_NUMERO.sub("numero ", text) if "°" in text else text))
    if language == "en":
        text = _BARE_NEGATIONS.sub(r"\1 not", text.replace("cant ", "can not "))
        text = rewritten(text, _CONTRACTIONS)
    if "'" in text:
        text = text.replace("aujourd'hui", "aujourdhui")
        text = _ELISION.sub(lambda m: f"{m[1]}{'e' if m[1] == 'n' else ''} ", text)
    text = _OTHER_SIGNS.sub(" ", _INNER_SIGNS.sub(" ", text))
    slips = lexicon.slips
    if text.endswith("?"):
        text = f"{text[:-1]} ?"
    text = " ".join(slips.get(word, word) for word in text.split())
    text = rewritten(text, lexicon.rewrites)
    return " ".join(text.split())


def _kind(plain: str, lexicon: Lexicon) -> Kind:
    """The kind at the head of the last clause that shows one; else one inside the text."""
    found = Kind.NONE
    for clause in _clauses(plain):
        head = next((kind for pattern, kind in lexicon.kinds if pattern.match(clause)), None)
        if head in (None, Kind.YES_NO):
            inside = next((kind for row, kind in lexicon.loose_kinds if row.search(clause)), None)
            head = head if inside in (None, Kind.WHAT) and head else inside
        found = head or found
    return found


def _further(plain: str, words: list[str], kind: Kind, lexicon: Lexicon) -> frozenset[Kind]:
    """« Comment demander l'aide et combien vais-je toucher »: the kinds behind a conjunction or in another clause."""
    found: set[Kind] = set()
    if not lexicon.data.leading_on.isdisjoint(words):
        for match in lexicon.asks_again.finditer(plain):
            if not found:
                found.add(_kind(plain[: match.start()], lexicon))
            found.add(_kind_at(plain, match.end(), lexicon))
    if not _PAUSES.isdisjoint(words[:-1]):
        *before, _last = _clauses(plain) or [""]
        heads = (_kind_at(clause, 0, lexicon) for clause in before if " " in clause)
        found.update(head for head in heads if head not in (Kind.WHEN, Kind.YES_NO))
        questions = plain[:-1].split("?")
        if len(questions) > 1:
            found.update(_kind(question, lexicon) for question in questions)
    for word, pattern, kinds in lexicon.question_words:
        count = words.count(word)
        if count > 1 or (count and kind not in kinds):
            found.update(
                _kind_at(plain, match.start(), lexicon) for match in pattern.finditer(plain)
            )
    return frozenset(found - {kind, Kind.NONE})


def _kind_at(plain: str, position: int, lexicon: Lexicon) -> Kind:
    return next(
        (kind for pattern, kind in lexicon.kinds if pattern.match(plain, position)), Kind.NONE
    )


def _span(text: str, lexicon: Lexicon) -> str:
    folded = " ".join(re.sub(r"[^\w,;:.?]", " ", _fold(text)).split())
    return next((span for pattern, span in lexicon.spans if pattern.search(folded)), "")


def _clauses(plain: str) -> list[str]:
    end = "?" if plain.endswith("?") else ""
    parts = [part.strip() for part in _CLAUSE.split(plain) if part.strip()]
    return [*parts[:-1], f"{parts[-1]} {end}".strip()] if parts else []


def _modality(plain: str, lexicon: Lexicon) -> Modality | None:
    for pattern, modality in lexicon.modalities:
        if pattern.search(plain):
            return modality
    return None


def _tense(plain: str, lexicon: Lexicon) -> str:
    if lexicon.imperfect.search(plain):
        return "imperfect"
    if lexicon.past.search(plain):
        return "past"
    if lexicon.future.search(plain):
        return "future"
    return "present" if lexicon.present.search(plain) else ""


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


def _person(words: list[str], plain: str, lexicon: Lexicon) -> str:
    """Whether the asker acts or undergoes, or someone else acts; empty when both, neither, or the reader is addressed."""
    found = set(words)
    data = lexicon.data
    if found & data.addressees:
        return ""
    if found & data.subjects:
        return "subject"
    if found & data.objects:
        return "object"
    return "other" if lexicon.third_person.search(plain) else ""


def _items(
    words: list[str], names: frozenset[str], kind: Kind, lexicon: Lexicon
) -> list[tuple[int, Item]]:
    """The items with the position of their first token."""
    spans = {start: (end, quantity) for start, end, quantity in quantities(words)}
    consumed = lexicon.consumed.get(kind, frozenset())
    items: list[tuple[int, Item]] = []
    before = _Before(starts_clause=True, opens=True)
    position = 0
    where = _interrogative_where(words, kind, lexicon)
    while position < len(words):
        start = position
        if bound := _bound_before(words, start, spans, lexicon):
            position, before = bound[0], replace(before, bound=bound[1], opens=True)
            continue
        if start in spans:
            position, quantity = spans[start]
            concept = f"#{quantity.unit}:{quantity.value:g}"
            position, before = _bound_after(words, position, before, lexicon)
            items.append((start, before.item(concept, quantity.text, quantity=quantity)))
        else:
            position, concept = _concept(words, start, spans, names, lexicon)
            if not concept:
                if _is_auxiliary(words, start, lexicon):
                    continue
                before = before.after(words[start], lexicon)
                if start == where:
                    before = replace(before, joined="")
                continue
            if concept in lexicon.counters and (position in spans or _is_code(words, position)):
                continue
            if concept not in consumed:
                text = " ".join(words[start:position])
                named = not names.isdisjoint(words[start:position])
                items.append((start, before.item(concept, text, is_name=named)))
        before = _GOVERNED if words[position - 1] in lexicon.data.governing else _NOTHING
    return items


def _is_auxiliary(words: list[str], position: int, lexicon: Lexicon) -> bool:
    """« On m'a volé »: without its accent « à » reads like « a »."""
    if words[position] != "a":
        return False
    before, after = words[max(position - 1, 0) : position], words[position + 1 : position + 2]
    data = lexicon.data
    return not data.before_auxiliary.isdisjoint(before) or not data.after_auxiliary.isdisjoint(
        after
    )


_COUNTED = frozenset("de d du des l la le les un une of the a an than".split())


def _bound_before(
    words: list[str],
    start: int,
    spans: dict[int, tuple[int, Quantity]],
    lexicon: Lexicon,
) -> tuple[int, str] | None:
    """A comparator with a quantity right behind it: where the quantity starts, and the comparator's class."""
    for entry, name in lexicon.bounds.get(words[start], ()):
        end = start + len(entry)
        if tuple(words[start:end]) != entry:
            continue
        for position in range(end, min(end + 3, len(words))):
            if position in spans:
                return position, name
            if words[position] not in _COUNTED:
                break
    return None


def _bound_after(
    words: list[str], position: int, before: "_Before", lexicon: Lexicon
) -> tuple[int, "_Before"]:
    if position < len(words):
        for entry, name in lexicon.bounds_after.get(words[position], ()):
            end = position + len(entry)
            if tuple(words[position:end]) == entry and words[end : end + 1] not in (["de"], ["d"]):
                return end, replace(before, bound=name)
    return position, before


def _interrogative_where(words: list[str], kind: Kind, lexicon: Lexicon) -> int:
    """Where « ou » stands for « où »; -1 when it does nowhere."""
    if not lexicon.data.has_inversion or "ou" not in words:
        return -1
    first = words.index("ou")
    return first if first == 0 or kind is Kind.WHERE else -1


def _is_code(words: list[str], position: int) -> bool:
    """« numéro 48213 », "form S1106": the word before says nothing that the code does not."""
    return position < len(words) and any(letter.isdigit() for letter in words[position])


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
        data = lexicon.data
        if word in _PUNCTUATION:
            return _Before(opens=True, starts_clause=True)
        if word in lexicon.inert:
            return self
        marker = lexicon.markers.get(word)
        joins = "or" if word in data.choosing else "and" if word in data.joining else self.joined
        # Not `replace`, which takes longer than all the rest.
        return _Before(
            marker=marker or self.marker,
            opens=self.opens or marker is not None,
            starts_clause=self.starts_clause,
            is_noun=self.is_noun or word in data.determiners,
            owner=lexicon.owners.get(word, self.owner),
            relation=self._relation(word, lexicon),
            joined=joins,
            bound=self.bound,
            governed=self.governed,
        )

    def _relation(self, word: str, lexicon: Lexicon) -> str:
        """« jusqu'à », « près de »: the weaker word behind only completes it."""
        relation = None if self.governed else lexicon.relations.get(word)
        if relation is None or (relation in _COMPLETING and self.relation not in _WEAK_RELATIONS):
            return self.relation
        return relation

    def item(
        self, concept: str, text: str, *, is_name: bool = False, quantity: Quantity | None = None
    ) -> Item:
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
_COMPLETING = frozenset(("of", "at", "in"))
_WEAK_RELATIONS = frozenset(
    ("none", "of", "in", "for", "by", "and", "but", "if", "when", "because")
)


def _concept(
    words: list[str],
    start: int,
    spans: dict[int, tuple[int, Quantity]],
    names: frozenset[str],
    lexicon: Lexicon,
) -> tuple[int, str]:
    """The longest known phrase at `start`, else the word's stem; an empty concept for words without content."""
    found = _phrase(words, start, spans, lexicon)
    if found:
        return found
    word = words[start]
    if word in _PUNCTUATION or not (word[0].isalnum()):
        return start + 1, ""
    negation = word in lexicon.data.negations or word in lexicon.data.negation_openers
    small = (
        word in lexicon.data.ignored or word in lexicon.markers or word in lexicon.data.determiners
    )
    if negation or (small and not _is_named(word, names)):
        return start + 1, ""
    if len(word) == 1 and not word.isdigit() and _is_letter_word(word, lexicon):
        return start + 1, ""
    return start + 1, lexicon.concept((word,))


def _phrase(
    words: list[str], start: int, spans: dict[int, tuple[int, Quantity]], lexicon: Lexicon
) -> tuple[int, str] | None:
    """The longest phrase of the lexicon at `start`, read across linking words."""
    lengths = lexicon.phrase_lengths.get(lexicon.stem(words[start]))
    if not lengths:
        return None
    stems, ends = [lexicon.stem(words[start])], [start + 1]
    position = start + 1
    while position < len(words) and len(stems) < lengths[0]:
        word = words[position]
        if position in spans or word in _PUNCTUATION:
            break
        position += 1
        if word not in lexicon.data.linking:
            stems.append(lexicon.stem(word))
            ends.append(position)
    for length in lengths:
        if length <= len(stems) and (concept := lexicon.phrases.get(tuple(stems[:length]))):
            return ends[length - 1], concept
    return None


def _is_named(word: str, names: frozenset[str]) -> bool:
    # Titles capitalise small words too; only short acronyms such as IT, US and WHO are worth telling apart.
    return word in names and word in _ACRONYMS


_ACRONYMS = frozenset("it us who un an am ds dc ac pr qd ou".split())


def _is_letter_word(word: str, lexicon: Lexicon) -> bool:
    """Letters that are words by themselves, or what an elision leaves behind."""
    return (
        word in ("a", "i", "y", "l", "d", "j", "m", "t", "s", "c", "n")
        if lexicon.data.language == "fr"
        else word in ("a", "i", "s", "t", "m")
    )


def _negations(
    words: list[str], items: list[tuple[int, Item]], lexicon: Lexicon
) -> tuple[tuple[str, ...], str]:
    """The words that negate, and the concept that the first of them bears on."""
    data = lexicon.data
    found: list[tuple[int, str]] = []
    opener = -1
    for position, word in enumerate(words):
        if word in data.negation_openers:
            opener = position
        elif word in data.negations or (word == "plus" and 0 <= opener and position - opener <= 4):
            start = opener if 0 <= opener and position - opener <= 5 else position
            if word in data.concordant and found and position - found[-1][0] <= 6:
                continue
            found.append((start, word))
            opener = -1
    if opener >= 0 and "que" not in words[opener : opener + 6]:
        found.append((opener, words[opener]))
    if not found:
        return (), ""
    start = found[0][0]
    following = [item.concept for place, item in items if place > start]
    # "isn't my card working": the subject stands between the negation and what it negates.
    inverted = start + 1 < len(words) and words[start + 1] in data.determiners
    after = next(iter(following[1:] if inverted and not data.has_inversion else following), "")
    return tuple(word for _, word in found), after or (items[-1][1].concept if items else "")
