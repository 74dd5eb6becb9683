"""The first page of the admin, its sidebar, and the page of its less common lists; the setting `UNFOLD` names them.

Each line of today's work has its count and one click to its remedy. It is shown to whoever may act on it, and only
while something waits; it costs one bounded query. Who wants it gets these lines by mail, at night: an open job stands
for the wish. `DAILY` is what staff open every day; the rest is listed by Django.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import get_language, gettext, override
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from agents.admin.deployments import FIRST_AGENT_RIGHTS
from agents.admin_base import Tone, admin_url, duration_text, moment_text
from agents.jobs import Held, Outcome, cancel, enqueue, waiting_seconds, worker_state
from agents.llm.base import language_model
from agents.models import OPEN_JOBS, Agent, Job, JobKind, JobStatus
from agents.retention import next_night
from agents.roles import limit_of, may_reach, visible
from chat.models import Feedback, HelpRequest, Turn, TurnStatus
from chat.telemetry import MODEL_SEEN
from chat.thread.help_requests import OPEN_REQUESTS
from faqs.answers import answers_to_review, entries_to_review
from faqs.models import (
    CachedResponse,
    GroupStatus,
    IndexState,
    LearnedResponse,
    QuestionGroup,
    UnansweredQuestion,
    UnansweredReason,
)
from knowledge.models import Chunk, Document, DocumentStatus, IndexBuild, PageState, WebSource

logger = logging.getLogger(__name__)

Words = str | Promise

#: The front page counts what waits up to here, and says "1,000+" beyond.
FRONT_PAGE_COUNTED = 1_000
#: How far back failures that nothing repairs are counted: answers, and jobs.
RECENT = timedelta(days=7)
_UNREACHABLE = (PageState.GONE, PageState.LEFT)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Fill the first page (the setting `UNFOLD` names this function)."""
    return {
        **context,
        "work": _work(request),
        "may_choose_mail": settings.HAS_MAIL and bool(getattr(request.user, "email", "")),
        "gets_mail": _mail_jobs(request).exists(),
        "begin": _begin(request),
        "figures": admin_url(Turn, "figures") if request.user.has_perm("chat.view_figures") else "",
        "has_language_model": language_model() is not None,
    }


def _work(request: HttpRequest) -> "list[Line]":
    waiting = (each.line(request) for each in WAITING)
    lines = (_worker(request), _model(request), *waiting)
    return [line for line in lines if line is not None]


def _mail_jobs(request: HttpRequest) -> QuerySet[Job]:
    return Job.objects.filter(kind=JobKind.WORK_MAIL, key=str(request.user.pk), status__in=OPEN_JOBS)


@require_POST
def choose_mail(request: HttpRequest) -> HttpResponse:
    """Begin or end the mail of the day's work to whoever asks, in the language in which they read."""
    if (job := _mail_jobs(request).first()) is not None:
        cancel(job)
        messages.success(request, gettext("Vous ne recevrez plus ce courriel."))
    elif settings.HAS_MAIL:
        site = request.build_absolute_uri("/").rstrip("/")
        payload = {"site": site, "language": get_language()}
        with transaction.atomic():
            job = enqueue(JobKind.WORK_MAIL, key=str(request.user.pk), payload=payload)
            Job.objects.filter(pk=job.pk).update(not_before=next_night(timezone.now()))
        messages.success(request, gettext("Un courriel partira chaque nuit, si quelque chose vous attend."))
    return HttpResponseRedirect(reverse("admin:index"))


def mail_work(held: Held) -> Outcome:
    """Mail the lines of the first page to the person of this job, if there are any; the next night again."""
    user = User.objects.filter(pk=held.job.key).first()
    if user is None:
        return Outcome()
    request, now, site = HttpRequest(), timezone.now(), held.job.payload["site"]
    request.user = user
    today = {"sent": str(timezone.localdate(now))}
    with override(held.job.payload["language"]):
        may_read = settings.HAS_MAIL and user.is_active and user.is_staff and user.email
        if may_read and held.job.report != today:  # Whose process was killed is not mailed twice.
            held.keep(report=today)
            try:
                if lines := _work(request):
                    texts = [f"{each.count} – {each.title}".lstrip(" –") + f"\n{site}{each.address}" for each in lines]
                    stop = gettext("Pour ne plus recevoir ce courriel : %(address)s")
                    texts.append(stop % {"address": site + reverse("admin:index")})
                    send_mail(gettext("Le travail du jour"), "\n\n".join(texts), None, [user.email])
            except Exception as error:  # noqa: BLE001  # an edge: the next night's goes; its text may hold the address
                logger.warning("The mail of the day's work to user %s failed: %s", user.pk, type(error).__name__)
    return Outcome(again_at=next_night(now))


