"""Who acts, who undergoes and who owns: the same words with another one in the role say something else. Pure."""

import re

from faqs.second_key.comparison import Comparison
from faqs.second_key.disagreement import Disagreement
from faqs.second_key.items import Item
from faqs.second_key.lexicon import Kind, Marker
from faqs.second_key.reading import Reading

INCLUDING = frozenset(("include", "inclure"))
#: « Ouvert » and « fermé » say what « ouvre » and « ferme » say.
STATES = frozenset(("ouvrir", "fermer", "open", "close"))
_INSIDE = frozenset(("in", "into"))
_FRENCH_NOUN = re.compile(r"(?:tions?|ments?|[ae]nces?|ages?)$")
_FRENCH_DONE = re.compile(r"(?:(?:[eiu]|it|is|ert)e?s?|er|ir|re|oir)$")
_ENGLISH_NOUN = re.compile(r"(?:tions?|ments?|als?|[ae]nces?|ages?)$")
_ENGLISH_PARTICIPLE = re.compile(r"(?:ed|en|wn|ght|aid|old|ept|ade|ilt|eft|elt|ost|ent|ung|und)$")


def asker_undergoes(c: Comparison) -> Disagreement | None:
    first, second = c.first, c.second
    asks_who = first.kind is second.kind is Kind.WHO
    tells = len(first.items) > 1 or asks_who
    if tells and {first.person, second.person} == {"subject", "object"}:
        return Disagreement("role", first.person, second.person)
    return None


def someone_else_acts(c: Comparison) -> Disagreement | None:
    if {c.first.person, c.second.person} == {"subject", "other"}:
        return Disagreement("role", c.first.person, c.second.person)
    return None


def acts_on_another(c: Comparison) -> Disagreement | None:
    one, two = c.first.act, c.second.act
    if (one and two and one != two) or _is_done_by_asker(c.first, c.second):
        return Disagreement("role", one, two)
    return None


def _is_done_by_asker(first: Reading, second: Reading) -> bool:
    """« Comment mon fils peut-il m'héberger » is not « comment héberger mon fils », where the asker acts unnamed."""
    if not first.kind is second.kind is Kind.HOW:
        return False
    if not first.lexicon.has_inversion:
        return {first.person, second.person} == {"object", ""}
    # « Me » may be the asker's own (« comment m'inscrire », « comment s'inscrire ») unless somebody else acts.
    undergone, bare = (first, second) if first.act else (second, first)
    return undergone.act == "it>me" and not bare.act and bare.person in ("", "subject")


def is_the_same_act(c: Comparison) -> bool:
    """« Un colis peut-il être retiré par un proche » and « un proche peut-il retirer un colis »."""
    active, passive, pairs = c.first, c.second, {j: i for i, j in c.pairs.items()}
    if agent(c.first) is not None:
        active, passive, pairs = c.second, c.first, c.pairs
    by, size = agent(passive), len(active.items)
    if by is None or agent(active) is not None or not len(passive.items) == len(pairs) == size:
        return False
    order = [pairs[position] for position in range(size)]
    return any(
        order == _passive_order(by, verb, place, size)
        and _says_the_same_actively(active, passive, order, (by, place))
        for verb in range(1, min(by, 3))
        for place in range(1, size - by + 1)
    )


def agent(reading: Reading) -> int | None:
    """Where the one stands by whom it is done, in the passive; or what it is included in."""
    items = reading.items
    places = [
        i
        for i, item in enumerate(items)
        if item.marker is Marker.BY
        or (item.relation in _INSIDE and i and items[i - 1].concept in INCLUDING)
    ]
    return places[0] if reading.is_passive and len(places) == 1 and places[0] > 1 else None


def _passive_order(by: int, verb: int, acting: int, size: int) -> list[int]:
    """Who does it, the verb, what it is done to, the rest: where the words of the passive stand in the active."""
    done_to = range(acting + verb, acting + by)
    return [*done_to, *range(acting, acting + verb), *range(acting), *range(acting + by, size)]


def _says_the_same_actively(
    active: Reading, passive: Reading, order: list[int], places: tuple[int, int]
) -> bool:
    by, acting = places
    if active.items[0].marker not in (None, Marker.CLAUSE) or active.items[acting].is_noun:
        return False
    # The first word of each side stands behind the question word, whatever it is.
    if passive.items[0].relation != active.items[0].relation:
        return False
    if active.items[acting].relation != "none" or active.items[order[0]].relation != "none":
        return False
    partners = [(item, active.items[order[place]]) for place, item in enumerate(passive.items)]
    return all(
        one.owner == two.owner and (one.relation == two.relation or place in (0, by))
        for place, (one, two) in enumerate(partners)
    )


def undergoes_instead(c: Comparison) -> Disagreement | None:
    """ "When do students pay" is not "when are students paid": the same subject, once acting and once not."""
    first, second = c.first, c.second
    # « Qui rembourse » and « qui est remboursé »: the question word is the subject.
    asks_who = first.kind is second.kind is Kind.WHO
    acts = asks_who or first.person == second.person == "subject"
    french = c.lexicon.has_inversion
    told = first.behind_being ^ second.behind_being
    for place, (one, two) in enumerate(zip(first.items, second.items, strict=False)):
        if c.pairs.get(place) != place:
            return None
        if one.is_noun or two.is_noun or (place == 0 and not acts and not french):
            # The subject.
            continue
        if place == 0 and not acts:
            return None
        is_told = french or one.text != two.text or (asks_who and one.text in told)
        forms = {_form(one, first), _form(two, second)}
        if is_told and one.text[0] == two.text[0] and forms == {"done", "does"}:
            return Disagreement("role", one.text, two.text)
        if french:
            return None
    return None


def _form(item: Item, reading: Reading) -> str:
    """Whether a verb is done to its subject or does something; a noun or an adjective neither."""
    if item.relation not in ("none", "when") or item.concept in STATES:
        return ""
    if not reading.lexicon.has_inversion:
        done = reading.behind_being and _ENGLISH_PARTICIPLE.search(item.text)
        return "done" if done else "" if _ENGLISH_NOUN.search(item.text) else "does"
    if item.text in reading.behind_being:
        return "done" if _FRENCH_DONE.search(item.text) else ""
    return "" if _FRENCH_NOUN.search(item.text) else "does"


def owned_by_another(c: Comparison) -> Disagreement | None:
    addressed = c.first.addresses or c.second.addresses
    for i, j in c.pairs.items():
        one, two = c.first.items[i], c.second.items[j]
        owners = {one.owner, two.owner}
        # « Mon employeur peut-il lire son courrier »: with someone to own it, « son » is not « mon ».
        if "theirs" in owners and owners & {"mine", "yours"}:
            clash = _has_owner(c.first, i) and _has_owner(c.second, j)
        else:
            clash = owners == {"mine", "others"} or (owners == {"mine", "yours"} and not addressed)
        if clash:
            return Disagreement("role", f"{one.owner} {one.text}", f"{two.owner} {two.text}")
    return None


def _has_owner(reading: Reading, position: int) -> bool:
    return any(item.is_noun and item.relation == "none" for item in reading.items[:position])
