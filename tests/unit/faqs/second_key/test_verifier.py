"""The parsing of a model's verdict: a clear yes, a clear no, or no verdict."""

import pytest

from faqs.second_key.decision import configured_verifier, parse_verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"same_answer": true}', True),
        (' {"same_answer": false}\n', False),
        ("true", True),
        ("Oui.", True),
        ("yes", True),
        ("NO", False),
        ("non", False),
        ("", None),
        ("{}", None),
        ('{"same_answer": "true"}', None),
        ('{"same_answer": 1}', None),
        ('{"same_answer": true, "but": "not the year"}', None),
        ("[true]", None),
        ("Yes, but not for the same year.", None),
        ("yes no", None),
        ("maybe", None),
        ('```json\n{"same_answer": true}\n```', None),
    ],
)
def test_only_a_clear_answer_is_a_verdict(text: str, verdict: bool | None) -> None:
    assert parse_verdict(text) is verdict


def test_without_a_model_there_is_no_verifier() -> None:
    assert configured_verifier() is None
