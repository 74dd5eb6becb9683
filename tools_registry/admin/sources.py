"""Sources of remote tools and the tools that they declare: read again, allowed or forbidden by staff.

A source may declare a thousand tools: they are a list of their own, and its page says how many there are.
"""

from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents import jobs
from agents.admin_base import (
    ReadOnlyAdmin,
    StaffAdmin,
    admin_url,
    badge,
    bullets,
    database_keys,
    link,
    linked,
    open_to,
    stacked,
)
from agents.database import short_write
from agents.models import JobKind
from tools_registry.admin.forms import ToolSourceForm
from tools_registry.catalog import all_tools, forget_recent
from tools_registry.index import enqueue_index
from tools_registry.models import RemoteTool, ToolOverride, ToolSource, replace_tools_token
from tools_registry.selection import tool_limit

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
            allowed=Count("tools", filter=Q(tools__is_present=True, tools__is_allowed=True)),
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
        address = admin_url(RemoteTool, "changelist", source__id__exact=source.pk)
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


class _SourceFilter(admin.SimpleListFilter):
    """By source; Django's own filter would read the document of each."""

    title = _("source")
    parameter_name = "source__id__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
        return list(ToolSource.objects.values_list("pk", "name"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> QuerySet[RemoteTool]:
        keys = database_keys([self.value() or ""])
        return queryset.filter(source__in=keys) if self.value() else queryset


@admin.register(RemoteTool)
class RemoteToolAdmin(ReadOnlyAdmin):
    purpose = _("Les outils de ces sources, à autoriser un par un ou plusieurs à la fois.")
    list_display = ("tool_name", "source_link", "summary", "state", "asks")
    list_filter = (_SourceFilter, "is_allowed", "is_present", "needs_approval")
    list_select_related = ("source",)
    search_fields = ("tool_name", "remote_name", "description")
    ordering = ("tool_name",)
    actions = ("allow", "forbid", "ask_first", "ask_no_more")
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[RemoteTool]:
        tools: QuerySet[RemoteTool] = super().get_queryset(request)
        decided = ToolOverride.objects.filter(tool_name=OuterRef("tool_name"))
        # Of the last call: an error that a later call did not meet again is past.
        failing = Q(last_called_at=None) | Q(last_error_at__gte=F("last_called_at"))
        used = decided.filter(failing)
        return tools.defer("source__document", "source__problems", "parameters", "operation").annotate(
            decided=Subquery(decided.values("needs_approval")[:1]), last_error=Subquery(used.values("last_error")[:1])
        )

    has_decide_permission = open_to("tools_registry.change_remotetool")

    has_approve_permission = open_to("tools_registry.change_remotetool", "tools_registry.change_tooloverride")

    @admin.action(description=_("Permettre"), permissions=["decide"])
    def allow(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> None:
        self._decide(request, queryset.filter(is_present=True), is_allowed=True)
        count, limit = len(all_tools()), tool_limit()
        if count > limit:
            messages.warning(
                request,
                gettext(
                    "%(count)d outils sont permis, et le modèle en accepte %(limit)d par question : seuls les plus proches "
                    "de chaque question lui sont proposés, dans tous les modes."
                )
                % {"count": count, "limit": limit},
            )

    @admin.action(description=_("Ne plus permettre"), permissions=["decide"])
    def forbid(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> None:
        self._decide(request, queryset, is_allowed=False)

    @admin.action(description=_("Demander l’accord avant chaque appel"), permissions=["approve"])
    def ask_first(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> None:
        self._set_approval(request, queryset, needs_approval=True)

    @admin.action(description=_("Ne plus demander d’accord"), permissions=["approve"])
    def ask_no_more(self, request: HttpRequest, queryset: QuerySet[RemoteTool]) -> None:
        self._set_approval(request, queryset, needs_approval=False)

    def _decide(self, request: HttpRequest, queryset: QuerySet[RemoteTool], *, is_allowed: bool) -> None:
        keys = list(queryset.exclude(is_allowed=is_allowed).values_list("pk", flat=True))
        if keys:
            with short_write():
                RemoteTool.objects.filter(pk__in=keys).update(is_allowed=is_allowed)
                _changed()
        self._report(request, len(keys))

    def _set_approval(self, request: HttpRequest, queryset: QuerySet[RemoteTool], *, needs_approval: bool) -> None:
        names = list(queryset.values_list("tool_name", flat=True))
        with short_write():
            ToolOverride.objects.bulk_create([ToolOverride(tool_name=name) for name in names], ignore_conflicts=True)
            rows = ToolOverride.objects.filter(tool_name__in=names)
            count = rows.exclude(needs_approval=needs_approval).update(
                needs_approval=needs_approval, updated_at=timezone.now()
            )
            _changed()
        self._report(request, count)

    def _report(self, request: HttpRequest, count: int) -> None:
        text = ngettext("%(count)d outil modifié.", "%(count)d outils modifiés.", count)
        self.message_user(request, text % {"count": count})

    source_link = linked("source", _("source"), ordering="source__name")

    @admin.display(description=_("description"))
    def summary(self, tool: RemoteTool) -> str:
        return Truncator(tool.description).chars(160)

    @admin.display(description=_("état"))
    def state(self, tool: Any) -> SafeString:
        if not tool.is_present:
            return badge(gettext("absent"), "neutral")
        if tool.last_error and tool.is_allowed:
            return stacked(badge(gettext("en échec"), "bad"), tool.last_error[:200])
        if tool.is_allowed:
            return badge(gettext("permis"), "good")
        return badge(gettext("à vérifier"), "warning")

    @admin.display(description=_("demande l’accord"))
    def asks(self, tool: Any) -> str:
        asks = tool.needs_approval if tool.decided is None else tool.decided
        return gettext("oui") if asks else gettext("non")


def _changed() -> None:
    """What a signal does for each row, once for all of them."""
    replace_tools_token()
    transaction.on_commit(forget_recent)
    enqueue_index()
