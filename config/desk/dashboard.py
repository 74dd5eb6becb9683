"""The first page of the admin: where to begin, and today's work (`config.desk.todays_work`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin.deployments import FIRST_AGENT_RIGHTS
from agents.admin_base import admin_url, duration_text, missing_text, moment_text
from agents.jobs import WorkerState, waiting_seconds, worker_state
from agents.llm.base import language_model
from agents.models import Agent, Deployment, Job, JobKind, JobStatus
from agents.roles import limit_of
from chat.models import Turn
from config.desk.todays_work import lines_for, passages_without_questions
from knowledge.models import Document


@dataclass(frozen=True, slots=True)
class Background:
    """The work behind the pages. `alarm` is empty where all is well; `lines` say what lives, and what last ran."""

    alarm: str
    lines: tuple[str, ...]


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Fill the first page (the setting `UNFOLD` names this function)."""
    told = _background(request)
    return {
        **context,
        "work": lines_for(request, told.alarm if told else ""),
        "without_questions": passages_without_questions(request),
        "background": told,
        "first_steps": _first_steps(request),
        "figures": admin_url(Turn, "figures") if request.user.has_perm("chat.view_figures") else "",
        "guided_url": _guided_url(request),
        "has_language_model": language_model() is not None,
    }


def _background(request: HttpRequest) -> Background | None:
    """The worker, and what it last looked after, for whoever may look at its jobs."""
    if not request.user.has_perm("knowledge.view_indexbuild"):
        return None
    return background(worker_state(), waiting_seconds(), settings.WORKER_SILENT_SECONDS)


def _guided_url(request: HttpRequest) -> str:
    """The page that does the first steps one after the other, for who may do all of them."""
    may = request.user.has_perms(FIRST_AGENT_RIGHTS) and limit_of(request.user) is None
    return reverse("admin-first-agent") if may else ""


def _first_steps(request: HttpRequest) -> list[tuple[str | Promise, str, bool]]:
    """What a new site still needs, in order; nothing once all of it is there."""
    steps: tuple[tuple[str | Promise, type[Model]], ...] = (
        (_("Créer un agent"), Agent),
        (_("Lui donner des documents"), Document),
        (_("Le proposer à une adresse (un déploiement)"), Deployment),
    )
    shown = [
        (title, admin_url(model, "add"), model._default_manager.exists())
        for title, model in steps
        if request.user.has_perm(model._meta.label_lower.replace(".", ".add_"))
    ]
    return [] if all(done for _title, _address, done in shown) else shown


# --- The work behind the pages, in words -----------------------------------------------------------------------------


def background(workers: WorkerState, waiting_seconds: float, patience: float) -> Background:
    """What the first page says. A site that never had a worker, and where nothing waits longer than `patience`, is no
    alarm.
    """
    is_waited_for = waiting_seconds > patience
    alarm = ""
    if workers.state == "silent" or (workers.state == "never" and is_waited_for):
        alarm = missing_text(workers)
        if is_waited_for:
            waited = gettext("Le plus ancien travail attend depuis %(since)s.")
            alarm = f"{alarm} {waited % {'since': duration_text(waiting_seconds)}}"
    kinds = (JobKind.RECOVER, JobKind.RETENTION)
    runs = {row.kind: row for row in Job.objects.filter(kind__in=kinds).order_by("pk")}
    maintenance = (_recovery_text(runs.get(JobKind.RECOVER)), _retention_text(runs.get(JobKind.RETENTION)))
    lines = [*map(_worker_text, workers.alive), *maintenance]
    return Background(alarm, tuple(line for line in lines if line))


def _worker_text(worker: Job) -> str:
    text = gettext("%(name)s (%(version)s), démarré le %(moment)s") % {
        "name": worker.key,
        "version": worker.report["version"],
        "moment": moment_text(worker.started_at or worker.created_at),
    }
    running = worker.report["running"]
    tasks = [f"{each['task']} {each['id']}".strip() + f" ({duration_text(each['seconds'])})" for each in running]
    idle = gettext("rien à faire")
    return f"{text} : {', '.join(tasks) or idle}"


def _recovery_text(run: Job | None) -> str:
    if run is None or run.finished_at is None:
        return ""
    text = gettext("Travaux abandonnés ou oubliés, cherchés le %(moment)s") % {"moment": moment_text(run.finished_at)}
    if not (found := run.report.get("done")):
        return f"{text}."
    at = moment_text(datetime.fromisoformat(run.report["found_at"]))
    told = gettext("trouvés le %(moment)s : %(done)s") % {"moment": at, "done": _counts(found)}
    return f"{text} ; {told}."


def _retention_text(run: Job | None) -> str:
    if run is None or run.started_at is None:
        return ""
    if run.status == JobStatus.RUNNING or run.finished_at is None:
        return gettext("Nettoyage en cours depuis le %(moment)s.") % {"moment": moment_text(run.started_at)}
    text = gettext("Dernier nettoyage le %(moment)s : %(done)s") % {
        "moment": moment_text(run.finished_at),
        "done": _counts(run.report.get("done", {})),
    }
    names = run.report.get("failed", {})
    if not names:
        return f"{text}."
    failed = ngettext("%(count)d étape en échec", "%(count)d étapes en échec", len(names))
    return f"{text} ; {failed % {'count': len(names)}} ({', '.join(names)})."


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items()) or gettext("rien")
