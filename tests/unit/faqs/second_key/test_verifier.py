"""The model's verdict: one clear yes, and all else is none."""

import pytest

from faqs.second_key.verifier import is_yes


@pytest.mark.parametrize("text", ['{"same_answer": true}', ' {"same_answer": true}\n'])
def test_one_clear_yes_is_a_yes(text: str) -> None:
    assert is_yes(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"same_answer": false}',
        "",
        "{}",
        "true",
        "yes",
        '{"same_answer": "true"}',
        '{"same_answer": 1}',
        '{"same_answer": true, "but": "not the year"}',
        '```json\n{"same_answer": true}\n```',
    ],
)
def test_all_else_is_none(text: str) -> None:
    assert not is_yes(text)