def _begin(request: HttpRequest) -> tuple[str, Words] | None:
    """The address and the name of the first step of a site that has nothing to answer from: an agent, then documents."""
    if limit_of(request.user) is not None or Document.objects.exists() or LearnedResponse.objects.exists():
        return None
    if Agent.objects.exists():
        may_add = request.user.has_perm("knowledge.add_document")
        return (admin_url(Document, "add"), _("Ajouter des documents")) if may_add else None
    may_begin = request.user.has_perms(FIRST_AGENT_RIGHTS)
    return (reverse("admin-first-agent"), _("Ajouter un guichet")) if may_begin else None


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of work that waits. `count` is empty where there is nothing to count; `remedy` is the word on the link."""

    title: Words
    address: str
    remedy: Words
    tone: Tone
    count: str = ""
    why: Words = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows that make a line, for who has all of `rights`."""

    title: Words
    rights: tuple[str, ...]
    rows: Callable[[], QuerySet[Any]]
    address: Callable[[], str]
    remedy: Words = _("Voir pourquoi")
    tone: Tone = "warning"

    def line(self, request: HttpRequest) -> Line | None:
        if not request.user.has_perms(self.rights):
            return None
        rows = visible(request, self.rows()).order_by().values("pk")
        count = rows[: FRONT_PAGE_COUNTED + 1].count()
        shown = f"{FRONT_PAGE_COUNTED:,}+".replace(",", "\u202f") if count > FRONT_PAGE_COUNTED else str(count)
        return Line(self.title, self.address(), self.remedy, self.tone, shown) if count else None


def _worker(request: HttpRequest) -> Line | None:
    """No alarm on a site that never had a worker, while nothing waits."""
    workers = worker_state()
    is_waited_for = waiting_seconds() > settings.WORKER_SILENT_SECONDS
    is_down = workers.state == "silent" or (workers.state == "never" and is_waited_for)
    if not is_down or not request.user.has_perm("knowledge.view_indexbuild"):
        return None
    why: Words = _("Aucun worker n’a encore été vu : démarrez-en un.")
    if workers.seen_at is not None:
        seen = {"since": duration_text(workers.seconds or 0.0), "moment": moment_text(workers.seen_at)}
        why = _("Aucun worker n’a été vu depuis %(since)s (%(moment)s) : démarrez-en un.") % seen
    address = admin_url(IndexBuild, "changelist", status__exact=JobStatus.QUEUED)
    return Line(_("Le travail de fond est à l’arrêt"), address, _("Voir ce qui attend"), "bad", why=why)


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
        why=_("Vérifiez OPENAI_BASE_URL, la clé et le service du modèle ; la raison est sur la page de chaque réponse.")
        + f" ({seen['detail']})",
    )


def _failed_turns_address() -> str:
    since = (timezone.now() - RECENT).isoformat(timespec="seconds")
    return admin_url(Turn, "changelist", status__exact=TurnStatus.FAILED, started_at__gte=since)


def _open_groups() -> QuerySet[QuestionGroup]:
    # A reported answer is a line of its own: its question alone makes no group that waits here.
    asked = UnansweredQuestion.objects.filter(group=OuterRef("pk"), reason=UnansweredReason.REFUSED)
    return QuestionGroup.objects.filter(Exists(asked), status=GroupStatus.OPEN)


def _failed_builds() -> QuerySet[IndexBuild]:
    """Of the last days, and not made up for: no later job of the same kind and agent has ended well."""
    later = IndexBuild.objects.filter(
        agent=OuterRef("agent"), kind=OuterRef("kind"), created_at__gt=OuterRef("created_at"), status=JobStatus.DONE
    )
    recent = IndexBuild.objects.filter(created_at__gte=timezone.now() - RECENT)
    return recent.filter(status=JobStatus.FAILED).exclude(Exists(later))


def _list(model: Any, **query: Any) -> Callable[[], str]:
    return lambda: admin_url(model, "changelist", **query)


