"""Indexing as jobs: enqueues them, carries them out, and finds what is due without a request.

An `IndexBuild` is a `Job` (`agents.jobs`) of five kinds: the key of a rebuild is its index, that of a refresh its
source, that of an update or of a writing of questions its agent. Commands run the same jobs inline (`run_build`).
Imports the rest of `knowledge.indexing`, which never imports it.
"""

import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import jobs
from agents.database import named_trouble
from agents.errors import ApplicationError
from agents.jobs import Held, Outcome
from agents.models import Agent, IndexingMethod, Job, JobKind, JobStatus
from knowledge.errors import RebuildInProgressError, named_machine, staff_reason
from knowledge.indexing import points
from knowledge.indexing.path import index_documents, takes_long, update_documents
from knowledge.indexing.points import (
    IndexReport,
    OnProgress,
    methods_without_index,
    new_generation,
    no_progress,
    stale_documents,
)
from knowledge.indexing.questions import questions_model, waiting_passages, write_questions
from knowledge.indexing.rebuild import build_generation
from knowledge.indexing.refresh import next_reading, refresh_pages
from knowledge.models import Document, DocumentStatus, IndexBuild, WebSource
from knowledge.vectors.base import collection_alias, vector_store

logger = logging.getLogger(__name__)

#: A worker writes questions for so long at a time, then takes its turn again after other tasks.
QUESTIONS_TURN_SECONDS = 300.0


def _build(job: Job) -> IndexBuild:
    return IndexBuild.objects.select_related("agent").get(pk=job.pk)


