"""« Comment va le service »: what a period says in tables and charts, read from its turns, and the page that shows it.

`DailyCount` has the sums of deleted conversations (`keep_counts`). Ratings stand on the question's day.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Case, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from agents.admin_base import admin_page, admin_url, database_keys, require
from agents.database import short_write
from agents.jobs import Held
from agents.models import Deployment
from agents.roles import limit_of, visible
from chat.models import NO_ANSWER, OPEN_STATUSES, AnswerSource, Conversation, DailyCount, Turn, TurnStatus

#: What tells the rows of a day apart, and what is added up in each.
KEYS = ("deployment_id", "ending")
SUMS = ("turns", "llm_calls", "prompt_tokens", "completion_tokens", "timed", "milliseconds", "up", "down", "resolved")
_Sums = dict[tuple[date, int | None, str], Counter[str]]

#: The exit of an answered question, else how it ended.
_ENDING = Case(
    When(status__in=OPEN_STATUSES, then=Value("running")),
    When(status=TurnStatus.FAILED, then=Value("failed")),
    When(Q(status=TurnStatus.DONE) & ~Q(answer_source=""), then=F("answer_source")),
    default=Value("interrupted"),
)
#: A turn that was begun again waited for somebody in between.
_IS_TIMED = Q(status=TurnStatus.DONE, run=0, finished_at__isnull=False)
_IS_ANSWERED = Q(status=TurnStatus.DONE) & ~Q(answer_source__in=("", *NO_ANSWER))
_IS_REPORTED = Q(feedback__verdict="down", feedback__withdrawn_at=None)
_DAY = TruncDate("started_at")
_COUNTED = {
    "turns": Count("pk"),
    "llm_calls": Sum("llm_calls"),
    "prompt_tokens": Sum("prompt_tokens"),
    "completion_tokens": Sum("completion_tokens"),
    "timed": Count("pk", filter=_IS_TIMED),
    "milliseconds": Sum(F("finished_at") - F("started_at"), filter=_IS_TIMED),
    "up": Count("pk", filter=Q(feedback__verdict="up", feedback__withdrawn_at=None)),
    "down": Count("pk", filter=_IS_REPORTED),
    "resolved": Count("pk", filter=_IS_ANSWERED & Q(asked_again=False) & ~_IS_REPORTED),
}


def _begin(day: date) -> datetime:
    """The first moment of a day; a day has 23 to 25 hours."""
    return datetime.combine(day, time.min, tzinfo=timezone.get_default_timezone())


def _counted(turns: QuerySet[Turn]) -> _Sums:
    grouped = (
        turns.order_by()
        .annotate(day=_DAY, ending=_ENDING, deployment_id=F("conversation__deployment_id"))
        .values("day", *KEYS)
        .annotate(**{f"sum_{name}": sums for name, sums in _COUNTED.items()})
    )
    return {
        (row["day"], *(row[name] for name in KEYS)): Counter({name: _whole(row[f"sum_{name}"]) for name in SUMS})
        for row in grouped
    }


def _whole(summed: int | timedelta | None) -> int:
    return max(0, summed // timedelta(milliseconds=1)) if isinstance(summed, timedelta) else summed or 0


def keep_counts(conversation: Conversation) -> None:
    """Count a conversation that is about to be deleted; in the transaction of its deletion. Rows are only added."""
    found: _Sums = defaultdict(Counter)
    for (day, deployment, ending), sums in _counted(Turn.objects.filter(conversation=conversation)).items():
        # A turn that is deleted while it runs ends there.
        found[day, deployment, "interrupted" if ending == "running" else ending] += sums
    _store(found)


def _store(found: _Sums) -> None:
    DailyCount.objects.bulk_create(
        DailyCount(day=day, deployment_id=deployment, ending=ending, **sums)
        for (day, deployment, ending), sums in found.items()
    )


def _kept(rows: QuerySet[DailyCount]) -> _Sums:
    added = {f"sum_{name}": Sum(name) for name in SUMS}
    return {
        (row["day"], *(row[name] for name in KEYS)): Counter({name: row[f"sum_{name}"] for name in SUMS})
        for row in rows.order_by().values("day", *KEYS).annotate(**added)
    }


def merge_counts(held: Held) -> None:
    """The nightly job: rows of a day that differ in nothing become one. May be killed at any moment and run again."""
    same = DailyCount.objects.order_by().values("day", *KEYS).annotate(rows=Count("pk")).filter(rows__gt=1)
    days = sorted({row["day"] for row in same})
    for done, day in enumerate(days, start=1):
        with short_write():
            rows = DailyCount.objects.filter(day=day)
            # What is added meanwhile waits for the next night.
            known = rows.filter(pk__in=list(rows.values_list("pk", flat=True)))
            found = _kept(known)
            known.delete()
            _store(found)
        held.progress(done, len(days))


#: Stored answers, given as they are; those that the model wrote; questions that were not answered.
_KINDS = {
    **dict.fromkeys((AnswerSource.MEMORY_GUARD.value, AnswerSource.DIRECT_QA.value), "stored"),
    **dict.fromkeys((AnswerSource.LLM.value, AnswerSource.ROUND_LIMIT.value), "model"),
    **dict.fromkeys(("failed", "interrupted", "running"), "unfinished"),
}
KINDS: dict[str, str | Promise] = {
    "stored": gettext_lazy("Sans modèle"),
    "model": gettext_lazy("Par le modèle"),
    "other": gettext_lazy("Autres voies"),
    "unfinished": gettext_lazy("Non abouties"),
}
ENDINGS: dict[str, str | Promise] = {
    **dict(AnswerSource.choices),
    "failed": gettext_lazy("En échec"),
    "interrupted": gettext_lazy("Interrompues"),
    "running": gettext_lazy("En cours"),
}


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days, both ends included."""

    first: date
    last: date

    def each(self) -> list[date]:
        return [self.first + timedelta(days=at) for at in range((self.last - self.first).days + 1)]


