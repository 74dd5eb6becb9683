"""Sources of remote tools and the tools that they declare: read again, allowed or forbidden by staff."""

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import ReadOnlyAdmin, StaffAdmin, StaffInline, badge, change_link, stacked
from agents.exceptions import ApplicationError
from tools_registry.admin.forms import ToolSourceForm
from tools_registry.models import RemoteTool, ToolSource
from tools_registry.sources.refresh import refresh_source


class RemoteToolInline(StaffInline):
    model = RemoteTool
    extra = 0
    can_delete = False
    fields = ("tool_name", "description", "needs_approval", "is_allowed", "is_present")
    readonly_fields = ("tool_name", "description", "is_present")

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(ToolSource)
class ToolSourceAdmin(StaffAdmin):
    purpose = _("Serveurs MCP et services OpenAPI dont viennent des outils.")
    form = ToolSourceForm
    list_display = ("name", "slug", "kind", "tools", "state", "refreshed_at", "is_active")
    list_filter = ("kind", "is_active")
    list_select_related = False
    search_fields = ("name", "slug", "url")
    ordering = ("name",)
    inlines = (RemoteToolInline,)
    actions = ("refresh",)
    readonly_fields = ("refreshed_at", "last_error")
    fieldsets = (
        (None, {"fields": ("name", "slug", "kind", "is_active")}),
        (_("Où"), {"fields": ("command", "url", "document", "allowed_hosts", "headers")}),
        (_("Droits et bornes"), {"fields": ("tags", "is_personal", "timeout_seconds")}),
        (_("Dernière lecture"), {"fields": ("refreshed_at", "last_error")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolSource]:
        sources: QuerySet[ToolSource] = super().get_queryset(request)
        return sources.prefetch_related("tools")

    @admin.action(description=_("Lire la liste des outils"), permissions=["change"])
    def refresh(self, request: HttpRequest, queryset: QuerySet[ToolSource]) -> None:
        for source in queryset:
            refresh_and_report(request, source)

    @admin.display(description=_("outils permis"))
    def tools(self, source: ToolSource) -> str:
        rows = [row for row in source.tools.all() if row.is_present]
        return f"{sum(row.is_allowed for row in rows)} / {len(rows)}"

    @admin.display(description=_("état"))
    def state(self, source: ToolSource) -> SafeString:
        if source.last_error:
            return stacked(badge(gettext("en erreur"), "bad"), source.last_error[:200])
        if source.refreshed_at is None:
            return badge(gettext("jamais lue"), "warning")
        return badge(gettext("lue"), "good")


@admin.register(RemoteTool)
class RemoteToolAdmin(ReadOnlyAdmin):
    purpose = _("Les outils de ces sources, à autoriser un par un.")
    list_display = ("tool_name", "source_link", "summary", "state", "needs_approval")
    list_filter = ("source", "is_allowed", "is_present")
    list_select_related = ("source",)
    search_fields = ("tool_name", "remote_name", "description")
    ordering = ("tool_name",)
    actions = ("allow", "forbid")

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_registry.change_remotetool")

    @admin.action(description=_("Permettre"), permissions=["decide"])
    def allow(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> None:
        self._decide(request, queryset.filter(is_present=True), is_allowed=True)

    @admin.action(description=_("Ne plus permettre"), permissions=["decide"])
    def forbid(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> None:
        self._decide(request, queryset, is_allowed=False)

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[RemoteTool], *, is_allowed: bool
    ) -> None:
        changed = list(queryset.exclude(is_allowed=is_allowed))
        for tool in changed:
            tool.is_allowed = is_allowed
            tool.save(update_fields=["is_allowed"])
        text = ngettext("%(count)d outil modifié.", "%(count)d outils modifiés.", len(changed))
        self.message_user(request, text % {"count": len(changed)})

    @admin.display(description=_("source"), ordering="source__name")
    def source_link(self, tool: RemoteTool) -> str:
        return change_link(tool.source)

    @admin.display(description=_("description"))
    def summary(self, tool: RemoteTool) -> str:
        return tool.description[:160]

    @admin.display(description=_("état"))
    def state(self, tool: RemoteTool) -> SafeString:
        if not tool.is_present:
            return badge(gettext("absent"), "neutral")
        if tool.is_allowed:
            return badge(gettext("permis"), "good")
        return badge(gettext("à vérifier"), "warning")


def refresh_and_report(request: HttpRequest, source: ToolSource) -> None:
    """Read the source's list and say what came of it."""
    try:
        report = refresh_source(source)
    except ApplicationError as error:
        messages.error(request, f"{source} : {error.public_message} ({error})")
        return
    messages.success(
        request,
        gettext(
            "%(source)s : %(added)d outils nouveaux, %(changed)d changés, %(gone)d disparus. "
            "Les outils nouveaux et changés attendent d’être permis."
        )
        % {
            "source": source,
            "added": len(report.added),
            "changed": len(report.changed),
            "gone": len(report.gone),
        },
    )
    for name, reason in report.refused[:10]:
        messages.warning(
            request, gettext("%(name)s est écarté : %(reason)s") % {"name": name, "reason": reason}
        )
