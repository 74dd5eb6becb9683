"""What is a courtesy and nothing else, however it is typed, in French and in English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.language.typed import Courtesy, courtesy_in
from knowledge.language.words import word_class


@pytest.mark.parametrize(
    ("said", "kind", "language"),
    [
        ("bonjour", "greeting", "fr"),
        ("BONJOUR À TOUS !", "greeting", "fr"),
        ("bonjouuuur", "greeting", "fr"),
        ("Hello there", "greeting", "en"),
        ("Merci beaucoup pour votre aide :)", "thanks", "fr"),
        ("ok merci", "thanks", "fr"),
        ("Thanks a lot!", "thanks", "en"),
        ("Merci, au revoir.", "thanks", "fr"),
        ("au revoir", "farewell", "fr"),
        ("ciao", "farewell", ""),
        ("Salut, ça va ?", "well_being", "fr"),
        ("How’s it going?", "well_being", "en"),
        ("Bonjour, qui es-tu ?", "presentation", "fr"),
        ("t’es qui", "presentation", "fr"),
        ("WHO ARE YOU", "presentation", "en"),
        ("?", "unclear", ""),
        ("…", "unclear", ""),
        ("👍", "unclear", ""),
        ("a", "unclear", ""),
        (" \n", "unclear", ""),
    ],
)
def test_courtesy_is_known_by_its_words(said: str, kind: str, language: str) -> None:
    found = courtesy_in(said)
    assert found is not None
    assert (found.kind, found.language) == (kind, language)


@pytest.mark.parametrize(
    "said",
    [
        "Bonjour, comment demander un passeport ?",
        "merci de me dire quand vous ouvrez",
        "Qui êtes-vous autorisés à recevoir ?",
        "Who are you allowed to fine?",
        "ça va prendre combien de temps ?",
        "How are you funded?",
        "bonne question",
        "oui",
        "ok",
        "2",
        "RQTH",
        "aide au logement",
        "What can you do about noise?",
    ],
)
def test_what_asks_something_is_none(said: str) -> None:
    assert courtesy_in(said) is None


_PHRASES = sorted(word_class("greetings") | word_class("thanks") | word_class("farewells"))


@given(st.lists(st.sampled_from(_PHRASES), min_size=1, max_size=3), st.sampled_from(["!", ", ", " … "]))
def test_courtesies_together_are_one_however_they_are_typed(said: list[str], mark: str) -> None:
    text = mark.join(phrase.replace("_", " ") for phrase in said)
    assert isinstance(courtesy_in(text), Courtesy)
    assert courtesy_in(text.upper()) == courtesy_in(text)
    assert courtesy_in(f"{text} passeport ?") is None
