"""The language of a question, and of a document."""

from dataclasses import asdict

import pytest

from knowledge.isolation import read_from_json, read_here
from knowledge.language.words import document_language, language_of

TEXTS = {
    "fr": "La carte de lecteur coûte douze euros par an et se retire à l'accueil de la bibliothèque.",
    "en": "The library card costs twelve euros a year and is handed out at the desk on the ground floor.",
    "de": "Der Bibliotheksausweis kostet zwölf Euro im Jahr und wird am Empfang im Erdgeschoss ausgegeben.",
    "es": "El carné de lector cuesta doce euros al año y se recoge en la recepción de la biblioteca.",
}


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("OÙ est l’accueil ?", "fr"),
        ("Where is the desk?", "en"),
        ("", ""),
        ("Wifi ?", ""),
        ("Le desk is", ""),  # one small word of each
    ],
)
def test_small_words_tell_the_language_of_a_question(question: str, language: str) -> None:
    assert language_of(question) == language


@pytest.mark.parametrize("code", TEXTS)
def test_a_sentence_is_enough(code: str) -> None:
    assert document_language([TEXTS[code]]) == code


@pytest.mark.parametrize("text", ["", "12 / 45", "Jean Dupont", "| 1 | 2 |\n| --- | --- |"])
def test_too_little_text_says_nothing(text: str) -> None:
    assert document_language([text]) == ""


def test_long_document_is_judged_over_its_whole_length() -> None:
    text = TEXTS["en"] + "\n\n" + "\n\n".join(f"{TEXTS['fr']} {n}." for n in range(300))
    assert read_here(text.encode(), filename="a.txt").language == "fr"


def test_language_comes_through_the_pipe_of_the_reader() -> None:
    read = read_here(TEXTS["en"].encode(), filename="a.txt")
    assert read.language == "en"
    assert read_from_json(asdict(read)) == read
