"""« Comment va le service »: what a period says in tables and charts, read from its turns, and the page that shows it.

`DailyCount` has the sums of conversations that were deleted (`keep_counts`). Questions and ratings stand on the
question's day.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, cast

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget

from agents.admin_base import admin_page, admin_url, require
from agents.database import short_write
from agents.jobs import Held
from agents.models import Deployment
from agents.roles import limit_of, visible
from chat.models import OPEN_STATUSES, AnswerSource, Conversation, DailyCount, Turn, TurnStatus

#: What tells the rows of a day apart, and what is added up in each.
KEYS = ("deployment_id", "ending", "language")
SUMS = ("turns", "llm_calls", "prompt_tokens", "completion_tokens", "timed", "milliseconds", "up", "down")
_Sums = dict[tuple[date, int | None, str, str], Counter[str]]

#: The exit of an answered question, else how it ended.
_ENDING = Case(
    When(status__in=OPEN_STATUSES, then=Value("running")),
    When(status=TurnStatus.FAILED, then=Value("failed")),
    When(Q(status=TurnStatus.DONE) & ~Q(answer_source=""), then=F("answer_source")),
    default=Value("interrupted"),
)
#: A turn that was begun again waited for somebody in between.
_IS_TIMED = Q(status=TurnStatus.DONE, run=0, finished_at__isnull=False)
_DAY = TruncDate("started_at")
_COUNTED = {
    "turns": Count("pk"),
    "llm_calls": Sum("llm_calls"),
    "prompt_tokens": Sum("prompt_tokens"),
    "completion_tokens": Sum("completion_tokens"),
    "timed": Count("pk", filter=_IS_TIMED),
    "milliseconds": Sum(F("finished_at") - F("started_at"), filter=_IS_TIMED),
    "up": Count("pk", filter=Q(feedback__verdict="up", feedback__withdrawn_at=None)),
    "down": Count("pk", filter=Q(feedback__verdict="down", feedback__withdrawn_at=None)),
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
    for (day, deployment, ending, language), sums in _counted(Turn.objects.filter(conversation=conversation)).items():
        # A turn that is deleted while it runs ends there.
        found[day, deployment, "interrupted" if ending == "running" else ending, language] += sums
    _store(found)


def _store(found: _Sums) -> None:
    DailyCount.objects.bulk_create(
        DailyCount(day=day, deployment_id=deployment, ending=ending, language=language, **sums)
        for (day, deployment, ending, language), sums in found.items()
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

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def before(self) -> "Period":
        """As many days, up to this one."""
        return Period(self.first - timedelta(days=self.days), self.first - timedelta(days=1))

    def each(self) -> list[date]:
        return [self.first + timedelta(days=at) for at in range(self.days)]


class Sums(Counter[str]):
    """What some turns come to, by the names of `SUMS`."""

    @property
    def seconds(self) -> float | None:
        """Of an answer, on average; `None` where none was timed."""
        return self["milliseconds"] / self["timed"] / 1000 if self["timed"] else None


class Totals:
    """The sums of a period: in all, and by each of what tells them apart."""

    def __init__(self, period: Period, deployment: Deployment | None) -> None:
        ends = {"started_at__gte": _begin(period.first), "started_at__lt": _begin(period.last + timedelta(days=1))}
        turns, rows = Turn.objects.filter(**ends), DailyCount.objects.filter(day__range=(period.first, period.last))
        if deployment is not None:
            turns = turns.filter(conversation__deployment=deployment)
            rows = rows.filter(deployment_id=deployment.pk)
        self.all = Sums()
        self.endings, self.kinds, self.deployments = (defaultdict[Any, Sums](Sums) for _at in range(3))
        self.days = {day: defaultdict[str, Sums](Sums) for day in period.each()}
        for found in (_counted(turns), _kept(rows)):
            for (day, place, ending, _language), counted in found.items():
                kind, of_day = _KINDS.get(ending, "other"), self.days[day]
                parts = (self.endings[ending], self.kinds[kind], self.deployments[place], of_day["all"], of_day[kind])
                for sums in (self.all, *parts):
                    sums.update(counted)

    def saved(self) -> dict[str, float | None] | None:
        """What stored answers saved: had the model written them too, each at the mean of those that it wrote, less what
        they took nevertheless. `None` where the model wrote no answer to compare with.
        """
        stored, model = self.kinds["stored"], self.kinds["model"]
        if not model["turns"]:
            return None
        names = ("llm_calls", "prompt_tokens", "completion_tokens")
        found: dict[str, float | None] = {
            name: model[name] * stored["turns"] / model["turns"] - stored[name] for name in names
        }
        means = (model.seconds, stored.seconds)
        found["seconds"] = None if None in means else stored["turns"] * (means[0] - means[1])  # type: ignore[operator]
        return found


Kind = Literal["text", "count", "decimal", "percent", "amount", "day"]
_DIGITS = {"count": 0, "decimal": 1, "percent": 1, "amount": 0}
#: From here on nobody reads the cents of a mean.
_LARGE = 100
#: Colours of the parts of a bar, from the bottom up.
_COLOURS = ("#15803d", "#60a5fa", "#d4a017", "#b91c1c")


def shown(value: Any, kind: Kind) -> str:
    """In the reader's notation; a dash for what is not known."""
    if value is None:
        return "–"
    if kind == "day":
        return formats.date_format(value, "SHORT_DATE_FORMAT")
    if kind == "text":
        return Truncator(str(value)).chars(200)
    number = Decimal(str(value)) * (100 if kind == "percent" else 1)
    digits = 2 if kind == "amount" and abs(number) < _LARGE else _DIGITS[kind]
    text = formats.number_format(round(number, digits), digits, force_grouping=True)
    if kind != "percent":
        return text
    return f"{text}%" if get_language() == "en" else f"{text}\u00a0%"


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


