"""Categories, documents and addresses of the web: added, several files at once, edited, and their files given back."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count, Model, Q, QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
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
    require,
    stacked,
)
from agents.llm.base import language_model
from agents.models import Agent
from agents.roles import agents_for
from knowledge.admin.builds import with_progress
from knowledge.errors import PageRefusedError, UnreadableDocumentError
from knowledge.indexing.jobs import enqueue_documents, enqueue_refresh
from knowledge.indexing.path import receive_file, store_files
from knowledge.indexing.points import IndexReport
from knowledge.indexing.refresh import next_reading
from knowledge.models import (
    Category,
    Chunk,
    Document,
    DocumentStatus,
    IndexBuild,
    PageState,
    SourceKind,
    UnitsOrigin,
    WebPage,
    WebSource,
)
from knowledge.readers.registry import SUPPORTED_SUFFIXES, check_size, refuse_unsupported
from knowledge.web import looks_like_sitemap, normal_address

#: What tells a format from its content.
_FIRST_BYTES = 1024
_DESCRIPTION = ("state", "name", "page_link", "title", "agent", "source_type", "language", "passages", "remarks")
_DOCUMENT_TONES: dict[str, Tone] = {
    DocumentStatus.PENDING: "busy",
    DocumentStatus.INDEXED: "good",
    DocumentStatus.FAILED: "bad",
}


@admin.register(Category)
class CategoryAdmin(StaffAdmin):
    purpose = _("Les sujets dans lesquels les documents sont rangés.")
    list_display = ("name", "documents")
    list_select_related = False
    search_fields = ("name",)
    annotations: ClassVar = {"document_count": Count("document")}

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

    def clean_replacement(self) -> "UploadedFile[bytes] | None":
        file: UploadedFile[bytes] | None = self.cleaned_data["replacement"]
        if file is not None and (reason := refusal_of(file, name=self.instance.file_name)):
            raise forms.ValidationError(reason)
        return file


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
    response["Cache-Control"] = "private, no-store"
    return response


@admin.register(Document)
class DocumentAdmin(StaffAdmin):
    purpose = _("Les fichiers et les pages dont viennent les réponses.")
    form = DocumentForm
    change_list_template = "admin/knowledge/document/change_list.html"
    show_add_link = False  # the page has a button with a text instead
    list_display = ("shown_title", "state", "agent", "category", "passages", "indexed_at")
    list_filter = (
        *("status", "enabled", "page__state", "agent", "category", "source_type"),
        ("page__source", AutocompleteSelectFilter),
    )
    list_select_related = ("agent", "category", "page")
    search_fields = ("name", "title")
    actions = ("index_again",)
    own_pages = (("<int:document_id>/file/", download_file, "file"),)
    readonly_fields = (*_DESCRIPTION, "file_link", "created_at", "indexed_at")
    annotations: ClassVar = {
        "chunk_count": Count("chunks"),
        "waiting_count": Count("chunks", filter=Q(chunks__units_origin=UnitsOrigin.WAITING)),
    }

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Who may only look has no file to choose, and a page is replaced by its next reading alone."""
        is_page = isinstance(obj, Document) and bool(obj.url)
        replacement = () if is_page or not self.has_change_permission(request, obj) else ("replacement",)
        return (
            (None, {"fields": [name for name in _DESCRIPTION if is_page or name != "page_link"]}),
            (_("Réglages"), {"fields": ("given_title", "category", "enabled", *replacement)}),
            (_("Fichier"), {"fields": ("file_link", "created_at", "indexed_at")}),
        )

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
        label = badge(text, _DOCUMENT_TONES.get(document.status, "neutral"))
        page: WebPage | None = getattr(document, "page", None)
        if page is not None and page.state not in (PageState.WAITING, PageState.PRESENT):
            label = format_html("{} {}", label, badge(page.get_state_display(), "warning"))
        if not document.enabled:
            label = format_html("{} {}", label, badge(_("Désactivé"), "warning"))
        reason = document.error or (page.error if page is not None else "")
        reason = reason or document.notices.partition("\n")[0]
        return stacked(label, reason) if reason else label

    @admin.display(description=_("adresse"))
    def page_link(self, document: Document) -> SafeString:
        """The page, over the address by which it is followed."""
        page: WebPage | None = getattr(document, "page", None)
        shown = format_html(
            '<a href="{0}" class="text-link underline" target="_blank" rel="noopener noreferrer nofollow">{0}</a>',
            document.url,
        )
        return stacked(shown, change_link(page.source)) if page is not None and page.source else shown

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
        label=_("Guichet"),
        queryset=Agent.objects.order_by("name"),
        widget=UnfoldAdminSelectWidget,
        help_text=_("Ses documents répondent aux questions qu’on y pose."),
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
            "Un fichier du même nom qu’un document du guichet remplace son contenu."
        ) % {"size": filesizeformat(settings.MAX_DOCUMENT_BYTES), "count": settings.DATA_UPLOAD_MAX_NUMBER_FILES}


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
        due, unchanged, report = store_uploads(
            agent=agent, files=form.cleaned_data["uploads"], category=form.cleaned_data["category"]
        )
        if due:
            # Whether they can be read is not known yet: nothing is called added before.
            received = gettext("Reçus, en cours de lecture : %(names)s")
            messages.success(request, received % {"names": ", ".join(document.name for document in due)})
        if unchanged:
            same = gettext("Déjà indexés à l’identique : %(names)s")
            messages.info(request, same % {"names": ", ".join(document.name for document in unchanged)})
        report_refused(request, report)
        if due:
            build = enqueue_documents(agent=agent, document_ids=[document.pk for document in due])
            if request.user.has_perm("knowledge.view_indexbuild"):
                return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))
        return HttpResponseRedirect(admin_url(Document, "changelist", agent__id__exact=agent.pk))
    return admin_page(
        request,
        "admin/knowledge/document/add_documents.html",
        model=Document,
        title=gettext("Ajouter des documents"),
        form=form,
        has_agents=agents_for(request).exists(),
        media=form.media,
    )