class Sums(Counter[str]):
    """What some turns come to, by the names of `SUMS`."""

    def mean(self, name: str) -> float | None:
        """Of one answer; milliseconds of one that was timed."""
        count = self["timed" if name == "milliseconds" else "turns"]
        return self[name] / count if count else None


class Totals:
    """The sums of a period: in all, and by each of what tells them apart."""

    def __init__(self, period: Period, deployments: Collection[int] | None) -> None:
        ends = {"started_at__gte": _begin(period.first), "started_at__lt": _begin(period.last + timedelta(days=1))}
        turns, rows = Turn.objects.filter(**ends), DailyCount.objects.filter(day__range=(period.first, period.last))
        if deployments is not None:
            turns = turns.filter(conversation__deployment__in=deployments)
            rows = rows.filter(deployment_id__in=deployments)
        self.all = Sums()
        self.endings, self.kinds, self.deployments = (defaultdict[Any, Sums](Sums) for _at in range(3))
        self.days = {day: defaultdict[str, Sums](Sums) for day in period.each()}
        for found in (_counted(turns), _kept(rows)):
            for (day, place, ending), counted in found.items():
                kind, of_day = _KINDS.get(ending, "other"), self.days[day]
                parts = (self.endings[ending], self.kinds[kind], self.deployments[place], of_day["all"], of_day[kind])
                for sums in (self.all, *parts):
                    sums.update(counted)

    def saved(self, name: str) -> float | None:
        """What stored answers saved: each at the mean cost of a written one, less what it took; `None` without one."""
        stored, written = self.kinds["stored"].mean(name), self.kinds["model"].mean(name)
        return None if stored is None or written is None else self.kinds["stored"]["turns"] * (written - stored)


#: Colours of the parts of a bar, from the bottom up.
_COLOURS = ("#15803d", "#60a5fa", "#d4a017", "#b91c1c")


def number(value: float | None, digits: int = 0) -> str:
    """In the reader's notation; a dash for what is not known."""
    return "–" if value is None else formats.number_format(round(value, digits), digits, force_grouping=True)


def percent(part: float, whole: float) -> str:
    if not whole:
        return "–"
    return number(100 * part / whole, 1) + ("%" if get_language() == "en" else "\u00a0%")


@dataclass(slots=True)
class Table:
    """Texts as the page writes them; `chart` is what draws them, as JSON."""

    key: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    chart: str = ""

    def body(self) -> list[dict[str, Any]]:
        """Each cell with its column's title, which a narrow screen shows beside it."""
        return [{"head": head, "cells": list(zip(self.columns[1:], cells, strict=True))} for head, *cells in self.rows]


def report(period: Period, deployments: Collection[int] | None) -> tuple[dict[str, str], list[Table]]:
    """What a period says: tiles (values by their title), and tables."""
    now = Totals(period, deployments)
    tables = [_days(now), _shares("endings", _("Par voie de réponse"), _("Voie de réponse"), ENDINGS, now)]
    if len(now.deployments) > 1:
        names = {key: _("Guichet supprimé (n° %d)") % key for key in now.deployments}
        names |= dict(Deployment.objects.filter(pk__in=now.deployments).values_list("pk", "name"))
        tables.append(_shares("deployments", _("Par guichet"), _("Guichet"), names, now))
    return _tiles(now), [*tables, *([_savings(now)] if now.kinds["model"]["turns"] else [])]


