"""Pages of the admin for validated answers that are no form of one row: import, draft and approval for a group."""

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from agents.admin_base import admin_url
from agents.exceptions import ApplicationError
from agents.models import Agent
from faqs.exchange import ImportReport, import_csv
from faqs.forms import ImportFaqsForm
from faqs.models import LearnedResponse, QuestionGroup
from faqs.unanswered import approve_draft, draft_from_group

#: Refused rows that are named one by one; the others are counted.
SHOWN_FAILURES = 20


@require_http_methods(["GET", "POST"])
def import_faqs(request: HttpRequest) -> HttpResponse:
    """Keep the rows of a file, say what became of them, and leave their indexing to a worker."""
    if not request.user.has_perms(["faqs.add_learnedresponse", "faqs.change_learnedresponse"]):
        raise PermissionDenied
    form = ImportFaqsForm(
        request.POST or None, request.FILES or None, initial={"agent": request.GET.get("agent")}
    )
    if request.method == "POST" and form.is_valid():
        agent = form.cleaned_data["agent"]
        try:
            report = import_csv(agent, form.cleaned_data["file"].read())
        except ApplicationError as error:
            form.add_error("file", str(error.public_message))
        else:
            _tell(request, report)
            return HttpResponseRedirect(
                admin_url(LearnedResponse, "changelist", agent__id__exact=agent.pk)
            )
    return TemplateResponse(
        request,
        "admin/faqs/learnedresponse/import.html",
        {
            **admin.site.each_context(request),
            "opts": LearnedResponse._meta,
            "title": _("Importer des réponses validées"),
            "form": form,
            "has_agents": Agent.objects.exists(),
            "media": form.media,
        },
    )


def may_draft(request: HttpRequest) -> bool:
    return request.user.has_perms(["faqs.view_questiongroup", "faqs.add_learnedresponse"])


@require_POST
def draft_answer(request: HttpRequest, group_id: int) -> HttpResponse:
    """One click: a draft with the group's questions, opened in the editor."""
    if not may_draft(request):
        raise PermissionDenied
    group = get_object_or_404(
        QuestionGroup.objects.select_related("agent", "response"), pk=group_id
    )
    try:
        response = draft_from_group(
            group, owner=request.user if request.user.is_authenticated else None
        )
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
        return HttpResponseRedirect(admin_url(QuestionGroup, "change", group.pk))
    if request.user.has_perm("faqs.change_learnedresponse"):
        return HttpResponseRedirect(admin_url(LearnedResponse, "change", response.pk))
    messages.success(request, _("Le brouillon est prêt à être relu."))
    return HttpResponseRedirect(admin_url(QuestionGroup, "change", group.pk))


@require_POST
def approve_answer(request: HttpRequest, group_id: int) -> HttpResponse:
    """Make the group's draft valid and lead to the replay of its questions."""
    if not (may_draft(request) and request.user.has_perm("faqs.change_learnedresponse")):
        raise PermissionDenied
    group = get_object_or_404(
        QuestionGroup.objects.select_related("agent", "response"), pk=group_id
    )
    back = HttpResponseRedirect(admin_url(QuestionGroup, "change", group.pk))
    if not approve_draft(group):
        messages.error(request, _("Le brouillon n’a pas encore de réponse : complétez-le d’abord."))
        return back
    messages.success(request, _("La réponse est validée."))
    if request.user.has_perm("chat.view_turn"):
        return HttpResponseRedirect(admin_url("chat.turn", "replay_group", group.pk))
    return back


def _tell(request: HttpRequest, report: ImportReport) -> None:
    messages.success(
        request,
        _("%(created)d ajoutées, %(updated)d mises à jour, %(unchanged)d inchangées.")
        % {
            "created": report.created,
            "updated": report.updated,
            "unchanged": report.unchanged,
        },
    )
    for failure in report.failed[:SHOWN_FAILURES]:
        messages.error(
            request,
            _("Ligne %(line)d : %(reason)s")
            % {"line": failure["line"], "reason": failure["reason"]},
        )
    if (more := len(report.failed) - SHOWN_FAILURES) > 0:
        messages.error(request, _("Et %(count)d autres lignes refusées.") % {"count": more})
