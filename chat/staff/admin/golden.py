"""Golden questions: sets, runs with their results side by side, « what if »; real ones are for who may read them."""

import uuid
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Model, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents import jobs
from agents.admin_base import (
    ReadOnlyAdmin,
    StaffAdmin,
    Tone,
    admin_page,
    admin_url,
    badge,
    clipped,
    count_link,
    database_keys,
    link,
    linked,
    progress_bar,
    require,
    signed_in,
)
from agents.models import JobStatus
from agents.roles import visible
from agents.setting_fields import setting_fields, value_text
from chat.models import AnswerSource, GoldenQuestion, GoldenResult, GoldenRun, GoldenSet, QuestionOrigin, Turn
from chat.staff.admin.simulator import NOT_ON_THE_PATH, PREFIX, OtherSettingsForm
from chat.staff.golden import (
    EXPECTATIONS,
    GOLDEN_MAX_QUESTIONS,
    LISTS,
    add_questions,
    enqueue_run,
    enqueue_what_if,
    expected_in_words,
    expected_of,
    fault_of,
    question_key,
    read_file,
    row_of_turn,
    rows_of_useful_answers,
    rows_of_validated_answers,
    run_cost,
    set_for,
    unmet_in_words,
)
from faqs.answers import without_citations

GOLDEN_USUAL_QUESTIONS = 50

#: A file of questions, in bytes.
GOLDEN_MAX_FILE_BYTES = 1_000_000

RIGHT = "chat.add_goldenquestion"
#: Either opens the runs of sets.
SEEING = ("chat.view_goldenrun", "chat.view_turn")
_REFRESH_SECONDS = 3
_TONES: dict[str, Tone] = {JobStatus.RUNNING: "busy", JobStatus.DONE: "good", JobStatus.FAILED: "bad"}
_CHANGES = {"answer_source": _("voie"), "answer": _("réponse"), "sources": _("sources")}


