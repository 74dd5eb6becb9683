"""Validated answers as staff see them: the editor with its form, and the list. `faqs.answers` writes the rows."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import formats, timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldBooleanWidget

from agents.admin_base import (
    ConditionFilter,
    StaffAdmin,
    Tone,
    admin_url,
    badge,
    change_link,
    clipped,
    open_to,
    signed_in,
    stacked,
)
from agents.errors import ApplicationError
from faqs.admin.imports import IMPORT_RIGHTS, import_faqs
from faqs.answer_points import schedule_indexing
from faqs.answers import (
    AnswerRejectedError,
    answers_to_review,
    check_texts,
    clean_answer,
    one_line,
    other_phrasings,
    save_learned,
    set_status,
)
from faqs.csv import csv_file, export_csv
from faqs.models import IndexState, LearnedKind, LearnedResponse, LearnedStatus, Phrasing
from faqs.neighbours import find_similar, similar_text
from faqs.unanswered import close_same

#: The button that saves a draft and puts it in service at once.
APPROVE = "_approve"


class LearnedResponseForm(forms.ModelForm[LearnedResponse]):
    """One validated answer. Answers that exist already to the same question are shown before it is saved."""

    phrasing_lines = forms.CharField(
        label=_("Autres formulations"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 5}),
        help_text=_("Une par ligne : d’autres façons de poser la même question."),
    )
    save_anyway = forms.BooleanField(
        label=_("Enregistrer malgré une réponse proche"), required=False, widget=UnfoldBooleanWidget
    )

    #: When the row was last changed, as the page was opened: two persons do not overwrite each other unseen.
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = LearnedResponse
        fields = ("agent", "kind", "question", "answer", "category", "status", "status_reason", "owner", "review_date")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Why the comparison could not be made; said after the answer is saved.
        self.not_compared = ""
        if self.instance.pk and "phrasing_lines" in self.fields:
            texts = [phrasing.text for phrasing in self.instance.phrasings.all()]
            self.fields["phrasing_lines"].initial = "\n".join(texts)
            self.fields["seen"].initial = self.instance.updated_at.isoformat()

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if APPROVE in self.data:
            data["status"] = LearnedStatus.VALID
        typed = (data.get("phrasing_lines") or "").splitlines()
        data["phrasings"] = other_phrasings(one_line(data.get("question") or ""), typed)
        if self.errors:
            return data
        self._require_unchanged(str(data.get("seen") or ""))
        try:
            question, answer, is_valid = data["question"], data["answer"], data.get("status") == LearnedStatus.VALID
            check_texts(one_line(question), clean_answer(answer), data["phrasings"], needs_answer=is_valid)
        except AnswerRejectedError as error:
            raise forms.ValidationError(str(error.public_message)) from error
        if data["kind"] == LearnedKind.FAQ and data["answer"] and not data.get("save_anyway"):
            self._compare(data)
        return data

    def _require_unchanged(self, seen: str) -> None:
        stored = LearnedResponse.objects.filter(pk=self.instance.pk or 0).first()
        if stored is not None and seen and stored.updated_at.isoformat() != seen:
            said = gettext(
                "Cette réponse a changé depuis l’ouverture de la page (%(state)s) : « %(answer)s ». "
                "Notez votre texte, rouvrez la page et reprenez-le si besoin."
            )
            told = {"state": stored.get_status_display(), "answer": Truncator(stored.answer).chars(300)}
            raise forms.ValidationError(said % told)

    def _compare(self, data: dict[str, Any]) -> None:
        agent = data.get("agent") or self.instance.agent
        try:
            asked, answer = [one_line(data["question"]), *data["phrasings"]], clean_answer(data["answer"])
            similar = find_similar(agent=agent, questions=asked, answer=answer, exclude=self.instance.pk)
        except ApplicationError as error:
            self.not_compared = str(error.public_message)
            return
        if similar:
            remedy = gettext("Modifiez la réponse existante, ou cochez « Enregistrer malgré une réponse proche ».")
            raise forms.ValidationError([*map(similar_text, similar), remedy])


_STATUS_TONES: dict[str, Tone] = {
    LearnedStatus.VALID: "good",
    LearnedStatus.TO_REVIEW: "warning",
    LearnedStatus.OBSOLETE: "neutral",
}

_INDEX_TONES: dict[str, Tone] = {
    IndexState.PENDING: "busy",
    IndexState.INDEXED: "good",
    IndexState.FAILED: "bad",
    IndexState.WITHDRAWN: "neutral",
}

#: Older answers of each kind that the page of the one that took their place lists.
SHOWN_REPLACED = 10


class ReviewFilter(ConditionFilter):
    title = _("relecture")
    parameter_name = "review"
    conditions: ClassVar = {
        "waiting": (_("À relire"), lambda rows: rows.filter(pk__in=answers_to_review().values("pk"))),
        "overdue": (_("Dépassée"), lambda rows: rows.filter(review_date__lt=timezone.localdate())),
        # 0.2.0 stored answers without their no-break spaces: « 1200€ », « article12 ».
        "glued": (
            _("Espaces peut-être perdues"),
            lambda rows: rows.exclude(answer__regex="[\u00a0\u202f]").filter(
                answer__regex="[a-z][a-z][a-z][0-9]|[0-9][€%]|«[^ ]|[^ ]»|[a-zé0-9][!?;:]( |$)"
            ),
        ),
    }


@admin.register(LearnedResponse)
class LearnedResponseAdmin(StaffAdmin):
    purpose = _("Les réponses que l’équipe a écrites ou relues : elles passent avant les documents.")
    form = LearnedResponseForm
    change_list_template = "admin/faqs/learnedresponse/change_list.html"
    change_form_template = "admin/faqs/learnedresponse/change_form.html"
    list_display = ("shown_question", "agent", "validity", "index", "usage", "owner", "review_date")
    list_filter = (
        *("status", "index_state", "kind", ReviewFilter, "category"),
        *(("agent", AutocompleteSelectFilter), ("owner", AutocompleteSelectFilter)),
    )
    list_filter_submit = True
    list_select_related = ("agent", "owner")
    search_fields = ("question", "answer", "phrasings__text")
    ordering = ("-updated_at",)
    autocomplete_fields = ("agent", "owner")
    actions = ("activate", "mark_obsolete", "index_again", "export_selected")
    own_pages = (("import/", import_faqs, "import"),)
    annotations: ClassVar = {
        "phrasing_count": Subquery(
            Phrasing.objects.filter(response=OuterRef("pk"))
            .order_by()
            .values("response")
            .annotate(found=Count("pk"))
            .values("found")
        )
    }
    readonly_fields = ("index", "usage", "replaced", "replaces", "created_at", "updated_at", "indexed_at")
    fieldsets = (
        (None, {"fields": tuple("agent kind question phrasing_lines answer category save_anyway seen".split())}),
        (_("Validité"), {"fields": ("status", "status_reason", "replaced", "replaces", "owner", "review_date")}),
        (_("Index et usage"), {"fields": ("index", "indexed_at", "usage", "created_at", "updated_at")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """An answer stays with its agent: its points are in that agent's index."""
        return (*self.readonly_fields, "agent") if obj else self.readonly_fields

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Who may only look has neither a field to fill nor a box to tick."""
        if obj is None:
            return self.fieldsets[:2]
        if self.has_change_permission(request, obj):
            return self.fieldsets
        shown = ("agent", "kind", "question", "answer", "category")
        return ((None, {"fields": shown}), *self.fieldsets[1:])

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"owner": request.user.pk, **super().get_changeform_initial_data(request)}

    has_import_permission = open_to(*IMPORT_RIGHTS)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        context = {"may_import": self.has_import_permission(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        # As it is stored: where approving it was refused, the row is another already.
        is_draft = LearnedResponse.objects.filter(pk=row and row.pk, status=LearnedStatus.TO_REVIEW).exists()
        return {"may_approve": is_draft and self.has_change_permission(request, row)}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if obj.status == LearnedStatus.VALID:
            obj.status_reason = ""
        save_learned(obj, phrasings=form.cleaned_data["phrasings"], by=signed_in(request))
        said = ""
        if form.not_compared:
            said = gettext("Enregistrée sans comparaison avec les réponses existantes : %(reason)s")
        elif obj.status == LearnedStatus.VALID and not obj.is_valid:
            said = gettext("La date de relecture est passée : la réponse n’est pas servie.")
        if said:
            self.message_user(request, said % {"reason": form.not_compared}, messages.WARNING)

    def response_change(self, request: HttpRequest, obj: LearnedResponse) -> HttpResponse:
        """A draft that was approved leads to the replay of the questions that it was written for."""
        group = obj.question_groups.first() if APPROVE in request.POST else None
        if group is not None and obj.is_valid:
            close_same(group, obj)
        if group is None or not request.user.has_perms(["chat.view_turn", "faqs.view_questiongroup"]):
            response: HttpResponse = super().response_change(request, obj)
            return response
        self.message_user(request, gettext("La réponse est validée."), messages.SUCCESS)
        return HttpResponseRedirect(admin_url("chat.turn", "replay_group", group.pk))

    @admin.action(description=_("Valider"), permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[LearnedResponse]) -> None:
        self._set_status(request, queryset, LearnedStatus.VALID)

    @admin.action(description=_("Marquer obsolète"), permissions=["change"])
    def mark_obsolete(self, request: HttpRequest, queryset: QuerySet[LearnedResponse]) -> None:
        reason = gettext("Marquée obsolète par %(user)s.") % {"user": request.user}
        self._set_status(request, queryset, LearnedStatus.OBSOLETE, reason=reason)

    @admin.action(description=_("Indexer à nouveau"), permissions=["change"])
    def index_again(self, request: HttpRequest, queryset: QuerySet[LearnedResponse]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        schedule_indexing(keys)
        text = ngettext(
            "%(count)d réponse va être indexée à nouveau.",
            "%(count)d réponses vont être indexées à nouveau.",
            len(keys),
        )
        self.message_user(request, text % {"count": len(keys)})

    @admin.action(description=_("Exporter en CSV"), permissions=["view"])
    def export_selected(self, request: HttpRequest, queryset: QuerySet[LearnedResponse]) -> HttpResponse:
        rows = queryset.prefetch_related("phrasings").iterator(chunk_size=500)
        return csv_file(export_csv(rows), "faq.csv")

    def _set_status(
        self, request: HttpRequest, queryset: QuerySet[LearnedResponse], status: LearnedStatus, *, reason: str = ""
    ) -> None:
        rows = list(queryset)
        changed = set_status(rows, status, reason=reason)
        text = ngettext("%(count)d réponse : %(status)s.", "%(count)d réponses : %(status)s.", changed) % {
            "count": changed,
            "status": status.label,
        }
        self.message_user(request, text)
        if left := len(rows) - changed:
            text = ngettext(
                "%(count)d réponse n’a pas été validée : elle est vide, ou sa date de relecture est passée.",
                "%(count)d réponses n’ont pas été validées : elles sont vides, ou leur date de relecture est passée.",
                left,
            )
            self.message_user(request, text % {"count": left}, messages.WARNING)

    @admin.display(description=_("remplacée par"))
    def replaced(self, row: LearnedResponse) -> str:
        return change_link(row.superseded_by or row.superseded_by_entry)

    @admin.display(description=_("a remplacé"))
    def replaces(self, row: LearnedResponse) -> SafeString | str:
        """Links to what this answer superseded: the latest `SHOWN_REPLACED` validated answers, then entries of the memory."""
        older = [
            *row.superseded_answers.order_by("-updated_at")[:SHOWN_REPLACED],
            *row.superseded_entries.defer("embedding").order_by("-pk")[:SHOWN_REPLACED],
        ]
        return format_html_join(mark_safe("<br>"), "{}", ([change_link(each)] for each in older)) or "–"

    @admin.display(description=_("question"), ordering="question")
    def shown_question(self, row: Any) -> SafeString:
        text = clipped(row.question, 120)
        if not row.phrasing_count:
            return text
        count = ngettext("et %(count)d autre formulation", "et %(count)d autres formulations", row.phrasing_count)
        return stacked(text, count % {"count": row.phrasing_count})

    @admin.display(description=_("validité"), ordering="status")
    def validity(self, row: LearnedResponse) -> SafeString:
        if row.status == LearnedStatus.VALID and not row.is_valid:
            late = gettext("Date de relecture dépassée : elle n’est plus servie.")
            return stacked(badge(LearnedStatus.TO_REVIEW.label, "warning"), late)
        label = badge(row.get_status_display(), _STATUS_TONES.get(row.status, "neutral"))
        return stacked(label, row.status_reason) if row.status_reason else label

    @admin.display(description=_("index"), ordering="index_state")
    def index(self, row: LearnedResponse) -> SafeString:
        label = badge(row.get_index_state_display(), _INDEX_TONES.get(row.index_state, "neutral"))
        hint = _index_hint(row)
        return stacked(label, hint) if hint else label

    @admin.display(description=_("usage"), ordering="times_served")
    def usage(self, row: LearnedResponse) -> SafeString | str:
        if row.last_served_at is None:
            return gettext("jamais donnée")
        times = ngettext("%(count)d fois", "%(count)d fois", row.times_served)
        last = formats.date_format(timezone.localtime(row.last_served_at), "SHORT_DATETIME_FORMAT")
        return stacked(times % {"count": row.times_served}, last)


def _index_hint(row: LearnedResponse) -> str:
    """Why an answer is not served yet, and what to do about it."""
    if row.index_state not in (IndexState.PENDING, IndexState.FAILED):
        return ""
    if not row.is_valid and not row.attempts:
        return gettext("Elle n’est pas servie ; un worker retire ce qui en est indexé.")
    if not row.attempts:
        return gettext("Elle répond déjà à ses propres mots ; aux autres, une fois indexée.")
    when = formats.date_format(timezone.localtime(row.next_attempt_at), "TIME_FORMAT") if row.next_attempt_at else "–"
    return gettext("%(error)s Prochain essai à %(when)s, ou tout de suite par l’action « Indexer à nouveau ».") % {
        "error": row.index_error,
        "when": when,
    }
