"""What two answers say that cannot both be true, and how it is told. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, time

from django.utils.dates import WEEKDAYS
from django.utils.formats import date_format, time_format
from django.utils.translation import gettext as _

from faqs.contradiction.stance import Exchange, Stated
from faqs.contradiction.together import are_alike, share
from faqs.contradiction.words import WORDS

#: An answer so short speaks of what is asked and of nothing else, and one of so few words may leave out the unit.
_BRIEF, _BARE = 15, 2
_YES, _NO = frozenset((1,)), frozenset((-1,))
#: What the sentences of two figures have in common in long answers.
_MUCH = 2
#: A word that both questions have clashes only where they ask for nearly the same.
_NEARLY_THE_SAME = 0.6


@dataclass(frozen=True, slots=True)
class Clash:
    """`stored` and `new`: as the answers say it, or a code (`yes`, `no`, weekdays, ways) that `__str__` puts into
    words.
    """

    kind: str
    stored: str
    new: str
    #: The word that one answer affirms and the other denies.
    word: str = ""

    def __str__(self) -> str:
        sides = " ≠ ".join(_side(self.kind, each) for each in (self.stored, self.new))
        return _("%(kind)s : %(sides)s") % {"kind": self.word or _label(self.kind), "sides": sides}


def figure_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """Two figures of a kind, each of which the other answer does not have; where they are about the same."""
    found = []
    for kind in dict.fromkeys(each.fact.kind for each in one.stated):
        left, right = _only_in(one, two, kind), _only_in(two, one, kind)
        pairs = ((a, b) for a in left for b in right if _are_comparable(a, b, one, two))
        if pair := next(pairs, None):
            found.append(Clash(kind, _as_said(pair[0]), _as_said(pair[1])))
    return found or _bare_clashes(one, two)


def _only_in(one: Exchange, two: Exchange, kind: str) -> list[Stated]:
    others = [each.fact for each in two.stated if each.fact.kind == kind]
    mine = (each for each in one.stated if each.fact.kind == kind)
    return [each for each in mine if others and not any(map(each.fact.matches, others))]


def _are_comparable(a: Stated, b: Stated, one: Exchange, two: Exchange) -> bool:
    long = one.is_long or two.is_long
    brief = min(len(each.answer.split()) for each in (one, two)) <= _BRIEF
    if not long and (brief or one.language != two.language):
        return True
    if a.fact.kind == "year" or one.language != two.language:
        return False
    stem = one.lexicon.stem
    if a.fact.kind == "count" and stem(a.fact.counted) != stem(b.fact.counted):
        return False
    return len(a.about & b.about) >= (_MUCH if long else 1)


def _bare_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """« Six. » beside « À partir de 10 ans » : the question names the unit."""
    for bare, full in ((one, two), (two, one)):
        if len(bare.stated) != 1 or len(bare.answer.split()) > _BARE:
            continue
        number, others = bare.stated[0], full.stated
        kinds = {each.fact.kind for each in others}
        if number.fact.kind != "count" or number.fact.counted or kinds != {"duration"}:
            continue
        if all(each.fact.raw != number.fact.raw for each in others):
            sides = [_as_said(number), _as_said(others[0])]
            return [Clash("duration", *(sides if bare is one else reversed(sides)))]
    return []


def day_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """A day on which one is open and the other closed; or other days altogether."""
    if _one_limits_the_other(one, two):
        return []
    left, right = one.days, two.days
    for sign, sides in ((1, ("yes", "no")), (-1, ("no", "yes"))):
        if both := left[sign] & right[-sign]:
            return [Clash("weekday", *sides, word=_days(both))]
    if left[1] - right[1] and right[1] - left[1]:
        return [Clash("weekday", *(" ".join(map(str, sorted(each[1]))) for each in (left, right)))]
    return []


def word_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """A word of a question that one answer affirms and the other denies."""
    if _one_limits_the_other(one, two):
        return []
    in_both = one.in_question.keys() & two.in_question.keys()
    nearly = min(_shared_part(one, two), _shared_part(two, one)) >= _NEARLY_THE_SAME
    # A long answer denies much that nobody asked.
    asked = frozenset[str]() if one.is_long or two.is_long else (one.subject | two.subject) - in_both
    telling = asked | in_both if nearly else asked
    found = []
    for concept, other in _shared_concepts(one, two):
        signs = one.signs[concept], two.signs[other]
        if {concept, other} & telling and {*signs} == {_YES, _NO}:
            word = one.word_for(concept)
            found.append(Clash("word", _yes_no(signs[0]), _yes_no(signs[1]), word))
    return found


def _shared_part(one: Exchange, two: Exchange) -> float:
    return share(one.in_question.keys(), two.spoken_of)


def _shared_concepts(one: Exchange, two: Exchange) -> Iterator[tuple[str, str]]:
    if one.language == two.language:
        yield from ((concept, concept) for concept in one.signs if concept in two.signs)
        return
    yield from ((a, b) for a in one.signs for b in two.signs if are_alike(a, b))


def side_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """One says that it is needed, paid for, allowed, and the other that it is not."""
    if one.is_long or two.is_long or _one_limits_the_other(one, two):
        return []
    found = []
    for axis in WORDS.axes:
        left, right = one.sides_of(axis), two.sides_of(axis)
        is_asked = one.asks_about(axis) or two.asks_about(axis)
        if len(left) == len(right) == 1 and left != right and (is_asked or axis in _UNASKED):
            found.append(Clash(axis, _yes_no(left), _yes_no(right)))
    return found


#: Axes on which an answer is also where the question does not name them.
_UNASKED = frozenset(("yours", "automatic"))


def channel_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """Another way where one answer names the only one, or a way that one answer denies."""
    if one.is_long or two.is_long:
        return []
    left, right = one.channels, two.channels
    if left[1] and right[1] and not left[1] & right[1] and (one.is_exclusive or two.is_exclusive):
        return [Clash("channel", " ".join(sorted(left[1])), " ".join(sorted(right[1])))]
    for sign, sides in ((1, ("yes", "no")), (-1, ("no", "yes"))):
        both = (left[sign] - left[-sign]) & (right[-sign] - right[sign])
        if both:
            return [Clash("channel", *sides, word=_side("channel", " ".join(sorted(both))))]
    return []


def verdict_clashes(one: Exchange, two: Exchange) -> list[Clash]:
    """Yes and no in two languages, where words cannot be compared; to questions on the same side of things."""
    if one.language == two.language or one.is_long or two.is_long:
        return []
    if one.verdict * two.verdict != -1 or _ask_for_opposites(one, two):
        return []
    return [Clash("verdict", _yes_no({one.verdict}), _yes_no({two.verdict}))]


def _ask_for_opposites(one: Exchange, two: Exchange) -> bool:
    for group in WORDS.axes.values():
        for side, other in (("plus", "minus"), ("minus", "plus")):
            if group[side].search(one.asked) and group[other].search(two.asked):
                return True
    return False


def _one_limits_the_other(one: Exchange, two: Exchange) -> bool:
    """« Sauf en août » explains the other answer, which is about August."""
    return bool(one.limits & two.spoken_of or two.limits & one.spoken_of)


def _yes_no(signs: Iterable[int]) -> str:
    return "yes" if 1 in signs else "no"


def _as_said(stated: Stated) -> str:
    fact = stated.fact
    if fact.kind == "money":
        return re.sub(r"^([€$£]) ", r"\1", fact.text) if fact.value else "free"
    return str(fact.value) if fact.kind == "date" else fact.text


def _side(kind: str, text: str) -> str:
    words = {"yes": _("oui"), "no": _("non"), "free": _("gratuit")}
    if text in words:
        return words[text]
    if kind == "hour":
        return time_format(time.fromisoformat(text), "TIME_FORMAT")
    if kind == "date":
        return _day_of_year(text)
    if kind == "weekday":
        return _days(map(int, text.split()))
    if kind == "channel":
        return ", ".join(_channels()[each] for each in text.split())
    return text


def _day_of_year(code: str) -> str:
    """A leap year has every day; what no year has stays as it is."""
    try:
        return date_format(date.fromisoformat(f"2000-{code}"), "MONTH_DAY_FORMAT")
    except ValueError:
        return code


def _days(days: Iterable[int]) -> str:
    return ", ".join(str(WEEKDAYS[day]) for day in sorted(days))


def _channels() -> dict[str, str]:
    return {
        "online": _("en ligne"),
        "post": _("par courrier"),
        "counter": _("sur place"),
        "phone": _("par téléphone"),
        "email": _("par courriel"),
    }


def _label(kind: str) -> str:
    labels = {
        "money": _("prix"),
        "percent": _("taux"),
        "duration": _("durée"),
        "hour": _("heure"),
        "date": _("date"),
        "weekday": _("jours"),
        "address": _("adresse"),
        "phone": _("téléphone"),
        "email": _("adresse électronique"),
        "web": _("page web"),
        "floor": _("étage"),
        "channel": _("moyen"),
        "needed": _("obligatoire"),
        "paid": _("payant"),
        "allowed": _("autorisé"),
        "provided": _("compris"),
        "yours": _("à la charge de qui demande"),
        "automatic": _("automatique"),
        "verdict": _("réponse"),
    }
    return labels.get(kind) or _("nombre")
