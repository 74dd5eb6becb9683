"""Sources of remote tools, read again by staff; their tools stand in the list of all tools, inactive at first."""

from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents import jobs
from agents.admin_base import StaffAdmin, admin_url, badge, bullets, link, stacked
from agents.models import JobKind
from tools_registry.admin.forms import ToolSourceForm
from tools_registry.models import ToolOverride, ToolSource

#: How often, in seconds, the list asks again while a source is being read.
REFRESH_SECONDS = 3
#: A reading that has not ended by then has lost its worker.
_LONGEST_READING = timedelta(minutes=12)


@admin.register(ToolSource)
class ToolSourceAdmin(StaffAdmin):
    purpose = _("Serveurs MCP et services OpenAPI dont viennent des outils.")
    form = ToolSourceForm
    change_list_template = "admin/tools_registry/toolsource/change_list.html"
    list_display = ("name", "slug", "kind", "tools", "state", "refreshed_at", "is_active")
    list_filter = ("kind", "is_active")
    list_select_related = False
    search_fields = ("name", "slug", "url")
    ordering = ("name",)
    actions = ("refresh",)
    readonly_fields = ("tools", "refreshed_at", "last_error", "unusable")
    fieldsets = (
        (None, {"fields": ("name", "slug", "kind", "is_active")}),
        (_("Où"), {"fields": ("command", "url", "document", "document_file", "chosen", "allowed_hosts", "headers")}),
        (_("Droits et bornes"), {"fields": ("tags", "is_personal", "timeout_seconds")}),
        (_("Dernière lecture"), {"fields": ("tools", "refreshed_at", "last_error", "unusable")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolSource]:
        sources: QuerySet[ToolSource] = super().get_queryset(request)
        return sources.defer("document").annotate(
            present=Count("tools", filter=Q(tools__is_present=True)),
            allowed=Count("tools", filter=Q(tools__is_present=True, tools__is_active=True)),
        )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        is_reading = ToolSource.objects.filter(reading_since__gt=timezone.now() - _LONGEST_READING).exists()
        shown = {"refresh_seconds": REFRESH_SECONDS if is_reading else 0}
        page: HttpResponse = super().changelist_view(request, {**shown, **(extra_context or {})})
        return page

    @admin.action(description=_("Lire la liste des outils"), permissions=["change"])
    def refresh(self, request: HttpRequest, queryset: QuerySet[ToolSource]) -> None:
        for source in queryset:
            ToolSource.objects.filter(pk=source.pk).update(reading_since=timezone.now())
            jobs.enqueue(JobKind.TOOL_SOURCE, key=str(source.pk))
            said = gettext("%(source)s : la lecture commence ; cette liste dit où elle en est.")
            messages.info(request, said % {"source": source})

    @admin.display(description=_("outils permis"))
    def tools(self, source: Any) -> SafeString | str:
        if source.pk is None:
            return "–"
        address = admin_url(ToolOverride, "changelist", source__id__exact=source.pk)
        return link(address, f"{source.allowed} / {source.present}")

    @admin.display(description=_("état"))
    def state(self, source: ToolSource) -> SafeString:
        if source.reading_since is not None:
            if source.reading_since > timezone.now() - _LONGEST_READING:
                return badge(gettext("en lecture"), "busy")
            return badge(gettext("lecture interrompue"), "bad")
        if source.last_error:
            return stacked(badge(gettext("en erreur"), "bad"), source.last_error[:200])
        if source.refreshed_at is None:
            return badge(gettext("jamais lue"), "warning")
        if source.problems:
            count = len(source.problems)
            text = ngettext("%(count)d outil écarté", "%(count)d outils écartés", count)
            return stacked(badge(gettext("lue"), "good"), text % {"count": count})
        return badge(gettext("lue"), "good")

    @admin.display(description=_("outils écartés"))
    def unusable(self, source: ToolSource) -> SafeString | str:
        """What the model is not offered, and why."""
        return bullets("{} : {}", [tuple(row[:2]) for row in source.problems])
