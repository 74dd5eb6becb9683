"""The form of a passage with its questions and answers."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import INPUT_CLASSES, TEXTAREA_CLASSES

from knowledge.chunking import KnowledgeUnit
from knowledge.models import Chunk


class UnitsWidget(forms.Widget):
    """A question and an answer a row, with empty rows below for more; an emptied row is taken out."""

    empty_rows = 2

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
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
                _("Ce texte est trop long : %(limit)d caractères au plus.") % {"limit": settings.MAX_PASSAGE_CHARACTERS}
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
        """The instance stays as it is stored: `knowledge.indexing.editing` compares with it."""


def _digest(chunk: Chunk) -> str:
    said = [chunk.content, chunk.parent_context, chunk.knowledge_units, chunk.conflict]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
