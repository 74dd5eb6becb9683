"""Forms of the admin for validated answers: one answer with its phrasings, and a file of answers."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.template.defaultfilters import filesizeformat
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldBooleanWidget,
)

from agents.errors import ApplicationError
from agents.models import Agent
from faqs.answers.duplicates import find_similar, similar_text
from faqs.answers.texts import check_texts, clean_answer, one_line, other_phrasings
from faqs.exceptions import AnswerRejectedError
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus

#: The button that saves a draft and puts it in service at once.
APPROVE = "_approve"


class LearnedResponseForm(forms.ModelForm[LearnedResponse]):
    """One validated answer. Answers that exist already to the same question are shown before it is saved."""

    phrasing_lines = forms.CharField(
        label=_("Autres formulations"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 5}),
        help_text=_("Une par ligne : d’autres façons de poser la même question."),
    )
    save_anyway = forms.BooleanField(
        label=_("Enregistrer malgré une réponse proche"), required=False, widget=UnfoldBooleanWidget
    )

    #: When the row was last changed, as the page was opened: two persons do not overwrite each other unseen.
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = LearnedResponse
        fields = ("agent", "kind", "question", "answer", "category", "status", "status_reason", "owner", "review_date")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: Why the comparison could not be made; said after the answer is saved.
        self.not_compared = ""
        if self.instance.pk and "phrasing_lines" in self.fields:
            texts = [phrasing.text for phrasing in self.instance.phrasings.all()]
            self.fields["phrasing_lines"].initial = "\n".join(texts)
            self.fields["seen"].initial = self.instance.updated_at.isoformat()

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if APPROVE in self.data:
            data["status"] = LearnedStatus.VALID
        data["phrasings"] = other_phrasings(
            one_line(data.get("question") or ""), (data.get("phrasing_lines") or "").splitlines()
        )
        if self.errors:
            return data
        self._require_unchanged(str(data.get("seen") or ""))
        try:
            check_texts(
                one_line(data["question"]),
                clean_answer(data["answer"]),
                data["phrasings"],
                needs_answer=data.get("status") == LearnedStatus.VALID,
            )
        except AnswerRejectedError as error:
            raise forms.ValidationError(str(error.public_message)) from error
        if data["kind"] == LearnedKind.FAQ and data["answer"] and not data.get("save_anyway"):
            self._compare(data)
        return data

    def _require_unchanged(self, seen: str) -> None:
        stored = LearnedResponse.objects.filter(pk=self.instance.pk or 0).first()
        if stored is not None and seen and stored.updated_at.isoformat() != seen:
            version = stored.versions.first()
            raise forms.ValidationError(
                gettext(
                    "Cette réponse a changé depuis l’ouverture de la page (%(state)s, %(who)s) : « %(answer)s ». "
                    "Notez votre texte, rouvrez la page et reprenez-le si besoin."
                )
                % {
                    "state": stored.get_status_display(),
                    "who": (version and version.made_by) or gettext("automatique"),
                    "answer": Truncator(stored.answer).chars(300),
                }
            )

    def _compare(self, data: dict[str, Any]) -> None:
        agent = data.get("agent") or self.instance.agent
        try:
            similar = find_similar(
                agent=agent,
                questions=[one_line(data["question"]), *data["phrasings"]],
                answer=clean_answer(data["answer"]),
                exclude=self.instance.pk,
            )
        except ApplicationError as error:
            self.not_compared = str(error.public_message)
            return
        if similar:
            raise forms.ValidationError(
                [
                    *map(similar_text, similar),
                    gettext("Modifiez la réponse existante, ou cochez « Enregistrer malgré une réponse proche »."),
                ]
            )


class ImportFaqsForm(forms.Form):
    agent = forms.ModelChoiceField(
        label=_("Agent"), queryset=Agent.objects.order_by("name"), widget=UnfoldAdminSelectWidget
    )
    file = forms.FileField(label=_("Fichier CSV"), widget=UnfoldAdminFileFieldWidget)

    def __init__(self, *args: Any, agents: QuerySet[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agent"].queryset = agents  # type: ignore[attr-defined]
        self.fields["file"].help_text = gettext(
            "Colonnes « question », « answer » (ou « réponse ») et « category » (ou « catégorie ») ; "
            "%(size)s et %(rows)d lignes au plus. Plusieurs formulations : une par ligne dans la cellule de la "
            "question. Rien n’est écrit avant l’aperçu, où vous choisissez ce que le fichier remplace."
        ) % {"size": filesizeformat(settings.FAQ_MAX_IMPORT_BYTES), "rows": settings.FAQ_MAX_IMPORT_ROWS}

    def clean_file(self) -> "UploadedFile[bytes]":
        file: UploadedFile[bytes] = self.cleaned_data["file"]
        if (file.size or 0) > settings.FAQ_MAX_IMPORT_BYTES:
            raise forms.ValidationError(
                gettext("Le fichier dépasse %(limit)d octets.") % {"limit": settings.FAQ_MAX_IMPORT_BYTES}
            )
        return file
