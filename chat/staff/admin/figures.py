"""« Comment va le service »: the figures of a period."""

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget

from agents.admin_base import admin_page, admin_url, require
from agents.models import Deployment
from agents.roles import limit_of, visible
from chat.models import Turn
from chat.staff.figures import Period, report

RIGHT = "chat.view_figures"
PERIODS = (7, 30, 90, 365)
_USUAL = 30


class PeriodForm(forms.Form):
    """Of one deployment or of all."""

    deployment = forms.ModelChoiceField(
        label=_("Déploiement"),
        queryset=Deployment.objects.order_by("name"),
        required=False,
        empty_label=_("Tous"),
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
    require(request, RIGHT)
    form = PeriodForm(request.GET, within=_deployments(request))
    days = next((each for each in PERIODS if str(each) == request.GET.get("days")), _USUAL)
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
        title=gettext("Comment va le service"),
        form=form,
        days=days,
        periods=[(each, admin_url(Turn, "figures", days=each, **more), each == days) for each in PERIODS],
        **context,
    )
