"""The first page of the admin: where to begin, and today's work (`config.desk.todays_work`)."""

from typing import Any

from django.conf import settings
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.admin.deployments import FIRST_AGENT_RIGHTS
from agents.admin_base import admin_url
from agents.llm.base import language_model
from agents.models import Agent, Deployment
from agents.processes.heartbeat import worker_state
from agents.processes.telling import Background, background
from agents.staff.scope import limit_of
from chat.models import Turn
from config.desk.todays_work import lines_for, passages_without_questions
from knowledge.indexing.jobs.queue import waiting_seconds
from knowledge.models import Document


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
