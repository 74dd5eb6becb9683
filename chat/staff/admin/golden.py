"""Golden questions: sets, runs with their results side by side, « what if »; real ones are for who may read them."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from agents import jobs
from agents.admin_base import (
    JOB_TONES,
    REFRESH_SECONDS,
    ReadOnlyAdmin,
    StaffAdmin,
    admin_page,
    admin_url,
    badge,
    linked,
    long_text,
    progress_bar,
    require,
    signed_in,
)
from agents.effective import value_text
from agents.models import JobStatus
from agents.roles import visible
from agents.settings import setting_fields
from chat.errors import InvalidMessageError
from chat.models import AnswerSource, GoldenResult, GoldenRun, GoldenSet
from chat.staff.admin.simulator import PREFIX, OtherSettingsForm, prose
from chat.staff.golden import (
    EXPECTATIONS,
    GOLDEN_MAX_QUESTIONS,
    as_lines,
    enqueue_run,
    enqueue_what_if,
    read_lines,
    rows_of,
    unmet_in_words,
    write_questions,
)
from faqs.answers import without_citations

GOLDEN_USUAL_QUESTIONS = 50

_CHANGES = {"answer_source": _("voie"), "answer": _("réponse"), "sources": _("sources")}


class GoldenSetForm(forms.ModelForm[GoldenSet]):
    """A set with its questions as lines: all of them are kept, or none and what is wrong with the first."""

    lines = forms.CharField(
        label=_("Questions"),
        required=False,
        max_length=1_000_000,
        show_hidden_initial=True,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 20}),
        help_text=format_lazy(
            _(
                "Une par ligne, s’il le faut avec un texte de la réponse : « Combien coûte un passeport ? => 86 euros ». "
                "Ou les lignes d’un fichier de « evaluate » (JSON, clés possibles : {keys})."
            ),
            keys=", ".join(("question", "note", *EXPECTATIONS)),
        ),
    )
    field_order = ("name", "deployment", "language", "lines")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            self.initial["lines"] = as_lines(rows_of(self.instance))

    def clean_lines(self) -> list[dict[str, Any]]:
        shown = self.data.get(self.add_initial_prefix("lines"), "").replace("\r\n", "\n")
        if self.instance.pk is not None and shown != self.initial["lines"]:
            raise forms.ValidationError(_("Le jeu a changé depuis que cette page est ouverte : rechargez-la."))
        try:
            return read_lines(self.cleaned_data["lines"], is_strict=True)
        except InvalidMessageError as error:
            raise forms.ValidationError(str(error.public_message)) from error


@require_POST
def run_set(request: HttpRequest, set_id: int) -> HttpResponse:
    require(request, "chat.add_goldenrun")
    sets = visible(request, GoldenSet.objects.select_related("deployment"))
    run = enqueue_run(get_object_or_404(sets, pk=set_id), by=signed_in(request))
    return HttpResponseRedirect(admin_url(GoldenRun, "change", run.pk))


@admin.register(GoldenSet)
class GoldenSetAdmin(StaffAdmin):
    purpose = _(
        "Des questions dont la bonne réponse est connue : on les pose avant et après avoir changé quelque chose."
    )
    form = GoldenSetForm
    change_form_template = "admin/chat/goldenset/change_form.html"
    list_display = ("name", "deployment", "asked")
    list_filter = ("deployment",)
    list_select_related = ("deployment",)
    search_fields = ("name",)
    fields = ("name", "deployment", "language", "lines")
    own_pages = (("<int:set_id>/run/", run_set, "run"),)
    annotations: ClassVar = {"question_count": Count("questions")}

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        if row is None:
            return {}
        return {
            "count": row.questions.count(),
            "runs_url": admin_url(GoldenRun, "changelist", golden_set__id__exact=row.pk),
        }

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if "lines" in form.changed_data:
            write_questions(form.instance, form.cleaned_data["lines"])

    @admin.display(description=_("questions"))
    def lines(self, row: Any) -> SafeString | str:
        """For whoever may only look."""
        return long_text(as_lines(rows_of(row)))

    @admin.display(description=_("questions"), ordering="question_count")
    def asked(self, row: Any) -> str:
        return str(row.question_count)


class WhatIfForm(OtherSettingsForm):
    """Other settings, and the questions that they are tried on: those of a set, or the last real ones."""

    golden_set = forms.ModelChoiceField(
        label=_("Questions"),
        queryset=GoldenSet.objects.order_by("name"),
        required=False,
        empty_label=_("Les dernières questions réelles"),
        widget=UnfoldAdminSelectWidget,
    )
    count = forms.IntegerField(
        label=_("Dernières questions différentes"),
        min_value=1,
        max_value=GOLDEN_MAX_QUESTIONS,
        initial=GOLDEN_USUAL_QUESTIONS,
        widget=UnfoldAdminTextInputWidget,
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.errors:
            return data
        if not self.settings:
            raise forms.ValidationError(gettext("Changez au moins un réglage."))
        if data["golden_set"] and data["golden_set"].deployment_id != data["deployment"].pk:
            self.add_error("golden_set", gettext("Ce jeu est celui d’un autre guichet."))
        return data


@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest) -> HttpResponse:
    """Choose other settings, or take the address's; a worker asks the questions both ways, and nothing is written."""
    require(request, "chat.view_turn", "chat.add_goldenrun")
    form = WhatIfForm(request.POST or None, request=request, initial=request.GET.dict())
    if request.method == "POST" and form.is_valid():
        data, by = form.cleaned_data, signed_in(request)
        if data["golden_set"]:
            run = enqueue_run(data["golden_set"], form.settings, by=by)
        else:
            run = enqueue_what_if(data["deployment"], form.settings, count=data["count"], by=by)
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
    runs = _shown_to(request, visible(request, GoldenRun.objects.all()))
    run = get_object_or_404(runs.select_related("job"), pk=run_id)
    if run.job is not None:
        jobs.cancel(run.job)
    return HttpResponseRedirect(admin_url(GoldenRun, "change", run_id))


