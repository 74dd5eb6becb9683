"""Frames in, and refusals that name the field."""

import json
import uuid

import pytest

from chat.errors import InvalidMessageError
from chat.protocol import AskFrame, ResumeFrame, StopFrame, parse_frame, valid_question
from knowledge.language.typed import courtesy_in
from tests.constants import override


def test_ask_frame_is_parsed() -> None:
    frame = parse_frame(json.dumps({"type": "ask", "message": " Bonjour ? ", "clientMessageId": "a1"}))
    assert frame == AskFrame(message="Bonjour ?", client_message_id="a1")


def test_stop_and_resume_frames_are_parsed() -> None:
    turn = uuid.uuid4()
    resume = json.dumps({"type": "resume", "turnId": str(turn), "lastEventId": 4})
    assert parse_frame('{"type": "stop"}') == StopFrame()
    assert parse_frame(resume) == ResumeFrame(turn_id=turn, last_event_id=4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"type": "dance"}',
        '{"type": "resume", "turnId": "x"}',
        '{"type": "resume", "turnId": "5a0f2c64-6a3e-4c50-9f0e-8a6c8f6f1c1d", "lastEventId": 1e999}',
        '{"type": "ask"}',
        "[" * 9000,
    ],
)
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
