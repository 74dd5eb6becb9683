"""Which of a deployment's agents answers a question. Pure: scores in, a choice out.

Two signs, one after the other. What an agent knows says most: the relevance of the best passage of its index. Where no
agent leads there by the margin, its description says which lies nearest (read line by line: an agent is as near as its
nearest line). Where that is not clear either, the deployment's default agent answers. Descriptions alone choose the
right one of three in 59 % of questions, indexes in 89 % (`benchmarks/dispatch`). Margins belong to an embedding model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

#: Longer descriptions are read so far.
MAX_LINES = 40


@dataclass(frozen=True, slots=True)
class Margins:
    """The least lead in relevance of indexes, and in cosine of descriptions."""

    index: float
    description: float


#: By embedding model, from `benchmarks/dispatch`: chosen on one half of its questions, reported on the other.
DISPATCH_MARGINS = {"universal-sentence-encoder-multilingual-3": Margins(index=0.05, description=0.15)}
#: A model that was not measured: wide, so that the default agent answers what is not plain.
UNMEASURED_MARGINS = Margins(index=0.1, description=0.2)

Sign = Literal["index", "description", "default"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The position of the agent that answers, by which sign, with the score and the lead that decided."""

    position: int
    by: Sign
    score: float
    lead: float


def margins_of(model: str, own: float | None) -> Margins:
    """Staff's margin stands for the first sign; the others are the embedding model's."""
    measured = DISPATCH_MARGINS.get(model, UNMEASURED_MARGINS)
    return measured if own is None else Margins(own, measured.description)


def description_lines(name: str, description: str) -> tuple[str, ...]:
    """The texts that stand for an agent; its name where it has no description."""
    lines = [line.strip(" -*•\t") for line in description.splitlines()]
    return tuple(line for line in lines if line)[:MAX_LINES] or (name,)


def nearness(vector: NDArray[np.float32], descriptions: Sequence[NDArray[np.float32]]) -> list[float]:
    """How near each agent's nearest line is. `descriptions`: the unit rows of each agent's lines."""
    return [float((rows @ vector).max()) for rows in descriptions]


def choose_agent(relevance: Sequence[float], near: Sequence[float], margins: Margins) -> Choice:
    """The agent at position 0 is the default one. Equal to a margin is enough; at equal scores the first leads."""
    best, score, lead = _leader(relevance)
    if lead >= margins.index and score > 0.0:
        return Choice(best, "index", score, lead)
    nearest, cosine, ahead = _leader(near)
    if ahead >= margins.description:
        return Choice(nearest, "description", cosine, ahead)
    return Choice(0, "default", score, lead)


def _leader(scores: Sequence[float]) -> tuple[int, float, float]:
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    best, second = order[0], order[1]
    return best, scores[best], scores[best] - scores[second]
