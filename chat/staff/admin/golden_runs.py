"""Runs of questions of reference: their results side by side, what a gate stopped, and « what if » on real questions."""

from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from agents.admin_base import (
    ReadOnlyAdmin,
    Tone,
    admin_page,
    admin_url,
    badge,
    change_link,
    database_keys,
    linked,
    progress_bar,
    require,
    signed_in,
)
from agents.effective import settings_refusals
from agents.models import Deployment, RuntimeSettings
from agents.staff.inheritance import value_text
from agents.staff.scope import may_reach, visible, within
from agents.staff.setting_fields import setting_fields
from chat.models import TWO_WAYS, AnswerSource, GoldenResult, GoldenRun, RunKind, RunStatus
from chat.staff.admin.trying import NOT_ON_THE_PATH, PREFIX, SettingsOnPaper
from chat.staff.golden.expectations import unmet_in_words
from chat.staff.golden.gate import let_pass, worse_results
from chat.staff.golden.paper import target_of, write_changes
from chat.staff.golden.runs import cancel_run, enqueue_what_if, run_cost
from faqs.answers.texts import without_citations

_TONES: dict[str, Tone] = {
    RunStatus.QUEUED: "neutral",
    RunStatus.RUNNING: "busy",
    RunStatus.DONE: "good",
    RunStatus.FAILED: "bad",
    RunStatus.CANCELLED: "neutral",
}
_REFRESH_SECONDS = 3
#: Either opens the runs of sets and gates.
SEEING = ("chat.view_goldenrun", "chat.view_turn")
#: What staff need to write a change, by its level.
_WRITERS = {
    "deployment": "agents.change_deployment",
    "agent": "agents.change_agent",
    "site": "agents.change_runtimesettings",
}
_CHANGES = {"answer_source": _("voie"), "answer": _("réponse"), "sources": _("sources")}


