"""What the counted days of a period say. Sums and counts only, as a query by hand over the same questions would give
them.

Questions, answers and ratings stand on the day of the question. Lists that name something (topics, passages, answers)
are read from the rows that exist: what was deleted is counted and not named.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import Count, Max, Model, Q, QuerySet, Sum

from agents.models import Agent, Deployment, RuntimeSettings
from chat.models import OPEN_STATUSES, AnswerSource, DailyCount, DailyStep, DailyUse, TurnStatus, UsedKind
from chat.staff.figures.daily import SUMS, unpacked
from chat.thread.days import end_of, start_of
from faqs.models import CachedResponse, LearnedResponse, QuestionGroup, UnansweredQuestion, UnansweredReason
from knowledge.models import Chunk

#: Stored answers, given as they are; and those that the model wrote.
STORED = frozenset({AnswerSource.MEMORY_GUARD, AnswerSource.DIRECT_QA})
BY_MODEL = frozenset({AnswerSource.LLM, AnswerSource.ROUND_LIMIT})
#: How a question ended that was not answered; beside these, the exits.
FAILED, INTERRUPTED, RUNNING = "failed", "interrupted", "running"
_MILLION = 1_000_000
#: An array of so many counts is made in no time.
_COUNTED_KEYS = 10_000_000


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days, both ends included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def before(self) -> "Period":
        """As many days, up to this one."""
        return Period(self.first - timedelta(days=self.days), self.first - timedelta(days=1))

    def each(self) -> list[date]:
        return [self.first + timedelta(days=at) for at in range(self.days)]

    def bounds(self) -> tuple[Any, Any]:
        return start_of(self.first), end_of(self.last)


@dataclass(slots=True)
class Sums:
    """What some turns come to."""

    turns: int = 0
    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    timed: int = 0
    milliseconds: int = 0
    up: int = 0
    down: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """The sums that the row has."""
        for name in SUMS:
            if more := row.get(f"sum_{name}"):
                setattr(self, name, getattr(self, name) + more)

    @property
    def seconds(self) -> float | None:
        """Of an answer, on average; `None` where none was timed."""
        return self.milliseconds / self.timed / 1000 if self.timed else None

    def cost(self, prices: "Prices") -> Decimal:
        return prices.cost(self.prompt_tokens, self.completion_tokens)


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens, in the site's money, as staff set them."""

    prompt: Decimal
    completion: Decimal

    @classmethod
    def of(cls, site: RuntimeSettings) -> "Prices":
        return cls(site.get("prompt_price"), site.get("completion_price"))

    def __bool__(self) -> bool:
        return bool(self.prompt or self.completion)

    def cost(self, prompt_tokens: float, completion_tokens: float) -> Decimal:
        read, written = Decimal(prompt_tokens), Decimal(completion_tokens)
        return (read * self.prompt + written * self.completion) / _MILLION


def ending_of(source: str, status: str) -> str:
    """The exit of an answered question, else how it ended."""
    if status in OPEN_STATUSES:
        return RUNNING
    if status == TurnStatus.FAILED:
        return FAILED
    return source if status == TurnStatus.DONE and source else INTERRUPTED


def kind_of(ending: str) -> str:
    """`stored`, `model`, `other` or `unfinished`."""
    if ending in STORED:
        return "stored"
    if ending in BY_MODEL:
        return "model"
    return "unfinished" if ending in (FAILED, INTERRUPTED, RUNNING) else "other"