def _tiles(of: Totals) -> dict[str, str]:
    seconds = of.all.mean("milliseconds")
    return {
        _("Questions"): number(of.all["turns"]),
        _("Répondues sans modèle"): percent(of.kinds["stored"]["turns"], of.all["turns"]),
        _("Taux de résolution"): percent(of.all["resolved"], of.all["turns"]),
        _("Avis favorables"): percent(of.all["up"], of.all["up"] + of.all["down"]),
        _("En échec"): percent(of.endings["failed"]["turns"], of.all["turns"]),
        _("Secondes par réponse"): number(seconds and seconds / 1000, 1),
        _("Appels au modèle"): number(of.all["llm_calls"]),
        _("Tokens lus et écrits"): number(of.all["prompt_tokens"] + of.all["completion_tokens"]),
    }


def _days(now: Totals) -> Table:
    days = [formats.date_format(day, "SHORT_DATE_FORMAT") for day in now.days]
    counts = {kind: [sums[kind]["turns"] for sums in now.days.values()] for kind in ("all", *KINDS)}
    bars = [
        {"label": str(name), "data": counts[kind], "backgroundColor": colour}
        for (kind, name), colour in zip(KINDS.items(), _COLOURS, strict=True)
    ]
    return Table(
        "days",
        _("Questions par jour"),
        [_("Jour"), _("Questions"), *map(str, KINDS.values())],
        [[day, *map(number, row)] for day, *row in zip(days, *counts.values(), strict=True)],
        _(
            "Sans modèle : de la mémoire, de la FAQ ou d’une question-réponse. Autres voies : précision demandée, refus du "
            "garde-fou, passages cités. Non abouties : en échec, interrompues, en cours."
        ),
        chart=json.dumps({"labels": days, "datasets": bars}),
    )


def _shares(key: str, title: str, what: str, names: Mapping[Any, Any], now: Totals) -> Table:
    """Questions told apart by something, the most first."""
    counts = {each: sums["turns"] for each, sums in getattr(now, key).items()}
    rows = [
        (Truncator(str(names.get(each, each))).chars(200), number(count), percent(count, now.all["turns"]))
        for each, count in sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
        if count
    ]
    return Table(key, title, [what, _("Questions"), _("Part")], rows)


def _savings(now: Totals) -> Table:
    names = {
        "llm_calls": (_("Appels au modèle"), 1),
        "prompt_tokens": (_("Tokens lus"), 1),
        "completion_tokens": (_("Tokens écrits"), 1),
        "milliseconds": (_("Secondes d’attente"), 1000),
    }
    figures = [(text, unit, (now.kinds["model"].mean(name), now.saved(name))) for name, (text, unit) in names.items()]
    note = _(
        "%(count)s réponses de la mémoire, de la FAQ ou des questions-réponses ont été données sans que le modèle les rédige. "
        "Ce que cela épargne est estimé : le modèle les aurait rédigées au prix moyen de celles qu’il a rédigées dans la même "
        "période, moins ce qu’elles ont coûté quand même (titres, reformulations)."
    ) % {"count": number(now.kinds["stored"]["turns"])}
    return Table(
        "savings",
        _("Ce que les réponses sans modèle épargnent"),
        [_("Épargne"), _("Moyenne d’une réponse du modèle"), _("Épargné")],
        [[text, *(number(each and each / unit, 1) for each in values)] for text, unit, values in figures],
        note,
    )


PERIODS = (7, 30, 90, 365)
_USUAL_DAYS = 30


@require_safe
def figures(request: HttpRequest) -> HttpResponse:
    """The tables of so many days up to today."""
    require(request, "chat.view_figures")
    days = next((each for each in PERIODS if str(each) == request.GET.get("days")), _USUAL_DAYS)
    places = dict(visible(request, Deployment.objects.order_by("name")).values_list("pk", "name"))
    chosen = [key for key in database_keys([request.GET.get("deployment", "")]) if key in places]
    today = timezone.localdate()
    period = Period(today - timedelta(days=days - 1), today)
    own = None if limit_of(request.user) is None else list(places)
    tiles, tables = report(period, chosen or own)
    more = {"deployment": chosen[0]} if chosen else {}
    return admin_page(
        request,
        "admin/chat/turn/figures.html",
        model=Turn,
        title=_("Comment va le service"),
        periods=[(each, admin_url(Turn, "figures", days=each, **more), each == days) for each in PERIODS],
        places=[
            (name, admin_url(Turn, "figures", days=days, deployment=key), key in chosen) for key, name in places.items()
        ],
        everywhere=admin_url(Turn, "figures", days=days),
        chosen=chosen,
        period=period,
        tiles=tiles,
        tables=tables,
    )
