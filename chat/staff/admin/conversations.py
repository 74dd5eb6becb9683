"""Conversations to be looked at and deleted, and the links that readers made to them."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import admin_url, count_link, linked, open_to
from chat.models import Conversation, Message, Role, SharedThread, Turn
from chat.staff.admin.correcting import correction_address
from chat.staff.admin.private import PrivateAdmin, asked_text, prose_of, source_badge, sources_of, temporary_note
from chat.thread.branches import branch_turns, in_turn_order


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
                    "correct_url": correction_address(request, message.turn) if message.turn else "",
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
