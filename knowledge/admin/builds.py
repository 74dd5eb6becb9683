"""Indexations, which are only looked at: how far each is, what it did."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST

from agents import jobs
from agents.admin_base import (
    ReadOnlyAdmin,
    Tone,
    admin_page,
    admin_url,
    badge,
    bullets,
    database_keys,
    duration_text,
    link,
    linked,
    long_text,
    missing_text,
    open_to,
    progress_bar,
    require,
    rounded,
    stacked,
)
from agents.cache import TtlCache
from agents.errors import ApplicationError
from agents.jobs import WorkerState, worker_state
from agents.models import GIVEN_UP_JOBS, OPEN_JOBS, Agent, IndexingMethod, JobKind, JobStatus
from agents.roles import agents_for
from knowledge.errors import RebuildInProgressError
from knowledge.indexing.jobs import enqueue_questions, enqueue_rebuild, retry_build
from knowledge.indexing.questions import waiting_count
from knowledge.models import BUILD_KINDS, Document, IndexBuild


@require_http_methods(["GET", "POST"])
def begin_questions(request: HttpRequest) -> HttpResponse:
    """Show how many passages of the chosen agents wait for questions, then queue them."""
    require(request, "knowledge.add_indexbuild")
    keys = database_keys(request.GET.getlist("agent"))
    agents = list(agents_for(request).filter(pk__in=keys))
    if not agents:
        raise Http404(gettext("Aucun agent n’a été choisi."))
    if request.method == "POST":
        return _begin(request, agents)
    rows = [(agent, _passages_waiting(agent)) for agent in agents]
    return admin_page(
        request,
        "admin/knowledge/indexbuild/questions.html",
        model=IndexBuild,
        title=gettext("Faire écrire des questions"),
        rows=rows,
    )


def _begin(request: HttpRequest, agents: list[Agent]) -> HttpResponseRedirect:
    builds = [build for agent in agents if (build := enqueue_questions(agent=agent)) is not None]
    if not builds:
        messages.warning(request, gettext("Aucun passage n’attend de question du modèle."))
        return HttpResponseRedirect(admin_url(Agent, "changelist"))
    if len(builds) == 1:
        return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
    return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))


def _passages_waiting(agent: Agent) -> str:
    count = waiting_count(agent)
    if count is None:
        return gettext("Aucun modèle n’écrit de questions pour cet agent.")
    if not count:
        return gettext("Aucun passage n’attend de question.")
    return ngettext("%(count)d passage attend des questions.", "%(count)d passages attendent des questions.", count) % {
        "count": count
    }


AgentIndex = tuple[Agent, IndexingMethod]


@require_http_methods(["GET", "POST"])
def rebuild_indexes(request: HttpRequest) -> HttpResponse:
    """Confirm, then queue a rebuild of each index that the chosen agents use."""
    require(request, "knowledge.add_indexbuild")
    indexes = _chosen_indexes(request)
    if request.method == "POST":
        return _rebuild(request, indexes)
    template, title = "admin/knowledge/indexbuild/confirm.html", gettext("Reconstruire l’index")
    return admin_page(request, template, model=IndexBuild, indexes=indexes, title=title)


@require_POST
def retry_failed_build(request: HttpRequest, build_id: int) -> HttpResponse:
    build = get_object_or_404(IndexBuild, pk=build_id)
    require(request, "knowledge.change_indexbuild", row=build)
    retry_builds(request, [build])
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


def retry_builds(request: HttpRequest, builds: Iterable[IndexBuild]) -> None:
    """Queue failed builds again and say how many; the others are left alone."""
    chosen = [build for build in builds if build.status in GIVEN_UP_JOBS]
    if not chosen:
        messages.warning(request, gettext("Aucune de ces indexations n’est en échec ou annulée."))
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
    if jobs.cancel(build):
        messages.success(request, gettext("L’indexation est annulée ; ce qui est fait est gardé."))
    else:
        messages.warning(request, gettext("Cette indexation est déjà finie."))
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
        raise Http404(gettext("Aucun agent n’a été choisi."))
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


def _to_builds(request: HttpRequest, builds: Sequence[IndexBuild]) -> HttpResponseRedirect:
    if not request.user.has_perm("knowledge.view_indexbuild"):
        return HttpResponseRedirect(admin_url(Document, "changelist"))
    if len(builds) == 1:
        return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
    return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))


#: How often the page of an indexation that is not over asks again.
REFRESH_SECONDS = 3

#: An indexation that nobody has taken for this long has probably no worker.
UNCLAIMED_AFTER = timedelta(seconds=60)

#: Of a whole list, asked once.
_workers: TtlCache[WorkerState] = TtlCache(5.0)

_BUILD_TONES: dict[str, Tone] = {
    JobStatus.QUEUED: "neutral",
    JobStatus.RUNNING: "busy",
    JobStatus.DONE: "good",
    JobStatus.PARTLY_FAILED: "bad",
    JobStatus.FAILED: "bad",
    JobStatus.CANCELLED: "neutral",
}


REPORT_LABELS = {
    "documents": _("documents"),
    "chunks": _("passages"),
    "points": _("points"),
    "embedded": _("vecteurs calculés"),
    "reused": _("vecteurs repris"),
    "model_calls": _("appels au modèle"),
    "rejected": _("questions écartées"),
    "waiting": _("en attente de questions"),
    "pages": _("pages lues"),
    "unchanged": _("pages inchangées"),
    "gone": _("pages disparues"),
    "seconds": _("secondes"),
}


@admin.register(IndexBuild)
class IndexBuildAdmin(ReadOnlyAdmin):
    purpose = _("Les travaux de fond : lire des documents, reconstruire un index.")
    change_form_template = "admin/knowledge/indexbuild/change_form.html"
    list_display = ("title", "agent", "state", "progress", "created_at")
    list_filter = ("status", "kind", "agent")
    list_select_related = ("agent",)
    search_fields = ("agent__name", "agent__slug", "error")
    ordering = ("-created_at",)
    actions = ("retry",)
    fieldsets = (
        (None, {"fields": ("state", "progress", "failure", "problems", "figures")}),
        (
            _("Détails"),
            {
                "fields": (
                    *("title", "agent_link", "generation", "attempts"),
                    *("created_at", "started_at", "finished_at", "duration"),
                )
            },
        ),
    )

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("rebuild/", wrap(rebuild_indexes), name="knowledge_indexbuild_rebuild"),
            path("questions/", wrap(begin_questions), name="knowledge_indexbuild_questions"),
            path("<int:build_id>/retry/", wrap(retry_failed_build), name="knowledge_indexbuild_retry"),
            path("<int:build_id>/cancel/", wrap(cancel), name="knowledge_indexbuild_cancel"),
            *super().get_urls(),
        ]

    has_retry_permission = open_to("knowledge.change_indexbuild")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        build = kwargs.get("obj")
        if isinstance(build, IndexBuild):
            context["refresh_seconds"] = REFRESH_SECONDS if build.status in OPEN_JOBS else 0
            context["retry_allowed"] = self.has_retry_permission(request)
            context["may_retry"] = context["retry_allowed"] and build.status in GIVEN_UP_JOBS
            context["may_cancel"] = context["retry_allowed"] and build.status in OPEN_JOBS
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description=_("Réessayer"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[IndexBuild]) -> None:
        retry_builds(request, queryset)

    @admin.display(description=_("travail"), ordering="kind")
    def title(self, build: IndexBuild) -> str:
        if build.method:
            return f"{build.get_kind_display()} · {IndexingMethod(build.method).label}"
        if build.address:
            return f"{build.get_kind_display()} · {build.address}"
        if build.kind not in BUILD_KINDS:
            return build.get_kind_display()
        count = len(build.document_ids)
        documents = ngettext("%(count)d document", "%(count)d documents", count) % {"count": count}
        is_written = build.kind == JobKind.QUESTIONS
        return f"{build.get_kind_display()} · {documents}" if is_written else documents

    agent_link = linked("agent", _("agent"), ordering="agent__name")

    @admin.display(description=_("état"), ordering="status")
    def state(self, build: IndexBuild) -> SafeString:
        label = badge(build.get_status_display(), _BUILD_TONES.get(build.status, "neutral"))
        hint = state_hint(build)
        return stacked(label, hint) if hint else label

    @admin.display(description=_("avancement"))
    def progress(self, build: IndexBuild) -> str:
        if build.status == JobStatus.DONE:
            return progress_bar(100, "100 %")
        if not build.total or build.status == JobStatus.QUEUED:
            return "–"
        percent = min(100, 100 * build.done // build.total)
        phase = f"{build.get_phase_display()} : " if build.phase else ""
        bar = progress_bar(percent, f"{phase}{percent} % ({build.done} / {build.total})")
        return stacked(bar, pace) if (pace := pace_text(build)) else bar

    @admin.display(description=_("durée"), ordering=F("finished_at") - F("started_at"))
    def duration(self, build: IndexBuild) -> str:
        if build.started_at is None:
            return "–"
        end = build.finished_at or timezone.now()
        return duration_text((end - build.started_at).total_seconds())

    @admin.display(description=_("erreur"))
    def failure(self, build: IndexBuild) -> str:
        return long_text(build.error)

    @admin.display(description=_("bilan"))
    def figures(self, build: IndexBuild) -> str:
        rows = [
            (label, formats.localize(build.report[key])) for key, label in REPORT_LABELS.items() if key in build.report
        ]
        if not rows:
            return "–"
        return format_html(
            '<dl class="rp-figures">{}</dl>', format_html_join("", "<div><dt>{}</dt><dd>{}</dd></div>", rows)
        )

    @admin.display(description=_("fichiers en échec ou incomplets"))
    def problems(self, build: IndexBuild) -> str:
        rows = [
            (entry.get("item", ""), entry.get("reason", ""))
            for key in ("failed", "skipped")
            for entry in build.report.get(key, [])
        ]
        return bullets("<strong>{}</strong> : {}", rows)


def with_progress(text: Any, build: IndexBuild) -> SafeString:
    """A message with a link to what it announces."""
    address = admin_url(IndexBuild, "change", build.pk)
    return format_html("{} {}", text, link(address, _("Suivre l’indexation")))


def _done_per_second(build: IndexBuild) -> float:
    """The rate since this phase began; zero where nothing can be said yet."""
    began = build.phase_started_at or build.started_at
    if build.status != JobStatus.RUNNING or began is None or not build.done:
        return 0.0
    elapsed = (timezone.now() - began).total_seconds()
    return build.done / elapsed if elapsed > 0 else 0.0


def pace_text(build: IndexBuild) -> str:
    """« 14,4 par seconde, encore 4 min 21 s », or nothing."""
    rate = _done_per_second(build)
    if not rate:
        return ""
    left = duration_text((build.total - build.done) / rate)
    return gettext("%(rate)s par seconde, encore %(left)s") % {"rate": rounded(rate, 1), "left": left}


def _waiting_text(waited: timedelta) -> str:
    """How long it has waited, and whether anybody is there to take it."""
    if waited <= UNCLAIMED_AFTER:
        return ""
    since = duration_text(waited.total_seconds())
    workers = _workers.get(worker_state)
    if not workers.is_missing:
        return gettext("En attente depuis %(since)s ; un worker est là, occupé ailleurs.") % {"since": since}
    waits = gettext("En attente depuis %(since)s.") % {"since": since}
    return f"{waits} {missing_text(workers)}"


def state_hint(build: IndexBuild) -> str:
    """What staff should know about an indexation that does not move."""
    now = timezone.now()
    if build.status == JobStatus.QUEUED and build.not_before and build.not_before > now:
        return gettext("%(reason)s Nouvel essai à %(time)s.") % {
            "reason": f"{build.error.removesuffix('.')}. " if build.error else "",
            "time": formats.time_format(timezone.localtime(build.not_before)),
        }
    if build.status == JobStatus.QUEUED:
        return build.error or _waiting_text(now - (build.not_before or build.created_at))
    expired = build.lease_expires_at is not None and build.lease_expires_at < now
    if build.status == JobStatus.RUNNING and expired:
        return gettext("Le worker ne donne plus signe de vie ; un autre va la reprendre.")
    return ""
