"""A file of validated answers in the admin: uploaded, looked at, imported. The preview's page carries the file's text."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminSelectWidget

from agents.admin_base import admin_page, admin_url, require, signed_in
from agents.errors import ApplicationError
from agents.models import Agent
from agents.roles import agents_for
from faqs.answer_points import settle_now
from faqs.csv import ASKED, CsvFileField, ImportPlan, RowKind, apply_import, plan_import
from faqs.models import LearnedResponse, LearnedStatus

IMPORT_RIGHTS = ("faqs.add_learnedresponse", "faqs.change_learnedresponse")
#: A file that one request reads, compares and writes, and whose text a form sends back (Django takes 1,000 fields).
MAX_BYTES = 1024 * 1024
MAX_ROWS = 900


class _AgentForm(forms.Form):
    agent = forms.ModelChoiceField(label=_("Agent"), queryset=Agent.objects.none(), widget=UnfoldAdminSelectWidget)

    def __init__(self, *args: Any, agents: QuerySet[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agent"].queryset = agents  # type: ignore[attr-defined]


class ImportFaqsForm(_AgentForm):
    file = CsvFileField(MAX_BYTES)


class ConfirmForm(_AgentForm):
    """The text of the file and the rows that were ticked (`PlannedRow.choice`)."""

    text = forms.CharField(strip=False, max_length=2 * MAX_BYTES)  # a browser sends every line's end as two


@require_http_methods(["GET", "POST"])
def import_faqs(request: HttpRequest) -> HttpResponse:
    """Read a file and show what it would do; once confirmed, import it and say what became of each row."""
    require(request, *IMPORT_RIGHTS)
    agents = agents_for(request)
    form: forms.Form = ImportFaqsForm(
        request.POST or None, request.FILES or None, initial={"agent": request.GET.get("agent")}, agents=agents
    )
    confirmed = ConfirmForm(request.POST or None, agents=agents)
    is_confirmed = "text" in request.POST and confirmed.is_valid()
    if request.method == "POST" and (is_confirmed or form.is_valid()):
        agent = (confirmed if is_confirmed else form).cleaned_data["agent"]
        text = confirmed.cleaned_data["text"] if is_confirmed else form.cleaned_data["file"]
        try:
            plan = plan_import(agent, text, most=MAX_ROWS)
        except ApplicationError as error:
            form.add_error("file", str(error.public_message))
        else:
            return _import(request, agent, plan) if is_confirmed else _preview(request, agent, plan, text)
    return admin_page(
        request,
        "admin/faqs/learnedresponse/import.html",
        model=LearnedResponse,
        title=gettext("Importer des réponses validées"),
        form=form,
        has_agents=agents.exists(),
        media=form.media,
        size=MAX_BYTES,
        rows=MAX_ROWS,
    )


def _preview(request: HttpRequest, agent: Agent, plan: ImportPlan, text: str) -> HttpResponse:
    return admin_page(
        request,
        "admin/faqs/learnedresponse/preview.html",
        model=LearnedResponse,
        title=gettext("Aperçu de l’import"),
        agent=agent,
        text=text,
        counts=[(kind.label, len(plan.of_kind(kind))) for kind in RowKind],
        rows=plan.of_kind(*ASKED),
        valid=LearnedStatus.VALID.label,
        new=[planned.row for planned in plan.of_kind(RowKind.NEW)],
        failures=plan.failed,
        plan=plan,
    )


def _import(request: HttpRequest, agent: Agent, plan: ImportPlan) -> HttpResponse:
    """What changed since the preview has another choice, and so is left."""
    ticked = set(request.POST.getlist("chosen"))
    chosen = {planned.row.line for planned in plan.of_kind(*ASKED) if planned.choice in ticked}
    report = apply_import(plan, chosen=chosen, by=signed_in(request))
    settle_now(report.keys)
    return admin_page(
        request,
        "admin/faqs/learnedresponse/preview.html",
        model=LearnedResponse,
        title=gettext("Import"),
        agent=agent,
        report=report,
        left=len(report.left),
        failures=report.failed,
        answers=admin_url(LearnedResponse, "changelist", agent__id__exact=agent.pk),
    )
