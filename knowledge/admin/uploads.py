"""Adding documents from files, several at once, and giving the file of one back."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe
from unfold.widgets import INPUT_CLASSES, UnfoldAdminSelectWidget

from agents.admin_base import admin_page, admin_url, require
from agents.errors import ApplicationError
from agents.models import Agent
from agents.roles import agents_for
from knowledge.errors import UnreadableDocumentError
from knowledge.indexing.jobs import enqueue_documents
from knowledge.indexing.path import receive_file
from knowledge.models import Category, Document, IndexBuild
from knowledge.readers.registry import SUPPORTED_SUFFIXES, refuse_unsupported


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
    """Why a file is not even stored, or an empty string; whether all of it can be read is found out by the indexing.

    `name` is what it will be read under, where that is not its own.
    """
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
