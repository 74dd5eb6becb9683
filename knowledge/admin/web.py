"""Addresses of the web that are read again and again."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminSelectWidget

from agents.admin_base import StaffAdmin, admin_url, badge, bullets, change_link, count_link, link, moment_text, stacked
from knowledge.admin.builds import with_progress
from knowledge.errors import PageRefusedError
from knowledge.indexing.jobs import enqueue_refresh, refreshes
from knowledge.indexing.refresh import next_reading
from knowledge.models import Document, PageState, SourceKind, WebSource
from knowledge.web import looks_like_sitemap, normal_address


class WebSourceForm(forms.ModelForm[WebSource]):
    """An address to follow; what it is may be left to its name and to what it holds."""

    kind = forms.ChoiceField(
        label=_("Nature"),
        required=False,
        choices=[("", _("La reconnaître")), *SourceKind.choices],
        widget=UnfoldAdminSelectWidget,
    )

    class Meta:
        model = WebSource
        fields = ("agent", "url", "kind", "category", "refresh_hours", "is_active")

    def clean_url(self) -> str:
        try:
            return normal_address(self.cleaned_data["url"])
        except PageRefusedError as error:
            raise forms.ValidationError(
                _("Une adresse complète est attendue, sans nom d’utilisateur : https://…")
            ) from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not cleaned.get("kind") and cleaned.get("url"):
            is_sitemap = looks_like_sitemap(cleaned["url"])
            cleaned["kind"] = SourceKind.SITEMAP if is_sitemap else SourceKind.PAGE
        return cleaned


@admin.register(WebSource)
class WebSourceAdmin(StaffAdmin):
    """Addresses of the web. Saving one reads it; its pages are documents, which stay when the address is deleted."""

    purpose = _("Pages et plans de site lus comme des documents, et relus à intervalle.")
    form = WebSourceForm
    list_display = ("url", "state", "agent", "kind", "pages", "checked_at", "due_at")
    list_filter = ("kind", "is_active", "agent", "category")
    list_select_related = ("agent",)
    search_fields = ("url",)
    ordering = ("url",)
    autocomplete_fields = ("agent", "category")
    actions = ("read_again",)
    readonly_fields = ("state", "pages", "checked_at", "due_at", "readings")
    fieldsets = (
        (None, {"fields": ("agent", "url", "kind", "category", "refresh_hours", "is_active")}),
        (_("Lectures"), {"fields": ("state", "pages", "checked_at", "due_at", "readings")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebSource]:
        sources: QuerySet[WebSource] = super().get_queryset(request)
        lost = Q(pages__state__in=(PageState.GONE, PageState.LEFT, PageState.FAILED))
        return sources.annotate(page_count=Count("pages"), lost_count=Count("pages", filter=lost))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fieldsets if obj is not None else self.fieldsets[:1]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What an address is, and whose, is said once."""
        return (*self.readonly_fields, "agent", "url", "kind") if obj else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.due_at = next_reading(obj) if change else None
        super().save_model(request, obj, form, change)
        if not change and obj.is_active:
            self._read(request, [obj])

    @admin.action(description=_("Relire maintenant"), permissions=["change"])
    def read_again(self, request: HttpRequest, queryset: QuerySet[WebSource]) -> None:
        self._read(request, queryset)

    def _read(self, request: HttpRequest, sources: Iterable[WebSource]) -> None:
        for source in sources:
            build = enqueue_refresh(source)
            text = _("%(url)s va être lue.") % {"url": source.url}
            self.message_user(request, with_progress(text, build))

    @admin.display(description=_("état"), ordering="error")
    def state(self, source: WebSource) -> SafeString:
        if source.error:
            return stacked(badge(_("En échec"), "bad"), source.error)
        if not source.is_active:
            return badge(_("Non suivie"))
        if source.checked_at is None:
            return badge(_("Pas encore lue"), "busy")
        return badge(_("Lue"), "good")

    @admin.display(description=_("pages"), ordering="page_count")
    def pages(self, source: Any) -> str:
        address = admin_url(Document, "changelist", page__source__id__exact=source.pk)
        counted = count_link(source.page_count, address)
        if not source.lost_count:
            return counted
        lost = ngettext(
            "dont %(count)d disparue, sortie ou non lue",
            "dont %(count)d disparues, sorties ou non lues",
            source.lost_count,
        ) % {"count": source.lost_count}
        states = ",".join((PageState.GONE, PageState.LEFT, PageState.FAILED))
        return stacked(counted, link(f"{address}&page__state__in={states}", lost))

    @admin.display(description=_("dernières lectures"))
    def readings(self, source: WebSource) -> str:
        builds = refreshes(source).order_by("-pk")[:5]
        rows = [(change_link(build, moment_text(build.created_at)), build.get_status_display()) for build in builds]
        return bullets("{} : {}", rows)
