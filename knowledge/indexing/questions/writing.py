"""The model's questions for passages that wait for some: in parallel, kept one by one, within a limit of calls a day.

A passage is asked about once: what the model wrote, and what was refused of it with the reason, is stored before the
next look, so a run that was cut goes on where it was and a second run makes no call. Only a reply that could not be
read is asked for again. Written questions become points every so often; what a crash left unwritten, the next run or
the reconciliation writes. Only this thread uses the database; the calls to the model run in others.
"""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from datetime import time as clock
from functools import partial

from django.conf import settings
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.errors import LLMError
from agents.llm.base import LanguageModel, Reply
from agents.models import RuntimeSettings
from knowledge.chunking import units_as_json
from knowledge.indexing.questions.generation import GeneratedUnits, UnitsRequest
from knowledge.indexing.questions.waiting import questions_model, signature, waiting_passages
from knowledge.indexing.report import IndexReport, OnProgress
from knowledge.indexing.sync import stale_documents, write_documents
from knowledge.models import BuildPhase, Chunk, Document, DocumentStatus, IndexBuild, QuestionSpending, UnitsOrigin

#: In how many seconds the job should come back, where others go first; else `None`.
GivesWay = Callable[[], float | None]


def write_questions(
    build: IndexBuild, report: IndexReport, on_progress: OnProgress, gives_way: GivesWay = lambda: None
) -> None:
    """Write the questions that the documents of `build` wait for; `report.goes_on_at` says when the rest is, where some
    is left.

    What `on_progress` raises stops it: calls under way are waited for and kept, since they are paid.
    """
    model = questions_model(build.agent)
    if model is None:
        return
    report.go_on_from(build.report)
    with ThreadPoolExecutor(settings.UNIT_GENERATION_PARALLEL, thread_name_prefix="questions") as pool:
        _Run(build, report, model, pool, on_progress, gives_way).carry_out()


def take_call() -> bool:
    """Count one more call of today, before it is made; `False` where the site's limit of the day is reached."""
    limit = RuntimeSettings.load().question_calls_per_day
    day = QuestionSpending.objects.get_or_create(day=timezone.localdate())[0]
    due = QuestionSpending.objects.filter(pk=day.pk, **({"calls__lt": limit} if limit else {}))
    with short_write():
        return bool(due.update(calls=F("calls") + 1))


def calls_reached() -> str:
    count = RuntimeSettings.load().question_calls_per_day
    return _("Le nombre d’appels au modèle par jour est atteint (%(count)d).") % {"count": count}


def tomorrow() -> datetime:
    return timezone.make_aware(datetime.combine(timezone.localdate() + timedelta(days=1), clock.min))


@dataclass(slots=True)
class _Asked:
    """A passage whose call is under way."""

    chunk: Chunk
    request: UnitsRequest


