"""The sidebar of the admin, and its stylesheet; the setting `UNFOLD` names both. An app that gains a page adds its line."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the sidebar: the list of a model ("app_name.model"), for who may view it, or has `permission` instead."""

    title: str | Promise
    icon: str
    model: str
    permission: str = ""

    def is_for(self, request: HttpRequest) -> bool:
        return request.user.has_perm(self.permission or self.model.replace(".", ".view_"))

    def as_item(self) -> dict[str, Any]:
        address = reverse_lazy(f"admin:{self.model.replace('.', '_')}_changelist")
        return {"title": self.title, "icon": self.icon, "link": address}


def _section(title: str | Promise, *entries: Entry) -> tuple[str | Promise, tuple[Entry, ...]]:
    return title, entries


SECTIONS = (
    _section(
        _("Répondre"),
        Entry(_("Agents"), "smart_toy", "agents.agent"),
        Entry(_("Déploiements"), "storefront", "agents.deployment"),
        Entry(_("Réglages du site"), "tune", "agents.runtimesettings"),
    ),
    _section(
        _("Connaissances"),
        Entry(_("Documents"), "description", "knowledge.document"),
        Entry(_("Adresses du web"), "public", "knowledge.websource"),
        Entry(_("Passages"), "segment", "knowledge.chunk"),
        Entry(_("Questions proches"), "difference", "knowledge.questionoverlap"),
        Entry(_("Sigles et synonymes"), "abc", "knowledge.synonym"),
        Entry(_("Catégories"), "label", "knowledge.category"),
        Entry(_("Indexations"), "manufacturing", "knowledge.indexbuild"),
        Entry(_("Dépenses pour les questions"), "payments", "knowledge.questionspending"),
        Entry(_("Calibrages"), "straighten", "knowledge.thresholdcalibration"),
        Entry(_("Verdicts sur des paires"), "rule", "knowledge.pairverdict"),
    ),
    _section(
        _("Réponses validées"),
        Entry(_("Mémoire"), "memory", "faqs.cachedresponse"),
        Entry(_("FAQ"), "verified", "faqs.learnedresponse"),
        Entry(_("Questions sans réponse"), "contact_support", "faqs.questiongroup"),
        Entry(_("Choix entre questions proches"), "alt_route", "faqs.optionchoice"),
    ),
    _section(
        _("Outils"),
        Entry(_("Outils"), "construction", "tools_registry.tooloverride"),
        Entry(_("Sources d’outils"), "hub", "tools_registry.toolsource"),
        Entry(_("Outils distants"), "cloud", "tools_registry.remotetool"),
        Entry(_("Questions étiquetées"), "rule", "tools_registry.labelledquestion"),
    ),
    _section(
        _("Conversations"),
        Entry(_("Conversations"), "forum", "chat.conversation", "chat.view_turn"),
        Entry(_("Pourquoi cette réponse"), "quiz", "chat.turn"),
        Entry(_("Avis"), "thumbs_up_down", "chat.feedback", "chat.view_turn"),
        Entry(_("Liens de partage"), "share", "chat.sharedthread", "chat.view_turn"),
    ),
    _section(
        _("Comptes"),
        Entry(_("Utilisateurs"), "person", "auth.user"),
        Entry(_("Groupes"), "group", "auth.group"),
        Entry(_("Clés d’API"), "vpn_key", "chat.apikey"),
        Entry(_("Jetons de service"), "key", "chat.servicetoken"),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The sections that have something for this user."""
    sections = [
        (title, [entry.as_item() for entry in entries if entry.is_for(request)])
        for title, entries in SECTIONS
    ]
    return [{"title": title, "items": items} for title, items in sections if items]


def stylesheet(_request: HttpRequest) -> str:
    return static("agents/admin.css")
