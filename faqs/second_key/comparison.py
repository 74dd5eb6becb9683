"""Two readings side by side: which item of one question is which item of the other, and which are left over. Pure."""

from collections.abc import Callable, Iterator

from faqs.second_key.items import Item
from faqs.second_key.lexicon import Kind, Lexicon
from faqs.second_key.reading import Reading


class Comparison:
    def __init__(self, first: Reading, second: Reading) -> None:
        self.first, self.second = first, second
        self.lexicon = first.lexicon
        #: Position in `first.items` → position in `second.items`.
        self.pairs: dict[int, int] = {}
        self._pair(lambda one, two: one.concept == two.concept)
        self._pair(_is_same_quantity)
        self._pair(lambda one, two: _is_typing_error(one, two, self.lexicon))
        #: What found no partner on either side.
        self.rest_first = self._rest(first, second, self.pairs)
        self.rest_second = self._rest(second, first, {j: i for i, j in self.pairs.items()})

    @property
    def is_complete(self) -> bool:
        return not self.rest_first and not self.rest_second

    def partners(self) -> Iterator[tuple[Item, Item]]:
        return ((self.first.items[i], self.second.items[j]) for i, j in self.pairs.items())

    def _pair(self, is_same: Callable[[Item, Item], bool]) -> None:
        taken = set(self.pairs.values())
        for i, one in enumerate(self.first.items):
            if i in self.pairs:
                continue
            for j, two in enumerate(self.second.items):
                if j not in taken and is_same(one, two):
                    self.pairs[i] = j
                    taken.add(j)
                    break

    def _rest(self, reading: Reading, other: Reading, pairs: dict[int, int]) -> list[Item]:
        """A word said twice on one side says nothing more; a number said twice does."""
        items = reading.items
        if len(pairs) == len(items):
            return []
        known = {items[i].concept for i in pairs}
        weak = self.lexicon.weak if self._ignores_weak_words() else frozenset()
        return [
            item
            for i, item in enumerate(items)
            if i not in pairs
            and (item.concept not in known or item.quantity)
            and (item.concept not in weak or _is_acted_for(i, reading, other, pairs))
        ]

    def _ignores_weak_words(self) -> bool:
        """Words that say next to nothing, as long as something that does was found on both sides."""
        if not self.first.kind is self.second.kind is not Kind.NONE:
            return False
        return any(self.first.items[i].concept not in self.lexicon.weak for i in self.pairs)


def _is_acted_for(i: int, reading: Reading, other: Reading, pairs: dict[int, int]) -> bool:
    """« Obtenir le remboursement » of what the other question is to « rembourser »: the act is somebody else's."""
    if i + 1 not in pairs or not reading.items[i + 1].is_noun:
        return False
    partner = other.items[pairs[i + 1]]
    undergone = " " in partner.text or partner.text in other.behind_being
    return not (partner.is_noun or undergone)


def is_negated_form(one: str, two: str, lexicon: Lexicon) -> bool:
    """« légal » and « illégal »."""
    short, long = sorted((one, two), key=len)
    if len(short) < 4 or not long.endswith(short[-3:]):
        return False
    stem = lexicon.stem
    return any(stem(long) == stem(prefix + short) for prefix in lexicon.negative_prefixes)


def _is_same_quantity(item: Item, other: Item) -> bool:
    return bool(item.quantity and other.quantity and item.quantity.matches(other.quantity))


def _is_typing_error(item: Item, other: Item, lexicon: Lexicon) -> bool:
    """One slip of the finger inside a long word; endings carry meaning (« employer », « employeur »)."""
    one, two = item.text, other.text
    # Most pairs of words end here.
    if one[0] != two[0] or min(len(one), len(two)) < 4 or abs(len(one) - len(two)) > 1:
        return False
    is_day = lexicon.temporal & {item.concept, other.concept}
    if item.quantity or other.quantity or ((item.is_name or other.is_name) and not is_day):
        return False
    if not (one.isalpha() and two.isalpha()) or {one, two} <= lexicon.words.lookalikes:
        return False
    # Two words that the lexicon knows are two words (« salaire », « salarié »).
    if lexicon.knows(one) and lexicon.knows(two):
        return False
    return not is_negated_form(one, two, lexicon) and _is_one_slip(one, two)


def _is_one_slip(one: str, two: str) -> bool:
    short, long = sorted((one, two), key=len)
    same = (i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b)
    head = next(same, len(short))
    inside = head < len(short) - 2
    if len(short) == len(long):
        swapped = short[:head] + short[head : head + 2][::-1] + short[head + 2 :]
        if swapped == long and len(short) >= 5:
            return True
        return len(short) >= 8 and inside and short[head + 1 :] == long[head + 1 :]
    if long[:head] + long[head + 1 :] != short:
        return False
    doubled = head > 0 and long[head] == long[head - 1]
    return doubled or (len(long) >= 7 and head < len(long) - 2)