@dataclass(slots=True)
class Table:
    """Plain values; `chart` is what draws them."""

    key: str
    title: str
    columns: Sequence[tuple[str, Kind]]
    rows: Sequence[tuple[Any, ...]]
    note: str = ""
    chart: dict[str, Any] | None = None

    def chart_data(self) -> str:
        return json.dumps(self.chart)

    def body(self) -> list[dict[str, Any]]:
        """Each row as the page writes it."""
        texts = [[shown(value, kind) for value, (_t, kind) in zip(row, self.columns, strict=True)] for row in self.rows]
        titles = [title for title, _kind in self.columns[1:]]
        return [{"head": head, "cells": list(zip(titles, cells, strict=True))} for head, *cells in texts]


def report(period: Period, deployment: Deployment | None) -> tuple[list[tuple[str, str, str]], list[Table]]:
    """What a period says: tiles (a title, its value, the value before), and tables."""
    now, before = Totals(period, deployment), Totals(period.before, deployment)
    tables = [_days(now), _compared("endings", _("Par voie de réponse"), _("Voie de réponse"), ENDINGS, now, before)]
    if deployment is None:
        found = {*now.deployments, *before.deployments}
        names = dict(Deployment.objects.filter(pk__in=found).values_list("pk", "name"))
        names |= {key: _("Déploiement supprimé (n° %d)") % key for key in found - set(names)}
        tables.append(_compared("deployments", _("Par déploiement"), _("Déploiement"), names, now, before))
    tables.append(_savings(now, before))
    return _tiles(now, before), tables


def _tiles(now: Totals, before: Totals) -> list[tuple[str, str, str]]:
    figures: list[tuple[str, Kind, Callable[[Totals], Any]]] = [
        (_("Questions"), "count", lambda of: of.all["turns"]),
        (_("Répondues sans modèle"), "percent", lambda of: ratio(of.kinds["stored"]["turns"], of.all["turns"])),
        (_("Avis favorables"), "percent", lambda of: ratio(of.all["up"], of.all["up"] + of.all["down"])),
        (_("En échec"), "percent", lambda of: ratio(of.endings["failed"]["turns"], of.all["turns"])),
        (_("Secondes par réponse"), "decimal", lambda of: of.all.seconds),
        (_("Appels au modèle"), "count", lambda of: of.all["llm_calls"]),
        (_("Tokens lus et écrits"), "count", lambda of: of.all["prompt_tokens"] + of.all["completion_tokens"]),
    ]
    return [(title, shown(read(now), kind), shown(read(before), kind)) for title, kind, read in figures]


def _days(now: Totals) -> Table:
    counts = {str(name): [day[kind]["turns"] for day in now.days.values()] for kind, name in KINDS.items()}
    bars = [
        {"label": name, "data": values, "backgroundColor": colour}
        for (name, values), colour in zip(counts.items(), _COLOURS, strict=True)
    ]
    return Table(
        "days",
        _("Questions par jour"),
        [(_("Jour"), "day"), (_("Questions"), "count"), *((name, "count") for name in counts)],
        [(day, sums["all"]["turns"], *(sums[kind]["turns"] for kind in KINDS)) for day, sums in now.days.items()],
        _(
            "Sans modèle : de la mémoire, de la FAQ ou d’une question-réponse. Autres voies : précision demandée, refus du "
            "garde-fou, passages cités. Non abouties : en échec, interrompues, en cours."
        ),
        chart={"labels": [shown(day, "day") for day in now.days], "datasets": bars},
    )


