"""Would a stored answer be given to this question? The one place where both keys turn.

The first key is the cosine of the two questions, the second `agreement`; behind it a model may be asked (`verifier`).
Everything that lets a stored answer out calls `would_serve`, and so do `check_pairs` and `calibrate_thresholds`: what
is measured is what serves. Pure without a verifier; with one, it waits for the network and belongs in a thread.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from faqs.second_key.agreement import AGREED, Agreement, compare_questions
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
    """The decision; its words are put together where somebody reads them: most decisions of a turn are read by nobody."""

    outcome: Outcome
    score: float
    #: What was refused before the second key was turned.
    refused: str = ""
    agreement: Agreement = AGREED
    verified: bool = False
    #: The verifier was asked: one call of a model, whatever came of it.
    consulted: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not, « nombre : 2023 ≠ 2024 »; empty when served."""
        return (self.refused,) if self.refused else self.agreement.reasons()

    @property
    def explanation(self) -> str:
        return "" if self.agreement.agrees else self.agreement.explain()

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        return self.agreement.disagreements

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
        return Decision(Outcome.OFF, score, "off")
    if is_follow_up:
        return Decision(Outcome.FOLLOW_UP, score, "follow_up")
    if score < threshold:
        return Decision(Outcome.BELOW_THRESHOLD, score, f"{score:.3f} < {threshold:.3f}")
    agreement = compare_questions(stored, asked)
    if agreement.agrees:
        return Decision(Outcome.SERVED, score)
    consulted = verifier is not None and agreement.is_open_to_verification
    if consulted and verifier is not None and verifier.confirms(stored, asked):
        return Decision(Outcome.SERVED, score, verified=True, consulted=True)
    return Decision(Outcome.SECOND_KEY_REFUSED, score, agreement=agreement, consulted=consulted)
