"""Forms of the admin for conversations: make a message a validated answer, replay a group of questions."""

from typing import Any

from django import forms
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from agents.exceptions import ApplicationError
from agents.models import Agent, Deployment
from faqs.answers.duplicates import find_similar, similar_text
from faqs.answers.texts import check_texts, clean_answer, one_line
from faqs.exceptions import AnswerRejectedError


class ValidateAnswerForm(forms.Form):
    """The question and the answer of a message, as they will be kept."""

    question = forms.CharField(
        label=_("Question"),
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Une question qui se comprend seule."),
    )
    answer = forms.CharField(
        label=_("Réponse"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 10}),
        help_text=_("Corrigez-la si besoin : c’est ce texte qui sera donné."),
    )
    save_anyway = forms.BooleanField(
        label=_("Enregistrer malgré une réponse proche"), required=False, widget=UnfoldBooleanWidget
    )

    def __init__(
        self, *args: Any, agent: Agent, learned_id: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.agent, self.learned_id = agent, learned_id
        #: Near questions whose answers may contradict this one: said after it is saved, and stops nothing.
        self.advice: list[SafeString] = []

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if self.errors:
            return data
        question, answer = one_line(data["question"]), clean_answer(data["answer"])
        try:
            check_texts(question, answer)
        except AnswerRejectedError as error:
            raise forms.ValidationError(str(error.public_message)) from error
        if not data["save_anyway"]:
            self._compare(question, answer)
        return data

    def _compare(self, question: str, answer: str) -> None:
        try:
            similar = find_similar(
                agent=self.agent, questions=[question], answer=answer, exclude=self.learned_id
            )
        except ApplicationError:
            return  # the answer is kept whatever the state of the vector store
        same = [similar_text(each) for each in similar if each.asks_the_same]
        self.advice = [similar_text(each) for each in similar if not each.asks_the_same]
        if same:
            raise forms.ValidationError(
                [
                    *same,
                    *self.advice,
                    gettext(
                        "Modifiez la réponse existante, ou cochez « Enregistrer malgré une réponse proche »."
                    ),
                ]
            )


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
        choices=[
            ("", _("Toutes")),
            ("memory_guard", _("Mémoire")),
            ("direct_answer", _("Réponse directe")),
        ],
        widget=UnfoldAdminSelectWidget,
    )