class GoldenQuestionForm(forms.ModelForm[GoldenQuestion]):
    """A question, with a field for each expectation; texts of a list stand one a line."""

    answer_source = forms.MultipleChoiceField(
        label=_("Voie de réponse, l’une de"),
        choices=AnswerSource.choices,
        required=False,
        widget=UnfoldAdminSelectMultipleWidget,
    )
    contains = forms.CharField(
        label=_("La réponse contient"),
        required=False,
        max_length=10_000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=_("Un texte par ligne ; tous sont attendus."),
    )
    not_contains = forms.CharField(
        label=_("La réponse ne contient pas"),
        required=False,
        max_length=10_000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text=_("Un texte par ligne."),
    )
    document = forms.CharField(
        label=_("Titre d’un document cité"), required=False, max_length=500, widget=UnfoldAdminTextInputWidget
    )
    page = forms.IntegerField(
        label=_("À la page"), required=False, min_value=1, max_value=100_000, widget=UnfoldAdminTextInputWidget
    )
    expected_question = forms.CharField(
        label=_("Question enregistrée attendue"), required=False, max_length=2_000, widget=UnfoldAdminTextInputWidget
    )
    refused = forms.BooleanField(label=_("Doit être refusée"), required=False)

    class Meta:
        model = GoldenQuestion
        fields = ("golden_set", "question", "note")
        widgets: ClassVar = {"question": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for key, value in (self.instance.expected or {}).items():
            if key in ("contains", "not_contains") and isinstance(value, list):
                value = "\n".join(value)
            elif key == "answer_source" and isinstance(value, str):
                value = [value]
            self.initial.setdefault(key, value)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.errors:
            return data
        row = {key: data.get(key) for key in EXPECTATIONS}
        for key in LISTS[1:]:
            row[key] = [line.strip() for line in str(row[key] or "").splitlines() if line.strip()]
        row = {"question": data["question"], **expected_of(row)}
        if fault := fault_of(row):
            raise forms.ValidationError(fault)
        self.instance.expected = expected_of(row)
        self.instance.key = question_key(data["question"])
        same = GoldenQuestion.objects.filter(golden_set=data["golden_set"], key=self.instance.key)
        others = same.exclude(pk=self.instance.pk)
        if others.exists():
            raise forms.ValidationError(gettext("Cette question est déjà dans ce jeu."))
        count = GoldenQuestion.objects.filter(golden_set=data["golden_set"]).count()
        if self.instance._state.adding and count >= GOLDEN_MAX_QUESTIONS:
            raise forms.ValidationError(gettext("Ce jeu est plein."))
        return data


class ImportForm(forms.Form):
    file = forms.FileField(
        label=_("Fichier CSV ou JSONL"),
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".csv,.jsonl,.json,.txt"}),
        help_text=_(
            "Colonnes ou clés : question, answer_source, contains, not_contains, document, page, expected_question, "
            "refused, note. Dans une cellule, « | » sépare plusieurs textes."
        ),
    )

    def clean_file(self) -> Any:
        upload = self.cleaned_data["file"]
        if upload.size > GOLDEN_MAX_FILE_BYTES:
            text = gettext("Choisissez un fichier de %(size)d Ko au plus.")
            raise forms.ValidationError(text % {"size": GOLDEN_MAX_FILE_BYTES // 1000})
        return upload


@admin.register(GoldenQuestion)
class GoldenQuestionAdmin(StaffAdmin):
    purpose = _("Une question dont la bonne réponse est connue, et ce qui est attendu d’elle.")
    form = GoldenQuestionForm
    list_display = ("question", "expectations", "golden_set", "origin")
    list_filter = ("golden_set", "origin")
    list_select_related = ("golden_set",)
    search_fields = ("question", "note")
    ordering = ("-pk",)

    @admin.display(description=_("attendu"))
    def expectations(self, row: GoldenQuestion) -> str:
        return clipped(" · ".join(expected_in_words(row.expected)) or "–")


@admin.register(GoldenSet)
class GoldenSetAdmin(StaffAdmin):
    purpose = _(
        "Des questions dont la bonne réponse est connue : on les pose avant et après avoir changé quelque chose."
    )
    change_form_template = "admin/chat/goldenset/change_form.html"
    list_display = ("name", "deployment", "asked", "last_run")
    list_filter = ("deployment",)
    list_select_related = ("deployment",)
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "deployment", "language")

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("keep/<uuid:turn_id>/", wrap(keep_turn), name="chat_goldenset_keep"),
            path("<int:set_id>/run/", wrap(run_set), name="chat_goldenset_run"),
            path("<int:set_id>/fill/", wrap(fill_set), name="chat_goldenset_fill"),
            path("<int:set_id>/import/", wrap(import_file), name="chat_goldenset_import"),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[GoldenSet]:
        found: QuerySet[GoldenSet] = super().get_queryset(request)
        last = GoldenRun.objects.filter(golden_set=OuterRef("pk")).order_by("-pk").values("pk")
        return found.annotate(question_count=Count("questions"), last_run_id=Subquery(last[:1]))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        found = kwargs.get("obj")
        if isinstance(found, GoldenSet):
            context["count"] = found.questions.count()
            context["questions_url"] = admin_url(GoldenQuestion, "changelist", golden_set__id__exact=found.pk)
            context["runs_url"] = admin_url(GoldenRun, "changelist", golden_set__id__exact=found.pk)
            context["may_fill"] = request.user.has_perm(RIGHT)
            context["may_see_runs"] = any(request.user.has_perm(right) for right in SEEING)
            context["may_keep_turns"] = request.user.has_perm("chat.view_turn")
            context["may_run"] = request.user.has_perm("chat.add_goldenrun")
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("questions"), ordering="question_count")
    def asked(self, row: Any) -> str:
        address = admin_url(GoldenQuestion, "changelist", golden_set__id__exact=row.pk)
        return count_link(row.question_count, address)

    @admin.display(description=_("dernier passage"))
    def last_run(self, row: Any) -> str:
        if row.last_run_id is None:
            return "–"
        return link(admin_url(GoldenRun, "change", row.last_run_id), f"n°\u00a0{row.last_run_id}")


def _sets(request: HttpRequest) -> QuerySet[GoldenSet]:
    return visible(request, GoldenSet.objects.select_related("deployment"))


@require_POST
def run_set(request: HttpRequest, set_id: int) -> HttpResponse:
    require(request, "chat.add_goldenrun")
    run = enqueue_run(get_object_or_404(_sets(request), pk=set_id), by=signed_in(request))
    return HttpResponseRedirect(admin_url(GoldenRun, "change", run.pk))


