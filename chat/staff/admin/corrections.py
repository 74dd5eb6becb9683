"""« Corriger »: one page from a wrong answer to a right one, and to its proof."""

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from agents.admin_base import admin_page, admin_url, badge, database_keys, require, signed_in
from agents.errors import ApplicationError
from agents.roles import visible
from chat.models import Feedback, Turn, TurnStatus, Verdict
from chat.staff.admin.simulator import linked_sources, prose, prose_of, source_badge
from chat.staff.corrections import Correction, NothingToCorrectError, close_what_it_answers, prove
from chat.thread.messages import exchange_of
from faqs.models import LearnedResponse

RIGHTS = ("chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse")
#: Withdrawn answers named on the page of the proof.
_FOUND = 5


class CorrectionForm(forms.Form):
    """The question and the answer as they will be kept."""

    question = forms.CharField(
        label=gettext_lazy("Question"),
        widget=UnfoldAdminTextInputWidget,
        help_text=gettext_lazy("Une question qui se comprend seule."),
    )
    answer = forms.CharField(
        label=gettext_lazy("La bonne réponse"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8}),
        help_text=gettext_lazy("C’est ce texte qui sera donné."),
    )
    #: The number of the passage that the text was taken from.
    taken = forms.IntegerField(required=False, widget=forms.HiddenInput)


def may_correct(request: HttpRequest) -> bool:
    return request.user.has_perms(RIGHTS)


def correction_address(request: HttpRequest, turn: Turn) -> str:
    """Where this turn is corrected; empty where it may not be, or has nothing to correct."""
    is_open = turn.status == TurnStatus.DONE and may_correct(request)
    return admin_url(Turn, "correct", turn.pk) if is_open else ""


@require_http_methods(["GET", "POST"])
def correct_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponse:
    """The page of one turn; `saved` names the validated answer whose proof is shown."""
    require(request, *RIGHTS)
    turns = Turn.objects.select_related("conversation__deployment__agent", "feedback")
    turn = get_object_or_404(visible(request, turns), pk=turn_id)
    try:
        correction = Correction.of(turn)
    except NothingToCorrectError as error:
        messages.error(request, str(error.public_message))
        return HttpResponseRedirect(admin_url(Turn, "change", turn.pk))
    require(request, row=correction.agent)
    saved = database_keys(request.GET.getlist("saved")) if request.method == "GET" else []
    if (row := LearnedResponse.objects.filter(pk__in=saved, agent=correction.agent).first()) is not None:
        return _proof_page(request, correction, row)
    passages = linked_sources(correction.passages())
    start = {"question": correction.question, "answer": correction.answer}
    if "take" in request.POST:
        form = CorrectionForm(initial=_with_passage(request, passages))
    else:
        form = CorrectionForm(request.POST or None, initial=start)
        if form.is_valid() and (row := _save(request, correction, form, passages)) is not None:
            return HttpResponseRedirect(admin_url(Turn, "correct", turn.pk, saved=row.pk))
    _asked, answered = exchange_of(turn)
    feedback: Feedback | None = getattr(turn, "feedback", None)
    return admin_page(
        request,
        "admin/chat/turn/correct.html",
        model=Turn,
        title=_("Corriger"),
        form=form,
        correction=correction,
        given=prose_of(answered) if answered else "",
        badge=source_badge(turn),
        feedback=feedback,
        verdict=verdict_badge(feedback) if feedback else "",
        passages=passages,
        why_url=admin_url(Turn, "change", turn.pk),
    )


def _with_passage(request: HttpRequest, passages: list[dict[str, Any]]) -> dict[str, Any]:
    """What stands in the fields, with the text of the chosen passage in the place of the answer."""
    typed: dict[str, Any] = {name: request.POST.get(name, "") for name in ("question", "answer")}
    chosen = (each for each in passages if str(each["n"]) == request.POST["take"])
    return typed | next(({"answer": each["text"], "taken": each["n"]} for each in chosen), {})


def _save(
    request: HttpRequest, correction: Correction, form: CorrectionForm, passages: list[dict[str, Any]]
) -> LearnedResponse | None:
    data, by = form.cleaned_data, signed_in(request)
    taken = next((each for each in passages if each["n"] == data["taken"]), None)
    try:
        row = correction.keep(question=data["question"], answer=data["answer"], owner=by, taken=taken)
        _given, is_right = prove(correction.turn, row)
        if is_right:
            close_what_it_answers(correction.turn, row, by)
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
        return None
    return row


def _proof_page(request: HttpRequest, correction: Correction, row: LearnedResponse) -> HttpResponse:
    """The question is asked again, now and each time the page is opened; a dry run."""
    given, is_right = prove(correction.turn, row)
    feedback: Feedback | None = getattr(correction.turn, "feedback", None)
    entries = row.superseded_entries.defer("embedding").select_related("deployment")[:_FOUND]
    withdrawn = [*entries, *row.superseded_answers.all()[:_FOUND]]
    others = visible(request, Feedback.objects.open()).exclude(turn=correction.turn)
    following = others.order_by("updated_at").first()
    return admin_page(
        request,
        "admin/chat/turn/corrected.html",
        model=Turn,
        title=_("Corrigée"),
        turn=correction.turn,
        row=row,
        given=given,
        is_right=is_right,
        prose=prose(given.result.answer.text, (), key="proof"),
        withdrawn=[(each, admin_url(type(each), "change", each.pk)) for each in withdrawn],
        verdict=verdict_badge(feedback) if feedback else "",
        feedback=feedback,
        row_url=admin_url(LearnedResponse, "change", row.pk)
        if request.user.has_perm("faqs.view_learnedresponse")
        else "",
        next_url=admin_url(Turn, "correct", following.turn_id) if following else "",
        again_url=admin_url(Turn, "correct", correction.turn.pk),
    )


def verdict_badge(given: Feedback) -> SafeString:
    if given.withdrawn_at is not None:
        text = _("%(verdict)s, retiré") % {"verdict": given.get_verdict_display()}
        return badge(text)
    return badge(given.get_verdict_display(), "good" if given.verdict == Verdict.UP else "bad")
