"""Would a stored answer be given to this question? The one place where both keys turn.

The first key is the cosine of the two questions, the second `agreement`; behind it a model may be asked
(`verifier`). Everything that lets a stored answer out calls `would_serve`, and so do `check_pairs` and
`calibrate_thresholds`: what is measured is what serves. Pure without a verifier; with one, it waits for the network and
belongs in a thread.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from faqs.second_key.agreement import compare_questions
from faqs.second_key.disagreement import Disagreement


class Outcome(StrEnum):
    """Names that stand in traces and in the output of `check_pairs`."""

    SERVED = "served"
    OFF = "off"
    FOLLOW_UP = "follow_up"
    BELOW_THRESHOLD = "below_threshold"
    SECOND_KEY_REFUSED = "second_key_refused"


class QuestionVerifier(Protocol):
    """Asked only where nothing but unexplained words stands between the two questions."""

    def confirms(self, stored: str, asked: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision; `reasons` says why not, « nombre : 2023 ≠ 2024 », and is empty when served."""

    outcome: Outcome
    score: float
    reasons: tuple[str, ...] = ()
    explanation: str = ""
    disagreements: tuple[Disagreement, ...] = ()
    verified: bool = False
    #: The verifier was asked: one call of a model, whatever came of it.
    consulted: bool = False

    @property
    def served(self) -> bool:
        return self.outcome is Outcome.SERVED


def would_serve(
    *,
    stored: str,
    asked: str,
    score: float,
    threshold: float | None,
    is_follow_up: bool = False,
    verifier: QuestionVerifier | None = None,
) -> Decision:
    """Both keys, cheapest first. `threshold` None is switched off; equal to the threshold is enough."""
    if threshold is None:
        return Decision(Outcome.OFF, score, ("off",))
    if is_follow_up:
        return Decision(Outcome.FOLLOW_UP, score, ("follow_up",))
    if score < threshold:
        return Decision(Outcome.BELOW_THRESHOLD, score, (f"{score:.3f} < {threshold:.3f}",))
    agreement = compare_questions(stored, asked)
    if agreement.agrees:
        return Decision(Outcome.SERVED, score)
    consulted = verifier is not None and agreement.is_open_to_verification
    if consulted and verifier is not None and verifier.confirms(stored, asked):
        return Decision(Outcome.SERVED, score, verified=True, consulted=True)
    return Decision(
        Outcome.SECOND_KEY_REFUSED,
        score,
        agreement.reasons(),
        agreement.explain(),
        agreement.disagreements,
        consulted=consulted,
    )
