"""Stored questions that ask the same; the answers are corrected in their passages, or the pair is accepted."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from agents.admin_base import ReadOnlyAdmin, Tone, badge, change_link, open_to, rounded, stacked
from knowledge.models import OverlapKind, QuestionOverlap


@admin.register(QuestionOverlap)
class QuestionOverlapAdmin(ReadOnlyAdmin):
    purpose = _("Questions des documents qui se répètent ou se contredisent.")
    list_display = ("pair", "finding", "answers", "places", "agent", "decision")
    list_filter = ("kind", "dismissed", "agent")
    list_select_related = ("agent", "first_chunk__document", "second_chunk__document")
    search_fields = ("first_question", "second_question", "first_answer", "second_answer")
    ordering = ("dismissed", "kind", "-similarity")
    actions = ("accept", "reopen")

    has_decide_permission = open_to("knowledge.change_questionoverlap")

    @admin.action(description=_("Accepter telles quelles"), permissions=["decide"])
    def accept(self, request: HttpRequest, queryset: QuerySet[QuestionOverlap]) -> None:
        self._decide(request, queryset, dismissed=True)

    @admin.action(description=_("Remettre à examiner"), permissions=["decide"])
    def reopen(self, request: HttpRequest, queryset: QuerySet[QuestionOverlap]) -> None:
        self._decide(request, queryset, dismissed=False)

    def _decide(self, request: HttpRequest, queryset: QuerySet[QuestionOverlap], *, dismissed: bool) -> None:
        count = queryset.update(dismissed=dismissed)
        text = ngettext("%(count)d paire modifiée.", "%(count)d paires modifiées.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("questions"), ordering="first_question")
    def pair(self, overlap: QuestionOverlap) -> SafeString:
        return stacked(overlap.first_question, overlap.second_question)

    @admin.display(description=_("constat"), ordering="kind")
    def finding(self, overlap: QuestionOverlap) -> SafeString:
        tone: Tone = "bad" if overlap.kind == OverlapKind.CONTRADICTION else "warning"
        return stacked(badge(overlap.get_kind_display(), tone), rounded(overlap.similarity, 3))

    @admin.display(description=_("réponses"))
    def answers(self, overlap: QuestionOverlap) -> SafeString:
        cut = (Truncator(text).chars(160) for text in (overlap.first_answer, overlap.second_answer))
        return stacked(*cut)

    @admin.display(description=_("passages"))
    def places(self, overlap: QuestionOverlap) -> SafeString:
        return stacked(
            change_link(overlap.first_chunk) if overlap.first_chunk else overlap.first_source,
            change_link(overlap.second_chunk) if overlap.second_chunk else overlap.second_source,
        )

    @admin.display(description=_("décision"), ordering="dismissed")
    def decision(self, overlap: QuestionOverlap) -> SafeString:
        if overlap.dismissed:
            return badge(_("Acceptées"), "good")
        return badge(_("À examiner"), "warning")
