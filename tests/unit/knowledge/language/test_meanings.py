"""The list of meanings holds what a word can be looked up by."""

import tomllib

from knowledge.language.words import _MEANINGS_FILE, fold, meanings_of


def test_words_stand_folded_and_once_a_meaning() -> None:
    for meaning, listed in tomllib.loads(_MEANINGS_FILE.read_text(encoding="utf-8")).items():
        for word in listed.split():
            assert fold(word) == word, (meaning, word)
            assert word.isalpha(), (meaning, word)


def test_forms_of_both_languages_mean_the_same() -> None:
    assert set(meanings_of("renomme")) & set(meanings_of("rename"))
    assert set(meanings_of("fichiers")) & set(meanings_of("file"))
    assert set(meanings_of("bugs")) & set(meanings_of("tickets"))
    assert meanings_of("zzz") == ()
