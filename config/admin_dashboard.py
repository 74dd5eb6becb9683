"""The first page of the admin: where to begin, and what waits for a person.

Each line is one count, shown to who may open the list behind it. Nothing is computed that a list would not show.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.admin_base import admin_url
from agents.llm.base import language_model
from agents.models import Agent, Deployment
from agents.processes.heartbeat import worker_state
from agents.processes.telling import Background, background
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
from knowledge.indexing.jobs.queue import waiting_seconds
from knowledge.models import (
    FAILURES,
    BuildStatus,
    Chunk,
    Document,
    DocumentStatus,
    IndexBuild,
    WebSource,
)

#: What counts as recent for the questions that were refused or failed.
RECENT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Watch:
    """Rows that staff act on: how their list is asked for them, and which they are where that is no plain filter."""

    title: str | Promise
    model: type[Model]
    shown: Mapping[str, str]
    rows: Callable[[], QuerySet[Any]] | None = None
    #: Of what only a language model can do something about.
    needs_model: bool = False

    def is_for(self, request: HttpRequest) -> bool:
        if self.needs_model and language_model() is None:
            return False
        return request.user.has_perm(self.model._meta.label_lower.replace(".", ".view_"))

    def count(self) -> int:
        rows = self.rows() if self.rows else self.model._default_manager.filter(**self.shown)
        return rows.count()

    def address(self) -> str:
        return admin_url(self.model, "changelist", **self.shown)


def _recent_turns(**conditions: str) -> Callable[[], QuerySet[Turn]]:
    return lambda: Turn.objects.filter(started_at__gte=timezone.now() - RECENT, **conditions)


WATCHED: tuple[Watch, ...] = (
    Watch(_("Documents en échec"), Document, {"status__exact": DocumentStatus.FAILED}),
    Watch(
        _("Pages du web disparues"),
        Document,
        {"page__state__in": "gone,left"},
        lambda: Document.objects.filter(page__state__in=("gone", "left")),
    ),
    Watch(
        _("Adresses du web en échec"),
        WebSource,
        {"is_active__exact": "1", "o": "2"},
        lambda: WebSource.objects.filter(is_active=True).exclude(error=""),
    ),
    Watch(
        _("Passages en attente de questions"),
        Chunk,
        {"units_origin__exact": "waiting"},
        lambda: Chunk.objects.waiting(),
        needs_model=True,
    ),
    Watch(_("Indexations en attente"), IndexBuild, {"status__exact": BuildStatus.QUEUED}),
    Watch(_("Indexations en cours"), IndexBuild, {"status__exact": BuildStatus.RUNNING}),
    Watch(
        _("Indexations en échec"),
        IndexBuild,
        {"status__in": ",".join(FAILURES)},
        lambda: IndexBuild.objects.filter(status__in=FAILURES),
    ),
    Watch(
        _("Réponses validées à revoir"), LearnedResponse, {"status__exact": LearnedStatus.TO_REVIEW}
    ),
    Watch(
        _("Réponses validées en échec d’indexation"),
        LearnedResponse,
        {"index_state__exact": IndexState.FAILED},
    ),
    Watch(
        _("Questions sans réponse à traiter"), QuestionGroup, {"status__exact": GroupStatus.OPEN}
    ),
    Watch(
        _("Choix entre questions proches à relire"),
        OptionChoice,
        {"status__exact": ChoiceStatus.OPEN},
    ),
    Watch(
        _("Questions refusées par le garde-fou, 7 jours"),
        Turn,
        {"answer_source__exact": AnswerSource.GUARD_RAIL},
        _recent_turns(answer_source=AnswerSource.GUARD_RAIL),
    ),
    Watch(
        _("Réponses en échec, 7 jours"),
        Turn,
        {"status__exact": TurnStatus.FAILED},
        _recent_turns(status=TurnStatus.FAILED),
    ),
)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Fill the first page (the setting `UNFOLD` names this function)."""
    return {
        **context,
        "watched": [
            (watch.title, watch.count(), watch.address())
            for watch in WATCHED
            if watch.is_for(request)
        ],
        "background": _background(request),
        "first_steps": _first_steps(request),
        "has_language_model": language_model() is not None,
    }


def _background(request: HttpRequest) -> Background | None:
    """The worker, and what it last looked after, for whoever may look at its jobs."""
    if not request.user.has_perm("knowledge.view_indexbuild"):
        return None
    return background(worker_state(), waiting_seconds(), settings.WORKER_SILENT_SECONDS)


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
