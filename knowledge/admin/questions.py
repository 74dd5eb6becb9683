"""Have the model write questions: how many passages wait, and the beginning."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from agents.admin_base import admin_page, admin_url, database_keys, require
from agents.models import Agent
from agents.staff.scope import agents_for
from knowledge.indexing.jobs.queue import enqueue_questions
from knowledge.indexing.questions.waiting import waiting_count
from knowledge.models import IndexBuild


@require_http_methods(["GET", "POST"])
def begin_questions(request: HttpRequest) -> HttpResponse:
    """Show how many passages of the chosen agents wait for questions, then queue them."""
    require(request, "knowledge.add_indexbuild")
    keys = database_keys(request.GET.getlist("agent"))
    agents = list(agents_for(request).filter(pk__in=keys))
    if not agents:
        raise Http404(_("Aucun agent n’a été choisi."))
    if request.method == "POST":
        return _begin(request, agents)
    rows = [(agent, _waiting_text(agent)) for agent in agents]
    return admin_page(
        request,
        "admin/knowledge/indexbuild/questions.html",
        model=IndexBuild,
        title=_("Faire écrire des questions"),
        rows=rows,
    )


def _begin(request: HttpRequest, agents: list[Agent]) -> HttpResponseRedirect:
    builds = [build for agent in agents if (build := enqueue_questions(agent=agent)) is not None]
    if not builds:
        messages.warning(request, _("Aucun passage n’attend de question du modèle."))
        return HttpResponseRedirect(admin_url(Agent, "changelist"))
    if len(builds) == 1:
        return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
    return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))


def _waiting_text(agent: Agent) -> str:
    count = waiting_count(agent)
    if count is None:
        return _("Aucun modèle n’écrit de questions pour cet agent.")
    if not count:
        return _("Aucun passage n’attend de question.")
    return ngettext("%(count)d passage attend des questions.", "%(count)d passages attendent des questions.", count) % {
        "count": count
    }
