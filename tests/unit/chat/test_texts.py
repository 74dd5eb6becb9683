"""Text as somebody sent it: whole characters in UTF-8, or a refusal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.errors import InvalidMessageError, UnreadableTextError
from chat.protocol import parse_frame, parse_json_object, read_json

#: Any text of Python, halves of characters among them.
TEXTS = st.text(st.characters(codec=None))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
)
OTHER_ENCODINGS = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


def is_whole(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(VALUES, st.booleans(), st.booleans())
def test_whole_text_is_read_as_it_is_and_any_other_is_refused(value: Any, is_escaped: bool, is_bytes: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_escaped)
    said = text.encode(errors="surrogatepass") if is_bytes else text
    # Two halves side by side, each as an escape, are one character.
    meant = json.loads(text)
    if is_whole(meant):
        assert read_json(said) == meant
    else:
        with pytest.raises(UnreadableTextError):
            read_json(said)


@given(VALUES, st.sampled_from(OTHER_ENCODINGS))
def test_no_other_encoding_is_read(value: Any, encoding: str) -> None:
    with pytest.raises(UnreadableTextError):
        read_json(json.dumps({"message": value}).encode(encoding))


@given(st.binary() | st.text(st.characters(codec=None)))
def test_anything_at_all_is_read_or_refused(said: bytes | str) -> None:
    try:
        read = parse_json_object(said)
    except InvalidMessageError:
        read = {}
    assert is_whole(read)
    if isinstance(said, str):
        with pytest.raises(InvalidMessageError):
            parse_frame(said)


def test_mark_that_some_programs_begin_with_is_passed_over() -> None:
    assert read_json(b"\xef\xbb\xbf" + b'{"a": "\xc3\xa9"}') == {"a": "é"}


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "[" * 100_000, "9" * 5_000])
def test_what_is_no_json_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whichever says it
        read_json(text)
