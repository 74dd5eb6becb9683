"""What writing the questions that wait will take, said before it begins: calls, tokens, money, days of the budget."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any

from django.conf import settings
from django.db.models import Sum

from agents.llm.base import Usage
from agents.models import Agent, RuntimeSettings
from knowledge.indexing.questions.budget import cost_of
from knowledge.indexing.questions.generation import PROMPT_CHARACTERS
from knowledge.indexing.questions.waiting import Waiting, questions_model, waiting_passages
from knowledge.models import QuestionSpending

#: Calls from which the site's own average is better than what is assumed.
_ENOUGH_CALLS = 50


@dataclass(frozen=True, slots=True)
class Estimate:
    """`days` is how many days of the site's budget it takes."""

    passages: int
    prompt_tokens: int
    completion_tokens: int
    cost: Decimal
    days: int

    def as_json(self) -> dict[str, Any]:
        return {
            "passages": self.passages,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": round(float(self.cost), 4),
            "days": self.days,
        }


def estimate_questions(agent: Agent, document_ids: Collection[int] | None = None) -> Estimate | None:
    """`None` where no model would be asked."""
    model = questions_model(agent)
    if model is None:
        return None
    return estimate_for(waiting_passages(agent, model, document_ids))


def estimate_for(passages: Collection[Waiting]) -> Estimate:
    """One call a passage; a reply that has to be asked for again is one more, which is not foreseen."""
    site, tokens = RuntimeSettings.load(), _expected_tokens(passages)
    cost = cost_of(tokens, site)
    shares = [
        (len(passages), site.question_calls_per_day),
        (tokens.prompt_tokens + tokens.completion_tokens, site.question_tokens_per_day),
        (cost, site.question_cost_per_day),
    ]
    days = max((ceil(whole / a_day) for whole, a_day in shares if a_day), default=1)
    return Estimate(len(passages), tokens.prompt_tokens, tokens.completion_tokens, cost, days)


def _expected_tokens(passages: Collection[Waiting]) -> Usage:
    spent = QuestionSpending.objects.aggregate(
        calls=Sum("calls", default=0), read=Sum("prompt_tokens", default=0), written=Sum("completion_tokens", default=0)
    )
    count = len(passages)
    if spent["calls"] >= _ENOUGH_CALLS:
        return Usage(count * spent["read"] // spent["calls"], count * spent["written"] // spent["calls"])
    characters = sum(PROMPT_CHARACTERS + passage.characters for passage in passages)
    return Usage(round(characters / settings.USUAL_CHARACTERS_PER_TOKEN), count * settings.USUAL_REPLY_TOKENS)
