"""The forms in which texts are compared."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.language.words import ACCENTED, PLAIN, fold, fold_keeping_accents, fold_letters, same_writing


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
