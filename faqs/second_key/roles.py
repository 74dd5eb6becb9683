"""Who does what to whom: who acts, who undergoes and who owns, and what the small words between two items say. Pure.

The same words with another one in the role, or another preposition between them, say something else.
"""

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
_GOALS = frozenset(("to", "for"))
#: What is done in a place is not done to it (« nettoyer dans le bus », « nettoyer le bus »).
_PLACED = frozenset(("in", "into", "on"))
_SOURCES = frozenset((Marker.FROM, Marker.OF))
_TARGETS = frozenset((Marker.TO, Marker.AT, Marker.FOR))
_STRONG = frozenset((Marker.FROM, Marker.TO))
_BESIDE_AGENTS = frozenset((Marker.WITH, Marker.PLACE, Marker.CLAUSE, Marker.AT))


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
        order == _passive_order(by, verb, place, size) and _says_the_same_actively(active, passive, order, (by, place))
        for verb in range(1, min(by, 3))
        for place in range(1, size - by + 1)
    )


def agent(reading: Reading) -> int | None:
    """Where the one stands by whom it is done, in the passive; or what it is included in."""
    items = reading.items
    places = [
        i
        for i, item in enumerate(items)
        if item.marker is Marker.BY or (item.relation in _INSIDE and i and items[i - 1].concept in INCLUDING)
    ]
    return places[0] if reading.is_passive and len(places) == 1 and places[0] > 1 else None


def _passive_order(by: int, verb: int, acting: int, size: int) -> list[int]:
    """Who does it, the verb, what it is done to, the rest: where the words of the passive stand in the active."""
    done_to = range(acting + verb, acting + by)
    return [*done_to, *range(acting, acting + verb), *range(acting), *range(acting + by, size)]


def _says_the_same_actively(active: Reading, passive: Reading, order: list[int], places: tuple[int, int]) -> bool:
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


def another_bound(c: Comparison) -> Disagreement | None:
    """« Au-dessus de 10 kg » is another quantity than « au-dessous de 10 kg »."""
    for one, two in c.partners():
        if one.bound != two.bound:
            return Disagreement("number", f"{one.bound} {one.text}".strip(), f"{two.bound} {two.text}".strip())
    return None


def another_choice(c: Comparison) -> Disagreement | None:
    """« La carte et le permis » is not « la carte ou le permis »."""
    for one, two in c.partners():
        if {one.joined, two.joined} == {"and", "or"}:
            return Disagreement("scope", f"{one.joined} {one.text}", f"{two.joined} {two.text}")
    chosen = [
        next((f"or {item.text}" for item in reading.items if item.joined == "or"), "")
        for reading in (c.first, c.second)
    ]
    return Disagreement("scope", *chosen) if bool(chosen[0]) != bool(chosen[1]) else None


def another_relation(c: Comparison) -> Disagreement | None:
    """« Vendre à un mineur » is not « vendre un mineur »: prepositions that no paraphrase exchanges."""
    for i, j in c.pairs.items():
        one, two = c.first.items[i], c.second.items[j]
        if one.relation != two.relation and not one.bound and not _are_relations_alike(c, i, j):
            return Disagreement("role", f"{one.relation} {one.text}", f"{two.relation} {two.text}")
    return None


def _are_relations_alike(c: Comparison, i: int, j: int) -> bool:
    lexicon = c.lexicon
    one, two = c.first.items[i], c.second.items[j]
    relations = frozenset((one.relation, two.relation))
    both_nouns = one.is_noun and two.is_noun
    governed = i > 0 and j > 0 and c.pairs.get(i - 1) == j - 1
    after_verb = governed and not (c.first.items[i - 1].is_noun or c.second.items[j - 1].is_noun)
    if one.quantity or one.concept in lexicon.temporal:
        # « Payer en deux fois », « payer deux fois »; « augmenter de 5 % », « augmenter à 5 % ».
        counted = one.quantity and not one.quantity.unit and one.quantity.kind == "number"
        if (counted and relations == {"none", "in"}) or (after_verb and relations == {"of", "at"}):
            return False
        return relations in lexicon.alike_before_numbers
    # « La voiture de mon frère », « la voiture pour mon frère ».
    if relations == {"of", "for"} and one.owner and two.owner:
        return False
    if relations not in lexicon.alike:
        keywords = Kind.NONE in (c.first.kind, c.second.kind)
        return keywords and relations == {"none", "at"} and not both_nouns
    if not after_verb:
        return True
    # After a verb the preposition makes the meaning (« arriver de », « arriver en »; "leave for").
    if lexicon.has_inversion:
        if "none" in relations and relations & _PLACED:
            return not both_nouns
        return "none" in relations or "of" not in relations
    # "Does breakfast include coffee", "is breakfast included in coffee".
    including = c.first.items[i - 1].concept in INCLUDING
    if including and c.first.is_passive is not c.second.is_passive:
        return relations != {"none", "in"}
    return not (both_nouns and relations & (_GOALS | _PLACED))


def another_direction(c: Comparison) -> Disagreement | None:
    directional = any(item.concept in c.lexicon.directional for item in c.first.items)
    # "Are parents paid by teachers" is not "do parents pay teachers".
    passive = not c.lexicon.has_inversion and c.first.is_passive != c.second.is_passive
    for one, two in c.partners():
        markers = {one.marker, two.marker}
        opposed = bool(markers & _SOURCES and markers & _TARGETS)
        strong = directional or markers <= _STRONG
        by_one = (one.marker is Marker.BY) != (two.marker is Marker.BY)
        agent = by_one and not markers & _BESIDE_AGENTS
        if (opposed and strong) or (agent and ((one.is_noun and two.is_noun) or passive)):
            return Disagreement(
                "role", f"{one.marker or ''} {one.text}".strip(), f"{two.marker or ''} {two.text}".strip()
            )
    return None