@dataclass(slots=True)
class Totals:
    """The sums of a period: in all, and by each of what they are told apart by."""

    all: Sums
    endings: dict[str, Sums]
    kinds: dict[str, Sums]
    deployments: dict[int, Sums]
    languages: dict[str, Sums]

    def saved(self) -> "Saved | None":
        """What the stored answers saved; `None` where the model wrote no answer to compare with."""
        stored, model = self.kinds["stored"], self.kinds["model"]
        if not model.turns:
            return None
        times = stored.turns / model.turns
        seconds = None
        if stored.seconds is not None and model.seconds is not None:
            seconds = stored.turns * (model.seconds - stored.seconds)
        return Saved(
            answers=stored.turns,
            calls=model.llm_calls * times - stored.llm_calls,
            prompt_tokens=model.prompt_tokens * times - stored.prompt_tokens,
            completion_tokens=model.completion_tokens * times - stored.completion_tokens,
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class Saved:
    """Had the model written the stored answers too, each at the mean of those it wrote, less what they took
    nevertheless.
    """

    answers: int
    calls: float
    prompt_tokens: float
    completion_tokens: float
    #: Of waiting, of all askers together; `None` where nothing was timed.
    seconds: float | None


def _cells(model: Any, period: Period, deployment: int | None) -> QuerySet[Any]:
    rows = model.objects.filter(day__gte=period.first, day__lte=period.last).order_by()
    narrowed: QuerySet[Any] = rows if deployment is None else rows.filter(deployment_id=deployment)
    return narrowed


_SUMMED = {f"sum_{name}": Sum(name) for name in SUMS}


def totals(period: Period, deployment: int | None = None) -> Totals:
    found = Totals(Sums(), *(defaultdict(Sums) for _each in range(4)))
    keys = ("deployment_id", "source", "status", "language")
    for row in _cells(DailyCount, period, deployment).values(*keys).annotate(**_SUMMED):
        ending = ending_of(row["source"], row["status"])
        for sums in (
            found.all,
            found.endings[ending],
            found.kinds[kind_of(ending)],
            found.deployments[row["deployment_id"]],
            found.languages[row["language"]],
        ):
            sums.add(row)
    return found


def by_day(period: Period, deployment: int | None = None) -> dict[date, dict[str, Sums]]:
    """Of each day questions and ratings by kind, and of `all`; days without a question too."""
    found: dict[date, dict[str, Sums]] = {day: defaultdict(Sums) for day in period.each()}
    rows = _cells(DailyCount, period, deployment).values("day", "source", "status")
    summed = {f"sum_{name}": Sum(name) for name in ("turns", "up", "down")}
    for row in rows.annotate(**summed):
        day = found[row["day"]]
        day["all"].add(row)
        day[kind_of(ending_of(row["source"], row["status"]))].add(row)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the path: milliseconds together, and at the slowest."""

    name: str
    times: int
    total: float
    slowest: float

    @property
    def mean(self) -> float:
        return self.total / self.times


def steps(period: Period, deployment: int | None = None) -> list[Step]:
    """The slowest on average first."""
    rows = (
        _cells(DailyStep, period, deployment)
        .values("step")
        .annotate(count=Sum("times"), total=Sum("microseconds"), most=Max("slowest"))
    )
    found = [Step(row["step"], row["count"], row["total"] / 1000, row["most"] / 1000) for row in rows]
    return sorted(found, key=lambda step: (-step.mean, step.name))


@dataclass(frozen=True, slots=True)
class Uses:
    """How many answers stand on each thing of a kind, by its key; sorted by keys."""

    keys: np.ndarray[Any, np.dtype[np.int64]]
    counts: np.ndarray[Any, np.dtype[np.int64]]

    def most(self, limit: int) -> Iterator[dict[int, int]]:
        """The most used first, at the same count the older one; so many, and then ever more."""
        order = np.lexsort((self.keys, -self.counts))
        keys, counts = self.keys[order].tolist(), self.counts[order].tolist()
        begin, end = 0, limit
        while begin < len(keys):
            yield dict(zip(keys[begin:end], counts[begin:end], strict=True))
            begin, end = end, 4 * end


def uses(period: Period, deployment: int | None = None) -> dict[str, Uses]:
    tallies: dict[str, list[Any]] = defaultdict(list)
    rows = _cells(DailyUse, period, deployment).values_list("kind", "tally")
    for kind, tally in rows.iterator(settings.FIGURES_BATCH):
        tallies[kind].append(unpacked(tally))
    return {kind: _added_up(tallies[kind]) for kind in UsedKind.values}


def _added_up(tallies: list[Any]) -> Uses:
    every = np.concatenate([np.empty((0, 2), dtype=np.int64), *tallies])
    # Keys are numbers of rows: where they are small, counting beats sorting tenfold.
    if not len(every) or every[:, 0].max() < _COUNTED_KEYS:
        counts = np.bincount(every[:, 0], weights=every[:, 1]).astype(np.int64)
        keys = np.flatnonzero(counts)
        return Uses(keys, counts[keys])
    keys, places = np.unique(every[:, 0], return_inverse=True)
    return Uses(keys, np.bincount(places, weights=every[:, 1]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Named:
    """Something that staff can open, how often it was used, and how often in the period before."""

    row: Model
    text: str
    times: int = 0
    before: int = 0


@dataclass(frozen=True, slots=True)
class Unused:
    """How many there are, how many of them were not used, and the first of those."""

    total: int
    unused: int
    named: Sequence[Named]


Theirs = Callable[[QuerySet[Any]], QuerySet[Any]]


def all_of(rows: QuerySet[Any]) -> QuerySet[Any]:
    """A reader whose work is limited to no agent."""
    return rows


@dataclass(frozen=True, slots=True)
class Thing:
    """A kind of what answers stand on: those that may answer, what one is called, and the right that opens it."""

    kind: UsedKind
    right: str
    every: Callable[[], QuerySet[Any]]
    standing: Callable[[], QuerySet[Any]]
    text: Callable[[Any], str]
    agent: str = ""


def _passage_text(chunk: Chunk) -> str:
    return " · ".join(filter(None, (str(chunk.document), chunk.parent_context, chunk.content[:120])))


THINGS: tuple[Thing, ...] = (
    Thing(
        UsedKind.PASSAGE,
        "knowledge.view_chunk",
        lambda: Chunk.objects.select_related("document"),
        lambda: Chunk.objects.served(),
        _passage_text,
        "document__agent",
    ),
    Thing(
        UsedKind.ANSWER,
        "faqs.view_learnedresponse",
        LearnedResponse.objects.all,
        lambda: LearnedResponse.objects.standing(),
        lambda row: row.question,
        "agent",
    ),
    Thing(
        UsedKind.MEMORY,
        "faqs.view_cachedresponse",
        lambda: CachedResponse.objects.defer("embedding"),
        CachedResponse.objects.none,
        lambda row: row.question,
    ),
)


def most_used(thing: Thing, used: Uses, limit: int, theirs: Theirs = all_of) -> list[Named]:
    """Those that still exist and are the reader's; of the others nothing is named, and they take nobody's place."""
    found: list[Named] = []
    for most in used.most(limit):
        rows = theirs(thing.every()).in_bulk(list(most))
        found += [Named(rows[key], thing.text(rows[key]), n) for key, n in most.items() if key in rows]
        if len(found) >= limit:
            break
    return found[:limit]


def never_used(thing: Thing, used: Uses, deployment: Deployment | None, limit: int, theirs: Theirs = all_of) -> Unused:
    """Of those that may answer now, in the deployment's agents where one is chosen."""
    standing = theirs(thing.standing())
    if deployment is not None:
        standing = standing.filter(**{f"{thing.agent}__in": agents_of(deployment)})
    # A condition over rows of other tables may give a row twice.
    keys = np.unique(np.fromiter(standing.order_by().values_list("pk", flat=True), dtype=np.int64))
    unused = np.setdiff1d(keys, used.keys, assume_unique=True)
    rows = thing.every().in_bulk(unused[:limit].tolist())
    named = [Named(rows[key], thing.text(rows[key])) for key in sorted(rows)]
    return Unused(len(keys), len(unused), named)


def agents_of(deployment: Deployment) -> QuerySet[Agent]:
    return Agent.objects.filter(Q(pk=deployment.agent_id) | Q(specialties__deployment=deployment))


def topics(period: Period, deployment: Deployment | None, limit: int, theirs: Theirs = all_of) -> list[Named]:
    """Groups of questions that were refused or met nothing close, the most asked first: of the conversations that are
    kept.
    """
    counted = theirs(_asked_in(period, deployment)).values("group").annotate(times=Count("pk"))
    most = {row["group"]: row["times"] for row in counted.order_by("-times", "group")[:limit]}
    earlier = _asked_in(period.before, deployment).filter(group__in=most).values("group")
    before = dict(earlier.annotate(times=Count("pk")).values_list("group", "times"))
    groups = QuestionGroup.objects.defer("vector").in_bulk(list(most))
    return [
        Named(groups[key], groups[key].question, times, before.get(key, 0))
        for key, times in most.items()
        if key in groups
    ]


def _asked_in(period: Period, deployment: Deployment | None) -> QuerySet[UnansweredQuestion]:
    begin, end = period.bounds()
    asked = UnansweredQuestion.objects.filter(
        asked_at__gte=begin,
        asked_at__lt=end,
        group__isnull=False,
        reason__in=(UnansweredReason.REFUSED, UnansweredReason.LOW_SCORE),
    )
    if deployment is not None:
        asked = asked.filter(agent__in=agents_of(deployment))
    return asked.order_by()
