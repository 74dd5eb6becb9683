"""Both keys in one decision: each refusal has its name, and a model may only explain plain words away."""

import pytest

from faqs.second_key.same_question import Outcome, would_serve

SAME = ("Comment renouveler mon passeport ?", "comment renouveler un passeport")


@pytest.mark.parametrize(
    ("outcome", "score", "threshold", "follow_up"),
    [
        (Outcome.OFF, 1.0, None, False),
        (Outcome.FOLLOW_UP, 1.0, 0.9, True),
        (Outcome.BELOW_THRESHOLD, 0.899, 0.9, False),
    ],
)
def test_each_refusal_has_its_name(outcome: Outcome, score: float, threshold: float | None, follow_up: bool) -> None:
    decision = would_serve(stored=SAME[0], asked=SAME[1], score=score, threshold=threshold, is_follow_up=follow_up)
    assert (decision.served, decision.outcome) == (False, outcome)
    assert decision.reasons
    assert not decision.agreement.is_open_to_verification


@pytest.mark.parametrize(
    "asked",
    [
        "Comment laver 2 doudounes ?",
        "Comment ne pas laver une doudoune ?",
        "Quand laver une doudoune ?",
        "Comment laver une doudoune Moncler ?",
    ],
)
def test_a_model_is_asked_about_plain_words_and_never_about_a_typed_clash(asked: str) -> None:
    stored = "Comment laver une doudoune ?"
    words = would_serve(stored=stored, asked="Comment lessiver une doudoune ?", score=0.9, threshold=0.5)
    clash = would_serve(stored=stored, asked=asked, score=0.9, threshold=0.5)
    assert (words.served, words.agreement.is_open_to_verification) == (False, True)
    assert clash.outcome is Outcome.SECOND_KEY_REFUSED
    assert (clash.served, clash.agreement.is_open_to_verification) == (False, False)