class WhatIfForm(SettingsOnPaper):
    """Where, on how many real questions, and at which level it would be written."""

    level = forms.ChoiceField(
        label=_("Où le changement serait écrit"),
        choices=[("deployment", _("Ce déploiement")), ("agent", _("Son agent")), ("site", _("Tout le site"))],
        widget=UnfoldAdminSelectWidget,
    )
    count = forms.IntegerField(
        label=_("Dernières questions différentes"), min_value=1, widget=UnfoldAdminTextInputWidget
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["count"].initial = settings.GOLDEN_USUAL_QUESTIONS
        self.add_settings(name for name in setting_fields() if name not in NOT_ON_THE_PATH)

    def clean_count(self) -> int:
        most: int = settings.GOLDEN_MAX_QUESTIONS
        if (count := int(self.cleaned_data["count"])) > most:
            raise forms.ValidationError(gettext("Au plus %(most)d questions.") % {"most": most})
        return count

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors and not self.settings:
            raise forms.ValidationError(gettext("Changez au moins un réglage."))
        return data


@admin.register(GoldenRun)
class GoldenRunAdmin(ReadOnlyAdmin):
    """Questions of a set are the staff's own words; those of a « et si » are people's (`chat.view_turn`)."""

    purpose = _("Les questions posées par un jeu, un contrôle ou un « et si », et ce qu’elles ont donné.")
    change_form_template = "admin/chat/goldenrun/change_form.html"
    list_display = ("__str__", "kind", "state", "figures", "created_at")
    list_filter = ("kind", "status", "golden_set", "deployment")
    list_select_related = ("golden_set", "deployment")
    ordering = ("-pk",)
    fields = ("kind", "state", "progress", "where", "changed", "passing", "error", "by", "created_at")

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("what-if/", wrap(what_if), name="chat_goldenrun_whatif"),
            *(
                path(f"<int:run_id>/{verb}/", wrap(view), name=f"chat_goldenrun_{verb}")
                for verb, view in (("cancel", cancel), ("override", override), ("apply", apply))
            ),
            *super().get_urls(),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if isinstance(obj, GoldenRun) and obj.kind == RunKind.WHAT_IF:
            return request.user.has_perm("chat.view_turn")
        return any(request.user.has_perm(right) for right in SEEING)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[GoldenRun]:
        found: QuerySet[GoldenRun] = _shown_to(request, super().get_queryset(request))
        return found.annotate(total=Count("results"), asked=Count("results", filter=Q(results__after__isnull=False)))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        run = kwargs.get("obj")
        if isinstance(run, GoldenRun):
            context.update(_shown(request, run))
        return super().render_change_form(request, context, *args, **kwargs)

    def get_fields(self, request: HttpRequest, obj: GoldenRun | None = None) -> Any:
        """Without those that have nothing to say of this run."""
        if obj is None:
            return list(self.fields)
        empty = {
            "changed": not obj.changes and obj.build is None,
            "passing": not obj.override_reason,
            "error": not obj.error,
            "by": obj.by is None,
        }
        return [name for name in self.fields if not empty.get(name)]

    @admin.display(description=_("état"), ordering="status")
    def state(self, run: GoldenRun) -> str:
        return badge(run.get_status_display(), _TONES.get(run.status, "neutral"))

    @admin.display(description=_("avancement"))
    def progress(self, run: Any) -> str:
        percent = 100 * run.asked // run.total if run.total else 100
        return progress_bar(percent, f"{run.asked} / {run.total}")

    @admin.display(description=_("posées"))
    def figures(self, run: Any) -> str:
        return f"{run.asked} / {run.total}"

    where = linked("deployment", _("déploiement"))

    @admin.display(description=_("ce qui change"))
    def changed(self, run: GoldenRun) -> str:
        if run.build is not None:
            return change_link(run.build)
        labels = {name: str(field.label) for name, field in setting_fields().items()}
        return " ; ".join(
            f"{labels.get(name, name)} : {_value_text(name, value)}" for name, value in run.changes.items()
        )

    @admin.display(description=_("laissé passer"))
    def passing(self, run: GoldenRun) -> str:
        return f"{run.overridden_by or '–'} : {run.override_reason}"


def _shown(request: HttpRequest, run: GoldenRun) -> dict[str, Any]:
    results = list(run.results.all())
    both = run.kind in TWO_WAYS
    other = None
    if not both and run.golden_set is not None:
        other = _compared(request, run)
        _lay_beside(results, other)
    worse = {each.pk for each in worse_results(run)} if both else {r.pk for r in results if r.is_worse}
    is_paper = run.kind == RunKind.WHAT_IF
    rows = [(each, _verdict(each, each.pk in worse)) for each in results if each.after]
    rank = {"worse": 0, "better": 1, "changed": 2, "failed": 3}
    rows.sort(key=lambda pair: (rank.get(pair[1], 4), pair[0].position))
    is_open = run.kind == RunKind.BUILD or run.kind == RunKind.SETTINGS
    may_write = _may_write(request, run)
    return {
        "title": str(run),
        "rows": [_row(each, verdict) for each, verdict in rows],
        "is_paper": is_paper,
        "way_labels": _way_labels(both=both, beside=other is not None),
        "side_by_side": both or other is not None,
        "other": other,
        "counts": {name: sum(verdict == name for _each, verdict in rows) for name in ("worse", "better", "changed")},
        "passed": sum(each.has_passed for each in results),
        "total": len(results),
        "before": run_cost(results, "before") if both else None,
        "after": run_cost(results, "after"),
        "refresh_seconds": 0 if run.is_over else _REFRESH_SECONDS,
        "may_override": is_open
        and run.status == RunStatus.DONE
        and bool(worse)
        and not run.override_reason
        and request.user.has_perm("chat.override_gate"),
        "may_apply": run.status == RunStatus.DONE and run.applied_at is None and bool(run.changes) and may_write,
        "may_cancel": not run.is_over and request.user.has_perm("chat.add_goldenrun"),
    }


def _shown_to(request: HttpRequest, runs: QuerySet[GoldenRun]) -> QuerySet[GoldenRun]:
    is_trusted = request.user.has_perm("chat.view_turn")
    return runs if is_trusted else runs.exclude(kind=RunKind.WHAT_IF)


def _run_named(request: HttpRequest, run_id: int, **of: Any) -> GoldenRun:
    runs = _shown_to(request, visible(request, GoldenRun.objects.all()))
    return get_object_or_404(runs, pk=run_id, **of)


def _may_write(request: HttpRequest, run: GoldenRun) -> bool:
    """Whether whoever asks may write the change of this run where it would be written."""
    if run.level not in _WRITERS or not request.user.has_perm(_WRITERS[run.level]):
        return False
    if run.level == "site":
        return may_reach(request, RuntimeSettings, change=True)
    # A gate of theirs may be asked about an agent that is not.
    target = target_of(run.level, run.target_id)
    return target is None or within(request, target)


def _compared(request: HttpRequest, run: GoldenRun) -> GoldenRun | None:
    """The run named in the address, else the one before."""
    others = GoldenRun.objects.filter(golden_set=run.golden_set_id, status=RunStatus.DONE)
    others = others.exclude(pk=run.pk).exclude(kind__in=TWO_WAYS)
    for key in database_keys([request.GET.get("with", "")]):
        return others.filter(pk=key).first()
    return others.filter(pk__lt=run.pk).first()


def _lay_beside(results: list[GoldenResult], other: GoldenRun | None) -> None:
    """What each question was given in another run stands where a run of two ways has what serves; it is not saved."""
    earlier = {each.question: each.after for each in other.results.all()} if other else {}
    for each in results:
        each.before = earlier.get(each.question)


def _way_labels(*, both: bool, beside: bool) -> tuple[str, str]:
    if both:
        return gettext("Aujourd’hui"), gettext("Avec le changement")
    return gettext("Avant") if beside else "", gettext("Ce passage")


def _value_text(name: str, value: Any) -> str:
    return gettext("hérité") if value in (None, "") else value_text(name, value)


def _verdict(result: GoldenResult, is_worse: bool) -> str:
    if is_worse:
        return "worse"
    if result.is_better:
        return "better"
    if result.changes:
        return "changed"
    return "same" if result.has_passed else "failed"


def _row(result: GoldenResult, verdict: str) -> dict[str, Any]:
    ways = []
    for found in (result.before, result.after):
        if found is not None:
            source = found["answer_source"]
            known = source in AnswerSource.values
            ways.append(
                {
                    "way": AnswerSource(source).label if known else found["error"],
                    "unmet": [unmet_in_words(each) for each in found["unmet"]],
                    "answer": without_citations(found["answer"]),
                    "sources": _named(found["sources"]),
                }
            )
        else:
            ways.append({})
    return {
        "question": result.question,
        "before": ways[0],
        "after": ways[1],
        "verdict": verdict,
        "changes": ", ".join(str(_CHANGES[name]) for name in result.changes),
    }


def _named(sources: list[dict[str, Any]]) -> list[str]:
    """Each source once: a stored question by its words, a passage by the title and page of its document."""
    page = gettext("p. %(page)s")
    found = [
        each.get("question") or (f"{each['title']}, {page % each}" if each.get("page") else each["title"])
        for each in sources
    ]
    return list(dict.fromkeys(filter(None, found)))


@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest) -> HttpResponse:
    """Choose a change on paper; a worker asks the last real questions both ways, and nothing is written."""
    require(request, "chat.view_turn", "chat.add_goldenrun")
    form = WhatIfForm(request.POST or None)
    choices = cast("forms.ModelChoiceField[Deployment]", form.fields["deployment"])
    choices.queryset = visible(request, Deployment.objects.select_related("agent").order_by("name"))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        run = enqueue_what_if(
            data["deployment"], form.settings, level=data["level"], count=data["count"], by=signed_in(request)
        )
        return HttpResponseRedirect(admin_url(GoldenRun, "change", run.pk))
    return admin_page(
        request,
        "admin/chat/goldenrun/what_if.html",
        model=GoldenRun,
        title=gettext("Et si… ?"),
        form=form,
        changed=form.settings if form.is_bound and form.is_valid() else {},
        prefix=PREFIX,
    )


