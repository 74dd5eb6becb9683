"""Categories and documents, and the form of one document."""

from collections import defaultdict
from typing import Any

from django import forms
from django.contrib import admin
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language_info, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import UnfoldAdminFileFieldWidget

from agents.admin_base import (
    StaffAdmin,
    Tone,
    admin_url,
    badge,
    bullets,
    change_link,
    clipped,
    count_link,
    link,
    moment_text,
    stacked,
)
from agents.llm.base import language_model
from knowledge.admin.builds import with_progress
from knowledge.admin.uploads import add_documents, download_file, refusal_of
from knowledge.indexing.jobs import enqueue_documents
from knowledge.indexing.path import receive_file
from knowledge.models import Category, Chunk, Document, DocumentStatus, PageState, UnitsOrigin, WebPage

_DESCRIPTION = ("state", "name", "title", "agent", "source_type", "language_name", "passages", "remarks")
_PAGE = ("page_link", "page_source", "page_checked")
_FILE = ("file_link", "created_at", "indexed_at")
_DOCUMENT_TONES: dict[str, Tone] = {
    DocumentStatus.PENDING: "busy",
    DocumentStatus.INDEXED: "good",
    DocumentStatus.FAILED: "bad",
}


@admin.register(Category)
class CategoryAdmin(StaffAdmin):
    purpose = _("Les sujets dans lesquels les documents sont rangés.")
    list_display = ("name", "documents")
    list_filter = ()
    list_select_related = False
    search_fields = ("name",)
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Category]:
        categories: QuerySet[Category] = super().get_queryset(request)
        return categories.annotate(document_count=Count("document"))

    @admin.display(description=_("documents"), ordering="document_count")
    def documents(self, category: Any) -> str:
        return count_link(category.document_count, admin_url(Document, "changelist", category__id__exact=category.pk))


