"""What is taken for an answer: more than 50 characters, and coherent (seed 002, section I)."""

import pytest

from agents.llm.base import Reply
from chat.turn.generation import SHORT, judge_reply

ANSWER = "La médiathèque ouvre du mardi au samedi, de 10 à 18 heures [1]. Elle ferme en août."


@pytest.mark.parametrize(
    ("text", "finish", "quality"),
    [
        (ANSWER, "stop", "satisfactory"),
        ("- carte\n- livret\n- carte\n- carte\n- justificatif de domicile", "stop", "satisfactory"),
        ("a" * SHORT, "stop", "too_short"),
        ("a" * (SHORT + 1), "stop", "satisfactory"),
        ("  " + "a" * SHORT + "\n", "stop", "too_short"),
        (ANSWER[:-6], "length", "cut"),
        ('{"function": "opening_hours", "arguments": {"place": "médiathèque"}}', "stop", "call_as_text"),
        ("<tool_call>opening_hours(place='médiathèque', day='mardi')</tool_call>", "stop", "call_as_text"),
        ("La médiathèque ouvre à 10 heures. " * 3, "stop", "repeated"),
        ("…" * (SHORT + 1), "stop", "satisfactory"),
    ],
)
def test_first_thing_that_is_wrong_is_named(text: str, finish: str, quality: str) -> None:
    assert judge_reply(Reply(text=text, model="m", finish_reason=finish)) == quality
