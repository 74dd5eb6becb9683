"""The first page of the admin: where to begin, and what waits for a person.

Each line is one count, shown to who may open the list behind it. Nothing is computed that a list would not show.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.admin_base import admin_url
from agents.llm.base import language_model
from agents.models import Agent, Deployment
from chat.models import AnswerSource, Turn, TurnStatus
from faqs.models import (
    ChoiceStatus,
    GroupStatus,
    IndexState,
    LearnedResponse,
    LearnedStatus,
    OptionChoice,
    QuestionGroup,
)
from knowledge.models import BuildStatus, Chunk, Document, DocumentStatus, IndexBuild, WebSource

#: What counts as recent for the questions that were refused or failed.
RECENT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Watch:
    """A count that staff act on, and the list that shows its rows."""

    title: str | Promise
    permission: str
    count: Callable[[], int]
    address: Callable[[], str]


def _recent_turns(**conditions: str) -> Callable[[], int]:
    return lambda: Turn.objects.filter(
        started_at__gte=timezone.now() - RECENT, **conditions
    ).count()


WATCHED: tuple[Watch, ...] = (
    Watch(
        _("Documents en échec"),
        "knowledge.view_document",
        lambda: Document.objects.filter(status=DocumentStatus.FAILED).count(),
        lambda: admin_url(Document, "changelist", status__exact="failed"),
    ),
    Watch(
        _("Pages du web disparues"),
        "knowledge.view_document",
        lambda: Document.objects.filter(page__state__in=("gone", "left")).count(),
        lambda: admin_url(Document, "changelist", page__state__in="gone,left"),
    ),
    Watch(
        _("Adresses du web en échec"),
        "knowledge.view_websource",
        lambda: WebSource.objects.filter(is_active=True).exclude(error="").count(),
        lambda: admin_url(WebSource, "changelist", is_active__exact="1", o="2"),
    ),
    Watch(
        _("Passages en attente de questions"),
        "knowledge.view_chunk",
        lambda: Chunk.objects.waiting().count(),
        lambda: admin_url(Chunk, "changelist", units_origin__exact="waiting"),
    ),
    Watch(
        _("Indexations en cours"),
        "knowledge.view_indexbuild",
        lambda: IndexBuild.objects.filter(status=BuildStatus.RUNNING).count(),
        lambda: admin_url(IndexBuild, "changelist", status__exact="running"),
    ),
    Watch(
        _("Indexations en échec"),
        "knowledge.view_indexbuild",
        lambda: IndexBuild.objects.filter(status=BuildStatus.FAILED).count(),
        lambda: admin_url(IndexBuild, "changelist", status__exact="failed"),
    ),
    Watch(
        _("Réponses validées à revoir"),
        "faqs.view_learnedresponse",
        lambda: LearnedResponse.objects.filter(status=LearnedStatus.TO_REVIEW).count(),
        lambda: admin_url(LearnedResponse, "changelist", status__exact="to_review"),
    ),
    Watch(
        _("Réponses validées en échec d’indexation"),
        "faqs.view_learnedresponse",
        lambda: LearnedResponse.objects.filter(index_state=IndexState.FAILED).count(),
        lambda: admin_url(LearnedResponse, "changelist", index_state__exact="failed"),
    ),
    Watch(
        _("Questions sans réponse à traiter"),
        "faqs.view_questiongroup",
        lambda: QuestionGroup.objects.filter(status=GroupStatus.OPEN).count(),
        lambda: admin_url(QuestionGroup, "changelist", status__exact="open"),
    ),
    Watch(
        _("Choix entre questions proches à relire"),
        "faqs.view_optionchoice",
        lambda: OptionChoice.objects.filter(status=ChoiceStatus.OPEN).count(),
        lambda: admin_url(OptionChoice, "changelist", status__exact="open"),
    ),
    Watch(
        _("Questions refusées par le garde-fou, 7 jours"),
        "chat.view_turn",
        _recent_turns(answer_source=AnswerSource.GUARD_RAIL),
        lambda: admin_url(Turn, "changelist", answer_source__exact="guard_rail"),
    ),
    Watch(
        _("Réponses en échec, 7 jours"),
        "chat.view_turn",
        _recent_turns(status=TurnStatus.FAILED),
        lambda: admin_url(Turn, "changelist", status__exact="failed"),
    ),
)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Fill the first page (the setting `UNFOLD` names this function)."""
    return {
        **context,
        "watched": [
            (watch.title, watch.count(), watch.address())
            for watch in WATCHED
            if request.user.has_perm(watch.permission)
        ],
        "first_steps": _first_steps(request),
        "has_language_model": language_model() is not None,
    }


def _first_steps(request: HttpRequest) -> list[tuple[str | Promise, str, bool]]:
    """What a new site still needs, in order; nothing once all of it is there."""
    steps: list[tuple[str | Promise, str, str, bool]] = [
        (
            _("Créer un agent"),
            admin_url(Agent, "add"),
            "agents.add_agent",
            Agent.objects.exists(),
        ),
        (
            _("Lui donner des documents"),
            admin_url(Document, "add"),
            "knowledge.add_document",
            Document.objects.exists(),
        ),
        (
            _("Le proposer à une adresse (un déploiement)"),
            admin_url(Deployment, "add"),
            "agents.add_deployment",
            Deployment.objects.exists(),
        ),
    ]
    shown = [
        (title, address, done)
        for title, address, permission, done in steps
        if request.user.has_perm(permission)
    ]
    return shown if any(not done for _title, _address, done in shown) else []
