"""The sidebar of the admin, the page of its less common lists, and its stylesheet and script; the setting `UNFOLD`
names them.

An app that gains a page adds its line: to `DAILY` what staff open every day, to `ADVANCED` the rest.
"""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from agents.roles import may_reach

Words = str | Promise


@dataclass(frozen=True, slots=True)
class Entry:
    """A page: by default the list of a model ("app_name.model"), for who may view it, or has one of `rights` instead."""

    title: Words
    icon: str
    model: str = ""
    rights: tuple[str, ...] = ()
    #: Of the model's pages, which one; without a model, a page of the admin itself.
    page: str = "changelist"
    #: What it is for, where that is not what the model's list says.
    says: Words = ""

    def is_for(self, request: HttpRequest) -> bool:
        rights = self.rights or ((self.model.replace(".", ".view_"),) if self.model else ())
        if rights and not any(request.user.has_perm(right) for right in rights):
            return False
        return not self.model or may_reach(request, apps.get_model(self.model), change=False)

    @property
    def purpose(self) -> Words:
        """What its list says that it is for."""
        options: Any = admin.site.get_model_admin(apps.get_model(self.model))
        return self.says or options.purpose

    @property
    def address(self) -> str:
        return reverse(f"admin:{self.model.replace('.', '_')}_{self.page}" if self.model else self.page)

    def as_item(self, request: HttpRequest) -> dict[str, Any]:
        item = {"title": self.title, "icon": self.icon, "link": self.address}
        # A page below a list's address may be an entry of its own.
        return {**item, "active": self.address == _nearest(request.path)}


def _nearest(path: str) -> str:
    """The longest address of the sidebar that this page lies at or below; every page lies below the first one."""
    entries = (entry for _title, entries in DAILY for entry in entries)
    above = [each.address for each in entries if path.startswith(each.address)]
    nearest = max(above, key=len, default="")
    return nearest if nearest == path or len(above) > 1 else _ADVANCED_PAGE.address


Section = tuple[Words, tuple[Entry, ...]]

DAILY: tuple[Section, ...] = (
    (
        _("Aujourd’hui"),
        (
            Entry(_("Le travail du jour"), "checklist", page="admin:index"),
            Entry(_("Avis"), "thumbs_up_down", "chat.feedback", ("chat.view_turn",)),
            Entry(_("Questions sans réponse"), "contact_support", "faqs.questiongroup"),
            Entry(_("Questions posées"), "quiz", "chat.turn"),
            Entry(_("Comment va le service"), "monitoring", "chat.turn", ("chat.view_figures",), "figures"),
            Entry(_("Essayer une question"), "science", "chat.turn", ("chat.view_turn",), "try"),
        ),
    ),
    (
        _("Contenu"),
        (
            Entry(_("Documents"), "description", "knowledge.document"),
            Entry(_("FAQ"), "verified", "faqs.learnedresponse"),
            Entry(_("Mémoire"), "memory", "faqs.cachedresponse"),
        ),
    ),
    (
        _("Service"),
        (Entry(_("Agents"), "smart_toy", "agents.agent"), Entry(_("Déploiements"), "storefront", "agents.deployment")),
    ),
)
ADVANCED: tuple[Section, ...] = (
    (
        _("Connaissances"),
        (
            Entry(_("Adresses du web"), "public", "knowledge.websource"),
            Entry(_("Passages"), "segment", "knowledge.chunk"),
            Entry(_("Sigles et synonymes"), "abc", "knowledge.synonym"),
            Entry(_("Catégories"), "label", "knowledge.category"),
            Entry(_("Indexations"), "manufacturing", "knowledge.indexbuild"),
            Entry(_("Calibrages"), "straighten", "knowledge.thresholdcalibration"),
            Entry(_("Verdicts sur des paires"), "rule", "knowledge.pairverdict"),
        ),
    ),
    (
        _("Réponses et conversations"),
        (
            Entry(_("Conversations"), "forum", "chat.conversation", ("chat.view_turn",)),
            Entry(_("Liens de partage"), "share", "chat.sharedthread", ("chat.view_turn",)),
        ),
    ),
    (
        _("Avant de changer quelque chose"),
        (
            Entry(_("Questions de référence"), "fact_check", "chat.goldenset"),
            Entry(_("Questions attendues"), "checklist_rtl", "chat.goldenquestion"),
            Entry(
                _("Passages des questions"), "play_circle", "chat.goldenrun", ("chat.view_goldenrun", "chat.view_turn")
            ),
            Entry(
                _("Et si… ?"),
                "compare_arrows",
                "chat.goldenrun",
                ("chat.add_goldenrun",),
                "whatif",
                _("Ce qu’un réglage changé ferait des dernières questions réelles, avant de le changer."),
            ),
        ),
    ),
    (
        _("Outils"),
        (
            Entry(_("Outils"), "construction", "tools_registry.tooloverride"),
            Entry(_("Sources d’outils"), "hub", "tools_registry.toolsource"),
        ),
    ),
    (
        _("Site et comptes"),
        (
            Entry(_("Réglages du site"), "tune", "agents.runtimesettings"),
            Entry(_("Utilisateurs"), "person", "auth.user"),
            Entry(_("Groupes"), "group", "auth.group"),
            Entry(_("Journal des changements"), "history", "auditlog.logentry"),
            Entry(_("Clés d’API"), "vpn_key", "chat.apikey"),
            Entry(_("Jetons de service"), "key", "chat.servicetoken"),
        ),
    ),
)
_ADVANCED_PAGE = Entry(_("Avancé"), "more_horiz", page="admin-advanced")


def _open_to(sections: tuple[Section, ...], request: HttpRequest) -> list[tuple[Words, list[Entry]]]:
    """The sections that have something for this user, with what they have."""
    found = [(title, [entry for entry in entries if entry.is_for(request)]) for title, entries in sections]
    return [(title, entries) for title, entries in found if entries]


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    sections = [
        {"title": title, "items": [entry.as_item(request) for entry in entries]}
        for title, entries in _open_to(DAILY, request)
    ]
    if _open_to(ADVANCED, request):
        sections.append({"title": "", "items": [_ADVANCED_PAGE.as_item(request)]})
    return sections


@require_safe
def advanced(request: HttpRequest) -> HttpResponse:
    """The lists that are no daily work, each with what it is for."""
    context = {
        **admin.site.each_context(request),
        "title": _ADVANCED_PAGE.title,
        "sections": _open_to(ADVANCED, request),
    }
    return TemplateResponse(request, "admin/advanced.html", context)


def stylesheet(_request: HttpRequest) -> str:
    return static("agents/admin.css")


def script(_request: HttpRequest) -> str:
    return static("agents/admin.js")