class DocumentForm(forms.ModelForm[Document]):
    """One document: its category, and a file that takes the place of its own."""

    replacement = forms.FileField(
        label=_("Remplacer le fichier"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("Le document garde son nom ; ses passages inchangés gardent leurs questions."),
    )

    class Meta:
        model = Document
        fields = ("category", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.url:
            # The next reading would put the page back in its place.
            del self.fields["replacement"]

    def clean_replacement(self) -> "UploadedFile[bytes] | None":
        file: UploadedFile[bytes] | None = self.cleaned_data["replacement"]
        if file is not None and (reason := refusal_of(file, name=self.instance.file_name)):
            raise forms.ValidationError(reason)
        return file


@admin.register(Document)
class DocumentAdmin(StaffAdmin):
    purpose = _("Les fichiers et les pages dont viennent les réponses.")
    form = DocumentForm
    change_list_template = "admin/knowledge/document/change_list.html"
    show_add_link = False  # the page has a button with a text instead
    list_display = ("shown_title", "state", "agent_and_category", "format_and_language", "passages", "indexed_at")
    list_filter = (
        "status",
        "enabled",
        "page__state",
        "agent",
        "category",
        "source_type",
        "language",
        ("page__source", AutocompleteSelectFilter),
    )
    list_select_related = ("agent", "category", "page")
    search_fields = ("name", "title")
    ordering = ("name",)
    actions = ("index_again",)
    readonly_fields = (*_DESCRIPTION, *_PAGE, *_FILE)
    fieldsets = (
        (None, {"fields": _DESCRIPTION}),
        (_("Modifier"), {"fields": ("category", "enabled", "replacement")}),
        (_("Fichier"), {"fields": _FILE}),
    )
    page_fieldset = (_("Page du web"), {"fields": _PAGE})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Document]:
        documents: QuerySet[Document] = super().get_queryset(request)
        return documents.annotate(
            chunk_count=Count("chunks"),
            waiting_count=Count("chunks", filter=Q(chunks__units_origin=UnitsOrigin.WAITING)),
        )

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Who may only look has no file to choose, and a page is replaced by its next reading alone."""
        first, edited, last = self.fieldsets
        is_page = isinstance(obj, Document) and obj.url
        may_change = self.has_change_permission(request, obj)
        if is_page or not may_change:
            title = edited[0] if may_change else _("Réglages")
            edited = (title, {"fields": ("category", "enabled")})
        return (first, edited, self.page_fieldset, last) if is_page else (first, edited, last)

    def get_urls(self) -> list[URLPattern]:
        download = path(
            "<int:document_id>/file/", self.admin_site.admin_view(download_file), name="knowledge_document_file"
        )
        return [download, *super().get_urls()]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Documents come as files, one or several at once."""
        return add_documents(request)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        file = form.cleaned_data.get("replacement")
        if "enabled" in form.changed_data:
            self.message_user(request, _("L’index suit dans quelques instants."))
        if file is not None:
            receive_file(agent=obj.agent, name=obj.name, size=file.size, read=file.read, category=obj.category)
        if file is not None or "category" in form.changed_data:
            build = enqueue_documents(agent=obj.agent, document_ids=[obj.pk])
            text = _("Le document va être indexé à nouveau.")
            self.message_user(request, with_progress(text, build))

    @admin.action(description=_("Indexer à nouveau"), permissions=["change"])
    def index_again(self, request: HttpRequest, queryset: QuerySet[Document]) -> None:
        by_agent: defaultdict[Any, list[int]] = defaultdict(list)
        for document in queryset:
            by_agent[document.agent].append(document.pk)
        for agent, keys in by_agent.items():
            build = enqueue_documents(agent=agent, document_ids=keys)
            text = ngettext(
                "%(agent)s : %(count)d document va être indexé à nouveau.",
                "%(agent)s : %(count)d documents vont être indexés à nouveau.",
                len(keys),
            ) % {"agent": agent, "count": len(keys)}
            self.message_user(request, with_progress(text, build))

    @admin.display(description=_("document"), ordering="title")
    def shown_title(self, document: Document) -> SafeString:
        """What it is called, over the file or the address that it is."""
        if not document.title or document.title == document.name:
            return clipped(document.name)
        return stacked(clipped(document.title), document.name)

    @admin.display(description=_("état"), ordering="status")
    def state(self, document: Document) -> SafeString:
        is_updated = document.is_replaced and document.status == DocumentStatus.PENDING
        text = _("Mise à jour en cours") if is_updated else document.get_status_display()
        label = badge(text, "busy" if is_updated else _DOCUMENT_TONES.get(document.status, "neutral"))
        page = _page_of(document)
        if page is not None and page.state not in (PageState.WAITING, PageState.PRESENT):
            tone: Tone = "warning" if document.enabled else "bad"
            label = format_html("{} {}", label, badge(page.get_state_display(), tone))
        if not document.enabled:
            label = format_html("{} {}", label, badge(_("Désactivé"), "warning"))
        reason = document.error or (page.error if page is not None else "")
        reason = reason or document.notices.partition("\n")[0]
        return stacked(label, reason) if reason else label

    @admin.display(description=_("adresse"))
    def page_link(self, document: Document) -> SafeString:
        return format_html(
            '<a href="{0}" class="text-link underline" target="_blank" rel="noopener noreferrer nofollow">{0}</a>',
            document.url,
        )

    @admin.display(description=_("suivie par"))
    def page_source(self, document: Document) -> str:
        page = _page_of(document)
        return change_link(page.source if page is not None else None)

    @admin.display(description=_("lue le"))
    def page_checked(self, document: Document) -> str:
        page = _page_of(document)
        return moment_text(page.checked_at) if page and page.checked_at else "–"

    @admin.display(description=_("langue"), ordering="language", empty_value="–")
    def language_name(self, document: Document) -> str:
        try:
            return str(get_language_info(document.language)["name_translated"])
        except KeyError:  # a language that Django has no name for
            return document.language

    @admin.display(description=_("agent"), ordering="agent")
    def agent_and_category(self, document: Document) -> SafeString | str:
        return stacked(document.agent, document.category) if document.category else str(document.agent)

    @admin.display(description=_("format"), ordering="source_type")
    def format_and_language(self, document: Document) -> SafeString:
        return stacked(document.get_source_type_display() or "–", self.language_name(document))

    @admin.display(description=_("passages"), ordering="chunk_count")
    def passages(self, document: Any) -> str:
        address = admin_url(Chunk, "changelist", document__id__exact=document.pk)
        counted = count_link(document.chunk_count, address)
        if not document.waiting_count or language_model() is None:
            return counted
        waiting = ngettext(
            "dont %(count)d en attente de questions", "dont %(count)d en attente de questions", document.waiting_count
        ) % {"count": document.waiting_count}
        return stacked(counted, link(f"{address}&units_origin__exact=waiting", waiting))

    @admin.display(description=_("remarques de lecture"))
    def remarks(self, document: Document) -> str:
        return bullets("{}", [[line] for line in document.notices.splitlines()])

    @admin.display(description=_("fichier"))
    def file_link(self, document: Document) -> str:
        if not document.file:
            return "–"
        return link(reverse("admin:knowledge_document_file", args=[document.pk]), _("Télécharger"))


def _page_of(document: Document) -> WebPage | None:
    return getattr(document, "page", None)
