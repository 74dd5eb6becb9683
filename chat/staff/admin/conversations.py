"""Conversations and the questions asked in them, to be looked at; the page of a question says why its answer was given."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, F, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import Tone, admin_url, badge, count_link, linked, moment_text, open_to, rounded, stacked
from chat.models import Conversation, Feedback, Message, Role, SharedThread, Turn, TurnStatus
from chat.staff.admin import corrections, figures, simulator
from chat.staff.admin.model_check import model_check
from chat.staff.admin.private import (
    PrivateAdmin,
    asked_text,
    linked_sources,
    prose_of,
    score_text,
    source_badge,
    sources_of,
    temporary_note,
    verdict_badge,
)
from chat.staff.explanation import efficiency_grade, explain_trace
from chat.thread.branches import branch_turns, exchange_of, in_turn_order


@admin.register(Conversation)
class ConversationAdmin(PrivateAdmin):
    purpose = _("Les fils de questions et de réponses, du début à la fin.")
    is_erasable = True
    change_form_template = "admin/chat/conversation/change_form.html"
    list_display = ("shown_title", "deployment", "asker", "turns", "created_at", "updated_at")
    list_filter = ("deployment", "channel", "is_temporary", ("updated_at", RangeDateFilter), "turns__answer_source")
    list_filter_submit = True
    list_select_related = ("deployment", "user", "api_key")
    search_fields = ("title", "phase", "project")
    ordering = ("-updated_at",)
    fieldsets = (
        (None, {"fields": ("deployment_link", "asker", "channel", "temporary", "created_at", "updated_at")}),
        (_("Phase et projet"), {"fields": ("phase", "project")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        conversations: QuerySet[Conversation] = super().get_queryset(request)
        counted = Turn.objects.filter(conversation=OuterRef("pk")).order_by().values("conversation")
        return conversations.annotate(turn_count=Subquery(counted.annotate(found=Count("pk")).values("found")))

    def get_deleted_objects(
        self, objs: Sequence[Conversation] | QuerySet[Conversation], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """The conversations, by name: all that is in one goes with it, and asks for no right of its own."""
        names = [str(conversation) for conversation in objs]
        needed = set() if self.has_delete_permission(request) else {str(self.opts.verbose_name)}
        return names, {str(self.opts.verbose_name_plural): len(names)}, needed, []

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        conversation = kwargs.get("obj")
        if isinstance(conversation, Conversation):
            messages = Message.objects.for_conversation(conversation.pk).select_related("turn__conversation")
            context["client_thread"] = conversation.client_thread
            branch = branch_turns(conversation.pk, conversation.leaf)
            context["thread"] = [
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
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("titre"), ordering="title")
    def shown_title(self, conversation: Conversation) -> SafeString:
        return asked_text(str(conversation), conversation)

    @admin.display(description=_("conversation temporaire"))
    def temporary(self, conversation: Conversation) -> SafeString | str:
        return temporary_note(conversation)

    deployment_link = linked("deployment", _("déploiement"))

    @admin.display(description=_("posée par"), ordering="user__username")
    def asker(self, conversation: Conversation) -> str:
        if conversation.api_key is not None:
            return str(conversation.api_key)
        return str(conversation.user) if conversation.user else gettext("Visiteur anonyme")

    @admin.display(description=_("questions"), ordering="turn_count")
    def turns(self, conversation: Any) -> str:
        address = admin_url(Turn, "changelist", conversation__id__exact=conversation.pk)
        return count_link(conversation.turn_count or 0, address)


@admin.register(SharedThread)
class SharedThreadAdmin(PrivateAdmin):
    """Links that readers made; staff may close one."""

    purpose = _("Les liens que des personnes ont faits vers leur conversation ; révocables.")
    list_display = ("title", "deployment", "created_at", "expires_at")
    list_filter = ("conversation__deployment",)
    list_select_related = ("conversation__deployment",)
    search_fields = ("title",)
    fields = ("title", "conversation_link", "created_at", "expires_at")
    actions = ("revoke",)

    has_revoke_permission = open_to("chat.view_turn", "chat.delete_sharedthread")

    @admin.action(description=_("Révoquer"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, links: QuerySet[SharedThread]) -> None:
        count = links.count()
        links.delete()
        message = ngettext("%(count)d lien révoqué.", "%(count)d liens révoqués.", count)
        self.message_user(request, message % {"count": count})

    @admin.display(description=_("déploiement"))
    def deployment(self, shared: SharedThread) -> str:
        return shared.conversation.deployment.name

    conversation_link = linked("conversation", _("conversation"))


_STATUS_TONES: dict[str, Tone] = {
    TurnStatus.RUNNING: "busy",
    TurnStatus.DONE: "good",
    TurnStatus.INTERRUPTED: "warning",
    TurnStatus.FAILED: "bad",
    TurnStatus.AWAITING_APPROVAL: "warning",
}


@admin.register(Turn)
class TurnAdmin(PrivateAdmin):
    purpose = _("Chaque question posée, par quelle voie elle a été répondue, et pourquoi.")
    change_form_template = "admin/chat/turn/change_form.html"
    list_display = ("question", "way_and_score", "state", "verdict", "deployment", "moment")
    list_filter = (
        "answer_source",
        "status",
        "feedback__verdict",
        "conversation__deployment",
        "conversation__is_temporary",
        ("started_at", RangeDateFilter),
    )
    list_filter_submit = True
    list_select_related = ("conversation__deployment", "feedback")
    search_fields = ("messages__content", "conversation__title")
    ordering = ("-started_at",)
    fields = (
        "way",
        "state",
        "shown_score",
        "shown_best_score",
        "verdict",
        "shown_model",
        "llm_calls",
        "loop",
        "tokens",
        "error_code",
        "conversation_link",
        "temporary",
        "started_at",
        "duration",
    )
    actions = ("correct",)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:turn_id>/correct/", wrap(corrections.correct_turn), name="chat_turn_correct"),
            path("replay/<int:group_id>/", wrap(simulator.replay_group), name="chat_turn_replay_group"),
            path("try/", wrap(simulator.try_question), name="chat_turn_try"),
            path("figures/", wrap(figures.figures), name="chat_turn_figures"),
            path("model/", wrap(model_check), name="chat_turn_model"),
            *super().get_urls(),
        ]

    def has_correct_permission(self, request: HttpRequest) -> bool:
        return corrections.may_correct(request)

    @admin.action(description=_("Corriger…"), permissions=["correct"])
    def correct(self, request: HttpRequest, queryset: QuerySet[Turn]) -> HttpResponse | None:
        """Each answer is read before it is corrected: one at a time."""
        keys = list(queryset.values_list("pk", flat=True)[:2])
        if len(keys) == 1:
            return HttpResponseRedirect(admin_url(Turn, "correct", keys[0]))
        self.message_user(request, gettext("Choisissez une seule question à corriger."), messages.WARNING)
        return None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """The list of one conversation's turns is an address that the conversations link to."""
        if lookup == "conversation__id__exact":
            return True
        return bool(super().lookup_allowed(lookup, value, request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Turn]:
        turns: QuerySet[Turn] = super().get_queryset(request)
        asked = Message.objects.filter(conversation=OuterRef("conversation"), turn=OuterRef("pk"), role=Role.USER)
        return turns.annotate(asked=Subquery(asked.values("content")[:1]))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        turn = kwargs.get("obj")
        if isinstance(turn, Turn):
            context["title"] = gettext("Pourquoi cette réponse")
            context["subtitle"] = None
            context["steps"] = explain_trace(turn.trace)
            context["correct_url"] = corrections.correction_address(request, turn)
            context["may_keep"] = (
                request.user.has_perm("chat.add_goldenquestion") and not turn.conversation.is_temporary
            )
            context.update(_exchange(turn))
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("question"))
    def question(self, turn: Any) -> SafeString:
        text = Truncator(turn.asked or "–").chars(120)
        return asked_text(text, turn.conversation)

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

    @admin.display(description=_("déploiement"), ordering="conversation__deployment__name")
    def deployment(self, turn: Turn) -> str:
        return turn.conversation.deployment.name

    conversation_link = linked("conversation", _("conversation"))

    @admin.display(description=_("conversation temporaire"))
    def temporary(self, turn: Turn) -> SafeString | str:
        return temporary_note(turn.conversation)

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


def _exchange(turn: Turn) -> dict[str, Any]:
    """The question, the answer and its sources; the text of each source is what was given at the time."""
    asked, answered = exchange_of(turn)
    return {
        "question": asked.content if asked else "",
        "answer": prose_of(answered) if answered else "",
        "sources": linked_sources(sources_of(answered)) if answered else [],
    }