@admin.register(GoldenRun)
class GoldenRunAdmin(ReadOnlyAdmin):
    """Questions of a set are the staff's own words; real ones are people's (`chat.view_turn`)."""

    purpose = _("Les questions posées par un jeu ou un « et si », et ce qu’elles ont donné.")
    change_form_template = "admin/chat/goldenrun/change_form.html"
    list_display = ("__str__", "changed", "state", "figures", "created_at")
    list_filter = ("job__status", "golden_set", "deployment")
    list_select_related = ("golden_set", "deployment", "job")
    fields = ("state", "progress", "where", "changed", "error", "by", "created_at")
    own_pages = (("what-if/", what_if, "whatif"), ("<int:run_id>/cancel/", cancel, "cancel"))
    annotations: ClassVar = {
        "total": Count("results"),
        "asked": Count("results", filter=Q(results__after__isnull=False)),
    }

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if isinstance(obj, GoldenRun) and obj.golden_set_id is None:
            return request.user.has_perm("chat.view_turn")
        return request.user.has_perm("chat.view_goldenrun") or request.user.has_perm("chat.view_turn")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[GoldenRun]:
        return _shown_to(request, super().get_queryset(request))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {**_shown(row), "may_cancel": not row.is_over and request.user.has_perm("chat.add_goldenrun")}

    @admin.display(description=_("état"), ordering="job__status")
    def state(self, run: GoldenRun) -> str:
        status = JobStatus(run.job.status) if run.job else JobStatus.DONE
        return badge(status.label, JOB_TONES.get(status, "neutral"))

    @admin.display(description=_("erreur"))
    def error(self, run: GoldenRun) -> str:
        return (run.job.error if run.job else "") or "–"

    @admin.display(description=_("avancement"))
    def progress(self, run: Any) -> str:
        return progress_bar(100 * run.asked // run.total if run.total else 100, self.figures(run))

    @admin.display(description=_("posées"))
    def figures(self, run: Any) -> str:
        return f"{run.asked} / {run.total}"

    where = linked("deployment", _("guichet"))

    @admin.display(description=_("ce qui change"))
    def changed(self, run: GoldenRun) -> str:
        labels = {name: str(field.label) for name, field in setting_fields().items()}
        pairs = ((labels.get(name, name), value_text(name, value)) for name, value in run.changes.items())
        return " ; ".join(f"{label} : {text}" for label, text in pairs) or "–"


def _shown(run: GoldenRun) -> dict[str, Any]:
    """A run's results, the worse first; without other settings beside those of the run before."""
    results = list(run.results.all())
    both, other = bool(run.changes), None if run.changes or run.golden_set is None else _run_before(run)
    if other is not None:
        earlier = {each.question: each.after for each in other.results.all()}
        for each in results:
            each.before = earlier.get(each.question)
    order = ("worse", "better", "changed", "failed", "same")
    rows = sorted((each for each in results if each.after), key=lambda each: (order.index(each.verdict), each.position))
    labels = (
        (gettext("Aujourd’hui"), gettext("Avec le changement")) if both else (gettext("Avant"), gettext("Cette fois"))
    )
    ways = [(labels[0], "before")] if both or other is not None else []
    return {
        "title": str(run),
        "rows": [
            (each, _way(each.before), _way(each.after), [_CHANGES[name] for name in each.changes]) for each in rows
        ],
        "is_real": run.golden_set_id is None,
        "way_labels": labels,
        "side_by_side": bool(ways),
        "other": other,
        "calls": [(label, _calls(results, way)) for label, way in [*ways, (labels[1], "after")]],
        "counts": {name: sum(each.verdict == name for each in rows) for name in ("worse", "better", "changed")},
        "passed": sum(each.has_passed for each in results),
        "total": len(results),
        "refresh_seconds": 0 if run.is_over else REFRESH_SECONDS,
    }


def _calls(results: list[GoldenResult], way: str) -> int:
    return sum((getattr(each, way) or {}).get("llm_calls", 0) for each in results)


def _run_before(run: GoldenRun) -> GoldenRun | None:
    done = Q(job=None) | Q(job__status=JobStatus.DONE)
    return GoldenRun.objects.filter(done, golden_set=run.golden_set_id, changes={}, pk__lt=run.pk).first()


def _shown_to(request: HttpRequest, runs: QuerySet[GoldenRun]) -> QuerySet[GoldenRun]:
    return runs if request.user.has_perm("chat.view_turn") else runs.exclude(golden_set=None)


def _way(found: dict[str, Any] | None) -> dict[str, Any]:
    """An answer with its sources, each once: a stored question by its words, a passage by its document and page."""
    if found is None:
        return {}
    source, page = found["answer_source"], gettext("p. %(page)s")
    named = [
        each.get("question") or (f"{each['title']}, {page % each}" if each.get("page") else each["title"])
        for each in found["sources"]
    ]
    return {
        "way": AnswerSource(source).label if source in AnswerSource.values else found["error"],
        "unmet": [unmet_in_words(each) for each in found["unmet"]],
        "answer": prose(without_citations(found["answer"]), (), key="golden"),
        "sources": list(dict.fromkeys(filter(None, named))),
    }
