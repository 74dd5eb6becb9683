"""What is masked before a question without answer is kept, and from which score a question counts as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faqs.unanswered import masked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Écrivez à jean.dupont@exemple.fr ?", "Écrivez à [@] ?"),
        ("Mon numéro est le 06 12 34 56 78, merci", "Mon numéro est le [#], merci"),
        ("Dossier 2023-000451 ?", "Dossier [#] ?"),
        ("+33612345678", "[#]"),
        ("Le tarif 2024 est-il de 1200 euros ?", "Le tarif 2024 est-il de 1200 euros ?"),
        ("une\nquestion\tsur deux lignes", "une question sur deux lignes"),
    ],
)
def test_addresses_and_long_numbers_are_masked(text: str, expected: str) -> None:
    assert masked(text) == expected


@given(st.text(max_size=800))
def test_masking_is_bounded_and_changes_nothing_twice(text: str) -> None:
    once = masked(text)
    assert len(once) <= 500
    assert masked(once) == once