class _Run:
    """One attempt of one job; its report begins with what earlier attempts counted."""

    def __init__(
        self,
        build: IndexBuild,
        report: IndexReport,
        model: LanguageModel,
        pool: ThreadPoolExecutor,
        on_progress: OnProgress,
        gives_way: GivesWay,
    ) -> None:
        self.build, self.report, self.model, self.pool = build, report, model, pool
        self.on_progress, self.gives_way = on_progress, gives_way
        self.running: dict[Future[Reply], _Asked] = {}
        self.queue: list[int] = []
        #: Of this run, so that a passage whose reply could not be read is not asked about again and again.
        self.tried: set[int] = set()
        self.done = self.total = 0
        self.in_a_row = _InARow()
        #: No further call is made; those under way are kept.
        self.is_over = False
        self.points = _Points(build, report)

    def carry_out(self) -> None:
        if self.build.attempts > 1 or self.report.model_calls:
            self.points.due |= set(stale_documents(self.build.agent))
        try:
            while True:
                self._look()
                self._fill()
                if not self.running:
                    break
                ended = wait(self.running, timeout=settings.QUESTIONS_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended.done:
                    self._receive(future)
                self.points.write_now_and_then()
        finally:
            self.is_over = True
            while self.running:
                for future in wait(self.running, return_when=FIRST_COMPLETED).done:
                    self._receive(future)
            self.points.write()
            left = Chunk.objects.served().waiting()
            self.report.waiting = left.filter(document__in=self.build.document_ids).count()

    def _look(self) -> None:
        self.on_progress(self.done, max(self.total, self.done), BuildPhase.QUESTIONS)
        seconds = None if self.is_over else self.gives_way()
        if seconds is not None:
            self._leave(seconds)

    def _leave(self, seconds: float) -> None:
        self.is_over = True
        self.report.goes_on_at = timezone.now() + timedelta(seconds=seconds)

    def _fill(self) -> None:
        while not self.is_over and len(self.running) < settings.UNIT_GENERATION_PARALLEL:
            chunk = self._next()
            if chunk is None:
                return
            document = chunk.document
            request = UnitsRequest(
                title=document.title or document.name,
                parent_context=chunk.parent_context,
                content=chunk.content,
                language=document.language,
            )
            if not self._begin(chunk, request):
                self.is_over = True
                self.report.goes_on_at, self.report.goes_on_because = tomorrow(), calls_reached()
                return

    def _next(self) -> Chunk | None:
        """The best passage that still waits; documents added to the job meanwhile are among them."""
        while True:
            if not self.queue:
                self._choose()
            if not self.queue:
                return None
            key = self.queue.pop(0)
            self.tried.add(key)
            chunk = Chunk.objects.served().waiting().select_related("document").filter(pk=key).first()
            if chunk is not None:
                return chunk

    def _choose(self) -> None:
        row = IndexBuild.objects.filter(pk=self.build.pk)
        self.build.document_ids = row.values_list("document_ids", flat=True).first() or []
        found = waiting_passages(self.build.agent, self.model, self.build.document_ids)
        left = [key for key, _document in found if key not in self.tried]
        self.queue = left[: settings.QUESTIONS_CHOICE]
        self.total = self.done + len(self.running) + len(left)

    def _begin(self, chunk: Chunk, request: UnitsRequest) -> bool:
        if not take_call():
            return False
        self.report.model_calls += 1
        # A context of its own for each thread: the call names the request that it is made for.
        ask = partial(copy_context().run, self.model.complete, request.messages, request.options)
        self.running[self.pool.submit(ask)] = _Asked(chunk, request)
        return True

    def _receive(self, future: Future[Reply]) -> None:
        asked = self.running.pop(future)
        name = asked.chunk.document.name
        try:
            reply = future.result()
        except LLMError as error:
            self.done += 1
            if not self.in_a_row.failures:
                self.report.skip(name, str(error.public_message))
            self._stop_for(name, self.in_a_row.after_a_failure(), may_pass=error.retryable)
            return
        generated = asked.request.take(reply)
        if generated is None:
            if not self.is_over and self._begin(asked.chunk, asked.request):
                return
        else:
            with short_write():
                self._keep(asked.chunk, generated)
            self._stop_for(name, self.in_a_row.after(generated), may_pass=False)
        self.done += 1

    def _stop_for(self, name: str, reason: str, *, may_pass: bool) -> None:
        if reason and not self.is_over:
            self.is_over = True
            self.report.fail(name, reason, may_pass=may_pass)

    def _keep(self, chunk: Chunk, generated: GeneratedUnits) -> None:
        self.report.rejected += len(generated.rejected)
        if not generated.is_readable:
            self.report.skip(chunk.document.name, generated.rejected[0].reason)
        changes: dict[str, object] = {
            "rejected_units": [{"question": each.question, "reason": each.reason} for each in generated.rejected],
            "asked_with": signature(self.model, chunk.content_hash) if generated.is_readable else "",
        }
        if generated.units:
            changes |= {
                "knowledge_units": units_as_json(generated.units),
                "units_origin": UnitsOrigin.GENERATED,
                "summary": generated.summary,
                "keywords": list(generated.keywords),
            }
        # Staff may have written questions meanwhile: theirs stand.
        rows = Chunk.objects.waiting().filter(pk=chunk.pk, content=chunk.content)
        if rows.update(**changes) and generated.units:
            self.points.note(chunk.document_id)


@dataclass(slots=True)
class _InARow:
    """Replies of no use, one after the other: a model that is down or writes nonsense is not asked for every passage."""

    failures: int = 0
    unreadable: int = 0
    useless: int = 0

    def after_a_failure(self) -> str:
        """Why the model is asked no more, or an empty string."""
        self.failures += 1
        if self.failures < settings.QUESTIONS_FAILURES:
            return ""
        return _("Le modèle ne répond plus : les passages suivants restent en attente.")

    def after(self, generated: GeneratedUnits) -> str:
        self.failures = 0
        self.unreadable = 0 if generated.is_readable else self.unreadable + 1
        self.useless = self.useless + 1 if generated.is_nonsense else 0
        if self.unreadable >= settings.QUESTIONS_UNREADABLE_PASSAGES:
            return _(
                "Le modèle a répondu hors du format demandé pour %(count)d passages de suite : il n’est plus interrogé. "
                "Dernière raison : %(reason)s"
            ) % {"count": self.unreadable, "reason": generated.rejected[0].reason}
        if self.useless >= settings.QUESTIONS_USELESS_PASSAGES:
            return _(
                "Rien de ce que le modèle a écrit pour %(count)d passages de suite n’a pu être gardé : il n’est plus interrogé. "
                "Dernière raison : %(reason)s"
            ) % {"count": self.useless, "reason": generated.rejected[0]}
        return ""


@dataclass(slots=True)
class _Points:
    """Documents whose questions are on their rows and not yet in the index."""

    build: IndexBuild
    report: IndexReport
    due: set[int] = field(default_factory=set)
    passages: int = 0
    written_at: float = field(default_factory=time.monotonic)
    documents: set[int] = field(default_factory=set)

    def note(self, document_id: int) -> None:
        self.due.add(document_id)
        self.passages += 1

    def write_now_and_then(self) -> None:
        waited = time.monotonic() - self.written_at
        if self.passages >= settings.QUESTIONS_WRITE_PASSAGES or (
            self.passages and waited >= settings.QUESTIONS_WRITE_SECONDS
        ):
            self.write()

    def write(self) -> None:
        due, self.due, self.passages = self.due, set(), 0
        rows = Document.objects.filter(pk__in=due, status=DocumentStatus.INDEXED)
        documents = list(rows.select_related("category", "agent"))
        if documents:
            written = write_documents(agent=self.build.agent, documents=documents, report=self.report)
            self.documents |= {document.pk for document in written}
        self.report.documents = len(self.documents)
        self.written_at = time.monotonic()
