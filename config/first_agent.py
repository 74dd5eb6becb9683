"""The first agent in one page: its name and documents, their reading, a question to try, and its publication."""

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from agents.admin.deployments import FIRST_AGENT_RIGHTS
from agents.admin_base import REFRESH_SECONDS, admin_page, admin_url, database_keys, require, require_no_limit
from agents.errors import ApplicationError
from agents.models import Agent, Audience, Deployment
from chat.staff.admin.simulator import prose
from chat.staff.simulator import Trial
from knowledge.admin.documents import SeveralFilesField, report_refused, store_uploads
from knowledge.indexing.jobs import enqueue_documents
from knowledge.models import Document, DocumentStatus


class BeginForm(forms.ModelForm[Deployment]):
    audience = forms.ChoiceField(
        label=gettext_lazy("Public"), choices=Audience.choices[:2], widget=UnfoldAdminSelectWidget
    )
    uploads = SeveralFilesField(
        label=gettext_lazy("Documents"), help_text=gettext_lazy("PDF, DOCX, PPTX, XLSX, HTML, Markdown, texte ou CSV.")
    )

    class Meta:
        model, fields = Deployment, ("name", "audience", "welcome")
        labels: ClassVar = {"name": gettext_lazy("Nom du guichet")}
        help_texts: ClassVar = {"name": gettext_lazy("Celui que vos visiteurs verront : « Guide du personnel ».")}
        widgets: ClassVar = {
            "name": UnfoldAdminTextInputWidget,
            "welcome": UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        }


class QuestionForm(forms.Form):
    question = forms.CharField(
        label=gettext_lazy("Une question que l’on vous pose"),
        max_length=2_000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
    )


@require_http_methods(["GET", "POST"])
def first_agent(request: HttpRequest) -> HttpResponse:
    """`deployment` names what the first step made; without it, the page begins."""
    require(request, *FIRST_AGENT_RIGHTS)
    require_no_limit(request)
    if not (key := request.GET.get("deployment", "")):
        return _begin(request)
    deployment = get_object_or_404(Deployment.objects.select_related("agent"), pk__in=database_keys([key]))
    if request.method == "POST" and "publish" in request.POST:
        deployment.is_active = True
        deployment.save(update_fields=["is_active"])
        messages.success(request, _("La page est publiée."))
        return HttpResponseRedirect(request.get_full_path())
    form = QuestionForm(request.POST or None)
    read = _reading(deployment.agent)
    return _page(request, deployment=deployment, form=form, **read, **_tried(request, deployment, form))


def _begin(request: HttpRequest) -> HttpResponse:
    # Nobody reads it before it is published.
    form = BeginForm(request.POST or None, request.FILES or None, instance=Deployment(is_active=False))
    if request.method != "POST" or not form.is_valid():
        return _page(request, form=form)
    deployment = form.save(commit=False)
    deployment.slug = _free_slug(deployment.name)
    with transaction.atomic():
        deployment.agent = agent = Agent.objects.create(slug=deployment.slug, name=deployment.name)
        deployment.save()
    due, _unchanged, report = store_uploads(agent=agent, files=form.cleaned_data["uploads"], category=None)
    report_refused(request, report)
    if due:
        enqueue_documents(agent=agent, document_ids=[document.pk for document in due])
    return HttpResponseRedirect(f"{request.path}?deployment={deployment.pk}")


def _free_slug(name: str) -> str:
    """Of the name, with a number where it is taken."""
    base = slugify(name)[:70] or "agent"
    taken = {slug for model in (Agent, Deployment) for slug in model.objects.values_list("slug", flat=True)}
    return next(slug for slug in (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3))) if slug not in taken)


def _reading(agent: Agent) -> dict[str, Any]:
    """The documents, whether all are done with, and whether one can be asked."""
    documents = list(Document.objects.filter(agent=agent).order_by("name"))
    states = [document.status for document in documents]
    return {
        "documents": documents,
        "refresh_seconds": 0 if {DocumentStatus.INDEXED, DocumentStatus.FAILED}.issuperset(states) else REFRESH_SECONDS,
        "is_ready": DocumentStatus.INDEXED in states,
    }


def _tried(request: HttpRequest, deployment: Deployment, form: QuestionForm) -> dict[str, Any]:
    if not form.is_valid():
        return {}
    try:
        result = Trial(deployment, form.cleaned_data["question"]).answer().result
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
        return {}
    if result.error is not None:
        messages.error(request, str(result.error.public_message))
    return {"answer": prose(result.answer.text, result.answer.sources, key="try"), "sources": result.answer.sources}


def _page(request: HttpRequest, **context: Any) -> HttpResponse:
    deployment: Deployment | None = context.get("deployment")
    if deployment is not None:
        context["public_page"] = request.build_absolute_uri(reverse("chat-deployment", args=[deployment.slug]))
        context["add_url"] = admin_url(Document, "add", agent=deployment.agent_id)
    return admin_page(request, "admin/first_agent.html", model=Deployment, title=_("Ajouter un guichet"), **context)
