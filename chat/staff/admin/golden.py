"""Questions of reference: sets of them, the questions with what is expected, and the ways in which a set is filled.

What is taken from conversations is taken by whoever may read them (`chat.view_turn`); in a set it is the staff's own.
"""

import json
import uuid
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectMultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.admin_base import StaffAdmin, admin_page, admin_url, clipped, count_link, link, require, signed_in
from agents.staff.scope import visible
from chat.models import AnswerSource, GoldenQuestion, GoldenRun, GoldenSet, QuestionOrigin, Turn
from chat.staff.admin.golden_runs import SEEING
from chat.staff.golden.expectations import (
    EXPECTATIONS,
    LISTS,
    expected_in_words,
    expected_of,
    fault_of,
    question_key,
    read_file,
)
from chat.staff.golden.runs import enqueue_run
from chat.staff.golden.sets import (
    add_questions,
    row_of_turn,
    rows_of_useful_answers,
    rows_of_validated_answers,
    set_for,
    touch,
)

RIGHT = "chat.add_goldenquestion"


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
        if self.instance._state.adding and count >= settings.GOLDEN_MAX_QUESTIONS:
            raise forms.ValidationError(gettext("Ce jeu est plein."))
        return data


class ImportForm(forms.Form):
    """A file to be looked at, or its rows that were looked at."""

    file = forms.FileField(
        label=_("Fichier CSV ou JSONL"),
        required=False,
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".csv,.jsonl,.json,.txt"}),
        help_text=_(
            "Colonnes ou clés : question, answer_source, contains, not_contains, document, page, expected_question, "
            "refused, note. Dans une cellule, « | » sépare plusieurs textes."
        ),
    )
    rows = forms.CharField(required=False, widget=forms.HiddenInput)


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

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        # One that was moved has changed two sets.
        touch(GoldenSet.objects.filter(pk__in=[obj.golden_set_id, form.initial.get("golden_set")]))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)
        touch(GoldenSet.objects.filter(pk=obj.golden_set_id))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[GoldenQuestion]) -> None:
        sets = set(queryset.values_list("golden_set", flat=True))
        super().delete_queryset(request, queryset)
        touch(GoldenSet.objects.filter(pk__in=sets))


@admin.register(GoldenSet)
class GoldenSetAdmin(StaffAdmin):
    purpose = _(
        "Des questions dont la bonne réponse est connue : on les pose avant de changer quelque chose, et chaque nuit."
    )
    change_form_template = "admin/chat/goldenset/change_form.html"
    list_display = ("name", "deployment", "asked", "is_gate", "is_nightly", "last_run")
    list_filter = ("is_gate", "is_nightly", "deployment")
    list_select_related = ("deployment",)
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "deployment", "language", "is_gate", "is_nightly")

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

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if {"deployment", "language"} & set(form.changed_data):
            touch(GoldenSet.objects.filter(pk=obj.pk))

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
    """A file is looked at first; its good rows are added once they were seen."""
    require(request, RIGHT)
    golden_set = get_object_or_404(_sets(request), pk=set_id)
    form = ImportForm(request.POST or None, request.FILES or None)
    found = None
    if request.method == "POST" and form.is_valid():
        if given := form.cleaned_data["rows"]:
            rows = read_file("rows.jsonl", given.encode()).rows
            tell_added(request, add_questions(golden_set, rows, QuestionOrigin.FILE))
            return HttpResponseRedirect(admin_url(GoldenSet, "change", set_id))
        upload = form.cleaned_data["file"]
        if upload is None or upload.size > settings.GOLDEN_MAX_FILE_BYTES:
            form.add_error(
                "file",
                gettext("Choisissez un fichier de %(size)d Ko au plus.")
                % {"size": settings.GOLDEN_MAX_FILE_BYTES // 1000},
            )
        else:
            found = read_file(upload.name, upload.read())
            known = set(golden_set.questions.values_list("key", flat=True))
            found.rows = [row for row in found.rows if question_key(row["question"]) not in known]
    packed = "\n".join(json.dumps(row, ensure_ascii=False) for row in found.rows) if found else ""
    return admin_page(
        request,
        "admin/chat/goldenset/import.html",
        model=GoldenSet,
        title=gettext("Importer des questions"),
        golden_set=golden_set,
        form=form,
        found=found,
        listed=[(row["question"], expected_in_words(expected_of(row))) for row in found.rows] if found else [],
        packed=packed,
        media=form.media,
    )
