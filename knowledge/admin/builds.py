"""Indexations, which are only looked at: how far each is, what it did; tried again, cancelled, and begun for agents."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from agents import jobs
from agents.admin_base import (
    JOB_TONES,
    REFRESH_SECONDS,
    ReadOnlyAdmin,
    admin_page,
    admin_url,
    badge,
    bullets,
    database_keys,
    duration_text,
    link,
    linked,
    long_text,
    open_to,
    progress_bar,
    require,
    rounded,
    stacked,
)
from agents.errors import ApplicationError
from agents.models import GIVEN_UP_JOBS, OPEN_JOBS, Agent, IndexingMethod, JobStatus
from agents.roles import agents_for
from knowledge.errors import RebuildInProgressError
from knowledge.indexing.jobs import enqueue_rebuild, retry_build
from knowledge.models import Document, IndexBuild


def _chosen_agents(request: HttpRequest) -> list[Agent]:
    require(request, "knowledge.add_indexbuild")
    chosen = agents_for(request).filter(pk__in=database_keys(request.GET.getlist("agent")))
    agents = list(chosen.prefetch_related("deployments__agent"))
    if not agents:
        raise Http404(gettext("Aucun agent n’a été choisi."))
    return agents


@require_http_methods(["GET", "POST"])
def rebuild_indexes(request: HttpRequest) -> HttpResponse:
    """Confirm, then queue a rebuild of each index that the chosen agents use."""
    indexes = [(agent, method) for agent in _chosen_agents(request) for method in sorted(agent.methods_in_use())]
    if request.method == "POST":
        builds = []
        for agent, method in indexes:
            try:
                builds.append(enqueue_rebuild(agent=agent, method=method))
            except RebuildInProgressError as error:
                messages.warning(request, f"{agent} ({method.label}) : {error.public_message}")
        if not request.user.has_perm("knowledge.view_indexbuild"):
            return HttpResponseRedirect(admin_url(Document, "changelist"))
        if len(builds) == 1:
            return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
        return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))
    template, title = "admin/knowledge/indexbuild/confirm.html", gettext("Reconstruire l’index")
    return admin_page(request, template, model=IndexBuild, indexes=indexes, title=title)


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
    actions = ("retry", "cancel")
    fieldsets = (
        (None, {"fields": ("title", "agent_link", "state", "progress", "failure", "problems", "figures")}),
        (_("Détails"), {"fields": ("generation", "attempts", "created_at", "started_at", "finished_at")}),
    )

    own_pages = (("rebuild/", rebuild_indexes, "rebuild"),)
    has_decide_permission = open_to("knowledge.change_indexbuild")

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"refresh_seconds": REFRESH_SECONDS if row is not None and row.status in OPEN_JOBS else 0}

    @admin.action(description=_("Réessayer"), permissions=["decide"])
    def retry(self, request: HttpRequest, queryset: QuerySet[IndexBuild]) -> None:
        count = 0
        for build in queryset.filter(status__in=GIVEN_UP_JOBS):
            try:
                retry_build(build)
            except ApplicationError as error:
                self.message_user(request, f"{build} : {error.public_message}", messages.WARNING)
            else:
                count += 1
        text = ngettext("%(count)d indexation relancée.", "%(count)d indexations relancées.", count)
        self.message_user(request, text % {"count": count})

    @admin.action(description=_("Annuler ; ce qui est fait est gardé"), permissions=["decide"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[IndexBuild]) -> None:
        count = sum(jobs.cancel(build) for build in queryset)
        text = ngettext("%(count)d indexation annulée.", "%(count)d indexations annulées.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("travail"), ordering="kind")
    def title(self, build: IndexBuild) -> str:
        subject = IndexingMethod(build.method).label if build.method else build.address
        return " · ".join(filter(None, (build.get_kind_display(), str(subject))))

    agent_link = linked("agent", _("agent"), ordering="agent__name")

    @admin.display(description=_("état"), ordering="status")
    def state(self, build: IndexBuild) -> SafeString:
        label = badge(build.get_status_display(), JOB_TONES.get(build.status, "neutral"))
        hint = build.error if build.status == JobStatus.QUEUED else ""
        if build.status == JobStatus.QUEUED and build.not_before and build.not_before > timezone.now():
            time = formats.time_format(timezone.localtime(build.not_before))
            hint += " " + gettext("Nouvel essai à %(time)s.") % {"time": time}
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
        return stacked(bar, pace) if (pace := _pace(build)) else bar

    @admin.display(description=_("erreur"))
    def failure(self, build: IndexBuild) -> str:
        return long_text(build.error)

    @admin.display(description=_("bilan"))
    def figures(self, build: IndexBuild) -> str:
        told = build.report
        rows = [(label, formats.localize(told[key])) for key, label in REPORT_LABELS.items() if key in told]
        return bullets("{} : {}", rows)

    @admin.display(description=_("fichiers en échec ou incomplets"))
    def problems(self, build: IndexBuild) -> str:
        entries = [*build.report.get("failed", []), *build.report.get("skipped", [])]
        return bullets("<strong>{}</strong> : {}", [(each["item"], each["reason"]) for each in entries])


def with_progress(text: Any, build: IndexBuild) -> SafeString:
    """A message with a link to what it announces."""
    address = admin_url(IndexBuild, "change", build.pk)
    return format_html("{} {}", text, link(address, _("Suivre l’indexation")))


def _pace(build: IndexBuild) -> str:
    """« 14,4 par seconde, encore 4 min 21 s » since this phase began, or nothing."""
    began = build.phase_started_at or build.started_at
    if build.status != JobStatus.RUNNING or began is None or not build.done:
        return ""
    rate = build.done / max((timezone.now() - began).total_seconds(), 0.001)
    left = duration_text((build.total - build.done) / rate)
    return gettext("%(rate)s par seconde, encore %(left)s") % {"rate": rounded(rate, 1), "left": left}
