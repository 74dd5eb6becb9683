"""Questions that were asked in vain, in groups, as staff see them."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils import formats, timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from agents.admin_base import ReadOnlyAdmin, Tone, admin_url, badge, clipped, linked, open_to, require, signed_in
from agents.errors import ApplicationError
from agents.roles import visible
from faqs.models import GroupStatus, LearnedResponse, QuestionGroup
from faqs.unanswered import draft_from_group, group_questions, ranked_groups

_GROUP_TONES: dict[str, Tone] = {
    GroupStatus.OPEN: "warning",
    GroupStatus.DRAFTED: "busy",
    GroupStatus.ANSWERED: "good",
    GroupStatus.DISMISSED: "neutral",
}

#: Questions of a group that its page lists, the newest first.
SHOWN_QUESTIONS = 50
MAY_DRAFT = ("faqs.view_questiongroup", "faqs.add_learnedresponse")


@require_POST
def draft_answer(request: HttpRequest, group_id: int) -> HttpResponse:
    """One click: a draft with the group's questions, opened in the editor."""
    require(request, *MAY_DRAFT)
    groups = QuestionGroup.objects.select_related("agent", "response")
    group = get_object_or_404(visible(request, groups), pk=group_id)
    try:
        response = draft_from_group(group, owner=signed_in(request))
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
        return HttpResponseRedirect(admin_url(QuestionGroup, "change", group.pk))
    if request.user.has_perm("faqs.change_learnedresponse"):
        return HttpResponseRedirect(admin_url(LearnedResponse, "change", response.pk))
    messages.success(request, gettext("Le brouillon est prêt à être relu."))
    return HttpResponseRedirect(admin_url(QuestionGroup, "change", group.pk))


@admin.register(QuestionGroup)
class QuestionGroupAdmin(ReadOnlyAdmin):
    """What people asked in vain, grouped; the most asked first."""

    purpose = _("Ce qui a été demandé en vain, groupé par sens, le plus demandé d’abord.")
    is_erasable = True

    change_form_template = "admin/faqs/questiongroup/change_form.html"
    list_display = ("shown_question", "asked", "last", "state", "agent", "answer_link")
    list_filter = ("status", ("agent", AutocompleteSelectFilter), "questions__reason")
    list_filter_submit = True
    list_select_related = ("agent", "response")
    search_fields = ("question", "questions__question")
    actions = ("dismiss_groups",)
    own_pages = (("<int:group_id>/draft/", draft_answer, "draft"),)
    fieldsets = ((None, {"fields": ("state", "agent", "answer_link", "answered_at", "created_at")}),)
    readonly_fields = ("state", "answer_link")

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuestionGroup]:
        """The counts come before the ordering that uses them, which the base class would apply first."""
        return visible(request, ranked_groups())

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-asked_count", "-last_asked")

    has_dismiss_permission = open_to("faqs.change_questiongroup")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        # Grouping is derived and bounded: without a worker the list is up to date all the same.
        group_questions()
        return super().changelist_view(request, extra_context)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may_see_turns = request.user.has_perm("chat.view_turn")
        return {
            "questions": row.questions.select_related("answered_by").order_by("-asked_at")[:SHOWN_QUESTIONS],
            "unanswered_count": row.questions.filter(answered_by=None).count(),
            "response": row.response,
            "may_draft": request.user.has_perms(MAY_DRAFT),
            "may_see_turns": may_see_turns,
            "replay_url": admin_url("chat.turn", "replay_group", row.pk) if may_see_turns else "",
        }

    @admin.action(description=_("Écarter"), permissions=["dismiss"])
    def dismiss_groups(self, request: HttpRequest, queryset: QuerySet[QuestionGroup]) -> None:
        keys = list(queryset.values_list("pk", flat=True))
        count = QuestionGroup.objects.filter(pk__in=keys).update(status=GroupStatus.DISMISSED)
        text = ngettext("%(count)d groupe écarté.", "%(count)d groupes écartés.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("question"), ordering="question")
    def shown_question(self, group: QuestionGroup) -> SafeString:
        return clipped(group.question)

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

    answer_link = linked("response", _("réponse validée"))
