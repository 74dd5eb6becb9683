"""Frames and texts in: whole characters in UTF-8, and refusals that name the field."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.errors import InvalidMessageError, UnreadableTextError
from chat.protocol import (
    AskFrame,
    parse_ask,
    parse_frame,
    parse_json_object,
    read_json,
    valid_event_id,
    valid_question,
    valid_uuid,
)
from knowledge.language.typed import courtesy_in
from tests.constants import override


def test_question_of_a_frame_is_parsed() -> None:
    frame = parse_frame(json.dumps({"type": "ask", "message": " Bonjour ? ", "clientMessageId": "a1"}))
    assert parse_ask(frame) == AskFrame(message="Bonjour ?", client_message_id="a1")


@pytest.mark.parametrize(
    "read", [partial(valid_uuid, "turnId", "x"), partial(valid_event_id, math.inf), partial(parse_ask, {})]
)
def test_malformed_field_is_refused(read: Callable[[], object]) -> None:
    with pytest.raises(InvalidMessageError):
        read()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"type": "dance"}', '{"type": ["ask"]}', "[" * 9000])
def test_malformed_frame_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageError):
        parse_frame(text)


@pytest.mark.parametrize(
    "value", ["", "   ", "\x00", "\u200b\ufeff", "\u00a0\u2060", "\u2800\u3164", "\ufe0f", 12, None, ["a"]]
)
def test_blank_question_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidMessageError) as refusal:
        valid_question(value)
    assert "message" in str(refusal.value.public_message)


@pytest.mark.parametrize("text", ["?", "??", "…", "😀", "❤️", "👍🏽", "?" * 500])
def test_signs_are_a_question_that_the_courtesy_answers(text: str) -> None:
    assert valid_question(text) == text
    found = courtesy_in(text)
    assert found is not None
    assert found.kind == "unclear"


@override(MAX_MESSAGE_CHARACTERS=10)
def test_question_at_the_limit_passes_and_beyond_is_refused() -> None:
    assert valid_question("a" * 10) == "a" * 10
    with pytest.raises(InvalidMessageError):
        valid_question("a" * 11)


def test_megabyte_frame_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidMessageError):
        parse_frame(json.dumps({"type": "ask", "message": "a" * 1_000_000}))


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
