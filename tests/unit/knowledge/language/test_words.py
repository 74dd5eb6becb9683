"""What counts as a word."""

from knowledge.language.words import words


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words("L'été_2024, vend-on 3,5 kg ?") == ["L", "été", "2024", "vend", "on", "3", "5", "kg"]
    assert words(" ?! _ ") == []
