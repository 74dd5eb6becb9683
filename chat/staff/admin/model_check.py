"""« Vérifier le modèle »: what the language model can be trusted with, as the last check found it."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from agents.admin_base import admin_page, require, signed_in
from agents.jobs import enqueue
from agents.llm.base import language_model
from agents.models import OPEN_JOBS, Job, JobKind, RuntimeSettings
from chat.staff.model_check import told

_REFRESH_SECONDS = 3


@require_http_methods(["GET", "POST"])
def model_check(request: HttpRequest) -> HttpResponse:
    """The last check, row by row; on POST a worker makes another."""
    require(request, "agents.change_runtimesettings")
    if request.method == "POST":
        enqueue(JobKind.MODEL_CHECK, key="model", by=signed_in(request))
        return HttpResponseRedirect(request.path)
    job = Job.objects.filter(kind=JobKind.MODEL_CHECK).order_by("-pk").first()
    return admin_page(
        request,
        "admin/agents/runtimesettings/model_check.html",
        model=RuntimeSettings,
        title=gettext("Vérifier le modèle de langage"),
        has_model=language_model() is not None,
        job=job,
        rows=told(job.report) if job else [],
        refresh_seconds=_REFRESH_SECONDS if job and job.status in OPEN_JOBS else 0,
    )