def enqueue_documents(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    ids = list(document_ids)
    payload = {"document_ids": ids, **({"is_long": True} if takes_long(Document.objects.filter(pk__in=ids)) else {})}
    return _build(jobs.enqueue(JobKind.DOCUMENTS, agent=agent, payload=payload, total=len(ids)))


def enqueue_sync(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    """Queue an update of these documents' points, or add them to an open one."""
    ids = sorted(set(document_ids))
    payload = {"document_ids": ids}
    return _build(jobs.enqueue(JobKind.SYNC, key=str(agent.pk), agent=agent, payload=payload, total=len(ids)))


def enqueue_questions(*, agent: Agent, document_ids: Sequence[int] | None = None) -> IndexBuild | None:
    """Have a worker write questions for these documents (default: all); `None` where there is nothing to do."""
    model = questions_model(agent)
    passages = waiting_passages(agent, model, document_ids) if model else []
    if not passages:
        return None
    payload = {"document_ids": sorted({document_id for _chunk, document_id in passages})}
    key = str(agent.pk)
    return _build(jobs.enqueue(JobKind.QUESTIONS, key=key, agent=agent, payload=payload, total=len(passages)))


def enqueue_refresh(source: WebSource, *, tells: bool = True) -> IndexBuild:
    """Queue the refresh of a source, or return its open one; the row is the source's lock."""
    payload = {"address": source.url}
    key = str(source.pk)
    return _build(jobs.enqueue(JobKind.REFRESH, key=key, agent=source.agent, payload=payload, again=False, tells=tells))


def create_rebuild(*, agent: Agent, method: IndexingMethod) -> IndexBuild:
    """Create a rebuild, whose row is its lock; one that a dead worker left is returned and resumes its generation."""
    key = f"{agent.pk}:{method}"
    abandoned = IndexBuild.objects.expired().filter(kind=JobKind.REBUILD, key=key).first()
    if abandoned is not None:
        return abandoned
    payload = {"method": method, "generation": new_generation(agent, method)}
    try:
        with transaction.atomic():
            return _build(Job.objects.create(kind=JobKind.REBUILD, key=key, agent=agent, payload=payload))
    except IntegrityError as error:
        raise RebuildInProgressError(f"{agent.slug} ({method}) is being rebuilt.") from error


def enqueue_rebuild(*, agent: Agent, method: IndexingMethod) -> IndexBuild:
    """Queue a rebuild; raises `RebuildInProgressError` while one is queued or running for the same index."""
    build = create_rebuild(agent=agent, method=method)
    transaction.on_commit(partial(jobs.nudge, build.pk))
    return build


def enqueue_missing_indexes(agent: Agent) -> list[IndexBuild]:
    builds = []
    for method in methods_without_index(agent):
        try:
            builds.append(enqueue_rebuild(agent=agent, method=method))
        except RebuildInProgressError:
            logger.info("%s (%s) is being rebuilt already.", agent.slug, method)
    return builds


def retry_build(build: IndexBuild) -> None:
    """Queue a failed or cancelled build again with its attempts reset; it resumes where it stopped."""
    payload = dict(build.payload)
    if build.kind == JobKind.REBUILD:
        method = IndexingMethod(build.method)
        current = vector_store().resolve_alias(collection_alias(build.indexed_agent.slug, method))
        if (current or "") > build.generation:  # names sort by time: an older one cannot replace it
            payload["generation"] = new_generation(build.indexed_agent, method)
    try:
        jobs.retry(build, payload=payload)
    except IntegrityError as error:
        if build.kind == JobKind.REBUILD:
            raise RebuildInProgressError(f"{build.indexed_agent.slug} ({build.method}) is being rebuilt.") from error
        if build.kind != JobKind.REFRESH:  # another of which is there already and does the same
            jobs.enqueue(JobKind(build.kind), key=build.key, agent=build.agent, payload=payload)


def run_build(build_id: int, *, on_progress: OnProgress = no_progress, may_retry: bool = False) -> IndexReport | None:
    """Claim and run a build; `None` when another worker has it, or it will be retried later."""
    outcome = jobs.carry_out(build_id, on_progress=on_progress, in_background=may_retry)
    return outcome.value if outcome else None


def carry_out(held: Held) -> Outcome:
    """The verb of all five kinds of jobs."""
    build = _build(held.job)
    try:
        with named_trouble(), named_machine():
            report = _carried_out(build, held, held.progress)
    except ApplicationError as error:
        error.public_message = staff_reason(error)
        if error.retryable:
            _tell_waiting(build, error)
        raise
    failure = next((f"{row['item']} : {row['reason']}" for row in report.failed), "")
    if held.in_background and report.may_pass:
        reason = "; ".join(row["reason"] for row in report.failed[:1])
        return Outcome(_status(build, report), report.as_json(), failure, retry_because=reason, value=report)
    if report.goes_on_at is not None:
        error_text = report.goes_on_because
        return Outcome(report=report.as_json(), error=error_text, again_at=report.goes_on_at, value=report)
    if build.kind != JobKind.QUESTIONS and build.document_ids:
        # Before the end is noted: a worker that dies in between does it again.
        enqueue_questions(agent=build.indexed_agent, document_ids=build.document_ids)
    return Outcome(_status(build, report), report.as_json(), failure, value=report)


def _tell_waiting(build: IndexBuild, error: ApplicationError) -> None:
    waiting = Document.objects.filter(pk__in=build.document_ids, status=DocumentStatus.PENDING)
    try:
        waiting.update(error=str(error.public_message))
    except ApplicationError:
        logger.warning("Build %s: the reason could not be written on its documents.", build.pk)


def _status(build: IndexBuild, report: IndexReport) -> JobStatus:
    """`PARTLY_FAILED` where some files failed, `FAILED` where all did."""
    if not report.failed:
        return JobStatus.DONE
    has_done = report.documents or report.unchanged or build.kind == JobKind.REBUILD
    return JobStatus.PARTLY_FAILED if has_done else JobStatus.FAILED


def _carried_out(build: IndexBuild, held: Held, on_progress: OnProgress) -> IndexReport:
    agent = build.indexed_agent
    if build.kind == JobKind.REBUILD:
        method = IndexingMethod(build.method)
        return build_generation(agent=agent, method=method, generation=build.generation, on_progress=on_progress)
    report = IndexReport()
    if build.kind == JobKind.QUESTIONS:
        gives_way = partial(_seconds_for_others, build, time.monotonic()) if held.in_background else lambda: None
        write_questions(build, report, on_progress, gives_way)
        return report
    if build.kind == JobKind.REFRESH:
        source = WebSource.objects.select_related("agent").filter(pk=build.key).first()
        if source is not None:
            changed = refresh_pages(source, since=build.created_at, report=report, on_progress=on_progress)
            build.payload["document_ids"] = sorted({*build.document_ids, *(document.pk for document in changed)})
            held.keep(payload=build.payload)
    rows = Document.objects.filter(agent=agent, pk__in=build.document_ids)
    documents = list(rows.select_related("category", "agent"))
    if build.kind == JobKind.REFRESH:
        documents = [each for each in documents if each.status != DocumentStatus.INDEXED]
        if not documents:
            return report
    if build.kind == JobKind.SYNC:
        documents = [each for each in documents if each.status == DocumentStatus.INDEXED]
        update_documents(agent=agent, documents=documents, report=report, on_progress=on_progress)
    else:
        index_documents(agent=agent, documents=documents, report=report, on_progress=on_progress)
    if not report.may_pass:
        enqueue_missing_indexes(agent)
    return report


def _seconds_for_others(build: IndexBuild, since: float) -> float | None:
    """The seconds after which the writing of questions resumes, if it must pause: other builds go first."""
    if IndexBuild.objects.due().exclude(pk=build.pk).exclude(kind=JobKind.QUESTIONS).exists():
        return settings.JOB_REAP_SECONDS
    return 0.0 if time.monotonic() - since > QUESTIONS_TURN_SECONDS else None


def build_missing_indexes(*, agent: Agent, report: IndexReport, on_progress: OnProgress = no_progress) -> None:
    """Build missing indexes inline; skip one that another worker builds, and report that."""
    for method in methods_without_index(agent):
        queued = IndexBuild.objects.filter(kind=JobKind.REBUILD, key=f"{agent.pk}:{method}", status=JobStatus.QUEUED)
        try:
            build = queued.first() or create_rebuild(agent=agent, method=method)
        except RebuildInProgressError as error:
            report.skip(collection_alias(agent.slug, method), str(error.public_message))
            continue
        if built := run_build(build.pk, on_progress=on_progress):
            report.points += built.points
            report.embedded += built.embedded
            report.reused += built.reused


def refresh_now(source: WebSource, *, report: IndexReport, on_progress: OnProgress = no_progress) -> None:
    """Refresh a source inline and add the result to `report`; skip one that another worker refreshes, and say so."""
    build = enqueue_refresh(source, tells=False)
    try:
        done = run_build(build.pk, on_progress=on_progress)
    except ApplicationError as error:
        report.fail(source.url, f"{error.public_message} ({error})")
        return
    if done is None:
        report.skip(source.url, _("Un autre worker relit cette adresse en ce moment."))
    else:
        report.absorb(done)


def enqueue_due_refreshes() -> int:
    """Queue a refresh of every due source; returns how many."""
    count = 0
    sources = WebSource.objects.filter(is_active=True).select_related("agent")
    for source in [each for each in sources if (due := next_reading(each)) and due <= timezone.now()]:
        # Of several workers one moves the time on, and queues.
        same = WebSource.objects.filter(pk=source.pk, checked_at=source.checked_at)
        with transaction.atomic():
            if same.update(checked_at=timezone.now()):
                enqueue_refresh(source)
                count += 1
    return count


def reconcile_agent(agent_id: int) -> list[IndexBuild]:
    """Queue rebuilds of the agent's missing indexes, else an update of documents that changed without a signal."""
    agent = Agent.objects.filter(pk=agent_id).prefetch_related("deployments__agent").first()
    if agent is None:
        return []
    builds = enqueue_missing_indexes(agent)
    if not builds and (stale := stale_documents(agent)):
        builds.append(enqueue_sync(agent=agent, document_ids=stale))
    return builds


def reconcile(held: Held) -> Outcome | None:
    """Queue what the indexes of one agent lack, or of all, and the web pages that are due; the latter again later."""
    if held.job.key != JobKind.RECONCILE:
        reconcile_agent(int(held.job.key))
        return None
    enqueue_due_refreshes()
    for agent_id in Agent.objects.order_by("pk").values_list("pk", flat=True):
        reconcile_agent(agent_id)
    return Outcome(again_at=timezone.now() + timedelta(seconds=jobs.RECONCILE_SECONDS))


def remove_points(held: Held) -> None:
    points.remove_points(agent_slug=held.job.payload["agent"], ids=held.job.payload["ids"])


def drop_indexes(held: Held) -> None:
    """Drop the named collections, or those of a deleted agent unless its slug has an agent again."""
    names, slug = held.job.payload.get("names"), held.job.payload.get("agent")
    if names is None and not Agent.objects.filter(slug=slug).exists():
        names = points.release_indexes(agent_slug=slug)
    for name in names or ():
        vector_store().drop(name)
