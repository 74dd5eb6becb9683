"""Conversations and turns for staff, to look at; a turn's page says why its answer was given.

What people wrote is private: every page here asks for the permission `chat.view_turn`. Messages have no list of their
own; they are read inside their conversation.
"""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, F, Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import (
    ReadOnlyAdmin,
    StaffAdmin,
    Tone,
    admin_url,
    badge,
    change_link,
    count_link,
    link,
    rounded,
    stacked,
)
from chat.models import (
    AnswerSource,
    ApiKey,
    Conversation,
    Feedback,
    Message,
    Role,
    ServiceToken,
    SharedThread,
    Turn,
    TurnStatus,
    Verdict,
)
from chat.rendering import render_answer
from chat.staff.admin import views as admin_views
from chat.staff.explanation import efficiency_grade, explain_trace
from chat.thread.branches import branch_turns, in_turn_order
from knowledge.models import Chunk, Document

_STATUS_TONES: dict[str, Tone] = {
    TurnStatus.RUNNING: "busy",
    TurnStatus.DONE: "good",
    TurnStatus.INTERRUPTED: "warning",
    TurnStatus.FAILED: "bad",
    TurnStatus.AWAITING_APPROVAL: "warning",
}
_SOURCE_TONES: dict[str, Tone] = {
    AnswerSource.MEMORY_GUARD: "good",
    AnswerSource.DIRECT_QA: "good",
    AnswerSource.GUARD_RAIL: "warning",
    AnswerSource.LLM: "busy",
    AnswerSource.ROUND_LIMIT: "warning",
}


