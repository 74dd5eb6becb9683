"""What the small words between two items say: bounds, choices, prepositions and directions. Pure."""

from faqs.second_key.comparison import Comparison
from faqs.second_key.disagreement import Disagreement
from faqs.second_key.lexicon import Kind, Marker
from faqs.second_key.roles import INCLUDING

_GOALS = frozenset(("to", "for"))
_SOURCES = frozenset((Marker.FROM, Marker.OF))
_TARGETS = frozenset((Marker.TO, Marker.AT, Marker.FOR))
_STRONG = frozenset((Marker.FROM, Marker.TO))
_BESIDE_AGENTS = frozenset((Marker.WITH, Marker.PLACE, Marker.CLAUSE, Marker.AT))


def another_bound(c: Comparison) -> Disagreement | None:
    """« Au-dessus de 10 kg » is another quantity than « au-dessous de 10 kg »."""
    for one, two in c.partners():
        if one.bound != two.bound:
            return Disagreement(
                "number", f"{one.bound} {one.text}".strip(), f"{two.bound} {two.text}".strip()
            )
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
        if relations == {"none", "on"}:
            return not both_nouns
        return "none" in relations or "of" not in relations
    # "Does breakfast include coffee", "is breakfast included in coffee".
    including = c.first.items[i - 1].concept in INCLUDING
    if including and c.first.is_passive is not c.second.is_passive:
        return relations != {"none", "in"}
    return not (both_nouns and relations & _GOALS)


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
                "role",
                f"{one.marker or ''} {one.text}".strip(),
                f"{two.marker or ''} {two.text}".strip(),
            )
    return None
