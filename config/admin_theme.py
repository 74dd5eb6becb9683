"""The sidebar of the admin, the page of its less common lists, and its stylesheet; the setting `UNFOLD` names them.

An app that gains a page adds its line: to `DAILY` what staff open every day, to `ADVANCED` the rest, with a sentence that says
what it is for.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

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
    help: Words = ""

    def is_for(self, request: HttpRequest) -> bool:
        rights = self.rights or ((self.model.replace(".", ".view_"),) if self.model else ())
        return not rights or any(request.user.has_perm(right) for right in rights)

    @property
    def address(self) -> str:
        return reverse(
            f"admin:{self.model.replace('.', '_')}_{self.page}" if self.model else self.page
        )

    def as_item(self) -> dict[str, Any]:
        return {"title": self.title, "icon": self.icon, "link": self.address}


Section = tuple[Words, tuple[Entry, ...]]

DAILY: tuple[Section, ...] = (
    (
        _("Aujourd’hui"),
        (
            Entry(_("Le travail du jour"), "checklist", page="admin:index"),
            Entry(
                _("À relire"),
                "rate_review",
                "faqs.learnedresponse",
                ("faqs.view_learnedresponse", "faqs.view_cachedresponse"),
                "review",
            ),
            Entry(_("Avis"), "thumbs_up_down", "chat.feedback", ("chat.view_turn",)),
            Entry(_("Questions sans réponse"), "contact_support", "faqs.questiongroup"),
            Entry(_("Questions posées"), "quiz", "chat.turn"),
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
        (
            Entry(_("Agents"), "smart_toy", "agents.agent"),
            Entry(_("Déploiements"), "storefront", "agents.deployment"),
        ),
    ),
)
ADVANCED: tuple[Section, ...] = (
    (
        _("Connaissances"),
        (
            Entry(
                _("Adresses du web"),
                "public",
                "knowledge.websource",
                help=_("Pages et plans de site lus comme des documents, et relus à intervalle."),
            ),
            Entry(
                _("Passages"),
                "segment",
                "knowledge.chunk",
                help=_(
                    "Les morceaux dans lesquels les documents sont découpés : ce qui est cherché et cité."
                ),
            ),
            Entry(
                _("Questions proches"),
                "difference",
                "knowledge.questionoverlap",
                help=_("Questions des documents qui se répètent ou se contredisent."),
            ),
            Entry(
                _("Sigles et synonymes"),
                "abc",
                "knowledge.synonym",
                help=_(
                    "Deux formes d’une même chose : une question avec l’une trouve aussi l’autre."
                ),
            ),
            Entry(
                _("Catégories"),
                "label",
                "knowledge.category",
                help=_("Les sujets dans lesquels les documents sont rangés."),
            ),
            Entry(
                _("Indexations"),
                "manufacturing",
                "knowledge.indexbuild",
                help=_(
                    "Les travaux de fond : lire des documents, reconstruire ou comparer un index."
                ),
            ),
            Entry(
                _("Calibrages"),
                "straighten",
                "knowledge.thresholdcalibration",
                help=_("Les seuils mesurés : à partir de quelle proximité une réponse est donnée."),
            ),
            Entry(
                _("Verdicts sur des paires"),
                "rule",
                "knowledge.pairverdict",
                help=_("Paires de questions jugées par l’équipe, dont les calibrages se servent."),
            ),
        ),
    ),
    (
        _("Réponses et conversations"),
        (
            Entry(
                _("Choix entre questions proches"),
                "alt_route",
                "faqs.optionchoice",
                help=_(
                    "Ce que les personnes ont choisi quand plusieurs questions leur étaient proposées."
                ),
            ),
            Entry(
                _("Conversations"),
                "forum",
                "chat.conversation",
                ("chat.view_turn",),
                help=_("Les fils de questions et de réponses, du début à la fin."),
            ),
            Entry(
                _("Liens de partage"),
                "share",
                "chat.sharedthread",
                ("chat.view_turn",),
                help=_(
                    "Les liens que des personnes ont faits vers leur conversation ; révocables."
                ),
            ),
        ),
    ),
    (
        _("Outils"),
        (
            Entry(
                _("Outils"),
                "construction",
                "tools_registry.tooloverride",
                help=_("Les actions que le modèle de langage peut demander."),
            ),
            Entry(
                _("Sources d’outils"),
                "hub",
                "tools_registry.toolsource",
                help=_("Serveurs MCP et services OpenAPI dont viennent des outils."),
            ),
            Entry(
                _("Outils distants"),
                "cloud",
                "tools_registry.remotetool",
                help=_("Les outils de ces sources, à autoriser un par un."),
            ),
            Entry(
                _("Questions étiquetées"),
                "rule",
                "tools_registry.labelledquestion",
                help=_(
                    "Des questions avec les outils qu’il leur faut : elles mesurent le choix des outils."
                ),
            ),
        ),
    ),
    (
        _("Site et comptes"),
        (
            Entry(
                _("Réglages du site"),
                "tune",
                "agents.runtimesettings",
                help=_("Ce qui vaut pour tous les agents qui ne disent pas autre chose."),
            ),
            Entry(
                _("Utilisateurs"),
                "person",
                "auth.user",
                help=_("Les comptes, et ce que chacun peut voir et faire."),
            ),
            Entry(
                _("Groupes"),
                "group",
                "auth.group",
                help=_("Des droits donnés à plusieurs comptes à la fois."),
            ),
            Entry(
                _("Clés d’API"),
                "vpn_key",
                "chat.apikey",
                help=_("Ce avec quoi un programme pose des questions."),
            ),
            Entry(
                _("Jetons de service"),
                "key",
                "chat.servicetoken",
                help=_("Ce avec quoi un autre serveur écrit dans les conversations."),
            ),
        ),
    ),
)
_ADVANCED_PAGE = Entry(_("Avancé"), "more_horiz", page="admin-advanced")


def _open_to(
    sections: tuple[Section, ...], request: HttpRequest
) -> list[tuple[Words, list[Entry]]]:
    """The sections that have something for this user, with what they have."""
    found = [
        (title, [entry for entry in entries if entry.is_for(request)])
        for title, entries in sections
    ]
    return [(title, entries) for title, entries in found if entries]


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    sections = [
        {"title": title, "items": [entry.as_item() for entry in entries]}
        for title, entries in _open_to(DAILY, request)
    ]
    if _open_to(ADVANCED, request):
        sections.append({"title": "", "items": [_ADVANCED_PAGE.as_item()]})
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
