"""What counts as a word."""

import gc
import tomllib
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.isolation import read_here
from knowledge.language.words import (
    _MEANINGS_FILE,
    ACCENTED,
    LANGUAGES,
    PLAIN,
    document_language,
    fold,
    fold_keeping_accents,
    fold_letters,
    language_data,
    language_of,
    same_writing,
    word_class,
    words,
)


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words("L'été_2024, vend-on 3,5 kg ?") == ["L", "été", "2024", "vend", "on", "3", "5", "kg"]
    assert words(" ?! _ ") == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_stand_folded_and_once(language: str) -> None:
    for name, text in language_data(language, "classes").items():
        found = text.split()
        assert fold(text) == text, name
        assert len(found) == len(set(found)), name


def test_a_class_is_asked_for_one_language_or_for_all() -> None:
    assert "the" in word_class("stop_words", "en")
    assert "the" not in word_class("stop_words", "fr")
    assert {"the", "les"} <= word_class("stop_words")


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Élève", "eleve"),
        ("E\u0301le\u0300ve", "eleve"),
        ("L’ŒUVRE", "l'oeuvre"),
        ("ﬁchier", "fichier"),
        ("STRASSE Straße", "strasse strasse"),
        ("m²", "m2"),
        ("Plain ASCII: 1_2", "plain ascii: 1_2"),
    ],
)
def test_words_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


@given(st.text())
@settings(deadline=None)
def test_plain_text_takes_no_other_way_than_accented_text(text: str) -> None:
    assert fold(f"{text}é") == f"{fold(text)}e"


def test_accents_that_tell_words_apart_are_kept() -> None:
    assert fold_keeping_accents("OÙ, l’ﬁn") == "où, l'fin"
    assert fold_keeping_accents("ou") != fold_keeping_accents("où")


def test_a_database_folds_the_same_letters() -> None:
    assert [fold_letters(letter) for letter in ACCENTED] == list(PLAIN)
    assert fold_letters("CŒUR d’Élu, m²") == "cœur d'elu, m²"


def test_answers_differ_by_more_than_case_and_spaces() -> None:
    assert same_writing("Douze  euros\n", "douze EUROS")
    assert not same_writing("10²", "102")
    assert not same_writing("du", "dû")


def test_words_stand_folded_and_once_a_meaning() -> None:
    for meaning, listed in tomllib.loads(_MEANINGS_FILE.read_text(encoding="utf-8")).items():
        for word in listed.split():
            assert fold(word) == word, (meaning, word)
            assert word.isalpha(), (meaning, word)


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


class _Typed(str):
    """A text of which one can tell whether anything still holds it."""


def test_a_text_whose_language_was_told_is_not_held() -> None:
    text = _Typed("Je suis Camille et je cherche le guichet")
    assert language_of(text) == "fr"
    held = weakref.ref(text)
    del text
    gc.collect()
    assert held() is None


_TOO_LITTLE = ("", "12 / 45", "Jean Dupont", "| 1 | 2 |\n| --- | --- |")


@pytest.mark.parametrize(("code", "text"), [*TEXTS.items(), *(("", text) for text in _TOO_LITTLE)])
def test_a_sentence_tells_the_language_and_less_says_nothing(code: str, text: str) -> None:
    assert document_language([text]) == code


def test_long_document_is_judged_over_its_whole_length() -> None:
    text = TEXTS["en"] + "\n\n" + "\n\n".join(f"{TEXTS['fr']} {n}." for n in range(300))
    assert read_here(text.encode(), filename="a.txt").language == "fr"
