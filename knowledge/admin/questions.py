"""Written questions: what they would take before they begin, their beginning, and what each day took."""

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from agents.admin_base import ReadOnlyAdmin, admin_page, admin_url, database_keys, require
from agents.models import Agent
from agents.staff.scope import agents_for
from knowledge.indexing.jobs.queue import enqueue_questions
from knowledge.indexing.questions.estimate import Estimate, estimate_questions
from knowledge.models import BuildStatus, IndexBuild, QuestionSpending


@admin.register(QuestionSpending)
class QuestionSpendingAdmin(ReadOnlyAdmin):
    purpose = _("Ce que le modèle a coûté chaque jour pour écrire des questions.")
    list_display = ("day", "calls", "prompt_tokens", "completion_tokens", "cost")
    ordering = ("-day",)
    fields = list_display


@require_http_methods(["GET", "POST"])
def begin_questions(request: HttpRequest) -> HttpResponse:
    """Show what the waiting questions of the chosen agents would take, then queue them."""
    require(request, "knowledge.add_indexbuild")
    keys = database_keys(request.GET.getlist("agent"))
    agents = list(agents_for(request).filter(pk__in=keys))
    if not agents:
        raise Http404(_("Aucun agent n’a été choisi."))
    if request.method == "POST":
        return _begin(request, agents)
    rows = [(agent, estimate_text(estimate_questions(agent))) for agent in agents]
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
    held = [build for build in builds if build.status == BuildStatus.PAUSED]
    if held:
        messages.warning(request, _("L’écriture est en pause : reprenez-la sur sa page."))
    if len(builds) == 1:
        return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
    return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))


def estimate_text(estimate: Estimate | None) -> str:
    """« 130 passages, environ 130 appels, 156 000 tokens lus et 45 500 écrits, dépense 0,44 »."""
    if estimate is None:
        return _("Aucun modèle n’écrit de questions pour cet agent.")
    if not estimate.passages:
        return _("Aucun passage n’attend de question.")
    told = ngettext(
        "%(count)d passage, environ %(calls)s appel, %(read)s tokens lus et %(written)s écrits",
        "%(count)d passages, environ %(calls)s appels, %(read)s tokens lus et %(written)s écrits",
        estimate.passages,
    ) % {
        "count": estimate.passages,
        "calls": formats.localize(estimate.passages, use_l10n=True),
        "read": formats.localize(estimate.prompt_tokens, use_l10n=True),
        "written": formats.localize(estimate.completion_tokens, use_l10n=True),
    }
    if estimate.cost:
        told += _(", dépense %(cost)s") % {"cost": formats.number_format(estimate.cost, 2)}
    if estimate.days > 1:
        told += _(", sur %(days)d jours du budget") % {"days": estimate.days}
    return f"{told}."
