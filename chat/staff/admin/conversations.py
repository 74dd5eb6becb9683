"""Conversations, the questions asked in them, and what readers say of the answers; the page of a question says why its
answer was given.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import F, Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import (
    ConditionFilter,
    ReadOnlyAdmin,
    Tone,
    admin_url,
    badge,
    change_link,
    clipped,
    link,
    linked,
    moment_text,
    open_to,
    rounded,
    signed_in,
    stacked,
)
from chat.models import Conversation, Feedback, FeedbackQuerySet, FollowUp, Message, Role, Turn, TurnStatus
from chat.staff import figures
from chat.staff.admin import corrections, simulator
from chat.staff.admin.corrections import verdict_badge
from chat.staff.admin.simulator import linked_sources, prose_of, score_text, source_badge, sources_of
from chat.staff.explanation import efficiency_grade, explain_trace
from chat.thread.messages import branch_turns, exchange_of, in_turn_order
from chat.thread.verdicts import dismiss_verdicts, reopen_verdicts


class PrivateAdmin(ReadOnlyAdmin):
    """Rows that hold what people asked: one permission opens them, and no other stands in for it."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("chat.view_turn")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.view_turn")


@admin.register(Conversation)
class ConversationAdmin(PrivateAdmin):
    purpose = _("Les fils de questions et de réponses, du début à la fin.")
    is_erasable = True
    change_form_template = "admin/chat/conversation/change_form.html"
    list_display = ("shown_title", "deployment", "asker", "created_at", "updated_at")
    list_filter = ("deployment", "channel", ("updated_at", RangeDateFilter), "turns__answer_source")
    list_filter_submit = True
    list_select_related = ("deployment", "user", "api_key")
    search_fields = ("title", "phase", "project")
    fieldsets = (
        (None, {"fields": ("deployment_link", "asker", "channel", "created_at", "updated_at")}),
        (_("Phase et projet"), {"fields": ("phase", "project")}),
    )

    def get_deleted_objects(
        self, objs: Sequence[Conversation] | QuerySet[Conversation], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """The conversations, by name: all that is in one goes with it, and asks for no right of its own."""
        names = [str(conversation) for conversation in objs]
        needed = set() if self.has_delete_permission(request) else {str(self.opts.verbose_name)}
        return names, {str(self.opts.verbose_name_plural): len(names)}, needed, []

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        messages = Message.objects.for_conversation(row.pk).select_related("turn__conversation")
        branch = branch_turns(row.pk, row.leaf)
        thread = [
            {
                "message": message,
                "is_other_version": branch is not None
                and message.turn_id is not None
                and message.turn_id not in branch,
                "tools": ", ".join(call["function"]["name"] for call in message.tool_calls),
                "is_answer": message.role == Role.ASSISTANT and message.operation_id is None,
                "prose": prose_of(message) if message.role == Role.ASSISTANT else "",
                "sources": sources_of(message),
                "source": source_badge(message.turn) if message.turn else "",
                "why_url": admin_url(Turn, "change", message.turn_id),
                "correct_url": corrections.correction_address(request, message.turn) if message.turn else "",
            }
            for message in in_turn_order(messages)
        ]
        return {"client_thread": row.client_thread, "thread": thread}

    @admin.display(description=_("titre"), ordering="title")
    def shown_title(self, conversation: Conversation) -> SafeString:
        return clipped(str(conversation), 120)

    deployment_link = linked("deployment", _("guichet"))

    @admin.display(description=_("posée par"), ordering="user__username")
    def asker(self, conversation: Conversation) -> str:
        if conversation.api_key is not None:
            return str(conversation.api_key)
        return str(conversation.user) if conversation.user else gettext("Visiteur anonyme")


_STATUS_TONES: dict[str, Tone] = {
    TurnStatus.RUNNING: "busy",
    TurnStatus.DONE: "good",
    TurnStatus.INTERRUPTED: "warning",
    TurnStatus.FAILED: "bad",
    TurnStatus.AWAITING_APPROVAL: "warning",
}


def question_of(turn: str, **conditions: Any) -> Subquery:
    """The question of the turn that a row is, or names."""
    asked = Message.objects.filter(turn=OuterRef(turn), role=Role.USER, **conditions)
    return Subquery(asked.values("content")[:1])


_OF_A_MODEL = ("shown_model", "llm_calls", "loop", "tokens")


@admin.register(Turn)
class TurnAdmin(PrivateAdmin):
    purpose = _("Chaque question posée, par quelle voie elle a été répondue, et pourquoi.")
    change_form_template = "admin/chat/turn/change_form.html"
    list_display = ("question", "way_and_score", "state", "verdict", "deployment", "moment")
    list_filter = (
        *("answer_source", "status", "feedback__verdict", "conversation__deployment"),
        ("started_at", RangeDateFilter),
    )
    list_filter_submit = True
    list_select_related = ("conversation__deployment", "feedback")
    search_fields = ("messages__content", "conversation__title")
    ordering = ("-started_at",)
    fields = (
        *("way", "state", "shown_score", "shown_best_score", "verdict", *_OF_A_MODEL),
        *("error_code", "conversation_link", "started_at", "duration"),
    )
    own_pages = (
        ("<uuid:turn_id>/correct/", corrections.correct_turn, "correct"),
        ("replay/<int:group_id>/", simulator.replay_group, "replay_group"),
        ("try/", simulator.try_question, "try"),
        ("figures/", figures.figures, "figures"),
        ("model/", simulator.model_check, "model"),
    )
    annotations: ClassVar = {"asked": question_of("pk", conversation=OuterRef("conversation"))}

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without those of a model that was not asked."""
        is_written = obj is None or obj.llm_calls or obj.stop_reason
        return [name for name in self.fields if is_written or name not in _OF_A_MODEL]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        asked, answered = exchange_of(row)
        return {
            "title": gettext("Pourquoi cette réponse"),
            "subtitle": None,
            "steps": explain_trace(row.trace),
            "correct_url": corrections.correction_address(request, row),
            "question": asked.content if asked else "",
            "answer": prose_of(answered) if answered else "",
            # The text of each source is what was given at the time.
            "sources": linked_sources(sources_of(answered)) if answered else [],
        }

    @admin.display(description=_("question"))
    def question(self, turn: Any) -> SafeString:
        return clipped(turn.asked or "–", 120)

    @admin.display(description=_("voie de réponse"), ordering="answer_source")
    def way(self, turn: Turn) -> SafeString | str:
        return source_badge(turn)

    @admin.display(description=_("voie de réponse"), ordering="answer_source")
    def way_and_score(self, turn: Turn) -> SafeString | str:
        shown = source_badge(turn)
        return shown if turn.score is None else stacked(shown, score_text(turn.score))

    @admin.display(description=_("posée le"), ordering="started_at")
    def moment(self, turn: Turn) -> SafeString:
        """When it was asked, and how long it took."""
        return stacked(moment_text(turn.started_at), self.duration(turn))

    @admin.display(description=_("état"), ordering="status")
    def state(self, turn: Turn) -> SafeString:
        return badge(turn.get_status_display(), _STATUS_TONES.get(turn.status, "neutral"))

    @admin.display(description=_("score de la réponse"), ordering="score")
    def shown_score(self, turn: Turn) -> str:
        return score_text(turn.score)

    @admin.display(description=_("meilleur score de la recherche"))
    def shown_best_score(self, turn: Turn) -> str:
        return score_text(turn.best_score)

    @admin.display(description=_("modèle"))
    def shown_model(self, turn: Turn) -> str:
        """The name of a model that wrote; stored answers have a name of their own there, which is for programs."""
        return (turn.model if turn.llm_calls else "") or "–"

    @admin.display(description=_("avis"), ordering="feedback__verdict")
    def verdict(self, turn: Turn) -> SafeString | str:
        given: Feedback | None = getattr(turn, "feedback", None)
        return "–" if given is None else verdict_badge(given)

    deployment = linked("conversation.deployment", _("guichet"), ordering="conversation__deployment__name")
    conversation_link = linked("conversation", _("conversation"))

    @admin.display(description=_("boucle d’outils"))
    def loop(self, turn: Turn) -> str:
        if not turn.stop_reason:
            return "–"
        return gettext("%(reason)s · relances : %(rounds)d · efficacité : %(efficiency)s %% (%(grade)s)") % {
            "reason": turn.get_stop_reason_display(),
            "rounds": turn.rounds,
            "efficiency": rounded(turn.efficiency, 0),
            "grade": efficiency_grade(turn.efficiency),
        }

    @admin.display(description=_("tokens"))
    def tokens(self, turn: Turn) -> str:
        return gettext("%(read)d lus, %(written)d écrits") % {
            "read": turn.prompt_tokens,
            "written": turn.completion_tokens,
        }

    @admin.display(description=_("durée"), ordering=F("finished_at") - F("started_at"))
    def duration(self, turn: Turn) -> str:
        if turn.finished_at is None and turn.status != TurnStatus.RUNNING:
            return "–"
        seconds = ((turn.finished_at or timezone.now()) - turn.started_at).total_seconds()
        return gettext("%(seconds)s s") % {"seconds": rounded(seconds, 2)}


_FOLLOW_UP_TONES: dict[FollowUp, Tone] = {
    FollowUp.TODO: "warning",
    FollowUp.SETTLED: "good",
    FollowUp.DISMISSED: "neutral",
}


class FollowUpFilter(ConditionFilter):
    title = _("suivi")
    parameter_name = "follow_up"
    conditions: ClassVar = {
        "open": (_("À corriger"), lambda rows: rows.filter(pk__in=Feedback.objects.open())),
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
    fields = (
        *("way", "verdict", "reason", "comment", "state", "created_at", "updated_at"),
        *("withdrawn_at", "reported_at", "settled_at", "dismissed_at"),
    )
    annotations: ClassVar = {"asked": question_of("turn")}

    @admin.display(description=_("question"))
    def question(self, given: Any) -> SafeString:
        return clipped(given.asked or "–", 120)

    @admin.display(description=_("avis"), ordering="verdict")
    def said(self, given: Feedback) -> SafeString:
        """The verdict, over its reason and what was written with it."""
        words = filter(None, (given.get_reason_display(), given.comment))
        text = Truncator(" · ".join(words)).chars(160)
        return stacked(verdict_badge(given), text) if text else verdict_badge(given)

    deployment = linked("turn.conversation.deployment", _("guichet"))
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
            text += " " + gettext("Les autres n’attendent rien de l’équipe : utiles, retirés ou déjà réglés.")
        self.message_user(request, text, messages.WARNING if chosen > changed else messages.SUCCESS)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Where an answer is put right stands in the place of why it was given, for whoever may."""
        if not corrections.may_correct(request):
            return self.list_display
        return ["remedy" if name == "way" else name for name in self.list_display]

    @admin.display(description=_("réponse"), ordering="turn__answer_source")
    def remedy(self, given: Feedback) -> SafeString | str:
        if given.turn.status != TurnStatus.DONE:
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
        shown = badge(state.label, _FOLLOW_UP_TONES[state])
        if given.settled_by is not None and given.settled_at is not None:
            return stacked(shown, change_link(given.settled_by))
        return stacked(shown, given.owner) if given.owner else shown


def _only(verdicts: QuerySet[Feedback]) -> FeedbackQuerySet:
    """By their keys: what the list adds to its rows is no business of an update."""
    return Feedback.objects.filter(pk__in=list(verdicts.values_list("pk", flat=True)))
