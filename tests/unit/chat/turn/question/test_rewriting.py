"""What a rewriting of the model must be to be taken; nothing here talks to a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.turn.standalone import rejection

SAID = "Quel était le tarif de la piscine en 2023 ?\nLe tarif était de 4 euros."


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("Et en 2024 ?", "Quel est le tarif de la piscine en 2024 ?", SAID),
        ("Qui peut le consulter ?", "Qui peut consulter le FICP ?", "Le FICP, c'est quoi ?"),
        ("How much does that cost?", "How much does a PACS cost?", "How do I get a PACS?"),
        ("Même sans contrat ?", "Est-on payé même sans contrat ?", "Est-on payé en août ?"),
    ],
)
def test_faithful_rewriting_is_taken(question: str, text: str, said: str) -> None:
    assert rejection(text, question, said) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_one_line"),
        ("Voici :\nQuel est le tarif de la piscine en 2024 ?", "not_one_line"),
        ("Quel est le tarif de la piscine en 2024 ? " * 20, "not_one_line"),
        ("Quel tarif en 2024 ? Et celui de la piscine ?", "not_one_question"),
        ("Le tarif de la piscine en 2024 était de 4 euros.", "not_one_question"),
        ("Et le tarif de la piscine en 2024 ?", "still_follow_up"),
        ("Quel est le tarif de la piscine en 2024 pour 2 enfants ?", "new_number"),
        ("Quel est le tarif de la piscine Molitor en 2024 ?", "new_name"),
        ("Quel est le tarif nocturne de la piscine en 2024 ?", "new_word"),
        ("Quel n'est pas le tarif de la piscine en 2024 ?", "negation"),
        ("Quel est le tarif de la piscine en 2023 ?", "lost_word"),
    ],
)
def test_unfaithful_rewriting_is_refused_with_its_reason(text: str, reason: str) -> None:
    assert rejection(text, "Et en 2024 ?", SAID) == reason


@given(st.text(max_size=500))
def test_no_word_or_number_of_a_taken_rewriting_is_new(text: str) -> None:
    """Whatever a model writes: what is taken is made of the conversation's words."""
    written = f"Quel est le tarif de la piscine en 2024 {text} ?"
    if rejection(written, "Et en 2024 ?", SAID) == "":
        known = f"{SAID} Et en 2024 ?"
        assert all(number in known for number in text.split() if number.isdecimal())
        assert len(written) <= 400
        assert "\n" not in written
