"""The site's budget of a day for written questions, and the note of what they cost.

A call is counted before it is made, in one conditional update, with the most that it may take of tokens and money; its
reply gives back what it did not take. A process that dies in between leaves the call counted at its most: the budget of
the day is kept whatever happens. The job's own row is written in the same transaction, so that its note and the day's
are one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import ceil

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.llm.base import PromptMessage, Reply, Usage
from agents.models import RuntimeSettings
from knowledge.indexing.report import IndexReport
from knowledge.models import IndexBuild, QuestionSpending

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Held:
    """What a call was counted with."""

    day: date
    tokens: Usage
    cost: Decimal


class DayBudget:
    """The site's budget of today, as whoever has a model write questions spends it."""

    def __init__(self) -> None:
        self.site = RuntimeSettings.load()

    def hold(self, messages: Sequence[PromptMessage]) -> Held | None:
        """Count one more call, or `None` where today's budget does not reach for it."""
        self.site = RuntimeSettings.load()  # staff may have changed it meanwhile
        day, most = timezone.localdate(), most_tokens(messages)
        cost = cost_of(most, self.site)
        row = QuestionSpending.objects.get_or_create(day=day)[0]
        with short_write():
            due = QuestionSpending.objects.filter(self._reaches(most, cost), pk=row.pk)
            if not due.update(calls=F("calls") + 1, **_more(most, cost)):
                return None
            self._note(most, cost, calls=1)
        return Held(day, most, cost)

    def settle(self, held: Held, used: Usage) -> None:
        """Give back what the call did not take, in the caller's transaction with what the reply gave."""
        cost = cost_of(used, self.site)
        less = Usage(
            used.prompt_tokens - held.tokens.prompt_tokens, used.completion_tokens - held.tokens.completion_tokens
        )
        changes = _more(less, cost - held.cost)
        QuestionSpending.objects.filter(day=held.day).update(**changes)
        self._note(less, cost - held.cost)

    def reason(self) -> str:
        """Why the day is over."""
        if not QuestionSpending.objects.filter(self._calls_left(), day=timezone.localdate()).exists():
            return _("Le budget d’appels du jour est atteint (%(count)d).") % {
                "count": self.site.question_calls_per_day
            }
        return _("Ce qui reste du budget du jour ne suffit plus à un appel.")

    def _calls_left(self) -> Q:
        limit = self.site.question_calls_per_day
        return Q(calls__lt=limit) if limit else Q()

    def _reaches(self, most: Usage, cost: Decimal) -> Q:
        tokens, money = self.site.question_tokens_per_day, self.site.question_cost_per_day
        allowed = self._calls_left()
        if tokens:
            left = tokens - most.prompt_tokens - most.completion_tokens
            allowed &= Q(prompt_tokens__lte=left - F("completion_tokens"))
        if money:
            allowed &= Q(cost__lte=money - cost)
        return allowed

    def _note(self, tokens: Usage, cost: Decimal, *, calls: int = 0) -> None:
        """Beside the note of the day."""


class Purse(DayBudget):
    """The day's budget as one job spends it; `report` is the job's own note, kept on its row."""

    def __init__(self, build: IndexBuild, report: IndexReport) -> None:
        super().__init__()
        self.build, self.report = build, report

    def _note(self, tokens: Usage, cost: Decimal, *, calls: int = 0) -> None:
        self.report.model_calls += calls
        self.report.prompt_tokens += tokens.prompt_tokens
        self.report.completion_tokens += tokens.completion_tokens
        self.report.cost += cost
        # A worker that lost its lease does not write over the note of the next; one that staff hold or stop has none
        # any more.
        is_mine = Q(lease_owner=self.build.lease_owner)
        is_held = Q(lease_owner="", attempts=self.build.attempts)
        mine = IndexBuild.objects.filter(is_mine | is_held, pk=self.build.pk)
        mine.update(report=self.report.as_json())


def most_tokens(messages: Sequence[PromptMessage]) -> Usage:
    """No call takes more: the reply is bounded, and no usual text has more tokens than this share of its characters."""
    characters = sum(len(message.content) for message in messages)
    prompt = characters // settings.LEAST_CHARACTERS_PER_TOKEN + 1
    return Usage(prompt, settings.UNIT_GENERATION_TOKENS)


def used_tokens(messages: Sequence[PromptMessage], reply: Reply) -> Usage:
    """What the server says it took; where it says nothing, what such texts take as a rule."""
    if reply.usage.prompt_tokens:
        return reply.usage
    characters = sum(len(message.content) for message in messages)
    usual = settings.USUAL_CHARACTERS_PER_TOKEN
    return Usage(ceil(characters / usual), ceil(len(reply.text) / usual))


def cost_of(tokens: Usage, site: RuntimeSettings) -> Decimal:
    read: Decimal = tokens.prompt_tokens * site.prompt_price
    written: Decimal = tokens.completion_tokens * site.completion_price
    return (read + written) / _MILLION


def tomorrow() -> datetime:
    """When the next day's budget begins."""
    day = timezone.localdate() + timedelta(days=1)
    return timezone.make_aware(datetime.combine(day, time.min))


def _more(tokens: Usage, cost: Decimal) -> dict[str, object]:
    return {
        "prompt_tokens": F("prompt_tokens") + tokens.prompt_tokens,
        "completion_tokens": F("completion_tokens") + tokens.completion_tokens,
        "cost": F("cost") + cost,
    }
