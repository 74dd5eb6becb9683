"""The first page of the admin: where to begin, and what needs a person today, most urgent first.

Each line of today's work has its count, its oldest, and one click to its remedy. It is shown to whoever may act on it,
and only while something waits; it costs one bounded query on an index, and one more where it names its first rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, Max, Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin.deployments import FIRST_AGENT_RIGHTS
from agents.admin_base import Tone, admin_url, duration_text, missing_text, moment_text
from agents.jobs import WorkerState, waiting_seconds, worker_state
from agents.llm.base import language_model
from agents.models import Agent, Deployment, Job, JobKind, JobStatus
from agents.roles import limit_of, visible
from agents.setting_fields import unmeasured_model
from chat.models import Feedback, Message, Role, Turn, TurnStatus
from chat.telemetry import MODEL_SEEN
from faqs.models import (
    CachedResponse,
    GroupStatus,
    IndexState,
    LearnedResponse,
    QuestionGroup,
    UnansweredQuestion,
    UnansweredReason,
)
from faqs.review import answers_to_review, entries_to_review
from knowledge.models import Chunk, Document, DocumentStatus, IndexBuild, PageState, WebSource


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
    """What the first page says. No alarm: a site that never had a worker, and while nothing waits beyond `patience`."""
    is_waited_for = waiting_seconds > patience
    alarm = ""
    if workers.state == "silent" or (workers.state == "never" and is_waited_for):
        alarm = missing_text(workers)
        if is_waited_for:
            waited = gettext("Le plus ancien travail attend depuis %(since)s.")
            alarm = f"{alarm} {waited % {'since': duration_text(waiting_seconds)}}"
    retention = _retention_text(Job.objects.filter(kind=JobKind.RETENTION).order_by("pk").last())
    lines = [*map(_worker_text, workers.alive), retention]
    return Background(alarm, tuple(line for line in lines if line))


def _worker_text(worker: Job) -> str:
    return gettext("%(name)s (%(version)s), démarré le %(moment)s") % {
        "name": worker.key,
        "version": worker.report["version"],
        "moment": moment_text(worker.started_at or worker.created_at),
    }


def _retention_text(run: Job | None) -> str:
    if run is None or run.started_at is None:
        return ""
    if run.status == JobStatus.RUNNING or run.finished_at is None:
        return gettext("Nettoyage en cours depuis le %(moment)s.") % {"moment": moment_text(run.started_at)}
    if run.status == JobStatus.FAILED:
        failed = ngettext("%(count)d étape en échec", "%(count)d étapes en échec", 1) % {"count": 1}
        return f"{run.get_kind_display()}, {moment_text(run.finished_at)} ; {failed} ({run.error})."
    done = ", ".join(f"{name} {count}" for name, count in run.report.get("done", {}).items()) or gettext("rien")
    text = gettext("Dernier nettoyage le %(moment)s : %(done)s") % {
        "moment": moment_text(run.finished_at),
        "done": done,
    }
    names = run.report.get("failed", {})
    if not names:
        return f"{text}."
    failed = ngettext("%(count)d étape en échec", "%(count)d étapes en échec", len(names))
    return f"{text} ; {failed % {'count': len(names)}} ({', '.join(names)})."


#: The front page counts what waits up to here, and says "1,000+" beyond; it names so many rows of each kind itself.
FRONT_PAGE_COUNTED = 1_000
FRONT_PAGE_NAMED = 3

#: How far back failures that nothing repairs are counted: answers, and jobs.
RECENT = timedelta(days=7)
_UNREACHABLE = (PageState.GONE, PageState.LEFT)


@dataclass(frozen=True, slots=True)
class Named:
    """One row that a line names: its words, how often it was asked where that is known, and where it is dealt with."""

    text: str
    address: str
    times: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of work that waits. `count` is empty where there is nothing to count; `remedy` is the word on the link."""

    title: str | Promise
    address: str
    remedy: str | Promise
    tone: Tone
    count: str = ""
    oldest: datetime | None = None
    why: str | Promise = ""
    named: Sequence[Named] = ()

    @property
    def waiting_for(self) -> str:
        """« 3 jours », of the oldest; empty for less than a minute."""
        if self.oldest is None or timezone.now() - self.oldest < timedelta(minutes=1):
            return ""
        return timesince(self.oldest, depth=1)


Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows that make a line. All of `rights` are needed; `since` is the column that says how long rows wait."""

    title: str | Promise
    remedy: str | Promise
    tone: Tone
    rights: tuple[str, ...]
    rows: Callable[[], Rows]
    since: str
    address: Callable[[], str]
    named: Callable[[HttpRequest], Sequence[Named]] | None = None
    why: str | Promise = ""
    #: Whether that column does say how long they wait.
    tells_since: bool = True

    def line(self, request: HttpRequest) -> Line | None:
        if not request.user.has_perms(self.rights):
            return None
        oldest_first = visible(request, self.rows()).order_by(self.since).values_list(self.since, flat=True)
        moments = list(oldest_first[: FRONT_PAGE_COUNTED + 1])
        if not moments:
            return None
        known = [moment for moment in moments if moment is not None and self.tells_since]
        return Line(
            self.title,
            self.address(),
            self.remedy,
            self.tone,
            _capped(len(moments)),
            min(known, default=None),
            self.why,
            self.named(request) if self.named else (),
        )


def _capped(count: int) -> str:
    most = FRONT_PAGE_COUNTED
    return f"{most:,}+".replace(",", "\u202f") if count > most else str(count)


def lines_for(request: HttpRequest, alarm: str) -> list[Line]:
    """What waits for this member of staff; empty when all is done. `alarm`: what is wrong with the workers, if told."""
    waiting = (each.line(request) for each in WAITING)
    lines = (_worker(alarm), _model(request), *waiting, _unmeasured(request))
    return [line for line in lines if line is not None]


# --- What has stopped ------------------------------------------------------------------------------------------------


def _worker(alarm: str) -> Line | None:
    address = admin_url(IndexBuild, "changelist", status__exact=JobStatus.QUEUED)
    title, remedy = _("Le travail de fond est à l’arrêt"), _("Voir ce qui attend")
    return Line(title, address, remedy, "bad", why=alarm) if alarm else None


def _model(request: HttpRequest) -> Line | None:
    """As the answers of this web process found it: asking it would cost what an answer costs."""
    if not request.user.has_perm("chat.view_turn") or language_model() is None:
        return None
    seen = MODEL_SEEN.as_json()
    if seen["status"] != "failing":
        return None
    return Line(
        _("Le modèle de langage ne répond pas"),
        _failed_turns_address(),
        _("Voir les réponses en échec"),
        "bad",
        oldest=timezone.now() - timedelta(seconds=seen["failed_seconds_ago"]),
        why=_("Vérifiez OPENAI_BASE_URL, la clé et le service du modèle ; la raison est sur la page de chaque réponse.")
        + f" ({seen['detail']})",
    )


def _unmeasured(request: HttpRequest) -> Line | None:
    if not request.user.has_perm("knowledge.view_thresholdcalibration"):
        return None
    if not (model := unmeasured_model()):
        return None
    return Line(
        _("Le modèle d’embedding n’a pas de seuils mesurés"),
        admin_url("knowledge.thresholdcalibration", "changelist"),
        _("Calibrages"),
        "warning",
        why=_(
            "%(model)s : sans seuil mesuré, aucune réponse enregistrée n’est donnée d’elle-même. Lancez « manage.py "
            "calibrate_thresholds »."
        )
        % {"model": model},
    )


# --- What waits ------------------------------------------------------------------------------------------------------


def _failed_turns_address() -> str:
    since = (timezone.now() - RECENT).isoformat(timespec="seconds")
    return admin_url(Turn, "changelist", status__exact=TurnStatus.FAILED, started_at__gte=since)


def _reports(request: HttpRequest) -> list[Named]:
    asked = Message.objects.filter(turn=OuterRef("turn"), role=Role.USER, operation_id=None)
    oldest = visible(request, Feedback.objects.to_correct()).order_by("updated_at")
    rows = oldest.annotate(asked=Subquery(asked.values("content")[:1]))
    found = rows.values_list("turn_id", "asked")[:FRONT_PAGE_NAMED]
    return [Named(text or "–", admin_url(Turn, "correct", turn)) for turn, text in found]


def _open_groups() -> Rows:
    # A reported answer is a line of its own: its question alone makes no group that waits here.
    asked = UnansweredQuestion.objects.filter(group=OuterRef("pk"), reason=UnansweredReason.REFUSED)
    return QuestionGroup.objects.filter(Exists(asked), status=GroupStatus.OPEN)


def _most_asked(request: HttpRequest) -> list[Named]:
    """How many questions there are is bounded (`UNANSWERED_MAX_QUESTIONS`)."""
    refused = UnansweredQuestion.objects.filter(reason=UnansweredReason.REFUSED)
    asked = refused.filter(group__status=GroupStatus.OPEN, answered_by=None)
    counted = visible(request, asked).order_by().values("group", "group__question")
    most = counted.annotate(times=Count("pk"), last=Max("asked_at")).order_by("-times", "-last")
    return [
        Named(row["group__question"], admin_url(QuestionGroup, "change", row["group"]), row["times"])
        for row in most[:FRONT_PAGE_NAMED]
    ]


def _failed_builds() -> Rows:
    """Of the last days, and not made up for: no later job of the same kind and agent has ended well."""
    later = IndexBuild.objects.filter(
        agent=OuterRef("agent"), kind=OuterRef("kind"), created_at__gt=OuterRef("created_at"), status=JobStatus.DONE
    )
    recent = IndexBuild.objects.filter(created_at__gte=timezone.now() - RECENT)
    return recent.filter(status=JobStatus.FAILED).exclude(Exists(later))


def _of(rows: Callable[[], Rows], since: str, right: str) -> dict[str, Any]:
    """Rows of one table, and the right without which there is no line."""
    return {"rows": rows, "since": since, "rights": (right,)}


def _list(model: Any, **query: Any) -> Callable[[], str]:
    return lambda: admin_url(model, "changelist", **query)


WAITING: tuple[Waiting, ...] = (
    Waiting(
        _("Réponses signalées comme fausses"),
        _("Corriger"),
        "bad",
        rows=lambda: Feedback.objects.to_correct(),
        since="updated_at",
        rights=("chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse"),
        address=_list(Feedback, follow_up="open"),
        named=_reports,
    ),
    Waiting(
        _("Réponses validées à relire"),
        _("Relire"),
        "warning",
        **_of(answers_to_review, "updated_at", "faqs.change_learnedresponse"),
        address=_list(LearnedResponse, review="waiting"),
    ),
    Waiting(
        _("Réponses en mémoire à relire"),
        _("Relire"),
        "warning",
        # No column says since when an entry waits.
        **_of(entries_to_review, "created_at", "faqs.change_cachedresponse"),
        tells_since=False,
        address=_list(CachedResponse, review="waiting"),
    ),
    Waiting(
        _("Questions sans réponse"),
        _("Répondre"),
        "warning",
        **_of(_open_groups, "created_at", "faqs.view_questiongroup"),
        address=_list(QuestionGroup, status__exact=GroupStatus.OPEN, questions__reason__exact=UnansweredReason.REFUSED),
        named=_most_asked,
    ),
    Waiting(
        _("Réponses rédigées, à approuver"),
        _("Approuver"),
        "warning",
        **_of(
            lambda: QuestionGroup.objects.filter(status=GroupStatus.DRAFTED), "created_at", "faqs.view_questiongroup"
        ),
        address=_list(QuestionGroup, status__exact=GroupStatus.DRAFTED),
    ),
    Waiting(
        _("Documents illisibles ou en échec"),
        _("Voir pourquoi"),
        "bad",
        **_of(lambda: Document.objects.filter(status=DocumentStatus.FAILED), "created_at", "knowledge.change_document"),
        address=_list(Document, status__exact=DocumentStatus.FAILED),
    ),
    Waiting(
        _("Adresses du web qui ne répondent pas"),
        _("Voir pourquoi"),
        "warning",
        **_of(
            lambda: WebSource.objects.filter(is_active=True).exclude(error=""),
            "checked_at",
            "knowledge.change_websource",
        ),
        # Ordered so that those with an error come first.
        address=_list(WebSource, is_active__exact="1", o="2"),
    ),
    Waiting(
        _("Pages du web disparues"),
        _("Décider"),
        "warning",
        **_of(
            lambda: Document.objects.filter(page__state__in=_UNREACHABLE),
            "page__checked_at",
            "knowledge.change_document",
        ),
        address=_list(Document, page__state__in=",".join(_UNREACHABLE)),
    ),
    Waiting(
        _("Indexations en échec"),
        _("Voir pourquoi"),
        "bad",
        **_of(_failed_builds, "created_at", "knowledge.view_indexbuild"),
        address=_list(IndexBuild, status__in=JobStatus.FAILED),
    ),
    Waiting(
        _("Réponses validées qui n’ont pas pu être indexées"),
        _("Voir pourquoi"),
        "bad",
        **_of(
            lambda: LearnedResponse.objects.filter(index_state=IndexState.FAILED),
            "updated_at",
            "faqs.change_learnedresponse",
        ),
        address=_list(LearnedResponse, index_state__exact=IndexState.FAILED),
    ),
    Waiting(
        _("Réponses interrompues par une erreur, 7 jours"),
        _("Voir pourquoi"),
        "warning",
        **_of(
            lambda: Turn.objects.filter(status=TurnStatus.FAILED, started_at__gte=timezone.now() - RECENT),
            "started_at",
            "chat.view_turn",
        ),
        address=_failed_turns_address,
    ),
)


def passages_without_questions(request: HttpRequest) -> tuple[str, str] | None:
    """How many passages wait for their questions, and their list; a model writes these, so without one nothing waits."""
    if language_model() is None or not request.user.has_perm("knowledge.view_chunk"):
        return None
    waiting = visible(request, Chunk.objects.waiting()).order_by().values_list("pk")
    count = len(waiting[: FRONT_PAGE_COUNTED + 1])
    if not count:
        return None
    return _capped(count), admin_url(Chunk, "changelist", units_origin__exact="waiting")
