"""Indexations, which are only looked at: how far each is, what it did."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import (
    ReadOnlyAdmin,
    Tone,
    admin_url,
    badge,
    bullets,
    duration_text,
    link,
    linked,
    long_text,
    missing_text,
    open_to,
    progress_bar,
    rounded,
    stacked,
)
from agents.cache import TtlCache
from agents.jobs import WorkerState, worker_state
from knowledge.admin.build_decisions import cancel, rebuild_indexes, retry_builds, retry_failed_build, roll_indexes_back
from knowledge.admin.questions import begin_questions
from knowledge.models import GIVEN_UP, UNDER_WAY, BuildKind, BuildStatus, IndexBuild

#: How often the page of an indexation that is not over asks again.
REFRESH_SECONDS = 3

#: An indexation that nobody has taken for this long has probably no worker.
UNCLAIMED_AFTER = timedelta(seconds=60)

#: Of a whole list, asked once.
_workers: TtlCache[WorkerState] = TtlCache(5.0)

_BUILD_TONES: dict[str, Tone] = {
    BuildStatus.QUEUED: "neutral",
    BuildStatus.RUNNING: "busy",
    BuildStatus.DONE: "good",
    BuildStatus.PARTLY_FAILED: "bad",
    BuildStatus.FAILED: "bad",
    BuildStatus.CANCELLED: "neutral",
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
    list_filter = ("status", "kind", "agent", "method")
    list_select_related = ("agent", "source")
    search_fields = ("agent__name", "agent__slug", "generation", "error")
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
            path("rollback/", wrap(roll_indexes_back), name="knowledge_indexbuild_rollback"),
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
            context["refresh_seconds"] = REFRESH_SECONDS if build.status in UNDER_WAY else 0
            context["retry_allowed"] = self.has_retry_permission(request)
            context["may_retry"] = context["retry_allowed"] and build.status in GIVEN_UP
            context["may_cancel"] = context["retry_allowed"] and build.status in UNDER_WAY
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description=_("Réessayer"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[IndexBuild]) -> None:
        retry_builds(request, queryset)

    @admin.display(description=_("travail"), ordering="kind")
    def title(self, build: IndexBuild) -> str:
        if build.method:
            return f"{build.get_kind_display()} · {build.get_method_display()}"
        if build.source is not None:
            return f"{build.get_kind_display()} · {build.source}"
        count = len(build.document_ids)
        documents = ngettext("%(count)d document", "%(count)d documents", count) % {"count": count}
        is_written = build.kind == BuildKind.QUESTIONS
        return f"{build.get_kind_display()} · {documents}" if is_written else documents

    agent_link = linked("agent", _("agent"), ordering="agent__name")

    @admin.display(description=_("état"), ordering="status")
    def state(self, build: IndexBuild) -> SafeString:
        label = badge(build.get_status_display(), _BUILD_TONES.get(build.status, "neutral"))
        hint = state_hint(build)
        return stacked(label, hint) if hint else label

    @admin.display(description=_("avancement"))
    def progress(self, build: IndexBuild) -> str:
        if build.status == BuildStatus.DONE:
            return progress_bar(100, "100 %")
        if not build.total or build.status == BuildStatus.QUEUED:
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
    if build.status != BuildStatus.RUNNING or began is None or not build.done:
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
    if build.status == BuildStatus.QUEUED and build.not_before and build.not_before > now:
        return gettext("%(reason)s Nouvel essai à %(time)s.") % {
            "reason": f"{build.error.removesuffix('.')}. " if build.error else "",
            "time": formats.time_format(timezone.localtime(build.not_before)),
        }
    if build.status == BuildStatus.QUEUED:
        return build.error or _waiting_text(now - (build.not_before or build.created_at))
    expired = build.lease_expires_at is not None and build.lease_expires_at < now
    if build.status == BuildStatus.RUNNING and expired:
        return gettext("Le worker ne donne plus signe de vie ; un autre va la reprendre.")
    return ""
