"""Pages of the admin around conversations: refused answers, and questions asked again."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents.admin_base import admin_page, admin_url, require
from agents.staff.scope import visible
from chat.models import Turn
from chat.staff.admin.forms import RefusalsForm, ReplayForm
from chat.staff.quality.replay import replay
from chat.staff.refusals import REFUSALS_MAX_TURNS, recent_refusals
from faqs.models import QuestionGroup
from faqs.unanswered import group_texts, mark_answered

#: Questions of a group that one replay asks again: each is a whole turn.
UNANSWERED_REPLAY_QUESTIONS = 20


@require_http_methods(["GET"])
def refusals(request: HttpRequest) -> HttpResponse:
    """The stored answers that came near and were not given, each with its reason."""
    require(request, "chat.view_turn")
    form = RefusalsForm(request.GET or None)
    wanted = form.cleaned_data if form.is_valid() else {}
    found = recent_refusals(
        visible(request, Turn.objects.all()), text=wanted.get("text", ""), step=wanted.get("step", "")
    )
    return admin_page(
        request,
        "admin/chat/turn/refusals.html",
        model=Turn,
        title=_("Réponses refusées"),
        form=form,
        limit=REFUSALS_MAX_TURNS,
        refusals=[(each, admin_url(Turn, "change", each.turn_id)) for each in found],
    )


@require_http_methods(["GET", "POST"])
def replay_group(request: HttpRequest, group_id: int) -> HttpResponse:
    """Ask the questions of a group again, on POST, and show which are answered now."""
    require(request, "chat.view_turn", "faqs.view_questiongroup")
    group = get_object_or_404(visible(request, QuestionGroup.objects.select_related("agent", "response")), pk=group_id)
    questions = group_texts(group, UNANSWERED_REPLAY_QUESTIONS)
    form = ReplayForm(request.POST or None, agent=group.agent)
    replayed = None
    if request.method == "POST" and form.is_valid():
        replayed = replay(form.cleaned_data["deployment"], questions)
        if all(row.is_answered for row in replayed) and request.user.has_perm("faqs.change_questiongroup"):
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