@require_POST
def fill_set(request: HttpRequest, set_id: int) -> HttpResponse:
    """By one click: what readers said was useful, or what staff have validated."""
    require(request, RIGHT)
    golden_set = get_object_or_404(_sets(request), pk=set_id)
    if "useful" in request.POST:
        require(request, "chat.view_turn")
        rows, origin = rows_of_useful_answers(golden_set.deployment), QuestionOrigin.VERDICT
    else:
        require(request, "faqs.view_learnedresponse")
        rows, origin = rows_of_validated_answers(golden_set.deployment), QuestionOrigin.ANSWER
    tell_added(request, add_questions(golden_set, rows, origin))
    return HttpResponseRedirect(admin_url(GoldenSet, "change", set_id))


@require_POST
def keep_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponse:
    """By one click: what was asked is to go on being answered as it was."""
    require(request, RIGHT, "chat.view_turn")
    turns = Turn.objects.select_related("conversation__deployment")
    turn = get_object_or_404(visible(request, turns), pk=turn_id)
    if (row := row_of_turn(turn)) is None:
        messages.warning(request, gettext("Rien de cet échange ne peut être gardé."))
    else:
        golden_set = set_for(turn.conversation.deployment)
        tell_added(request, add_questions(golden_set, [row], QuestionOrigin.TURN))
    return HttpResponseRedirect(admin_url(Turn, "change", turn_id))


def tell_added(request: HttpRequest, count: int) -> None:
    text = ngettext("%(count)d question de référence ajoutée.", "%(count)d questions de référence ajoutées.", count)
    if count:
        messages.success(request, text % {"count": count})
    else:
        messages.info(request, gettext("Rien à ajouter : le jeu a déjà ces questions, ou il est plein."))


@require_http_methods(["GET", "POST"])
def import_file(request: HttpRequest, set_id: int) -> HttpResponse:
    """Add the good rows of a file; the page says what is wrong with the others."""
    require(request, RIGHT)
    golden_set = get_object_or_404(_sets(request), pk=set_id)
    form = ImportForm(request.POST or None, request.FILES or None)
    faults: list[tuple[int, str]] = []
    if request.method == "POST" and form.is_valid():
        upload = form.cleaned_data["file"]
        found = read_file(upload.name, upload.read())
        tell_added(request, add_questions(golden_set, found.rows, QuestionOrigin.FILE))
        if not (faults := found.faults):
            return HttpResponseRedirect(admin_url(GoldenSet, "change", set_id))
    return admin_page(
        request,
        "admin/chat/goldenset/import.html",
        model=GoldenSet,
        title=gettext("Importer des questions"),
        golden_set=golden_set,
        form=form,
        faults=faults,
        media=form.media,
    )


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
        label=_("Dernières questions différentes"), min_value=1, widget=UnfoldAdminTextInputWidget
    )

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("deployment", "golden_set"):
            field = cast("forms.ModelChoiceField[Any]", self.fields[name])
            field.queryset = visible(request, cast("QuerySet[Any]", field.queryset))
        self.fields["count"].initial = GOLDEN_USUAL_QUESTIONS
        self.add_settings(name for name in setting_fields() if name not in NOT_ON_THE_PATH)

    def clean_count(self) -> int:
        most: int = GOLDEN_MAX_QUESTIONS
        if (count := int(self.cleaned_data["count"])) > most:
            raise forms.ValidationError(gettext("Au plus %(most)d questions.") % {"most": most})
        return count

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.errors:
            return data
        if not self.settings:
            raise forms.ValidationError(gettext("Changez au moins un réglage."))
        if data["golden_set"] and data["golden_set"].deployment_id != data["deployment"].pk:
            self.add_error("golden_set", gettext("Ce jeu est celui d’un autre déploiement."))
        return data


