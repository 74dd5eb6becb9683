"""Forms of the admin: several files at once, the file of one document, a passage with its questions, a trial search."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    INPUT_CLASSES,
    TEXTAREA_CLASSES,
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from agents.models import Agent, Deployment
from knowledge.chunking import KnowledgeUnit
from knowledge.exceptions import PageRefusedError
from knowledge.fetching.addresses import looks_like_sitemap, normal_address
from knowledge.models import Category, Chunk, Document, SourceKind, WebSource


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
            "PDF, DOCX, PPTX, XLSX, HTML, Markdown, texte ou CSV ; %(size)s au plus chacun, %(count)d fichiers au plus à la fois. "
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
        fields = ("category", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.url:
            # The next reading would put the page back in its place.
            del self.fields["replacement"]

    def clean_replacement(self) -> "UploadedFile[bytes] | None":
        file: UploadedFile[bytes] | None = self.cleaned_data["replacement"]
        if file is not None and (reason := refusal_of(file)):
            raise forms.ValidationError(reason)
        return file


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


class UnitsWidget(forms.Widget):
    """A question and an answer a row, with empty rows below for more; an emptied row is taken out."""

    empty_rows = 2

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        rows = [*(value or []), *([{"question": "", "answer": ""}] * self.empty_rows)]
        return format_html(
            '<div class="rp-unit-rows">{}</div>',
            format_html_join(
                "",
                '<div><input type="text" name="{0}-question" value="{1}" maxlength="{7}" class="{2}" '
                'aria-label="{3} {4}"><textarea name="{0}-answer" rows="3" class="{5}" '
                'aria-label="{6} {4}">{8}</textarea></div>',
                (
                    (
                        name,
                        row["question"],
                        " ".join(INPUT_CLASSES),
                        gettext("Question"),
                        number,
                        " ".join(TEXTAREA_CLASSES),
                        gettext("Réponse"),
                        settings.QA_MAX_QUESTION_CHARACTERS,
                        row["answer"],
                    )
                    for number, row in enumerate(rows, start=1)
                ),
            ),
        )

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[dict[str, str]]:
        pairs = zip(data.getlist(f"{name}-question"), data.getlist(f"{name}-answer"), strict=False)
        rows = [{"question": q.strip(), "answer": a.strip()} for q, a in pairs]
        return [row for row in rows if row["question"] or row["answer"]]

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return f"{name}-question" not in data


class UnitsField(forms.Field):
    widget = UnitsWidget

    def clean(self, value: Any) -> list[KnowledgeUnit]:
        units: dict[str, KnowledgeUnit] = {}
        for row in value or []:
            question, answer = row["question"], row["answer"]
            if not question or not answer:
                raise forms.ValidationError(
                    _("Chaque question a besoin d’une réponse, et chaque réponse d’une question.")
                )
            if len(question) > settings.QA_MAX_QUESTION_CHARACTERS:
                raise forms.ValidationError(_("Une question est trop longue."))
            if len(answer) > settings.QA_MAX_ANSWER_CHARACTERS:
                raise forms.ValidationError(_("Une réponse est trop longue."))
            if question in units:
                raise forms.ValidationError(_("Une question est là deux fois."))
            units[question] = KnowledgeUnit(question, answer)
        return list(units.values())

    def has_changed(self, initial: Any, data: Any) -> bool:
        return list(initial or []) != list(data or [])


class ChunkForm(forms.ModelForm[Chunk]):
    """A passage as staff may write it; what they saw must still be what is stored."""

    units = UnitsField(
        label=_("questions et réponses"),
        required=False,
        help_text=_("Videz une ligne pour la retirer ; enregistrez pour avoir d’autres lignes."),
    )
    settled = forms.BooleanField(
        label=_("conflit réglé"),
        required=False,
        help_text=_("Ma version tient compte de ce que dit maintenant le document."),
    )
    seen = forms.CharField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Chunk
        fields = ("content", "parent_context", "category", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault("units", self.instance.knowledge_units)
        self.initial.setdefault("seen", _digest(self.instance))
        for name, rows in (("content", 14), ("parent_context", 2)):
            if name in self.fields:  # not for who may only look
                self.fields[name].widget.attrs["rows"] = rows

    def clean_content(self) -> str:
        content: str = self.cleaned_data["content"]
        if len(content) > settings.MAX_PASSAGE_CHARACTERS:
            raise forms.ValidationError(
                _("Ce texte est trop long : %(limit)d caractères au plus.")
                % {"limit": settings.MAX_PASSAGE_CHARACTERS}
            )
        return content

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        stored = Chunk.objects.filter(pk=self.instance.pk).first()
        if stored is None or cleaned.get("seen") != _digest(stored):
            raise forms.ValidationError(
                _("Ce passage a changé depuis que vous l’avez ouvert. Rouvrez-le pour le modifier.")
            )
        return cleaned

    def _post_clean(self) -> None:
        """The instance stays as it is stored: `knowledge.editing` compares with it."""


class SearchTrialForm(forms.Form):
    deployment = forms.ModelChoiceField(
        label=_("Déploiement"),
        queryset=Deployment.objects.select_related("agent").order_by("name"),
        widget=UnfoldAdminSelectWidget,
    )
    question = forms.CharField(
        label=_("Question"), max_length=2_000, widget=UnfoldAdminTextInputWidget
    )
    limit = forms.IntegerField(
        label=_("Nombre de passages"),
        required=False,
        min_value=1,
        max_value=50,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Vide : le réglage du déploiement."),
    )


def _digest(chunk: Chunk) -> str:
    said = [chunk.content, chunk.parent_context, chunk.knowledge_units, chunk.conflict]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


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
