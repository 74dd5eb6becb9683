"""The files of words: what a language has to bring."""

import re

import pytest

from knowledge.language.words import LANGUAGES, fold, one_of, word_class, word_classes


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_stand_folded_and_once(language: str) -> None:
    for name, text in word_classes(language).items():
        found = text.split()
        assert fold(text) == text, name
        assert len(found) == len(set(found)), name


def test_a_class_is_asked_for_one_language_or_for_all() -> None:
    assert "the" in word_class("stop_words", "en")
    assert "the" not in word_class("stop_words", "fr")
    assert {"the", "les"} <= word_class("stop_words")


def test_a_class_is_matched_as_one_expression() -> None:
    pattern = re.compile(rf"(?:{one_of('connective_openings')})")
    assert pattern.fullmatch("dans ce cas")
    assert pattern.fullmatch("what about")
    assert not pattern.fullmatch("dans")
