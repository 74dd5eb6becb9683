"""Categories and documents: added from files, several at once, edited, and their files given back."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count, Model, Q, QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language_info, gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import INPUT_CLASSES, UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget

from agents.admin_base import (
    StaffAdmin,
    Tone,
    admin_page,
    admin_url,
    badge,
    bullets,
    change_link,
    clipped,
    count_link,
    link,
    moment_text,
    require,
    stacked,
)
from agents.errors import ApplicationError
from agents.llm.base import language_model
from agents.models import Agent
from agents.roles import agents_for
from knowledge.admin.builds import with_progress
from knowledge.errors import UnreadableDocumentError
from knowledge.indexing.jobs import enqueue_documents
from knowledge.indexing.path import receive_file
from knowledge.models import Category, Chunk, Document, DocumentStatus, IndexBuild, PageState, UnitsOrigin, WebPage
from knowledge.readers.registry import SUPPORTED_SUFFIXES, refuse_unsupported

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
        fields = ("given_title", "category", "enabled")

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
        (_("Modifier"), {"fields": ("given_title", "category", "enabled", "replacement")}),
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
            edited = (title, {"fields": ("given_title", "category", "enabled")})
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
        if file is not None or {"category", "given_title"}.intersection(form.changed_data):
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


class SeveralFilesInput(forms.FileInput):
    allow_multiple_selected = True


class SeveralFilesField(forms.FileField):
    """Any number of files. Each is judged on its own when it is stored, so one bad file refuses no other."""

    widget = SeveralFilesInput(attrs={"class": " ".join(INPUT_CLASSES), "accept": ",".join(sorted(SUPPORTED_SUFFIXES))})

    def clean(self, data: Any, initial: Any = None) -> "list[UploadedFile[bytes]]":
        files = [file for file in data or [] if file]
        if not files:
            raise forms.ValidationError(self.error_messages["required"], code="required")
        return files


class AddDocumentsForm(forms.Form):
    agent = forms.ModelChoiceField(
        label=_("Agent"),
        queryset=Agent.objects.order_by("name"),
        widget=UnfoldAdminSelectWidget,
        help_text=_("Les documents répondront aux questions posées à cet agent."),
    )
    category = forms.ModelChoiceField(
        label=_("Catégorie"),
        queryset=Category.objects.order_by("name"),
        required=False,
        widget=UnfoldAdminSelectWidget,
        empty_label=_("Aucune"),
        help_text=_("La même pour tous les fichiers de cet envoi."),
    )
    uploads = SeveralFilesField(label=_("Fichiers"))

    def __init__(self, *args: Any, agents: QuerySet[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agent"].queryset = agents  # type: ignore[attr-defined]
        self.fields["uploads"].help_text = gettext(
            "PDF, DOCX, PPTX, XLSX, HTML, Markdown, texte ou CSV ; %(size)s au plus chacun, %(count)d fichiers au plus à la fois. "
            "Un fichier du même nom qu’un document de l’agent remplace son contenu."
        ) % {"size": filesizeformat(settings.MAX_DOCUMENT_BYTES), "count": settings.DATA_UPLOAD_MAX_NUMBER_FILES}


#: What tells a format from its content.
_FIRST_BYTES = 1024

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class UploadOutcome:
    """What became of each file of one upload, by name; `refused` has the reasons."""

    to_index: list[int] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


@require_http_methods(["GET", "POST"])
def add_documents(request: HttpRequest) -> HttpResponse:
    require(request, "knowledge.add_document")
    form = AddDocumentsForm(
        request.POST or None,
        request.FILES or None,
        initial={"agent": request.GET.get("agent")},
        agents=agents_for(request),
    )
    if request.method == "POST" and form.is_valid():
        agent = form.cleaned_data["agent"]
        outcome = store_uploads(agent=agent, files=form.cleaned_data["uploads"], category=form.cleaned_data["category"])
        _report_upload(request, outcome)
        if not outcome.to_index:
            return HttpResponseRedirect(admin_url(Document, "changelist", agent__id__exact=agent.pk))
        build = enqueue_documents(agent=agent, document_ids=outcome.to_index)
        return HttpResponseRedirect(_build_or_documents_url(request, build))
    return admin_page(
        request,
        "admin/knowledge/document/add_documents.html",
        model=Document,
        title=gettext("Ajouter des documents"),
        form=form,
        has_agents=agents_for(request).exists(),
        media=form.media,
    )


def store_uploads(*, agent: Agent, files: "Iterable[UploadedFile[bytes]]", category: Category | None) -> UploadOutcome:
    """Store each file on its own; one that is refused, or that the disk refuses, stops no other."""
    outcome = UploadOutcome()
    seen: set[str] = set()
    for file in files:
        name = file.name or gettext("sans nom")
        if name in seen:
            outcome.refused.append((name, gettext("un fichier du même nom est déjà dans cet envoi")))
        elif reason := refusal_of(file):
            outcome.refused.append((name, reason))
        else:
            seen.add(name)
            _store_upload(agent, name, file, category, outcome)
    return outcome


def _store_upload(
    agent: Agent, name: str, file: "UploadedFile[bytes]", category: Category | None, outcome: UploadOutcome
) -> None:
    existed = Document.objects.filter(agent=agent, name=name).exists()
    try:
        stored = receive_file(agent=agent, name=name, size=file.size or 0, read=file.read, category=category)
    except ApplicationError as error:
        outcome.refused.append((name, str(error.public_message)))
    except OSError as error:
        logger.exception("An uploaded file could not be stored.")
        outcome.refused.append((name, error.strerror or gettext("le disque a refusé le fichier")))
    else:
        if not stored.changed:
            outcome.unchanged.append(name)
            return
        outcome.to_index.append(stored.document.pk)
        (outcome.updated if existed else outcome.added).append(name)


def _report_upload(request: HttpRequest, outcome: UploadOutcome) -> None:
    for names, label in (
        # Whether they can be read is not known yet: nothing is called added before.
        (outcome.added, gettext("Reçus, en cours de lecture : %(names)s")),
        (outcome.updated, gettext("Remplacés, en cours de lecture : %(names)s")),
    ):
        if names:
            messages.success(request, label % {"names": ", ".join(names)})
    if outcome.unchanged:
        messages.info(
            request, gettext("Déjà indexés à l’identique : %(names)s") % {"names": ", ".join(outcome.unchanged)}
        )
    for name, reason in outcome.refused:
        messages.error(request, gettext("%(name)s n’a pas été ajouté : %(reason)s.") % {"name": name, "reason": reason})


def _build_or_documents_url(request: HttpRequest, build: IndexBuild) -> str:
    """The progress of the indexing, for who may see it."""
    if request.user.has_perm("knowledge.view_indexbuild"):
        return admin_url(IndexBuild, "change", build.pk)
    return admin_url(Document, "changelist", agent__id__exact=build.agent_id)


@require_safe
def download_file(request: HttpRequest, document_id: int) -> HttpResponse | FileResponse:
    """The file as it was given, always as a download: its content is never shown as a page of this site."""
    document = get_object_or_404(Document, pk=document_id)
    require(request, "knowledge.view_document", row=document)
    try:
        file = document.file.open("rb")
    except (OSError, ValueError) as error:
        raise Http404(gettext("Le fichier de ce document n’est plus sur le disque.")) from error
    response = FileResponse(
        file, as_attachment=True, filename=document.name.rsplit("/", 1)[-1], content_type="application/octet-stream"
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


def refusal_of(file: "UploadedFile[bytes]", *, name: str = "") -> str:
    """Why a file is not even stored, or an empty string; `name` is what it will be read under, if not its own."""
    if not file.size:
        return gettext("le fichier est vide")
    if file.size > settings.MAX_DOCUMENT_BYTES:
        return gettext("le fichier fait %(size)s ; la limite est de %(limit)s") % {
            "size": filesizeformat(file.size),
            "limit": filesizeformat(settings.MAX_DOCUMENT_BYTES),
        }
    try:
        refuse_unsupported(file.read(_FIRST_BYTES), filename=name or file.name or "")
    except UnreadableDocumentError as error:
        return str(error.public_message).rstrip(".")
    finally:
        file.seek(0)
    return ""
