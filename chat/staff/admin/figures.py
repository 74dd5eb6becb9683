"""« Comment va le service »: the figures of a period, each table also as a download."""

import csv
import io
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget

from agents.admin_base import admin_page, admin_url, require
from agents.models import Deployment
from agents.roles import limit_of, visible
from chat.models import DailyCount, Turn
from chat.staff.figures import Period, Table, bring_up_to_date, report
from faqs.csv import guarded

RIGHT = "chat.view_figures"
PERIODS = (7, 30, 90, 365)
_USUAL = 30


class PeriodForm(forms.Form):
    """So many days up to today, of one deployment or of all."""

    deployment = forms.ModelChoiceField(
        label=_("Déploiement"),
        queryset=Deployment.objects.order_by("name"),
        required=False,
        empty_label=_("Tous"),
        widget=UnfoldAdminSelectWidget,
    )
    days = forms.TypedChoiceField(
        choices=[(str(days), days) for days in PERIODS],
        coerce=int,
        empty_value=None,
        required=False,
        widget=forms.HiddenInput,
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
    """The tables of a period; with `csv` one of them as a file."""
    require(request, RIGHT)
    form = PeriodForm(request.GET, within=_deployments(request))
    late = bring_up_to_date()
    context: dict[str, Any] = {}
    if form.is_valid():
        today = timezone.localdate()
        period = Period(today - timedelta(days=(form.cleaned_data["days"] or _USUAL) - 1), today)
        tiles, tables = report(period, form.cleaned_data["deployment"])
        if name := request.GET.get("csv"):
            return _download(tables, name, period)
        asked = any(row[1] for row in tables[0].rows)
        context = {"tiles": tiles, "tables": tables, "period": period, "query": _query(request), "is_empty": not asked}
    return admin_page(
        request,
        "admin/chat/turn/figures.html",
        model=Turn,
        title=gettext("Comment va le service"),
        form=form,
        periods=_periods(request, form),
        late=late,
        is_new=not DailyCount.objects.exists(),
        **context,
    )


def _query(request: HttpRequest) -> str:
    """The address of the same figures, without the download."""
    query = request.GET.copy()
    query.pop("csv", None)
    return f"{query.urlencode()}&" if query else ""


def _periods(request: HttpRequest, form: PeriodForm) -> list[tuple[int, str, bool]]:
    deployment = form.data.get("deployment", "")
    chosen = form.cleaned_data["days"] or _USUAL if form.is_valid() else None
    more = {"deployment": deployment} if deployment else {}
    return [(days, admin_url(Turn, "figures", days=days, **more), days == chosen) for days in PERIODS]


def _download(tables: list[Table], name: str, period: Period) -> HttpResponse:
    table = next((each for each in tables if each.key == name), None)
    if table is None:
        raise Http404
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in table.plain():
        writer.writerow([guarded(cell) if isinstance(cell, str) else cell for cell in row])
    # With its mark: spreadsheets take a file without one for the system's own encoding.
    response = HttpResponse(out.getvalue().encode("utf-8-sig"), content_type="text/csv")
    file = f"{name}-{period.first:%Y-%m-%d}-{period.last:%Y-%m-%d}.csv"
    response["Content-Disposition"] = f'attachment; filename="{file}"'
    return response
