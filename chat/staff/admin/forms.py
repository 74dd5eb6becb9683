"""Forms of the admin for conversations: correct an answer, replay a group of questions."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from agents.models import Agent, Deployment
from faqs.answers import check_texts, clean_answer, one_line
from faqs.errors import AnswerRejectedError


class CorrectionForm(forms.Form):
    """The question and the answer as they will be kept, and what staff look for meanwhile."""

    question = forms.CharField(
        label=_("Question"), widget=UnfoldAdminTextInputWidget, help_text=_("Une question qui se comprend seule.")
    )
    answer = forms.CharField(
        label=_("La bonne réponse"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8}),
        help_text=_("Écrivez-la, ou reprenez le texte d’un passage : c’est ce texte qui sera donné."),
    )
    golden = forms.BooleanField(
        label=_("Garder comme question de référence"),
        required=False,
        initial=True,
        help_text=_("Elle pourra être posée de nouveau avant et après un changement."),
        widget=UnfoldBooleanWidget,
    )
    #: What the page showed that this answer withdraws: what is not among it is shown before it is saved.
    shown = forms.CharField(required=False, widget=forms.HiddenInput)
    #: The number of the passage that the text was taken from.
    taken = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if self.errors:
            return data
        data["question"], data["answer"] = one_line(data["question"]), clean_answer(data["answer"])
        try:
            check_texts(data["question"], data["answer"])
        except AnswerRejectedError as error:
            raise forms.ValidationError(str(error.public_message)) from error
        return data


class ReplayForm(forms.Form):
    deployment = forms.ModelChoiceField(
        label=_("Déploiement"), queryset=Deployment.objects.none(), widget=UnfoldAdminSelectWidget
    )

    def __init__(self, *args: Any, agent: Agent, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["deployment"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  # declared above
        field.queryset = Deployment.objects.filter(agent=agent).order_by("name")
        field.initial = field.queryset.first()


class RefusalsForm(forms.Form):
    """What to look for among the stored answers that were refused."""

    text = forms.CharField(
        label=_("Dans une question ou un motif"),
        required=False,
        max_length=200,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Par exemple une année, un nom, ou « négation »."),
    )
    step = forms.ChoiceField(
        label=_("Voie"),
        required=False,
        choices=[("", _("Toutes")), ("memory_guard", _("Mémoire")), ("direct_answer", _("Réponse directe"))],
        widget=UnfoldAdminSelectWidget,
    )