@require_POST
def cancel(request: HttpRequest, run_id: int) -> HttpResponse:
    require(request, "chat.add_goldenrun")
    cancel_run(_run_named(request, run_id))
    return HttpResponseRedirect(admin_url(GoldenRun, "change", run_id))


@require_POST
def override(request: HttpRequest, run_id: int) -> HttpResponse:
    """Let pass what a gate has stopped, with a reason."""
    require(request, "chat.override_gate")
    run = _run_named(request, run_id, status=RunStatus.DONE)
    if reason := request.POST.get("reason", "").strip():
        let_pass(run, signed_in(request), reason)
        messages.success(request, gettext("Ce contrôle laisse passer : mettez maintenant en service."))
    else:
        messages.error(request, gettext("Écrivez pourquoi."))
    return HttpResponseRedirect(admin_url(GoldenRun, "change", run_id))


@require_POST
def apply(request: HttpRequest, run_id: int) -> HttpResponse:
    """Write the change that was tried; the gates are asked first."""
    if not any(request.user.has_perm(right) for right in _WRITERS.values()):
        raise PermissionDenied
    run = _run_named(request, run_id, status=RunStatus.DONE, applied_at=None)
    if run.level not in _WRITERS or not run.changes:
        return HttpResponseRedirect(admin_url(GoldenRun, "change", run_id))
    if not _may_write(request, run):
        raise PermissionDenied
    target = target_of(run.level, run.target_id)
    if target is None:
        messages.error(request, gettext("Ce qui devait être changé n’existe plus."))
    elif reasons := settings_refusals(target, run.changes):
        for reason in reasons:
            messages.error(request, reason)
    else:
        try:
            write_changes(target, run.changes)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            GoldenRun.objects.filter(pk=run.pk).update(applied_at=timezone.now())
            messages.success(request, gettext("Le changement est appliqué."))
    return HttpResponseRedirect(admin_url(GoldenRun, "change", run_id))
