"""Sources of remote tools, read again by staff; their tools stand in the list of all tools, inactive at first."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import CharField, Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextareaWidget

from agents import jobs
from agents.admin_base import StaffAdmin, admin_url, badge, bullets, link, require, stacked
from agents.models import OPEN_JOBS, Job, JobKind
from agents.network import host_of
from agents.roles import visible
from tools_registry.admin.overrides import tag_choices
from tools_registry.errors import ToolSourceError
from tools_registry.models import ToolOverride, ToolSource
from tools_registry.sources.base import header_problem

#: How often, in seconds, the list asks again while a source is being read.
REFRESH_SECONDS = 3
_ROWS = 4
#: In characters: from here on, a document is not written into the page that edits its source.
_LONG_DOCUMENT = 100_000


class ToolSourceForm(forms.ModelForm[ToolSource]):
    """A source; its lists are a line for each host and a box for each group."""

    allowed_hosts = forms.CharField(
        label=_("Hôtes permis"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": _ROWS}),
        help_text=_(
            "Un par ligne, par exemple « api.exemple.fr » : les serveurs que cette source peut appeler, avec leur port "
            "s’il n’est pas habituel."
        ),
    )
    tags = forms.MultipleChoiceField(
        label=_("Droits demandés"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Il faut faire partie de tous ces groupes pour utiliser ses outils. Aucun : tout le monde."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tags, hosts = self.instance.tags, self.instance.allowed_hosts
        if "tags" in self.fields:
            stored = tags if isinstance(tags, list) else []
            self.fields["tags"].choices = tag_choices(stored)  # type: ignore[attr-defined]
            self.initial["tags"] = stored
        if "allowed_hosts" in self.fields:
            self.initial["allowed_hosts"] = "\n".join(map(str, hosts or []))
        for name in ("headers", "chosen"):
            if name in self.fields:
                self.fields[name].widget.attrs["rows"] = _ROWS
        self.is_long = len(self.instance.document) > _LONG_DOCUMENT
        if self.is_long and "document" in self.fields:
            self.initial["document"] = ""
            self.fields["document"].help_text = gettext(
                "Le document actuel est trop long pour cette page ; vide, il est gardé."
            )

    def clean_document(self) -> str:
        given: str = self.cleaned_data["document"]
        # The row still holds what is stored: a form of a model fills it afterwards.
        return self.instance.document if self.is_long and not given.strip() else given

    def clean_headers(self) -> dict[str, str]:
        headers: dict[str, str] = self.cleaned_data["headers"] or {}
        if problem := header_problem(headers):
            raise ValidationError(gettext("En-tête refusé : %(problem)s.") % {"problem": problem}, code="invalid")
        return headers

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if url:
            try:
                host_of(url, ToolSourceError)
            except ToolSourceError as error:
                raise ValidationError(gettext("Une adresse http ou https est attendue."), code="invalid") from error
        return url

    def clean_allowed_hosts(self) -> list[str]:
        return list(dict.fromkeys(self.cleaned_data["allowed_hosts"].split()))


def _readings() -> QuerySet[Job]:
    """The readings that are queued or under way."""
    return Job.objects.filter(kind=JobKind.TOOL_SOURCE, status__in=OPEN_JOBS)


@admin.register(ToolSource)
class ToolSourceAdmin(StaffAdmin):
    purpose = _("Serveurs MCP et services OpenAPI dont viennent des outils.")
    form = ToolSourceForm
    change_list_template = "admin/tools_registry/toolsource/change_list.html"
    change_form_template = "admin/tools_registry/toolsource/change_form.html"
    list_display = ("name", "slug", "kind", "tools", "state", "refreshed_at", "is_active")
    list_filter = ("kind", "is_active")
    list_select_related = False
    search_fields = ("name", "slug", "url")
    ordering = ("name",)
    actions = ("refresh",)
    readonly_fields = ("tools", "refreshed_at", "last_error", "unusable")
    fieldsets = (
        (None, {"fields": ("name", "slug", "kind", "is_active")}),
        (_("Où"), {"fields": ("command", "url", "document", "chosen", "allowed_hosts", "headers")}),
        (_("Droits et bornes"), {"fields": ("tags", "is_personal", "timeout_seconds")}),
        (_("Dernière lecture"), {"fields": ("tools", "refreshed_at", "last_error", "unusable")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolSource]:
        sources: QuerySet[ToolSource] = super().get_queryset(request)
        reading = _readings().filter(key=Cast(OuterRef("pk"), CharField()))
        return sources.defer("document").annotate(
            is_reading=Exists(reading),
            present=Count("tools", filter=Q(tools__is_present=True)),
            allowed=Count("tools", filter=Q(tools__is_present=True, tools__is_active=True)),
        )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        shown = {"refresh_seconds": REFRESH_SECONDS if _readings().exists() else 0}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.read_now)
        return [path("<int:source_id>/read/", view, name="tools_registry_toolsource_read"), *super().get_urls()]

    @method_decorator(require_POST)
    def read_now(self, request: HttpRequest, source_id: int) -> HttpResponse:
        require(request, "tools_registry.change_toolsource")
        self.refresh(request, visible(request, ToolSource.objects.filter(pk=source_id)))
        return HttpResponseRedirect(admin_url(ToolSource, "changelist"))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """A new source is read at once."""
        super().save_model(request, obj, form, change)
        if not change:
            self.refresh(request, ToolSource.objects.filter(pk=obj.pk))

    @admin.action(description=_("Lire la liste des outils"), permissions=["change"])
    def refresh(self, request: HttpRequest, queryset: QuerySet[ToolSource]) -> None:
        for source in queryset:
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
    def state(self, source: Any) -> SafeString:
        if source.is_reading:
            return badge(gettext("en lecture"), "busy")
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
