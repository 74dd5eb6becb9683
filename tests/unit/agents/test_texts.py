"""Texts of others become such that every database and every socket takes them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agents.texts import read_json, storable, storable_value

#: Halves of characters, too.
_ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()) | st.sampled_from("\0\ud83d\ude00"))
_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_ANY_TEXT, inner),
)


def test_halves_are_paired_and_a_lone_one_is_marked() -> None:
    assert storable("a\ud83d\ude00b\ud800c\0d") == "a😀b\ufffdcd"


def test_names_and_inner_texts_are_read_whole() -> None:
    assert read_json(rb'{"a\ud800": ["\u0000b", {"c": "\ud83d\ude00"}], "n": 1.5}') == {
        "a\ufffd": ["b", {"c": "😀"}],
        "n": 1.5,
    }


@given(_ANY_JSON)
def test_any_value_can_be_stored_and_stays_as_it_is_then(value: object) -> None:
    once = storable_value(value)
    text = json.dumps(once, ensure_ascii=False)
    text.encode()
    assert r"\u0000" not in text.replace(r"\\", "")
    assert storable_value(once) == once
