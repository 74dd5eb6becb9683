"""The items of a question: each word or phrase that carries content, with what the small words before it say. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from faqs.second_key.lexicon import Kind, Lexicon, Marker
from faqs.second_key.quantities import Quantity, quantities

_PUNCTUATION = frozenset(",:;.?!")
#: Between a comparator and its number.
_COUNTED = frozenset("de d du des l la le les un une of the a an than".split())
#: « jusqu'à », « près de »: the weaker word behind only completes it.
_COMPLETING = frozenset(("of", "at", "in"))
_WEAK_RELATIONS = frozenset(("none", "of", "in", "for", "by", "and", "but", "if", "when", "because"))
_ACRONYMS = frozenset("it us who un an am ds dc ac pr qd ou".split())


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
                if concept in self.lexicon.counters and self._is_number_or_code(position):
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

    def _is_number_or_code(self, position: int) -> bool:
        """« numéro 48213 », "form S1106": the word before says nothing that the code does not."""
        if position in self._spans:
            return True
        return position < len(self.words) and any(map(str.isdigit, self.words[position]))

    def _concept(self, start: int) -> tuple[int, str]:
        """The longest known phrase at `start`, else the word's stem; an empty concept for words without content."""
        if found := self._phrase(start):
            return found
        word, lexicon = self.words[start], self.lexicon
        is_empty = (
            not word[0].isalnum()
            or word in lexicon.words.negations
            or word in lexicon.words.negation_openers
            or (word in lexicon.small and not self._is_named(word))
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

    def _is_named(self, word: str) -> bool:
        # Titles capitalise small words too; only short acronyms such as IT, US and WHO are worth telling apart.
        return word in self.names and word in _ACRONYMS
