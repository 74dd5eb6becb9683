"""What staff decide about an index: rebuild it, go back, retry, cancel.

Each checks its user's right first. GET shows what it will do, POST does it by a verb of `knowledge.indexing`.
"""

from collections.abc import Callable, Iterable, Sequence

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from agents.admin_base import admin_page, admin_url, database_keys, require
from agents.errors import ApplicationError
from agents.models import Agent, IndexingMethod
from agents.staff.scope import agents_for
from knowledge.exceptions import CollectionMissingError, RebuildInProgressError
from knowledge.indexing.jobs.decisions import cancel_build, retry_build
from knowledge.indexing.jobs.queue import enqueue_rebuild
from knowledge.indexing.rebuild import prepare_rollback, rollback_agent_index
from knowledge.models import GIVEN_UP, Document, IndexBuild

AgentIndex = tuple[Agent, IndexingMethod]


@require_http_methods(["GET", "POST"])
def rebuild_indexes(request: HttpRequest) -> HttpResponse:
    """Confirm, then queue a rebuild of each index that the chosen agents use."""
    return _confirmed(
        request,
        _rebuild,
        title=_("Reconstruire l’index"),
        explanation=_(
            "Un nouvel index est rempli à côté de l’actuel, vérifié, puis mis à sa place d’un seul coup. "
            "Les réponses continuent pendant ce temps, et l’index actuel est gardé pour pouvoir y revenir."
        ),
        confirm=_("Reconstruire"),
    )


@require_http_methods(["GET", "POST"])
def roll_indexes_back(request: HttpRequest) -> HttpResponse:
    """Confirm, then point each chosen index at the generation before its current one."""
    return _confirmed(
        request,
        _roll_back,
        title=_("Revenir à la génération précédente"),
        explanation=_(
            "L’index d’avant la dernière reconstruction reprend sa place, tout de suite. "
            "Les documents ajoutés depuis ne seront plus trouvés jusqu’à la prochaine reconstruction. "
            "C’est la sortie de secours, et le journal en garde la trace."
        ),
        confirm=_("Revenir en arrière"),
    )


def _confirmed(
    request: HttpRequest, carry_out: Callable[[HttpRequest, Sequence[AgentIndex]], HttpResponse], **texts: str
) -> HttpResponse:
    require(request, "knowledge.add_indexbuild")
    indexes = _chosen_indexes(request)
    if request.method == "POST":
        return carry_out(request, indexes)
    template = "admin/knowledge/indexbuild/confirm.html"
    return admin_page(request, template, model=IndexBuild, indexes=indexes, **texts)


@require_POST
def retry_failed_build(request: HttpRequest, build_id: int) -> HttpResponse:
    build = get_object_or_404(IndexBuild, pk=build_id)
    require(request, "knowledge.change_indexbuild", row=build)
    retry_builds(request, [build])
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


def retry_builds(request: HttpRequest, builds: Iterable[IndexBuild]) -> None:
    """Queue failed builds again and say how many; the others are left alone."""
    chosen = [build for build in builds if build.status in GIVEN_UP]
    if not chosen:
        messages.warning(request, _("Aucune de ces indexations n’est en échec ou annulée."))
        return
    count = 0
    for build in chosen:
        try:
            retry_build(build)
        except ApplicationError as error:
            messages.warning(request, f"{build} : {error.public_message}")
        else:
            count += 1
    if count:
        messages.success(
            request,
            ngettext("%(count)d indexation relancée.", "%(count)d indexations relancées.", count) % {"count": count},
        )


@require_POST
def cancel(request: HttpRequest, build_id: int) -> HttpResponse:
    build = get_object_or_404(IndexBuild.objects.select_related("agent"), pk=build_id)
    require(request, "knowledge.change_indexbuild", row=build)
    if cancel_build(build):
        messages.success(request, _("L’indexation est annulée ; ce qui est fait est gardé."))
    else:
        messages.warning(request, _("Cette indexation est déjà finie."))
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


def _chosen_indexes(request: HttpRequest) -> list[AgentIndex]:
    """Every index of the agents named in the address, or only those of the methods it names."""
    wanted = set(request.GET.getlist("method"))
    keys = database_keys(request.GET.getlist("agent"))
    agents = agents_for(request).filter(pk__in=keys).prefetch_related("deployments__agent")
    indexes = [
        (agent, method)
        for agent in agents
        for method in sorted(agent.methods_in_use())
        if not wanted or method.value in wanted
    ]
    if not indexes:
        raise Http404(_("Aucun agent n’a été choisi."))
    return indexes


def _rebuild(request: HttpRequest, indexes: Sequence[AgentIndex]) -> HttpResponseRedirect:
    builds = []
    for agent, method in indexes:
        try:
            builds.append(enqueue_rebuild(agent=agent, method=method))
        except RebuildInProgressError as error:
            messages.warning(request, f"{agent} ({method.label}) : {error.public_message}")
    if builds:
        messages.success(
            request,
            ngettext("%(count)d reconstruction demandée.", "%(count)d reconstructions demandées.", len(builds))
            % {"count": len(builds)},
        )
    return _to_builds(request, builds)


def _roll_back(request: HttpRequest, indexes: Sequence[AgentIndex]) -> HttpResponseRedirect:
    """All of them or none: what cannot go back is told before anything moves."""
    refused = []
    for agent, method in indexes:
        try:
            prepare_rollback(agent=agent, method=method)
        except CollectionMissingError:
            reason = _("il n’y a pas de génération précédente")
            refused.append(f"{agent} ({method.label}) : {reason}.")
        except ApplicationError as error:
            refused.append(f"{agent} ({method.label}) : {error.public_message}")
    for text in refused:
        messages.error(request, text)
    for agent, method in indexes if not refused else ():
        try:
            generation = rollback_agent_index(agent=agent, method=method)
        except ApplicationError as error:
            messages.error(request, f"{agent} ({method.label}) : {error.public_message}")
        else:
            messages.success(
                request,
                _("%(agent)s (%(method)s) répond de nouveau avec la génération %(generation)s.")
                % {"agent": agent, "method": method.label, "generation": generation},
            )
    keys = {agent.pk for agent, _method in indexes}
    page = "change" if len(keys) == 1 else "changelist"
    return HttpResponseRedirect(admin_url(Agent, page, *(keys if len(keys) == 1 else ())))


def _to_builds(request: HttpRequest, builds: Sequence[IndexBuild]) -> HttpResponseRedirect:
    if not request.user.has_perm("knowledge.view_indexbuild"):
        return HttpResponseRedirect(admin_url(Document, "changelist"))
    if len(builds) == 1:
        return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
    return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))
