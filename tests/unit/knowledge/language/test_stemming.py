"""Stems, and what a language needs to have one."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from knowledge.language.words import LANGUAGES, common_stem, stem


@pytest.mark.parametrize(
    ("language", "one", "two"),
    [("fr", "conserver", "conservation"), ("fr", "delegues", "delegue"), ("en", "refused", "refusing")],
)
def test_forms_of_a_word_share_a_stem(language: str, one: str, two: str) -> None:
    assert stem(one, language) == stem(two, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_stemmer(language: str) -> None:
    assert stem("a", language)


def test_a_word_of_either_language_has_one_stem() -> None:
    assert common_stem("cookies") == common_stem("cookie")
    assert common_stem("ecoles") == common_stem("ecole")


def test_stems_are_the_same_from_several_threads() -> None:
    words = ["conservation", "refusing", "delegues", "cookies"] * 200
    expected = [common_stem(word) for word in words]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(common_stem, words)) == expected
