"""Choices between close questions: what people meant when they were asked, for staff to accept or to set aside."""

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from agents.admin_base import (
    ReadOnlyAdmin,
    Tone,
    admin_url,
    badge,
    change_link,
    clipped,
    link,
    linked,
    long_text,
    open_to,
    signed_in,
    stacked,
)
from agents.errors import ApplicationError
from faqs.choices import accept_choice, dismiss_choices
from faqs.models import ChoiceStatus, OptionChoice

_CHOICE_TONES: dict[str, Tone] = {
    ChoiceStatus.OPEN: "warning",
    ChoiceStatus.ACCEPTED: "good",
    ChoiceStatus.ANSWERED: "good",
    ChoiceStatus.DISMISSED: "neutral",
}


@admin.register(OptionChoice)
class OptionChoiceAdmin(ReadOnlyAdmin):
    """What people chose when asked which question they meant; the most chosen first."""

    purpose = _("Ce que les personnes ont choisi quand plusieurs questions leur étaient proposées.")
    is_erasable = True

    list_display = ("asked", "chosen", "times_chosen", "last_chosen_at", "state", "deployment", "answered_from")
    list_filter = ("status", ("deployment", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("deployment", "response", "chunk__document", "answered_by")
    search_fields = ("question", "option", "answer")
    ordering = ("-times_chosen", "-last_chosen_at")
    actions = ("accept", "dismiss")
    fieldsets = (
        (None, {"fields": ("state", "question", "option", "times_chosen", "last_chosen_at")}),
        (_("Réponse"), {"fields": ("given", "answered_from", "since", "deployment", "language", "origin")}),
    )
    readonly_fields = ("state", "given", "answered_from", "since", "origin")

    #: What is accepted changes the FAQ or the memory.
    has_accept_permission = open_to(
        "faqs.change_optionchoice", "faqs.change_learnedresponse", "faqs.change_cachedresponse"
    )

    has_dismiss_permission = open_to("faqs.change_optionchoice")

    @admin.action(description=_("Accepter : répondre désormais ainsi à la question posée"), permissions=["accept"])
    def accept(self, request: HttpRequest, queryset: QuerySet[OptionChoice]) -> None:
        keys = list(queryset.values_list("pk", flat=True)[: settings.FAQ_MAX_PROMOTED + 1])
        if len(keys) > settings.FAQ_MAX_PROMOTED:
            text = gettext("Choisissez %(limit)d choix au plus à la fois.")
            self.message_user(request, text % {"limit": settings.FAQ_MAX_PROMOTED}, messages.ERROR)
            return
        chosen = OptionChoice.objects.filter(pk__in=keys).select_related("response", "chunk", "deployment__agent")
        count = 0
        for choice in chosen.order_by("-times_chosen", "pk"):
            try:
                accept_choice(choice, by=signed_in(request))
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
        return clipped(choice.question)

    @admin.display(description=_("question choisie"), ordering="option")
    def chosen(self, choice: OptionChoice) -> SafeString:
        return clipped(choice.option)

    @admin.display(description=_("état"), ordering="status")
    def state(self, choice: OptionChoice) -> SafeString:
        label = badge(choice.get_status_display(), _CHOICE_TONES.get(choice.status, "neutral"))
        return stacked(label, self.since(choice)) if choice.answered_by else label

    @admin.display(description=_("réponse donnée"))
    def given(self, choice: OptionChoice) -> SafeString | str:
        return long_text(choice.answer)

    @admin.display(description=_("réponse de"))
    def answered_from(self, choice: OptionChoice) -> SafeString | str:
        return change_link(choice.response or choice.chunk)

    since = linked("answered_by", _("répondue par"))

    @admin.display(description=_("choisie dans"))
    def origin(self, choice: OptionChoice) -> SafeString | str:
        if choice.last_turn is None:
            return "–"
        # The turn belongs to an app above: reached by its address.
        return link(admin_url("chat.turn", "change", choice.last_turn), _("la conversation"))
