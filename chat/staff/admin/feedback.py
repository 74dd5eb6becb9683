"""What readers say of answers, each with the trace that explains the answer."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import admin_url, change_link, link, stacked
from chat.models import Feedback, Message, Role, Turn, Verdict
from chat.staff.admin.private import PrivateAdmin, asked_text, verdict_badge


class WithdrawnFilter(admin.SimpleListFilter):
    title = _("retrait")
    parameter_name = "withdrawn"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", gettext("Maintenu")), ("yes", gettext("Retiré"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feedback]) -> QuerySet[Feedback]:
        if self.value() is None:
            return queryset
        return queryset.filter(withdrawn_at__isnull=self.value() == "no")


class FollowUpFilter(admin.SimpleListFilter):
    title = _("suivi")
    parameter_name = "follow_up"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("todo", gettext("À traiter")), ("settled", gettext("Réglé"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feedback]) -> QuerySet[Feedback]:
        match self.value():
            case "todo":
                return queryset.filter(verdict=Verdict.DOWN, withdrawn_at=None, settled_at=None)
            case "settled":
                return queryset.filter(settled_at__isnull=False)
        return queryset


@admin.register(Feedback)
class FeedbackAdmin(PrivateAdmin):
    change_list_template = "admin/chat/feedback/change_list.html"
    list_display = (
        "question",
        "shown_verdict",
        "shown_reason",
        "shown_comment",
        "way",
        "settled",
        "deployment",
        "updated_at",
    )
    list_filter = (
        FollowUpFilter,
        "verdict",
        "reason",
        WithdrawnFilter,
        "turn__answer_source",
        "turn__conversation__deployment",
        ("updated_at", RangeDateFilter),
    )
    list_filter_submit = True
    list_select_related = ("turn__conversation__deployment", "settled_by")
    search_fields = ("comment", "turn__messages__content")
    ordering = ("-updated_at",)
    fields = (
        "way",
        "shown_verdict",
        "reason",
        "comment",
        "created_at",
        "updated_at",
        "withdrawn_at",
        "reported_at",
        "settled_at",
        "settled",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Feedback]:
        verdicts: QuerySet[Feedback] = super().get_queryset(request)
        asked = Message.objects.filter(turn=OuterRef("turn"), role=Role.USER)
        return verdicts.annotate(asked=Subquery(asked.values("content")[:1]))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, under the counts of the verdicts that stand."""
        standing = Feedback.objects.filter(withdrawn_at=None)
        counted = standing.order_by().values_list("verdict").annotate(found=Count("pk"))
        found = dict(counted)
        context = {"up": found.get(Verdict.UP, 0), "down": found.get(Verdict.DOWN, 0)}
        response: HttpResponse = super().changelist_view(
            request, {**context, **(extra_context or {})}
        )
        return response

    @admin.display(description=_("question"))
    def question(self, given: Any) -> SafeString:
        text = Truncator(given.asked or "–").chars(120)
        return asked_text(text, given.turn.conversation)

    @admin.display(description=_("avis"), ordering="verdict")
    def shown_verdict(self, given: Feedback) -> SafeString:
        return verdict_badge(given)

    @admin.display(description=_("motif"), ordering="reason")
    def shown_reason(self, given: Feedback) -> str:
        return given.get_reason_display() or "–"

    @admin.display(description=_("commentaire"))
    def shown_comment(self, given: Feedback) -> SafeString:
        text = Truncator(given.comment or "–").chars(120)
        return format_html('<span class="rp-clip">{}</span>', text)

    @admin.display(description=_("réponse"), ordering="turn__answer_source")
    def way(self, given: Feedback) -> SafeString | str:
        return link(admin_url(Turn, "change", given.turn_id), gettext("Pourquoi cette réponse ?"))

    @admin.display(description=_("réglé par"), ordering="settled_at")
    def settled(self, given: Feedback) -> SafeString | str:
        """The validated answer that the question is given now."""
        if given.settled_by is None or given.settled_at is None:
            return "–"
        return stacked(change_link(given.settled_by), gettext("la question reçoit cette réponse"))

    @admin.display(description=_("déploiement"))
    def deployment(self, given: Feedback) -> str:
        return given.turn.conversation.deployment.name
