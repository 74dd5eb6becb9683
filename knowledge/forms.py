"""Forms of the admin for documents: add several files at once, or replace the file of one."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    INPUT_CLASSES,
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
)

from agents.models import Agent
from knowledge.models import Category, Document


class SeveralFilesInput(forms.FileInput):
    allow_multiple_selected = True


class SeveralFilesField(forms.FileField):
    """Any number of files. Each is judged on its own when it is stored, so one bad file refuses no other."""

    widget = SeveralFilesInput

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
    uploads = SeveralFilesField(
        label=_("Fichiers"),
        widget=SeveralFilesInput(attrs={"class": " ".join(INPUT_CLASSES)}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["uploads"].help_text = gettext(
            "PDF, DOCX, HTML, Markdown, texte ou CSV ; %(size)s au plus chacun, %(count)d fichiers au plus à la fois. "
            "Un fichier du même nom qu’un document de l’agent remplace son contenu."
        ) % {
            "size": filesizeformat(settings.MAX_DOCUMENT_BYTES),
            "count": settings.DATA_UPLOAD_MAX_NUMBER_FILES,
        }


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
        fields = ("category",)

    def clean_replacement(self) -> "UploadedFile[bytes] | None":
        file: UploadedFile[bytes] | None = self.cleaned_data["replacement"]
        if file is not None and (reason := refusal_of(file)):
            raise forms.ValidationError(reason)
        return file


def refusal_of(file: "UploadedFile[bytes]") -> str:
    """Why a file is not even stored, or an empty string; whether it can be read is found out by the indexing."""
    if not file.size:
        return gettext("le fichier est vide")
    if file.size > settings.MAX_DOCUMENT_BYTES:
        return gettext("le fichier fait %(size)s ; la limite est de %(limit)s") % {
            "size": filesizeformat(file.size),
            "limit": filesizeformat(settings.MAX_DOCUMENT_BYTES),
        }
    return ""