def _compared(key: str, title: str, what: str, names: Mapping[Any, Any], now: Totals, before: Totals) -> Table:
    """Questions told apart by something, the most first, beside the period before."""
    here, earlier = getattr(now, key), getattr(before, key)
    counts = {each: (here[each]["turns"], earlier[each]["turns"]) for each in {*here, *earlier}}
    rows = [
        (str(names.get(each, each)), count, ratio(count, now.all["turns"]), past, ratio(past, before.all["turns"]))
        for each, (count, past) in sorted(counts.items(), key=lambda pair: (-pair[1][0], str(pair[0])))
        if count or past
    ]
    columns: list[tuple[str, Kind]] = [
        (what, "text"),
        (_("Questions"), "count"),
        (_("Part"), "percent"),
        (_("Période précédente"), "count"),
        (_("Part précédente"), "percent"),
    ]
    return Table(key, title, columns, rows)


def _savings(now: Totals, before: Totals) -> Table:
    names = {
        "llm_calls": _("Appels au modèle"),
        "prompt_tokens": _("Tokens lus"),
        "completion_tokens": _("Tokens écrits"),
        "seconds": _("Secondes d’attente"),
    }
    model, stored = now.kinds["model"], now.kinds["stored"]
    mean: dict[str, Any] = {"seconds": model.seconds}
    mean |= {name: ratio(model[name], model["turns"]) for name in list(names)[:3]}
    columns = [mean if model["turns"] else {}, now.saved() or {}, before.saved() or {}]
    note = _(
        "%(count)s réponses de la mémoire, de la FAQ ou des questions-réponses ont été données sans que le modèle les rédige. "
        "Ce que cela épargne est estimé : le modèle les aurait rédigées au prix moyen de celles qu’il a rédigées dans la même "
        "période, moins ce qu’elles ont coûté quand même (titres, reformulations)."
    ) % {"count": shown(stored["turns"], "count")}
    return Table(
        "savings",
        _("Ce que les réponses sans modèle épargnent"),
        [
            (_("Épargne"), "text"),
            (_("Moyenne d’une réponse du modèle"), "amount"),
            (_("Épargné"), "amount"),
            (_("Période précédente"), "amount"),
        ],
        [(text, *(each.get(name) for each in columns)) for name, text in names.items()],
        note,
    )


PERIODS = (7, 30, 90, 365)
_USUAL_DAYS = 30


class PeriodForm(forms.Form):
    """Of one deployment or of all."""

    deployment = forms.ModelChoiceField(
        label=gettext_lazy("Déploiement"),
        queryset=Deployment.objects.order_by("name"),
        required=False,
        empty_label=gettext_lazy("Tous"),
        widget=UnfoldAdminSelectWidget,
    )

    def __init__(self, data: QueryDict, *, within: "QuerySet[Deployment] | None" = None) -> None:
        super().__init__(data)
        self._within = within
        if within is not None:
            field = cast("forms.ModelChoiceField[Deployment]", self.fields["deployment"])
            field.queryset, field.empty_label = within, None

    def clean_deployment(self) -> Deployment | None:
        chosen: Deployment | None = self.cleaned_data["deployment"]
        return self._within.first() if chosen is None and self._within is not None else chosen


def _deployments(request: HttpRequest) -> "QuerySet[Deployment] | None":
    """Those of a person whose work is limited to some agents, who reads of one at a time; `None` without a limit."""
    if limit_of(request.user) is None:
        return None
    found = visible(request, Deployment.objects.order_by("name"))
    if not found.exists():
        raise PermissionDenied
    return found


@require_safe
def figures(request: HttpRequest) -> HttpResponse:
    """The tables of so many days up to today."""
    require(request, "chat.view_figures")
    form = PeriodForm(request.GET, within=_deployments(request))
    days = next((each for each in PERIODS if str(each) == request.GET.get("days")), _USUAL_DAYS)
    context: dict[str, Any] = {}
    if form.is_valid():
        today = timezone.localdate()
        period = Period(today - timedelta(days=days - 1), today)
        tiles, tables = report(period, form.cleaned_data["deployment"])
        context = {"tiles": tiles, "tables": tables, "period": period}
    deployment = request.GET.get("deployment", "")
    more = {"deployment": deployment} if deployment else {}
    return admin_page(
        request,
        "admin/chat/turn/figures.html",
        model=Turn,
        title=_("Comment va le service"),
        form=form,
        days=days,
        periods=[(each, admin_url(Turn, "figures", days=each, **more), each == days) for each in PERIODS],
        **context,
    )
