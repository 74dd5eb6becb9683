"""Phrasings that the model suggested, for staff to accept or refuse, and the asking for them."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import ReadOnlyAdmin, badge, linked, open_to
from agents.llm.base import language_model
from tools_registry.models import SuggestedPhrasing, ToolOverride
from tools_registry.phrasings import accept, ask_for_phrasings
from tools_registry.tasks import ask_to_suggest

#: How often a list asks again while something on it is under way.
REFRESH_SECONDS = 3


@admin.register(SuggestedPhrasing)
class SuggestedPhrasingAdmin(ReadOnlyAdmin):
    purpose = _(
        "Des questions que le modèle imagine d’après la description d’un outil ; acceptées, elles aident à le choisir."
    )
    list_display = ("text", "language", "tool", "state")
    list_filter = ("is_rejected", "language")
    list_select_related = ("override",)
    search_fields = ("text", "override__tool_name")
    ordering = ("is_rejected", "override__tool_name", "id")
    actions = ("accept_some", "reject")

    has_decide_permission = open_to("tools_registry.change_tooloverride")

    @admin.action(description=_("Accepter"), permissions=["decide"])
    def accept_some(self, request: HttpRequest, queryset: QuerySet[SuggestedPhrasing]) -> None:
        count = accept(queryset)
        text = ngettext("%(count)d formulation acceptée.", "%(count)d formulations acceptées.", count)
        self.message_user(request, text % {"count": count})

    @admin.action(description=_("Refuser"), permissions=["decide"])
    def reject(self, request: HttpRequest, queryset: QuerySet[SuggestedPhrasing]) -> None:
        count = queryset.filter(is_rejected=False).update(is_rejected=True)
        text = ngettext("%(count)d formulation refusée.", "%(count)d formulations refusées.", count)
        self.message_user(request, text % {"count": count})

    tool = linked("override", _("outil"), ordering="override__tool_name")

    @admin.display(description=_("état"), ordering="is_rejected")
    def state(self, row: SuggestedPhrasing) -> SafeString:
        if row.is_rejected:
            return badge(gettext("refusée"), "neutral")
        return badge(gettext("à relire"), "warning")


def suggest_and_report(request: HttpRequest, tools: QuerySet[ToolOverride]) -> None:
    """Ask for phrasings of these tools, in the background, and say so."""
    if language_model() is None:
        messages.error(request, gettext("Aucun modèle de langage n’est configuré."))
        return
    count, left = ask_for_phrasings(tools)
    if not ask_to_suggest():
        ToolOverride.objects.update(phrasings_asked_at=None)
        messages.error(request, gettext("Ce travail n’a pas pu être confié à l’arrière-plan : réessayez."))
        return
    text = ngettext(
        "Des formulations sont demandées au modèle pour %(count)d outil ; elles seront à relire dans « Formulations proposées ».",
        "Des formulations sont demandées au modèle pour %(count)d outils ; elles seront à relire dans « Formulations "
        "proposées ».",
        count,
    )
    messages.info(request, text % {"count": count})
    if left:
        more = ngettext(
            "%(count)d outil n’est pas de cet envoi : demandez-le ensuite.",
            "%(count)d outils ne sont pas de cet envoi : demandez-les ensuite.",
            left,
        )
        messages.warning(request, more % {"count": left})
