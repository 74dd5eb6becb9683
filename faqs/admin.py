"""Validated answers as staff see them: the FAQ editor, and the questions that still wait for an answer.

Rows are written by the verbs of `faqs.learning`, so that their points follow. What waits for its points, or could not
be indexed, says so in the list with what to do.
"""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from agents.admin_base import (
    ReadOnlyAdmin,
    StaffAdmin,
    Tone,
    admin_url,
    badge,
    change_link,
    link,
    long_text,
    stacked,
)
from agents.exceptions import ApplicationError
from faqs import admin_views
from faqs import memory_admin as memory_admin
from faqs.choices import accept_choice, dismiss_choices
from faqs.exchange import export_csv
from faqs.forms import LearnedResponseForm
from faqs.indexing import schedule_indexing
from faqs.learning import save_learned, set_status
from faqs.models import (
    ChoiceStatus,
    GroupStatus,
    IndexState,
    LearnedResponse,
    LearnedStatus,
    OptionChoice,
    Phrasing,
    QuestionGroup,
)
from faqs.unanswered import dismiss, group_questions, ranked_groups

# --- Learned responses -----------------------------------------------------------------------------------------------

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


class ReviewFilter(admin.SimpleListFilter):
    title = _("relecture")
    parameter_name = "review"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("overdue", _("Dépassée")), ("planned", _("Prévue")), ("none", _("Sans date"))]

    def queryset(
        self, request: HttpRequest, queryset: "QuerySet[LearnedResponse]"
    ) -> "QuerySet[LearnedResponse]":
        today = timezone.localdate()
        match self.value():
            case "overdue":
                return queryset.filter(review_date__lt=today)
            case "planned":
                return queryset.filter(review_date__gte=today)
            case "none":
                return queryset.filter(review_date=None)
        return queryset


