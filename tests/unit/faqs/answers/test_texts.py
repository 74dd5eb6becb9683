"""The texts of validated answers keep every character that a reader can see or that shapes what they see."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from faqs.answers import clean_answer

SPACES_AND_JOINERS = "\u00a0\u2007\u2009\u202f\u2060\u200b\u200c\u200d\u00ad\u3000"


@given(st.text(st.one_of(st.sampled_from(SPACES_AND_JOINERS), st.characters(exclude_categories=["Cc", "Cs"]))))
def test_nothing_but_blanks_at_the_ends_is_taken_from_visible_text(answer: str) -> None:
    assert clean_answer(answer) == answer.strip()


@given(st.text(st.characters()))
def test_cleaning_twice_is_cleaning_once_and_leaves_no_control_character(answer: str) -> None:
    cleaned = clean_answer(answer)
    assert clean_answer(cleaned) == cleaned
    assert not [c for c in cleaned if unicodedata.category(c) == "Cc" and c not in "\n\t"]
