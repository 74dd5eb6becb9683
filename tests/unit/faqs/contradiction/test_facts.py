"""Facts of an answer: the same in two languages and two notations, and never out of what is no fact."""

import pytest

from faqs.contradiction.facts import Fact, facts_of


def facts(text: str) -> list[tuple[str, float | str]]:
    return sorted(((fact.kind, fact.value) for fact in facts_of(text)), key=lambda each: (each[0], str(each[1])))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("1 250,50 € par an.", "€1,250.50 a year."),
        ("20 centimes la page.", "0,20 € la page."),
        ("5€50", "5,50 €"),
        ("De 9 h à 17 h 30.", "9 a.m. to 5:30 p.m."),
        ("Ouvert de 9 à 11 h.", "Open 9-11 am."),
        ("14h-18h", "2pm-6pm"),
        ("De midi à 14 h.", "From noon to 2 pm."),
        ("Le 03/06.", "On June 3rd."),
        ("Le 1er septembre", "September 1"),
        ("48 heures", "Within two days."),
        ("90 minutes", "une heure et demie"),
        ("+33 4 78 00 11 22", "Au 04.78.00.11.22"),
        ("12, place de la République", "Place de la République, au 12"),
        ("Au 2e étage.", "On the second floor."),
        ("Il coûte 5 €.", "- cinq euros"),
    ],
)
def test_same_fact_in_another_notation(one: str, two: str) -> None:
    assert facts(one) == facts(two) != []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$5 an hour", [("money", 5.0)]),
        ("There is a £5 charge.", [("money", 5.0)]),
        ("Twice a week.", []),
        ("La version 5 l'a déplacé.", [("count", 5.0)]),
        ("De 8 h à 13 h sur la place de l'Église.", [("hour", 13.0), ("hour", 8.0)]),
        ("Bureau 214.", [("number", 214.0)]),
        ("Le premier guichet à gauche.", []),
        ("1. Ouvrez la page.\n2. Validez.", []),
    ],
)
def test_what_is_no_fact_is_passed_over(text: str, expected: list[tuple[str, float]]) -> None:
    assert facts(text) == expected


def test_a_month_is_thirty_days_and_not_five_weeks() -> None:
    month, days, weeks = (facts_of(text)[0] for text in ("un mois", "30 jours", "five weeks"))
    assert month.matches(days)
    assert not month.matches(weeks)


def test_facts_of_two_kinds_are_not_compared_by_their_values() -> None:
    assert Fact("email", "a@b.fr", "").matches(Fact("email", "a@b.fr", ""))
    assert not Fact("email", "a@b.fr", "").matches(Fact("email", "c@b.fr", ""))
