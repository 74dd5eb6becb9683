"""The sidebar of the admin, and its stylesheet; the setting `UNFOLD` names both. The pages belong to their apps.

The sidebar lists what a user may see and nothing else; an app that gains a page adds its line to `SECTIONS`.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the sidebar: the list of a model, shown to who has `permission`."""

    title: str | Promise
    icon: str
    model: str
    permission: str

    def as_item(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "icon": self.icon,
            "link": reverse_lazy(f"admin:{self.model}_changelist"),
        }


SECTIONS: tuple[tuple[str | Promise, tuple[Entry, ...]], ...] = (
    (
        _("Répondre"),
        (
            Entry(_("Agents"), "smart_toy", "agents_agent", "agents.view_agent"),
            Entry(_("Déploiements"), "storefront", "agents_deployment", "agents.view_deployment"),
            Entry(
                _("Réglages du site"),
                "tune",
                "agents_runtimesettings",
                "agents.view_runtimesettings",
            ),
        ),
    ),
    (
        _("Connaissances"),
        (
            Entry(_("Documents"), "description", "knowledge_document", "knowledge.view_document"),
            Entry(
                _("Adresses du web"), "public", "knowledge_websource", "knowledge.view_websource"
            ),
            Entry(_("Passages"), "segment", "knowledge_chunk", "knowledge.view_chunk"),
            Entry(
                _("Questions proches"),
                "difference",
                "knowledge_questionoverlap",
                "knowledge.view_questionoverlap",
            ),
            Entry(_("Catégories"), "label", "knowledge_category", "knowledge.view_category"),
            Entry(
                _("Indexations"),
                "manufacturing",
                "knowledge_indexbuild",
                "knowledge.view_indexbuild",
            ),
            Entry(
                _("Calibrages"),
                "straighten",
                "knowledge_thresholdcalibration",
                "knowledge.view_thresholdcalibration",
            ),
            Entry(
                _("Verdicts sur des paires"),
                "rule",
                "knowledge_pairverdict",
                "knowledge.view_pairverdict",
            ),
        ),
    ),
    (
        _("Réponses validées"),
        (
            Entry(_("Mémoire"), "memory", "faqs_cachedresponse", "faqs.view_cachedresponse"),
            Entry(_("FAQ"), "verified", "faqs_learnedresponse", "faqs.view_learnedresponse"),
            Entry(
                _("Questions sans réponse"),
                "contact_support",
                "faqs_questiongroup",
                "faqs.view_questiongroup",
            ),
            Entry(
                _("Choix entre questions proches"),
                "alt_route",
                "faqs_optionchoice",
                "faqs.view_optionchoice",
            ),
        ),
    ),
    (
        _("Outils"),
        (
            Entry(
                _("Outils"),
                "construction",
                "tools_registry_tooloverride",
                "tools_registry.view_tooloverride",
            ),
            Entry(
                _("Sources d’outils"),
                "hub",
                "tools_registry_toolsource",
                "tools_registry.view_toolsource",
            ),
            Entry(
                _("Outils distants"),
                "cloud",
                "tools_registry_remotetool",
                "tools_registry.view_remotetool",
            ),
            Entry(
                _("Questions étiquetées"),
                "rule",
                "tools_registry_labelledquestion",
                "tools_registry.view_labelledquestion",
            ),
        ),
    ),
    (
        _("Conversations"),
        (
            Entry(_("Conversations"), "forum", "chat_conversation", "chat.view_turn"),
            Entry(_("Pourquoi cette réponse"), "quiz", "chat_turn", "chat.view_turn"),
            Entry(_("Avis"), "thumbs_up_down", "chat_feedback", "chat.view_turn"),
            Entry(_("Liens de partage"), "share", "chat_sharedthread", "chat.view_turn"),
        ),
    ),
    (
        _("Comptes"),
        (
            Entry(_("Utilisateurs"), "person", "auth_user", "auth.view_user"),
            Entry(_("Groupes"), "group", "auth_group", "auth.view_group"),
            Entry(_("Clés d’API"), "vpn_key", "chat_apikey", "chat.view_apikey"),
            Entry(_("Jetons de service"), "key", "chat_servicetoken", "chat.view_servicetoken"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The sections that have something for this user."""
    sections = [
        (title, [entry.as_item() for entry in entries if request.user.has_perm(entry.permission)])
        for title, entries in SECTIONS
    ]
    return [{"title": title, "items": items} for title, items in sections if items]


def stylesheet(_request: HttpRequest) -> str:
    return static("agents/admin.css")