WAITING: tuple[Waiting, ...] = (
    Waiting(
        _("Réponses signalées comme fausses"),
        ("chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse"),
        Feedback.objects.open,
        _list(Feedback, follow_up="open"),
        _("Corriger"),
        tone="bad",
    ),
    Waiting(
        _("Demandes à une personne"),
        ("chat.view_turn", "chat.change_helprequest"),
        lambda: HelpRequest.objects.filter(status__in=OPEN_REQUESTS),
        _list(HelpRequest, status__in=",".join(OPEN_REQUESTS)),
        _("Répondre"),
    ),
    Waiting(
        _("Réponses validées à relire"),
        ("faqs.change_learnedresponse",),
        answers_to_review,
        _list(LearnedResponse, review="waiting"),
        _("Relire"),
    ),
    Waiting(
        _("Réponses en mémoire à relire"),
        ("faqs.change_cachedresponse",),
        entries_to_review,
        _list(CachedResponse, review="waiting"),
        _("Relire"),
    ),
    Waiting(
        _("Questions sans réponse"),
        ("faqs.view_questiongroup",),
        _open_groups,
        _list(QuestionGroup, status__exact=GroupStatus.OPEN, questions__reason__exact=UnansweredReason.REFUSED),
        _("Répondre"),
    ),
    Waiting(
        _("Réponses rédigées, à approuver"),
        ("faqs.view_questiongroup",),
        lambda: QuestionGroup.objects.filter(status=GroupStatus.DRAFTED),
        _list(QuestionGroup, status__exact=GroupStatus.DRAFTED),
        _("Approuver"),
    ),
    Waiting(
        _("Documents illisibles ou en échec"),
        ("knowledge.change_document",),
        lambda: Document.objects.filter(status=DocumentStatus.FAILED),
        _list(Document, status__exact=DocumentStatus.FAILED),
        tone="bad",
    ),
    Waiting(
        _("Adresses du web qui ne répondent pas"),
        ("knowledge.change_websource",),
        lambda: WebSource.objects.filter(is_active=True).exclude(error=""),
        # Ordered so that those with an error come first.
        _list(WebSource, is_active__exact="1", o="2"),
    ),
    Waiting(
        _("Pages du web disparues"),
        ("knowledge.change_document",),
        lambda: Document.objects.filter(page__state__in=_UNREACHABLE),
        _list(Document, page__state__in=",".join(_UNREACHABLE)),
        _("Décider"),
    ),
    Waiting(
        _("Passages dont le document a changé là où l’équipe avait écrit"),
        ("knowledge.change_chunk",),
        lambda: Chunk.objects.filter(conflict__isnull=False),
        _list(Chunk, staff="conflict"),
        _("Décider"),
    ),
    Waiting(
        _("Indexations en échec"),
        ("knowledge.view_indexbuild",),
        _failed_builds,
        _list(IndexBuild, status__in=JobStatus.FAILED),
        tone="bad",
    ),
    Waiting(
        _("Réponses validées qui n’ont pas pu être indexées"),
        ("faqs.change_learnedresponse",),
        lambda: LearnedResponse.objects.filter(index_state=IndexState.FAILED),
        _list(LearnedResponse, index_state__exact=IndexState.FAILED),
        tone="bad",
    ),
    Waiting(
        _("Réponses interrompues par une erreur, 7 jours"),
        ("chat.view_turn",),
        lambda: Turn.objects.filter(status=TurnStatus.FAILED, started_at__gte=timezone.now() - RECENT),
        _failed_turns_address,
    ),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A page: by default the list of a model ("app_name.model"), for who may view it, or has one of `rights` instead."""

    title: Words
    icon: str
    model: str = ""
    rights: tuple[str, ...] = ()
    #: Of the model's pages, which one; without a model, a page of the admin itself.
    page: str = "changelist"

    def is_for(self, request: HttpRequest) -> bool:
        rights = self.rights or ((self.model.replace(".", ".view_"),) if self.model else ())
        if rights and not any(request.user.has_perm(right) for right in rights):
            return False
        return not self.model or may_reach(request, apps.get_model(self.model), change=False)

    @property
    def address(self) -> str:
        return reverse(f"admin:{self.model.replace('.', '_')}_{self.page}" if self.model else self.page)

    def as_item(self, request: HttpRequest) -> dict[str, Any]:
        item = {"title": self.title, "icon": self.icon, "link": self.address}
        # A page below a list's address may be an entry of its own.
        return {**item, "active": self.address == _nearest(request.path)}


def _nearest(path: str) -> str:
    """The longest address of the sidebar above this page, and above the first tab of its subject."""
    addresses = ([Entry("", "", model).address for model in models] for models in TABBED)
    first = next((each[0] for each in addresses if path.startswith(tuple(each[1:]))), path)
    entries = [entry.address for _title, entries in DAILY for entry in entries]
    for place in (path, first):
        above = [address for address in entries if place.startswith(address)]
        if place in above or len(above) > 1:
            return max(above, key=len)
    return _ADVANCED_PAGE.address


DAILY: tuple[tuple[Words, tuple[Entry, ...]], ...] = (
    (
        _("Aujourd’hui"),
        (
            Entry(_("Le travail du jour"), "checklist", page="admin:index"),
            Entry(_("Avis"), "thumbs_up_down", "chat.feedback", ("chat.view_turn",)),
            Entry(_("Questions sans réponse"), "contact_support", "faqs.questiongroup"),
            Entry(_("Questions posées"), "quiz", "chat.turn"),
            Entry(_("Comment va le service"), "monitoring", "chat.turn", ("chat.view_figures",), "figures"),
            Entry(_("Essayer une question"), "science", "chat.turn", ("chat.view_turn",), "try"),
            Entry(_("Et si… ?"), "compare_arrows", "chat.goldenrun", ("chat.add_goldenrun",), "whatif"),
        ),
    ),
    (
        _("Contenu"),
        (
            Entry(_("Documents"), "description", "knowledge.document"),
            Entry(_("FAQ"), "verified", "faqs.learnedresponse"),
            Entry(_("Mémoire"), "memory", "faqs.cachedresponse"),
        ),
    ),
    (_("Service"), (Entry(_("Guichets"), "storefront", "agents.deployment"),)),
)
_ADVANCED_PAGE = Entry(_("Avancé"), "more_horiz", page="admin-advanced")

#: Lists of one subject: each shows the others as tabs, and the menus name the first that its reader may see.
TABBED = (
    ("agents.deployment", "agents.agent"),
    ("knowledge.document", "knowledge.chunk", "knowledge.category", "knowledge.websource", "knowledge.synonym"),
    ("knowledge.thresholdcalibration", "knowledge.pairverdict"),
    ("tools_registry.tooloverride", "tools_registry.toolsource"),
    ("chat.turn", "chat.conversation"),
    ("chat.feedback", "chat.helprequest"),
    ("chat.goldenset", "chat.goldenrun"),
    ("auth.user", "auth.group", "agents.providergroup"),
)


def _shown_tabs(request: HttpRequest) -> list[list[Entry]]:
    """For each subject, the lists that this user may see."""
    titles = {each: capfirst(apps.get_model(each)._meta.verbose_name_plural) for models in TABBED for each in models}
    entries = [[Entry(str(titles[model]), "", model) for model in models] for models in TABBED]
    return [[entry for entry in of_subject if entry.is_for(request)] for of_subject in entries]


def tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """The tabs of each list (the setting `UNFOLD` names this function)."""
    return [
        {
            "models": [entry.model for entry in entries],
            "items": [
                {"title": each.title, "link": each.address, "active": request.path == each.address} for each in entries
            ],
        }
        for entries in _shown_tabs(request)
        if len(entries) > 1
    ]


def _advanced_lists(request: HttpRequest) -> list[dict[str, Any]]:
    """What Django lists for this user by app, without the lists of the sidebar and those that are tabs of another."""
    elsewhere = {entry.model for _title, entries in DAILY for entry in entries if entry.page == "changelist"}
    elsewhere |= {entry.model for entries in _shown_tabs(request) for entry in entries[1:]}
    found = []
    for app in admin.site.get_app_list(request):
        models = [each for each in app["models"] if each["model"]._meta.label_lower not in elsewhere]
        for each in models:
            options: Any = admin.site.get_model_admin(each["model"])
            each["purpose"] = options.purpose
        if models:
            found.append({**app, "models": models})
    return found


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    shown = [
        (title, [entry.as_item(request) for entry in entries if entry.is_for(request)]) for title, entries in DAILY
    ]
    sections: list[dict[str, Any]] = [{"title": title, "items": items} for title, items in shown if items]
    if _advanced_lists(request):
        sections.append({"title": "", "items": [_ADVANCED_PAGE.as_item(request)]})
    return sections


@require_safe
def advanced(request: HttpRequest) -> HttpResponse:
    """The lists that are no daily work, each with what it is for."""
    sections = _advanced_lists(request)
    context = {**admin.site.each_context(request), "title": _ADVANCED_PAGE.title, "sections": sections}
    return TemplateResponse(request, "admin/advanced.html", context)
