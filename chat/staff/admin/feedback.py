"""What readers say of answers, each with the trace that explains the answer."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import ConditionFilter, Tone, admin_url, badge, change_link, link, open_to, signed_in, stacked
from chat.models import Feedback, FeedbackQuerySet, FollowUp, Message, Role, Turn
from chat.staff.admin.corrections import is_correctable, may_correct
from chat.staff.admin.private import PrivateAdmin, asked_text, verdict_badge
from chat.thread.verdicts import dismiss_verdicts, reopen_verdicts

_TONES: dict[FollowUp, Tone] = {FollowUp.TODO: "warning", FollowUp.SETTLED: "good", FollowUp.DISMISSED: "neutral"}


class FollowUpFilter(ConditionFilter):
    title = _("suivi")
    parameter_name = "follow_up"
    conditions: ClassVar = {
        "open": (_("À corriger"), lambda rows: rows.filter(pk__in=Feedback.objects.to_correct())),
        "settled": (FollowUp.SETTLED.label, lambda rows: rows.filter(pk__in=Feedback.objects.settled())),
        "dismissed": (FollowUp.DISMISSED.label, lambda rows: rows.filter(pk__in=Feedback.objects.dismissed())),
    }


@admin.register(Feedback)
class FeedbackAdmin(PrivateAdmin):
    purpose = _("Ce que les personnes disent des réponses. « À revoir » attend une correction : ouvrez « Corriger ».")
    list_display = ("question", "said", "state", "way", "deployment", "updated_at")
    list_filter = (
        FollowUpFilter,
        "verdict",
        "reason",
        "turn__answer_source",
        "turn__conversation__deployment",
        ("updated_at", RangeDateFilter),
    )
    list_filter_submit = True
    list_select_related = ("turn__conversation__deployment", "settled_by", "owner")
    actions = ("give_back", "dismiss")
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
        "state",
        "settled_at",
        "dismissed_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Feedback]:
        verdicts: QuerySet[Feedback] = super().get_queryset(request)
        asked = Message.objects.filter(turn=OuterRef("turn"), role=Role.USER)
        return verdicts.annotate(asked=Subquery(asked.values("content")[:1]))

    @admin.display(description=_("question"))
    def question(self, given: Any) -> SafeString:
        text = Truncator(given.asked or "–").chars(120)
        return asked_text(text, given.turn.conversation)

    @admin.display(description=_("avis"), ordering="verdict")
    def shown_verdict(self, given: Feedback) -> SafeString:
        return verdict_badge(given)

    @admin.display(description=_("avis"), ordering="verdict")
    def said(self, given: Feedback) -> SafeString:
        """The verdict, over its reason and what was written with it."""
        words = filter(None, (given.get_reason_display(), given.comment))
        text = Truncator(" · ".join(words)).chars(160)
        return stacked(verdict_badge(given), text) if text else verdict_badge(given)

    has_decide_permission = open_to("chat.view_turn", "chat.change_feedback")

    @admin.action(description=_("Remettre à traiter"), permissions=["decide"])
    def give_back(self, request: HttpRequest, verdicts: QuerySet[Feedback]) -> None:
        self._tell(request, reopen_verdicts(_only(verdicts)), verdicts.count())

    @admin.action(description=_("Classer sans suite"), permissions=["decide"])
    def dismiss(self, request: HttpRequest, verdicts: QuerySet[Feedback]) -> None:
        self._tell(request, dismiss_verdicts(_only(verdicts), signed_in(request)), verdicts.count())

    def _tell(self, request: HttpRequest, changed: int, chosen: int) -> None:
        text = ngettext("%(count)d avis mis à jour.", "%(count)d avis mis à jour.", changed) % {"count": changed}
        if chosen > changed:
            text = f"{text} {gettext('Les autres n’attendent rien de l’équipe : utiles, retirés ou déjà réglés.')}"
        self.message_user(request, text, messages.WARNING if chosen > changed else messages.SUCCESS)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Where an answer is put right stands in the place of why it was given, for whoever may."""
        if not may_correct(request):
            return self.list_display
        return ["remedy" if name == "way" else name for name in self.list_display]

    @admin.display(description=_("réponse"), ordering="turn__answer_source")
    def remedy(self, given: Feedback) -> SafeString | str:
        if not is_correctable(given.turn):
            return self.way(given)
        address = admin_url(Turn, "correct", given.turn_id)
        return stacked(link(address, gettext("Corriger")), self.way(given))

    @admin.display(description=_("réponse"), ordering="turn__answer_source")
    def way(self, given: Feedback) -> SafeString | str:
        return link(admin_url(Turn, "change", given.turn_id), gettext("Pourquoi ?"))

    @admin.display(description=_("suivi"), ordering="settled_at")
    def state(self, given: Feedback) -> SafeString | str:
        """What became of it, by whom, and the validated answer that the question is given now."""
        if (state := given.follow_up) is None:
            return "–"
        shown = badge(state.label, _TONES[state])
        if given.settled_by is not None and given.settled_at is not None:
            return stacked(shown, change_link(given.settled_by))
        return stacked(shown, given.owner) if given.owner else shown

    @admin.display(description=_("déploiement"))
    def deployment(self, given: Feedback) -> str:
        return given.turn.conversation.deployment.name


def _only(verdicts: QuerySet[Feedback]) -> FeedbackQuerySet:
    """By their keys: what the list adds to its rows is no business of an update."""
    return Feedback.objects.filter(pk__in=list(verdicts.values_list("pk", flat=True)))