@admin.register(GoldenRun)
class GoldenRunAdmin(ReadOnlyAdmin):
    """Questions of a set are the staff's own words; real ones are people's (`chat.view_turn`)."""

    purpose = _("Les questions posées par un jeu ou un « et si », et ce qu’elles ont donné.")
    change_form_template = "admin/chat/goldenrun/change_form.html"
    list_display = ("__str__", "changed", "state", "figures", "created_at")
    list_filter = ("job__status", "golden_set", "deployment")
    list_select_related = ("golden_set", "deployment", "job")
    ordering = ("-pk",)
    fields = ("state", "progress", "where", "changed", "error", "by", "created_at")

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("what-if/", wrap(what_if), name="chat_goldenrun_whatif"),
            path("<int:run_id>/cancel/", wrap(cancel), name="chat_goldenrun_cancel"),
            *super().get_urls(),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        if isinstance(obj, GoldenRun) and obj.golden_set_id is None:
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
        """Leave out those that have nothing to say of this run."""
        if obj is None:
            return list(self.fields)
        empty = {"changed": not obj.changes, "error": not self.error(obj), "by": obj.by is None}
        return [name for name in self.fields if not empty.get(name)]

    @admin.display(description=_("état"), ordering="job__status")
    def state(self, run: GoldenRun) -> str:
        status = JobStatus(run.job.status) if run.job else JobStatus.DONE
        return badge(status.label, _TONES.get(status, "neutral"))

    @admin.display(description=_("erreur"))
    def error(self, run: GoldenRun) -> str:
        return run.job.error if run.job else ""

    @admin.display(description=_("avancement"))
    def progress(self, run: Any) -> str:
        return progress_bar(100 * run.asked // run.total if run.total else 100, self.figures(run))

    @admin.display(description=_("posées"))
    def figures(self, run: Any) -> str:
        return f"{run.asked} / {run.total}"

    where = linked("deployment", _("déploiement"))

    @admin.display(description=_("ce qui change"))
    def changed(self, run: GoldenRun) -> str:
        labels = {name: str(field.label) for name, field in setting_fields().items()}
        pairs = ((labels.get(name, name), value_text(name, value)) for name, value in run.changes.items())
        return " ; ".join(f"{label} : {text}" for label, text in pairs) or "–"


def _shown(request: HttpRequest, run: GoldenRun) -> dict[str, Any]:
    """A run's results, the worse first; without other settings beside those of an earlier run."""
    results = list(run.results.all())
    both, other = bool(run.changes), None
    if not both and run.golden_set is not None:
        other = _compared(request, run)
        earlier = {each.question: each.after for each in other.results.all()} if other else {}
        for each in results:
            each.before = earlier.get(each.question)
    rows = [(each, _verdict(each)) for each in results if each.after]
    rank = {"worse": 0, "better": 1, "changed": 2, "failed": 3}
    rows.sort(key=lambda pair: (rank.get(pair[1], 4), pair[0].position))
    earlier_label = gettext("Aujourd’hui") if both else gettext("Avant") if other else ""
    return {
        "title": str(run),
        "rows": [_row(each, verdict) for each, verdict in rows],
        "is_real": run.golden_set_id is None,
        "way_labels": (earlier_label, gettext("Avec le changement") if both else gettext("Ce passage")),
        "side_by_side": both or other is not None,
        "other": other,
        "counts": {name: sum(verdict == name for _each, verdict in rows) for name in ("worse", "better", "changed")},
        "passed": sum(each.has_passed for each in results),
        "total": len(results),
        "before": run_cost(results, "before") if both else None,
        "after": run_cost(results, "after"),
        "refresh_seconds": 0 if run.is_over else _REFRESH_SECONDS,
        "may_cancel": not run.is_over and request.user.has_perm("chat.add_goldenrun"),
    }


def _shown_to(request: HttpRequest, runs: QuerySet[GoldenRun]) -> QuerySet[GoldenRun]:
    return runs if request.user.has_perm("chat.view_turn") else runs.exclude(golden_set=None)


def _compared(request: HttpRequest, run: GoldenRun) -> GoldenRun | None:
    """The run named in the address, else the one before."""
    done = Q(job=None) | Q(job__status=JobStatus.DONE)
    others = GoldenRun.objects.filter(done, golden_set=run.golden_set_id, changes={})
    for key in database_keys([request.GET.get("with", "")]):
        return others.exclude(pk=run.pk).filter(pk=key).first()
    return others.filter(pk__lt=run.pk).first()


def _verdict(result: GoldenResult) -> str:
    if result.is_worse:
        return "worse"
    if result.is_better:
        return "better"
    if result.changes:
        return "changed"
    return "same" if result.has_passed else "failed"


def _row(result: GoldenResult, verdict: str) -> dict[str, Any]:
    return {
        "question": result.question,
        "before": _way(result.before),
        "after": _way(result.after),
        "verdict": verdict,
        "changes": ", ".join(str(_CHANGES[name]) for name in result.changes),
    }


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
        "answer": without_citations(found["answer"]),
        "sources": list(dict.fromkeys(filter(None, named))),
    }


@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest) -> HttpResponse:
    """Choose other settings; a worker asks the questions both ways, and nothing is written."""
    require(request, "chat.view_turn", "chat.add_goldenrun")
    form = WhatIfForm(request.POST or None, request=request)
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
