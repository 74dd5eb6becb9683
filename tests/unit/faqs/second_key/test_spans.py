"""How long until one has it, how long it lasts; what it costs, what one receives: no answer gives both."""

import pytest

from faqs.second_key.agreement import ask_the_same


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Quel est le délai pour obtenir le passeport ?", "Combien de temps dure le passeport ?"),
        ("Quel est le délai pour obtenir un badge ?", "Quelle est la durée du badge ?"),
        ("Quel est le délai pour obtenir la garderie ?", "Combien d'heures la garderie ?"),
        ("Combien coûte l'aide à domicile ?", "Combien je touche pour l'aide à domicile ?"),
        ("Combien coûte la salle de sport ?", "Combien de personnes dans la salle de sport ?"),
    ],
)
def test_two_times_or_amounts_are_not_one(stored: str, asked: str) -> None:
    assert not ask_the_same(stored, asked)


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Quel est le délai pour obtenir un badge ?", "Combien de temps pour obtenir un badge ?"),
        ("Quel délai pour livrer un colis ?", "Combien de temps pour livrer un colis ?"),
        ("Quelle est la durée du stage ?", "Combien de temps dure le stage ?"),
        ("Combien coûte l'aide à domicile ?", "Quel est le prix de l'aide à domicile ?"),
    ],
)
def test_one_time_or_amount_in_two_wordings_is_one(stored: str, asked: str) -> None:
    assert ask_the_same(stored, asked)