class PrivateAdmin(ReadOnlyAdmin):
    """Rows that hold what people asked: one permission opens them, and no other stands in for it."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("chat.view_turn")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.view_turn")


@admin.register(Conversation)
class ConversationAdmin(PrivateAdmin):
    is_erasable = True
    change_form_template = "admin/chat/conversation/change_form.html"
    list_display = ("shown_title", "deployment", "asker", "turns", "created_at", "updated_at")
    list_filter = (
        "deployment",
        "channel",
        "is_temporary",
        ("updated_at", RangeDateFilter),
        "turns__answer_source",
    )
    list_filter_submit = True
    list_select_related = ("deployment", "user", "api_key")
    search_fields = ("title", "phase", "project")
    ordering = ("-updated_at",)
    readonly_fields = ("deployment_link", "asker", "channel", "temporary")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "deployment_link",
                    "asker",
                    "channel",
                    "temporary",
                    "created_at",
                    "updated_at",
                )
            },
        ),
        (_("Phase et projet"), {"fields": ("phase", "project")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        conversations: QuerySet[Conversation] = super().get_queryset(request)
        counted = Turn.objects.filter(conversation=OuterRef("pk")).order_by().values("conversation")
        return conversations.annotate(
            turn_count=Subquery(counted.annotate(found=Count("pk")).values("found"))
        )

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
            messages = Message.objects.for_conversation(conversation.pk).select_related("turn")
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
                    "prose": _prose(message) if message.role == Role.ASSISTANT else "",
                    "sources": _sources(message),
                    "source": _source_badge(message.turn) if message.turn else "",
                    "why_url": admin_url(Turn, "change", message.turn_id),
                }
                for message in in_turn_order(messages)
            ]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("titre"), ordering="title")
    def shown_title(self, conversation: Conversation) -> SafeString:
        return _asked(str(conversation), conversation)

    @admin.display(description=_("conversation temporaire"))
    def temporary(self, conversation: Conversation) -> SafeString | str:
        return _temporary_note(conversation)

    @admin.display(description=_("déploiement"))
    def deployment_link(self, conversation: Conversation) -> str:
        return change_link(conversation.deployment)

    @admin.display(description=_("posée par"), ordering="user__username")
    def asker(self, conversation: Conversation) -> str:
        if conversation.api_key is not None:
            return str(conversation.api_key)
        return str(conversation.user) if conversation.user else gettext("Visiteur anonyme")

    @admin.display(description=_("questions"), ordering="turn_count")
    def turns(self, conversation: Any) -> str:
        address = admin_url(Turn, "changelist", conversation__id__exact=conversation.pk)
        return count_link(conversation.turn_count or 0, address)


@admin.register(Turn)
class TurnAdmin(PrivateAdmin):
    change_form_template = "admin/chat/turn/change_form.html"
    list_display = (
        "question",
        "way",
        "shown_score",
        "state",
        "verdict",
        "deployment",
        "duration",
        "started_at",
    )
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
    readonly_fields = (
        "conversation_link",
        "temporary",
        "way",
        "state",
        "shown_score",
        "shown_best_score",
        "shown_model",
        "verdict",
        "loop",
        "tokens",
        "duration",
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
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
            },
        ),
    )

    actions = ("learn",)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path(
                "<uuid:turn_id>/learn/",
                wrap(admin_views.learn_from_turn),
                name="chat_turn_learn",
            ),
            path(
                "replay/<int:group_id>/",
                wrap(admin_views.replay_group),
                name="chat_turn_replay_group",
            ),
            path("refusals/", wrap(admin_views.refusals), name="chat_turn_refusals"),
            *super().get_urls(),
        ]

    def has_learn_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(
            ["faqs.add_learnedresponse", "faqs.change_learnedresponse", "chat.view_turn"]
        )

    @admin.action(description=_("Valider en FAQ…"), permissions=["learn"])
    def learn(self, request: HttpRequest, queryset: QuerySet[Turn]) -> HttpResponse | None:
        """Each answer is read before it is validated: one at a time."""
        keys = list(queryset.values_list("pk", flat=True)[:2])
        if len(keys) == 1:
            return HttpResponseRedirect(admin_url(Turn, "learn", keys[0]))
        self.message_user(
            request, gettext("Choisissez un seul échange à valider."), messages.WARNING
        )
        return None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """The list of one conversation's turns is an address that the conversations link to."""
        if lookup == "conversation__id__exact":
            return True
        return bool(super().lookup_allowed(lookup, value, request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Turn]:
        turns: QuerySet[Turn] = super().get_queryset(request)
        asked = Message.objects.filter(
            conversation=OuterRef("conversation"), turn=OuterRef("pk"), role=Role.USER
        )
        return turns.annotate(asked=Subquery(asked.values("content")[:1]))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        turn = kwargs.get("obj")
        if isinstance(turn, Turn):
            context["title"] = gettext("Pourquoi cette réponse")
            context["subtitle"] = None
            context["steps"] = explain_trace(turn.trace)
            context["learn_url"] = (
                admin_url(Turn, "learn", turn.pk)
                if turn.status == TurnStatus.DONE
                and not turn.conversation.is_temporary
                and self.has_learn_permission(request)
                else ""
            )
            context.update(_exchange(turn))
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("question"))
    def question(self, turn: Any) -> SafeString:
        text = Truncator(turn.asked or "–").chars(120)
        return _asked(text, turn.conversation)

    @admin.display(description=_("voie de réponse"), ordering="answer_source")
    def way(self, turn: Turn) -> SafeString | str:
        return _source_badge(turn)

    @admin.display(description=_("état"), ordering="status")
    def state(self, turn: Turn) -> SafeString:
        return badge(turn.get_status_display(), _STATUS_TONES.get(turn.status, "neutral"))

    @admin.display(description=_("score de la réponse"), ordering="score")
    def shown_score(self, turn: Turn) -> str:
        return _score_text(turn.score)

    @admin.display(description=_("meilleur score de la recherche"))
    def shown_best_score(self, turn: Turn) -> str:
        return _score_text(turn.best_score)

    @admin.display(description=_("modèle"))
    def shown_model(self, turn: Turn) -> str:
        """The name of a model that wrote; stored answers have a name of their own there, which is for programs."""
        return (turn.model if turn.llm_calls else "") or "–"

    @admin.display(description=_("avis"), ordering="feedback__verdict")
    def verdict(self, turn: Turn) -> SafeString | str:
        given: Feedback | None = getattr(turn, "feedback", None)
        return "–" if given is None else _verdict_badge(given)

    @admin.display(description=_("déploiement"), ordering="conversation__deployment__name")
    def deployment(self, turn: Turn) -> str:
        return turn.conversation.deployment.name

    @admin.display(description=_("conversation"))
    def conversation_link(self, turn: Turn) -> str:
        return change_link(turn.conversation)

    @admin.display(description=_("conversation temporaire"))
    def temporary(self, turn: Turn) -> SafeString | str:
        return _temporary_note(turn.conversation)

    @admin.display(description=_("boucle d’outils"))
    def loop(self, turn: Turn) -> str:
        if not turn.stop_reason:
            return "–"
        return gettext(
            "%(reason)s · relances : %(rounds)d · efficacité : %(efficiency)s %% (%(grade)s)"
        ) % {
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


class WithdrawnFilter(admin.SimpleListFilter):
    """Verdicts that stand, or were taken back."""

    title = _("retrait")
    parameter_name = "withdrawn"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", gettext("Maintenu")), ("yes", gettext("Retiré"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feedback]) -> QuerySet[Feedback]:
        if self.value() is None:
            return queryset
        return queryset.filter(withdrawn_at__isnull=self.value() == "no")


@admin.register(Feedback)
class FeedbackAdmin(PrivateAdmin):
    """What readers say of answers, each with the trace that explains the answer."""

    change_list_template = "admin/chat/feedback/change_list.html"
    list_display = (
        "question",
        "shown_verdict",
        "shown_reason",
        "shown_comment",
        "way",
        "deployment",
        "updated_at",
    )
    list_filter = (
        "verdict",
        "reason",
        WithdrawnFilter,
        "turn__answer_source",
        "turn__conversation__deployment",
        ("updated_at", RangeDateFilter),
    )
    list_filter_submit = True
    list_select_related = ("turn__conversation__deployment",)
    search_fields = ("comment", "turn__messages__content")
    ordering = ("-updated_at",)
    fields = (
        "turn_link",
        "shown_verdict",
        "reason",
        "comment",
        "created_at",
        "updated_at",
        "withdrawn_at",
        "reported_at",
    )
    readonly_fields = ("turn_link", "shown_verdict")

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
        return _asked(text, given.turn.conversation)

    @admin.display(description=_("avis"), ordering="verdict")
    def shown_verdict(self, given: Feedback) -> SafeString:
        return _verdict_badge(given)

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

    @admin.display(description=_("déploiement"))
    def deployment(self, given: Feedback) -> str:
        return given.turn.conversation.deployment.name

    @admin.display(description=_("réponse"))
    def turn_link(self, given: Feedback) -> SafeString | str:
        return self.way(given)


@admin.register(SharedThread)
class SharedThreadAdmin(PrivateAdmin):
    """Links that readers made; staff may close one."""

    list_display = ("title", "deployment", "created_at", "expires_at")
    list_filter = ("conversation__deployment",)
    list_select_related = ("conversation__deployment",)
    search_fields = ("title",)
    fields = ("title", "conversation_link", "created_at", "expires_at")
    readonly_fields = ("conversation_link",)
    actions = ("revoke",)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["chat.view_turn", "chat.delete_sharedthread"])

    @admin.action(description=_("Révoquer"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, links: QuerySet[SharedThread]) -> None:
        count = links.count()
        links.delete()
        message = ngettext("%(count)d lien révoqué.", "%(count)d liens révoqués.", count)
        self.message_user(request, message % {"count": count})

    @admin.display(description=_("déploiement"))
    def deployment(self, shared: SharedThread) -> str:
        return shared.conversation.deployment.name

    @admin.display(description=_("conversation"))
    def conversation_link(self, shared: SharedThread) -> str:
        return change_link(shared.conversation)


@admin.register(ServiceToken)
class ServiceTokenAdmin(StaffAdmin):
    """Tokens are issued by the command, which alone can show one; here they are limited, revoked and deleted."""

    list_display = ("name", "created_at", "is_revoked")
    list_filter = ("is_revoked",)
    search_fields = ("name",)
    fields = ("name", "all_deployments", "deployments", "is_revoked", "created_at")
    readonly_fields = ("created_at",)
    filter_horizontal = ("deployments",)
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description=_("Révoquer"), permissions=["change"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[ServiceToken]) -> None:
        count = tokens.filter(is_revoked=False).update(is_revoked=True)
        message = ngettext("%(count)d jeton révoqué.", "%(count)d jetons révoqués.", count)
        self.message_user(request, message % {"count": count})


@admin.register(ApiKey)
class ApiKeyAdmin(StaffAdmin):
    """Keys of `/v1`. The page that follows the creation of one shows it, once; it is not kept, nor put in a message."""

    list_display = ("name", "shown_prefix", "opened", "last_used_at", "expires_at", "is_revoked")
    list_filter = ("is_revoked", "deployments")
    search_fields = ("name", "prefix")
    ordering = ("name",)
    fields = ("name", "deployments", "expires_at", "is_revoked", "shown_prefix", "last_used_at")
    readonly_fields = ("shown_prefix", "last_used_at")
    filter_horizontal = ("deployments",)
    actions = ("revoke",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        keys: QuerySet[ApiKey] = super().get_queryset(request)
        return keys.prefetch_related("deployments")

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if not change:
            form.drawn_secret = obj.draw_secret()
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        form.instance.drawn_secret = getattr(form, "drawn_secret", "")

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Clé d’API créée"),
            "opts": self.opts,
            "key": obj,
            "secret": obj.drawn_secret,
            "address": request.build_absolute_uri("/v1"),
            "model": obj.deployments.values_list("slug", flat=True).first() or "",
            "list_url": admin_url(ApiKey, "changelist"),
        }
        return TemplateResponse(request, "admin/chat/apikey/issued.html", context)

    @admin.display(description=_("clé"), ordering="prefix")
    def shown_prefix(self, key: ApiKey) -> str:
        return f"{key.prefix}…" if key.prefix else "–"

    @admin.display(description=_("déploiements"))
    def opened(self, key: ApiKey) -> str:
        return ", ".join(deployment.slug for deployment in key.deployments.all()) or "–"

    @admin.action(description=_("Révoquer"), permissions=["change"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        count = keys.filter(is_revoked=False).update(is_revoked=True)
        message = ngettext("%(count)d clé révoquée.", "%(count)d clés révoquées.", count)
        self.message_user(request, message % {"count": count})


def _verdict_badge(given: Feedback) -> SafeString:
    if given.withdrawn_at is not None:
        text = gettext("%(verdict)s, retiré") % {"verdict": given.get_verdict_display()}
        return badge(text)
    return badge(given.get_verdict_display(), "good" if given.verdict == Verdict.UP else "bad")


def _source_badge(turn: Turn) -> SafeString | str:
    if not turn.answer_source:
        return "–"
    tone = _SOURCE_TONES.get(turn.answer_source, "neutral")
    return badge(turn.get_answer_source_display(), tone)


def _score_text(score: float | None) -> str:
    return "–" if score is None else rounded(score, 3)


def _exchange(turn: Turn) -> dict[str, Any]:
    """The question, the answer and its sources; the text of each source is what was given at the time."""
    messages = Message.objects.for_conversation(turn.conversation_id).exchanges().filter(turn=turn)
    by_role = {message.role: message for message in messages}
    asked, answered = by_role.get(Role.USER), by_role.get(Role.ASSISTANT)
    return {
        "question": asked.content if asked else "",
        "answer": _prose(answered) if answered else "",
        "sources": _linked_sources(_sources(answered)) if answered else [],
    }


def _prose(message: Message) -> SafeString:
    """An answer as its reader saw it; its citations lead to its sources on the same page."""
    numbers = {source["n"] for source in _sources(message) if isinstance(source.get("n"), int)}
    html = render_answer(message.content, turn_id=str(message.turn_id), source_numbers=numbers)
    return mark_safe(html)  # noqa: S308  # sanitised there


def _sources(message: Message) -> list[dict[str, Any]]:
    return [source for source in message.sources if isinstance(source, dict)]


def _linked_sources(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each source with links to its passage and document, as far as they still exist."""
    chunks = _existing(Chunk, sources, "chunk_id")
    documents = _existing(Document, sources, "document_id")
    return [
        {
            **source,
            "score": _score_text(source.get("score")),
            "kind": _SOURCE_KINDS.get(str(source.get("type")), source.get("type", "")),
            "chunk_url": _url_of(Chunk, source.get("chunk_id"), chunks),
            "document_url": _url_of(Document, source.get("document_id"), documents),
        }
        for source in sources
    ]


def _existing(model: type[Chunk | Document], sources: list[dict[str, Any]], key: str) -> set[int]:
    wanted = [source[key] for source in sources if isinstance(source.get(key), int)]
    return set(model._default_manager.filter(pk__in=wanted).values_list("pk", flat=True))


def _url_of(model: type[Model], key: object, existing: set[int]) -> str:
    return admin_url(model, "change", key) if key in existing else ""


_SOURCE_KINDS = {
    "qa_pair": _("question-réponse"),
    "source_material": _("texte du passage"),
    "legacy": _("texte du passage"),
}


def _asked(text: str, conversation: Conversation) -> SafeString:
    """A question or a title in a list, marked where its author asked for it not to last."""
    shown = format_html('<span class="rp-clip">{}</span>', text)
    return stacked(shown, _temporary_badge()) if conversation.is_temporary else shown


def _temporary_badge() -> SafeString:
    return badge(_("Temporaire"), "warning")


def _temporary_note(conversation: Conversation) -> SafeString | str:
    """What its author was promised: nothing of it is used again, and it goes soon."""
    if not conversation.is_temporary:
        return gettext("non")
    note = gettext(
        "Rien n’en est réutilisé ; elle disparaît %(hours)s h après son dernier message."
    )
    return stacked(_temporary_badge(), note % {"hours": rounded(settings.TEMPORARY_CHAT_HOURS, 0)})
