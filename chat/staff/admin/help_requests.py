"""Requests to a person: the inbox, and the page on which one is taken, answered or closed."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget

from agents.admin_base import admin_page, admin_url, clipped, database_keys, linked, require, signed_in
from agents.roles import visible, within
from chat.models import Channel, Conversation, HelpRequest, RequestStatus
from chat.staff.admin.conversations import PrivateAdmin, question_of
from chat.staff.admin.corrections import CorrectionForm, correction_address
from chat.staff.admin.simulator import prose_of
from chat.staff.corrections import agent_that_answered
from chat.thread.help_requests import OPEN_REQUESTS, answer_request, settle
from chat.thread.messages import exchange_of
from faqs.models import LearnedResponse


class AnswerForm(forms.Form):
    answer = forms.CharField(
        label=_("Votre réponse"), max_length=8_000, widget=UnfoldAdminTextareaWidget(attrs={"rows": 8})
    )


@admin.register(HelpRequest)
class HelpRequestAdmin(PrivateAdmin):
    purpose = _("Ce que des personnes demandent à l’équipe : ouvrez une demande pour y répondre.")
    list_display = ("question", "status", "deployment", "created_at", "owner")
    list_filter = ("status", "turn__conversation__deployment")
    list_select_related = ("turn__conversation__deployment", "owner")
    search_fields = ("answer", "turn__messages__content")
    annotations: ClassVar = {"asked": question_of("turn")}
    deployment = linked("turn.conversation.deployment", _("guichet"))

    @admin.display(description=_("question"))
    def question(self, asked: Any) -> SafeString:
        return clipped(asked.asked or "–", 120)

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        """The page of one request: it is answered here; « Corriger » makes a validated answer of what was answered."""
        require(request, "chat.view_turn")
        rows = HelpRequest.objects.select_related("turn__conversation__deployment__agent", "turn__conversation__user")
        asked = get_object_or_404(visible(request, rows), pk__in=database_keys([object_id]))
        turn, form = asked.turn, AnswerForm(request.POST or None)
        if request.method == "POST":
            require(request, "chat.change_helprequest")
            if _is_decided(request, asked, form):
                return HttpResponseRedirect(request.path)
            asked.refresh_from_db()
        question, given = exchange_of(turn)
        start = {"question": question.content if question else "", "answer": asked.answer}
        is_open = asked.status in OPEN_REQUESTS
        return admin_page(
            request,
            "admin/chat/helprequest/change.html",
            model=HelpRequest,
            title=gettext("Demande à une personne"),
            asked=asked,
            question=start["question"],
            given=prose_of(given) if given else "–",
            conversation_url=admin_url(Conversation, "change", turn.conversation_id),
            form=form if is_open and request.user.has_perm("chat.change_helprequest") else None,
            unsent="" if is_open else form.data.get("answer", ""),
            correct_url=correction_address(request, turn) if within(request, agent_that_answered(turn)) else "",
            correction=CorrectionForm(initial=start),
            validated=LearnedResponse.objects.valid().filter(source_message=turn.pk).first(),
        )


def _is_decided(request: HttpRequest, asked: HelpRequest, form: AnswerForm) -> bool:
    """Do what was pressed; `False` where the page shows the answer again: it is to be put right, or came too late."""
    by, pressed = signed_in(request), request.POST.get("do", "")
    is_answer = pressed not in (RequestStatus.TAKEN, RequestStatus.CLOSED)
    if not is_answer:
        is_done = settle(asked, by, RequestStatus(pressed))
    elif not form.is_valid():
        return False
    else:
        text = form.cleaned_data["answer"]
        is_done = answer_request(asked, text, by=by, link=_link(request, asked))
        # The same answer again is a second click.
        is_done = is_done or HelpRequest.objects.filter(pk=asked.pk, owner=request.user.pk, answer=text).exists()
    if not is_done:
        messages.warning(request, gettext("Cette demande a été traitée ou fermée entre-temps."))
    return is_done or not is_answer


def _link(request: HttpRequest, asked: HelpRequest) -> str:
    """Where the reader finds the conversation: on the one site that shows the widget, or here; of several none is known."""
    conversation = asked.turn.conversation
    if conversation.channel == Channel.WIDGET:
        return conversation.deployment.origins[0] if len(conversation.deployment.origins) == 1 else ""
    address = reverse("chat-conversation", args=[conversation.deployment.slug, conversation.pk])
    return request.build_absolute_uri(address)