@admin.register(LearnedResponse)
class LearnedResponseAdmin(StaffAdmin):
    form = LearnedResponseForm
    change_list_template = "admin/faqs/learnedresponse/change_list.html"
    list_display = (
        "shown_question",
        "agent",
        "validity",
        "index",
        "usage",
        "owner",
        "review_date",
    )
    list_filter = (
        "status",
        "index_state",
        "kind",
        ("agent", AutocompleteSelectFilter),
        ReviewFilter,
        ("owner", AutocompleteSelectFilter),
        "category",
    )
    list_filter_submit = True
    list_select_related = ("agent", "owner")
    search_fields = ("question", "answer", "phrasings__text")
    ordering = ("-updated_at",)
    autocomplete_fields = ("agent", "owner")
    actions = ("activate", "mark_obsolete", "index_again", "export_selected")
    readonly_fields = ("index", "usage", "created_at", "updated_at", "indexed_at")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "agent",
                    "kind",
                    "question",
                    "phrasing_lines",
                    "answer",
                    "category",
                    "save_anyway",
                )
            },
        ),
        (_("Validité"), {"fields": ("status", "status_reason", "owner", "review_date")}),
        (
            _("Index et usage"),
            {"fields": ("index", "indexed_at", "usage", "created_at", "updated_at")},
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[LearnedResponse]:
        rows: QuerySet[LearnedResponse] = super().get_queryset(request)
        counted = Phrasing.objects.filter(response=OuterRef("pk")).order_by().values("response")
        return rows.annotate(
            phrasing_count=Subquery(counted.annotate(found=Count("pk")).values("found"))
        )

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("import/", wrap(admin_views.import_faqs), name="faqs_learnedresponse_import"),
            *super().get_urls(),
        ]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
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

    def has_import_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["faqs.add_learnedresponse", "faqs.change_learnedresponse"])

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        context = {"may_import": self.has_import_permission(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if obj.status == LearnedStatus.VALID:
            obj.status_reason = ""
        save_learned(obj, phrasings=form.cleaned_data["phrasings"])
        if form.not_compared:
            self.message_user(
                request,
                gettext("Enregistrée sans comparaison avec les réponses existantes : %(reason)s")
                % {"reason": form.not_compared},
                messages.WARNING,
            )
        elif obj.status == LearnedStatus.VALID and not obj.is_standing:
            self.message_user(
                request,
                gettext("La date de relecture est passée : la réponse n’est pas servie."),
                messages.WARNING,
            )

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
    def export_selected(
        self, request: HttpRequest, queryset: QuerySet[LearnedResponse]
    ) -> HttpResponse:
        rows = queryset.prefetch_related("phrasings").iterator(chunk_size=500)
        response = HttpResponse("".join(export_csv(rows)), content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = 'attachment; filename="faq.csv"'
        response["Cache-Control"] = "private, no-store"
        return response

    def _set_status(
        self,
        request: HttpRequest,
        queryset: QuerySet[LearnedResponse],
        status: LearnedStatus,
        *,
        reason: str = "",
    ) -> None:
        rows = list(queryset)
        changed = set_status(rows, status, reason=reason)
        text = ngettext(
            "%(count)d réponse : %(status)s.", "%(count)d réponses : %(status)s.", changed
        ) % {"count": changed, "status": status.label}
        self.message_user(request, text)
        if left := len(rows) - changed:
            text = ngettext(
                "%(count)d réponse n’a pas été validée : elle est vide, ou sa date de relecture est passée.",
                "%(count)d réponses n’ont pas été validées : elles sont vides, ou leur date de relecture est passée.",
                left,
            )
            self.message_user(request, text % {"count": left}, messages.WARNING)

    @admin.display(description=_("question"), ordering="question")
    def shown_question(self, row: Any) -> SafeString:
        text = format_html('<span class="rp-clip">{}</span>', Truncator(row.question).chars(120))
        if not row.phrasing_count:
            return text
        count = ngettext(
            "et %(count)d autre formulation", "et %(count)d autres formulations", row.phrasing_count
        )
        return stacked(text, count % {"count": row.phrasing_count})

    @admin.display(description=_("validité"), ordering="status")
    def validity(self, row: LearnedResponse) -> SafeString:
        if row.status == LearnedStatus.VALID and not row.is_standing:
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
    if not row.is_standing and not row.attempts:
        return gettext("Elle n’est pas servie ; un worker retire ce qui en est indexé.")
    if not row.attempts:
        return gettext("Elle est servie dès qu’un worker l’a indexée.")
    when = (
        formats.date_format(timezone.localtime(row.next_attempt_at), "TIME_FORMAT")
        if row.next_attempt_at
        else "–"
    )
    return gettext(
        "%(error)s Prochain essai à %(when)s, ou tout de suite par l’action « Indexer à nouveau »."
    ) % {"error": row.index_error, "when": when}


# --- Unanswered questions --------------------------------------------------------------------------------------------

_GROUP_TONES: dict[str, Tone] = {
    GroupStatus.OPEN: "warning",
    GroupStatus.DRAFTED: "busy",
    GroupStatus.ANSWERED: "good",
    GroupStatus.DISMISSED: "neutral",
}
#: Questions of a group that its page lists, the newest first.
SHOWN_QUESTIONS = 50


@admin.register(QuestionGroup)
class QuestionGroupAdmin(ReadOnlyAdmin):
    """What people asked in vain, grouped; the most asked first."""

    is_erasable = True

    change_form_template = "admin/faqs/questiongroup/change_form.html"
    list_display = ("shown_question", "asked", "last", "state", "agent", "answer_link")
    list_filter = ("status", ("agent", AutocompleteSelectFilter), "questions__reason")
    list_filter_submit = True
    list_select_related = ("agent", "response")
    search_fields = ("question", "questions__question")
    actions = ("dismiss_groups",)
    fieldsets = ((None, {"fields": ("state", "agent", "answer_link", "created_at")}),)
    readonly_fields = ("state", "answer_link")

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuestionGroup]:
        """The counts come before the ordering that uses them, which the base class would apply first."""
        return ranked_groups()

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-asked_count", "-last_asked")

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path(
                "<int:group_id>/draft/",
                wrap(admin_views.draft_answer),
                name="faqs_questiongroup_draft",
            ),
            path(
                "<int:group_id>/approve/",
                wrap(admin_views.approve_answer),
                name="faqs_questiongroup_approve",
            ),
            *super().get_urls(),
        ]

    def has_dismiss_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("faqs.change_questiongroup")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        # Grouping is derived and bounded: without a worker the list is up to date all the same.
        group_questions()
        return super().changelist_view(request, extra_context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        group = kwargs.get("obj")
        if isinstance(group, QuestionGroup):
            may_see_turns = request.user.has_perm("chat.view_turn")
            context["questions"] = group.questions.order_by("-asked_at")[:SHOWN_QUESTIONS]
            context["response"] = group.response
            context["may_draft"] = admin_views.may_draft(request)
            context["may_see_turns"] = may_see_turns
            context["replay_url"] = (
                admin_url("chat.turn", "replay_group", group.pk) if may_see_turns else ""
            )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description=_("Écarter"), permissions=["dismiss"])
    def dismiss_groups(self, request: HttpRequest, queryset: QuerySet[QuestionGroup]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        count = dismiss(QuestionGroup.objects.filter(pk__in=keys))
        text = ngettext("%(count)d groupe écarté.", "%(count)d groupes écartés.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("question"), ordering="question")
    def shown_question(self, group: QuestionGroup) -> SafeString:
        text = Truncator(group.question).chars(140)
        return format_html('<span class="rp-clip">{}</span>', text)

    @admin.display(description=_("fois"), ordering="asked_count")
    def asked(self, group: Any) -> int:
        return group.asked_count or 0

    @admin.display(description=_("dernière fois"), ordering="last_asked")
    def last(self, group: Any) -> str:
        if group.last_asked is None:
            return "–"
        return formats.date_format(timezone.localtime(group.last_asked), "SHORT_DATETIME_FORMAT")

    @admin.display(description=_("état"), ordering="status")
    def state(self, group: QuestionGroup) -> SafeString:
        return badge(group.get_status_display(), _GROUP_TONES.get(group.status, "neutral"))

    @admin.display(description=_("réponse validée"))
    def answer_link(self, group: QuestionGroup) -> str:
        return change_link(group.response)


# --- Choices between close questions ---------------------------------------------------------------------------------

_CHOICE_TONES: dict[str, Tone] = {
    ChoiceStatus.OPEN: "warning",
    ChoiceStatus.ACCEPTED: "good",
    ChoiceStatus.DISMISSED: "neutral",
}


@admin.register(OptionChoice)
class OptionChoiceAdmin(ReadOnlyAdmin):
    """What people chose when asked which question they meant; the most chosen first."""

    is_erasable = True

    list_display = (
        "asked",
        "chosen",
        "times_chosen",
        "last_chosen_at",
        "state",
        "deployment",
        "answered_from",
    )
    list_filter = ("status", ("deployment", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("deployment", "response", "chunk__document")
    search_fields = ("question", "option", "answer")
    ordering = ("-times_chosen", "-last_chosen_at")
    actions = ("accept", "dismiss")
    fieldsets = (
        (None, {"fields": ("state", "question", "option", "times_chosen", "last_chosen_at")}),
        (_("Réponse"), {"fields": ("given", "answered_from", "deployment", "language", "origin")}),
    )
    readonly_fields = ("state", "given", "answered_from", "origin")

    def has_accept_permission(self, request: HttpRequest) -> bool:
        """What is accepted changes the FAQ or the memory."""
        return request.user.has_perms(
            [
                "faqs.change_optionchoice",
                "faqs.change_learnedresponse",
                "faqs.change_cachedresponse",
            ]
        )

    def has_dismiss_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("faqs.change_optionchoice")

    @admin.action(
        description=_("Accepter : répondre désormais ainsi à la question posée"),
        permissions=["accept"],
    )
    def accept(self, request: HttpRequest, queryset: QuerySet[OptionChoice]) -> None:
        keys = list(queryset.values_list("pk", flat=True)[: settings.FAQ_MAX_PROMOTED + 1])
        if len(keys) > settings.FAQ_MAX_PROMOTED:
            text = gettext("Choisissez %(limit)d choix au plus à la fois.")
            self.message_user(request, text % {"limit": settings.FAQ_MAX_PROMOTED}, messages.ERROR)
            return
        chosen = OptionChoice.objects.filter(pk__in=keys).select_related(
            "response", "chunk", "deployment__agent"
        )
        count = 0
        for choice in chosen.order_by("-times_chosen", "pk"):
            try:
                accept_choice(choice)
            except ApplicationError as error:
                refused = f"« {Truncator(choice.question).chars(140)} » : {error.public_message}"
                self.message_user(request, refused, messages.WARNING)
            else:
                count += 1
        if count:
            text = ngettext("%(count)d choix accepté.", "%(count)d choix acceptés.", count)
            self.message_user(request, text % {"count": count}, messages.SUCCESS)

    @admin.action(description=_("Écarter"), permissions=["dismiss"])
    def dismiss(self, request: HttpRequest, queryset: QuerySet[OptionChoice]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        count = dismiss_choices(OptionChoice.objects.filter(pk__in=keys))
        text = ngettext("%(count)d choix écarté.", "%(count)d choix écartés.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("question posée"), ordering="question")
    def asked(self, choice: OptionChoice) -> SafeString:
        text = Truncator(choice.question).chars(140)
        return format_html('<span class="rp-clip">{}</span>', text)

    @admin.display(description=_("question choisie"), ordering="option")
    def chosen(self, choice: OptionChoice) -> SafeString:
        text = Truncator(choice.option).chars(140)
        return format_html('<span class="rp-clip">{}</span>', text)

    @admin.display(description=_("état"), ordering="status")
    def state(self, choice: OptionChoice) -> SafeString:
        return badge(choice.get_status_display(), _CHOICE_TONES.get(choice.status, "neutral"))

    @admin.display(description=_("réponse donnée"))
    def given(self, choice: OptionChoice) -> SafeString | str:
        return long_text(choice.answer)

    @admin.display(description=_("réponse de"))
    def answered_from(self, choice: OptionChoice) -> SafeString | str:
        return change_link(choice.response or choice.chunk)

    @admin.display(description=_("choisie dans"))
    def origin(self, choice: OptionChoice) -> SafeString | str:
        if choice.last_turn is None:
            return "–"
        # The turn belongs to an app above: reached by its address.
        return link(admin_url("chat.turn", "change", choice.last_turn), _("la conversation"))
