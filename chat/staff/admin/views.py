"""Pages of the admin around conversations: refused answers, an answer made a validated one, questions asked again."""

import uuid

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents.admin_base import admin_page, admin_url, require, signed_in
from agents.exceptions import ApplicationError
from chat.models import Turn
from chat.staff.admin.forms import RefusalsForm, ReplayForm, ValidateAnswerForm
from chat.staff.corrections import Correction, NothingToCorrectError
from chat.staff.quality.replay import replay
from chat.staff.refusals import recent_refusals
from faqs.answers.duplicates import near_memory_texts
from faqs.models import LearnedResponse, QuestionGroup
from faqs.unanswered import group_texts, mark_answered


@require_http_methods(["GET"])
def refusals(request: HttpRequest) -> HttpResponse:
    """The stored answers that came near and were not given, each with its reason."""
    require(request, "chat.view_turn")
    form = RefusalsForm(request.GET or None)
    wanted = form.cleaned_data if form.is_valid() else {}
    found = recent_refusals(text=wanted.get("text", ""), step=wanted.get("step", ""))
    return admin_page(
        request,
        "admin/chat/turn/refusals.html",
        model=Turn,
        title=_("Réponses refusées"),
        form=form,
        limit=settings.REFUSALS_MAX_TURNS,
        refusals=[(each, admin_url(Turn, "change", each.turn_id)) for each in found],
    )


@require_http_methods(["GET", "POST"])
def learn_from_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponse:
    """Show the exchange, let staff correct the answer, and keep it as a validated answer of the agent."""
    require(request, "chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse")
    turn = get_object_or_404(
        Turn.objects.select_related("conversation__deployment__agent"), pk=turn_id
    )
    try:
        correction = Correction.of(turn)
    except NothingToCorrectError as error:
        messages.error(request, str(error.public_message))
        return HttpResponseRedirect(admin_url(Turn, "change", turn.pk))
    known = correction.known
    form = ValidateAnswerForm(
        request.POST or None,
        agent=correction.agent,
        learned_id=known.pk if known else None,
        initial={"question": correction.question, "answer": correction.answer},
    )
    if request.method == "POST" and form.is_valid():
        try:
            response = correction.keep(
                question=form.cleaned_data["question"],
                answer=form.cleaned_data["answer"],
                owner=signed_in(request),
            )
        except ApplicationError as error:
            form.add_error(None, str(error.public_message))
        else:
            messages.success(request, _("La réponse est validée et donnée dès maintenant."))
            near = near_memory_texts(response.agent, [response.question], response.answer)
            for text in (*form.advice, *near):
                messages.warning(request, text)
            return HttpResponseRedirect(_answer_or_turn_url(request, response, turn))
    return admin_page(
        request,
        "admin/chat/turn/learn.html",
        model=Turn,
        title=_("Valider en FAQ"),
        form=form,
        turn=turn,
        agent=correction.agent,
        known=known,
    )


@require_http_methods(["GET", "POST"])
def replay_group(request: HttpRequest, group_id: int) -> HttpResponse:
    """Ask the questions of a group again, on POST, and show which are answered now."""
    require(request, "chat.view_turn", "faqs.view_questiongroup")
    group = get_object_or_404(
        QuestionGroup.objects.select_related("agent", "response"), pk=group_id
    )
    questions = group_texts(group, settings.UNANSWERED_REPLAY_QUESTIONS)
    form = ReplayForm(request.POST or None, agent=group.agent)
    replayed = None
    if request.method == "POST" and form.is_valid():
        replayed = replay(form.cleaned_data["deployment"], questions)
        if all(row.is_answered for row in replayed) and request.user.has_perm(
            "faqs.change_questiongroup"
        ):
            mark_answered(group)
    return admin_page(
        request,
        "admin/chat/turn/replay.html",
        model=QuestionGroup,
        title=_("Rejouer les questions"),
        form=form,
        group=group,
        questions=questions,
        replayed=replayed,
        answered=sum(row.is_answered for row in replayed or ()),
        group_url=admin_url(QuestionGroup, "change", group.pk),
    )


def _answer_or_turn_url(request: HttpRequest, response: LearnedResponse, turn: Turn) -> str:
    if request.user.has_perm("faqs.view_learnedresponse"):
        return admin_url(LearnedResponse, "change", response.pk)
    return admin_url(Turn, "change", turn.pk)