def store_uploads(
    *, agent: Agent, files: "Iterable[UploadedFile[bytes]]", category: Category | None
) -> tuple[list[Document], list[Document], IndexReport]:
    """Store each file on its own: the documents to index, those that are unchanged, and what was refused."""
    report = IndexReport()
    accepted: dict[str, UploadedFile[bytes]] = {}
    for file in files:
        name = file.name or gettext("sans nom")
        if name in accepted:
            report.fail(name, gettext("un fichier du même nom est déjà dans cet envoi"))
        elif reason := refusal_of(file):
            report.fail(name, reason)
        else:
            accepted[name] = file
    due, unchanged = store_files(agent, accepted, category, report)
    return due, unchanged, report


def report_refused(request: HttpRequest, report: IndexReport) -> None:
    for row in report.failed:
        text = gettext("%(name)s n’a pas été ajouté : %(reason)s.")
        messages.error(request, text % {"name": row["item"], "reason": row["reason"].rstrip(".")})


def refusal_of(file: "UploadedFile[bytes]", *, name: str = "") -> str:
    """Why a file is not even stored, or an empty string; `name` is what it will be read under, if not its own."""
    if not file.size:
        return gettext("le fichier est vide")
    try:
        check_size(file.size, filename=name or file.name or "")
        refuse_unsupported(file.read(_FIRST_BYTES), filename=name or file.name or "")
    except UnreadableDocumentError as error:
        return str(error.public_message).rstrip(".")
    finally:
        file.seek(0)
    return ""


class WebSourceForm(forms.ModelForm[WebSource]):
    class Meta:
        model = WebSource
        fields = ("agent", "url", "category", "refresh_hours", "is_active")

    def clean_url(self) -> str:
        try:
            return normal_address(self.cleaned_data["url"])
        except PageRefusedError as error:
            raise forms.ValidationError(
                _("Une adresse complète est attendue, sans nom d’utilisateur : https://…")
            ) from error


@admin.register(WebSource)
class WebSourceAdmin(StaffAdmin):
    """Addresses of the web. Saving one reads it; its pages are documents, which stay when the address is deleted."""

    purpose = _("Pages et plans de site lus comme des documents, et relus à intervalle.")
    form = WebSourceForm
    list_display = ("url", "state", "agent", "kind", "pages", "checked_at")
    list_filter = ("kind", "is_active", "agent", "category")
    list_select_related = ("agent",)
    search_fields = ("url",)
    autocomplete_fields = ("agent", "category")
    actions = ("read_again",)
    fields = ("agent", "url", "category", "refresh_hours", "is_active")
    annotations: ClassVar = {"page_count": Count("pages")}

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return (*self.fields, "state", "kind", "pages", "checked_at", "due") if obj else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What an address is, and whose, is said once."""
        return ("agent", "url", "state", "kind", "pages", "checked_at", "due") if obj else ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change and looks_like_sitemap(obj.url):
            obj.kind = SourceKind.SITEMAP
        super().save_model(request, obj, form, change)
        if not change and obj.is_active:
            self._read(request, [obj])

    @admin.action(description=_("Relire maintenant"), permissions=["change"])
    def read_again(self, request: HttpRequest, queryset: QuerySet[WebSource]) -> None:
        self._read(request, queryset)

    def _read(self, request: HttpRequest, sources: Iterable[WebSource]) -> None:
        for source in sources:
            build = enqueue_refresh(source)
            self.message_user(request, with_progress(_("%(url)s va être lue.") % {"url": source.url}, build))

    @admin.display(description=_("état"), ordering="error")
    def state(self, source: WebSource) -> SafeString:
        if source.error:
            return stacked(badge(_("En échec"), "bad"), source.error)
        if not source.is_active:
            return badge(_("Non suivie"))
        return badge(_("Pas encore lue"), "busy") if source.checked_at is None else badge(_("Lue"), "good")

    @admin.display(description=_("prochaine lecture"), empty_value="–")
    def due(self, source: WebSource) -> datetime | None:
        return next_reading(source)

    @admin.display(description=_("pages"), ordering="page_count")
    def pages(self, source: Any) -> str:
        return count_link(source.page_count, admin_url(Document, "changelist", page__source__id__exact=source.pk))
