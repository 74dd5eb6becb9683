"""A build claimed, carried out by its kind, and its outcome kept on the row."""

import logging
import time
from datetime import timedelta
from functools import partial

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import close_connections, named_trouble
from agents.errors import ApplicationError, StorageUnavailableError
from agents.jobs import lease_owner
from agents.models import Agent, IndexingMethod
from knowledge.exceptions import KnowledgeError, RebuildInProgressError
from knowledge.indexing.jobs.lease import heartbeat, progress_on_row
from knowledge.indexing.jobs.queue import (
    create_rebuild,
    create_refresh,
    enqueue_missing_indexes,
    enqueue_questions,
    enqueue_sync,
    nudge,
    others_wait,
)
from knowledge.indexing.path import index_documents, update_documents
from knowledge.indexing.questions import write_questions
from knowledge.indexing.rebuild import complete_generation, fill_generation, is_in_service, put_in_service
from knowledge.indexing.refresh import refresh_pages
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.indexing.sync import methods_without_index
from knowledge.models import BuildKind, BuildStatus, Document, DocumentStatus, IndexBuild, WebSource
from knowledge.overlaps import find_overlaps
from knowledge.troubles import named_machine, staff_reason
from knowledge.vectors.base import collection_alias

#: A worker writes questions for so long at a time, then takes its turn again after other tasks; it lets a waiting
#: indexation go first at once, and comes back after `JOB_REAP_SECONDS`.
QUESTIONS_TURN_SECONDS = 300.0
#: The pause before a job that failed for a reason that may pass is tried again, doubled each time up to the ceiling.
JOB_RETRY_SECONDS = 15.0
JOB_RETRY_CEILING_SECONDS = 900.0

logger = logging.getLogger(__name__)

_LONGEST_REASON = 1_000


def run_build(build_id: int, *, on_progress: OnProgress = no_progress, may_retry: bool = False) -> IndexReport | None:
    """Claim and carry out a build; `None` when another worker has it. Its outcome is kept on the row either way.

    With `may_retry`, a failure that may pass queues it again for later, up to `JOB_MAX_ATTEMPTS`.
    """
    owner = lease_owner()
    if not IndexBuild.objects.claim(build_id, owner):
        return None
    build = IndexBuild.objects.select_related("agent").get(pk=build_id)
    try:
        with named_trouble(), named_machine(), heartbeat(build_id, owner) as lease_lost:
            watched = progress_on_row(build_id, owner, lease_lost, on_progress)
            report = _carry_out(build, watched, in_background=may_retry)
    except ApplicationError as error:
        if isinstance(error, StorageUnavailableError):
            # Over a connection that the database has closed nothing can be said.
            close_connections()
        reason = f"{staff_reason(error)} ({error})"
        if may_retry and error.retryable and _retry_later(build, owner, reason):
            return None
        _finish(build, owner, BuildStatus.FAILED, error=reason)
        raise
    except SoftTimeLimitExceeded:
        _finish(build, owner, BuildStatus.FAILED, error=_("Le travail a dépassé sa durée maximale."))
        raise
    except Exception as error:
        # The edge of the job: whatever went wrong, its row says so and no worker takes it for running.
        logger.exception("Build %s failed unexpectedly.", build_id)
        failure = KnowledgeError(
            f"{type(error).__name__}: {error}"[:_LONGEST_REASON],
            public_message=_("Erreur inattendue ; le journal du worker la détaille."),
        )
        _finish(build, owner, BuildStatus.FAILED, error=f"{failure.public_message} ({failure})")
        raise failure from error
    if may_retry and report.may_pass:
        reason = "; ".join(row["reason"] for row in report.failed[:1])
        if _retry_later(build, owner, reason, report):
            return report
    if report.goes_on_at is not None:
        _go_on_later(build, owner, report)
        return report
    if build.kind != BuildKind.QUESTIONS and build.document_ids:
        # Before the end is noted: a worker that dies in between does it again.
        enqueue_questions(agent=build.agent, document_ids=build.document_ids)
    status = _outcome(build, report)
    if not _finish(build, owner, status, report=report, error=_first_failure(report)):
        report.goes_on_at = timezone.now()
        _go_on_later(build, owner, report)
    if report.embedded:
        _look_for_overlaps(build)
    return report


def _outcome(build: IndexBuild, report: IndexReport) -> BuildStatus:
    """A run whose files failed is not done: some of them, or all there was to do."""
    if not report.failed:
        return BuildStatus.DONE
    has_done = report.documents or report.unchanged or build.kind == BuildKind.REBUILD
    return BuildStatus.PARTLY_FAILED if has_done else BuildStatus.FAILED


def _first_failure(report: IndexReport) -> str:
    return next((f"{row['item']} : {row['reason']}" for row in report.failed), "")


def _look_for_overlaps(build: IndexBuild) -> None:
    """A service to staff after the work is done: that it failed is no failure of the build."""
    whole = build.kind == BuildKind.REBUILD
    try:
        find_overlaps(build.agent, document_ids=None if whole else set(build.document_ids))
    except KnowledgeError as error:
        logger.warning("Build %s: close questions could not be looked for: %s", build.pk, error)


def _carry_out(build: IndexBuild, on_progress: OnProgress, *, in_background: bool) -> IndexReport:
    if build.kind == BuildKind.REBUILD:
        return _rebuild(build, on_progress)
    report = IndexReport()
    if build.kind == BuildKind.QUESTIONS:
        gives_way = partial(_seconds_for_others, build, time.monotonic()) if in_background else None
        write_questions(build, report, on_progress, gives_way or (lambda: None))
        return report
    if build.kind == BuildKind.REFRESH:
        _refresh(build, report, on_progress)
    rows = Document.objects.filter(agent=build.agent, pk__in=build.document_ids)
    documents = list(rows.select_related("category", "agent"))
    if build.kind == BuildKind.REFRESH:
        documents = [each for each in documents if each.status != DocumentStatus.INDEXED]
        if not documents:
            return report
    if build.kind == BuildKind.SYNC:
        documents = [each for each in documents if each.status == DocumentStatus.INDEXED]
        update_documents(agent=build.agent, documents=documents, report=report, on_progress=on_progress)
    else:
        index_documents(agent=build.agent, documents=documents, report=report, on_progress=on_progress)
    if not report.may_pass:
        enqueue_missing_indexes(build.agent)
    return report


def _seconds_for_others(build: IndexBuild, since: float) -> float | None:
    """When a writing of questions should come back; `None` while it need not go. An indexation goes first at once."""
    if others_wait(build):
        return settings.JOB_REAP_SECONDS
    return 0.0 if time.monotonic() - since > QUESTIONS_TURN_SECONDS else None


def _go_on_later(build: IndexBuild, owner: str, report: IndexReport) -> None:
    """Queue what is left for the time that the report says; attempts count failures, and this is none."""
    taken = IndexBuild.objects.filter(pk=build.pk, lease_owner=owner).update(
        status=BuildStatus.QUEUED,
        error=report.goes_on_because,
        report=report.as_json(),
        not_before=report.goes_on_at,
        attempts=0,
        lease_owner="",
    )
    if taken and report.goes_on_at is not None and report.goes_on_at <= timezone.now():
        nudge(build.pk)


def _refresh(build: IndexBuild, report: IndexReport, on_progress: OnProgress) -> None:
    """Pages settled by an attempt before this one are not fetched again; those that it could not index are."""
    source = WebSource.objects.select_related("agent").filter(builds=build).first()
    if source is not None:
        changed = refresh_pages(source, since=build.created_at, report=report, on_progress=on_progress)
        build.document_ids = sorted({*build.document_ids, *(document.pk for document in changed)})
        IndexBuild.objects.filter(pk=build.pk).update(document_ids=build.document_ids)


def _rebuild(build: IndexBuild, on_progress: OnProgress) -> IndexReport:
    method = IndexingMethod(build.method)
    if is_in_service(agent=build.agent, method=method, generation=build.generation):
        return complete_generation(agent=build.agent, method=method, generation=build.generation)
    report = fill_generation(agent=build.agent, method=method, generation=build.generation, on_progress=on_progress)
    put_in_service(agent=build.agent, method=method, generation=build.generation, fingerprints=report.fingerprints)
    return report


def _retry_later(build: IndexBuild, owner: str, reason: str, report: IndexReport | None = None) -> bool:
    """Queue the build again after a pause that doubles; `False` when its attempts are used up."""
    if build.attempts >= settings.JOB_MAX_ATTEMPTS:
        return False
    pause = min(JOB_RETRY_SECONDS * 2 ** (build.attempts - 1), JOB_RETRY_CEILING_SECONDS)
    try:
        with transaction.atomic():
            IndexBuild.objects.filter(pk=build.pk, lease_owner=owner).update(
                status=BuildStatus.QUEUED,
                error=reason,
                not_before=timezone.now() + timedelta(seconds=pause),
                lease_owner="",
                **_told(build, report),
            )
            waiting = Document.objects.filter(pk__in=build.document_ids)
            waiting.filter(status=DocumentStatus.PENDING).update(error=reason)
    except IntegrityError:  # an update that nobody has begun is there already: it does the same
        enqueue_sync(agent=build.agent, document_ids=build.document_ids)
        return False
    return True


def _finish(
    build: IndexBuild, owner: str, status: BuildStatus, *, report: IndexReport | None = None, error: str = ""
) -> bool:
    """Note the end; `False` where the build is another worker's by now, or documents joined a writing of questions."""
    mine = IndexBuild.objects.filter(pk=build.pk, lease_owner=owner)
    if build.kind == BuildKind.QUESTIONS and status is BuildStatus.DONE:
        mine = mine.filter(document_ids=build.document_ids)
    told = _told(build, report)
    return bool(mine.update(status=status, error=error, finished_at=timezone.now(), **told))


def _told(build: IndexBuild, report: IndexReport | None) -> dict[str, object]:
    """What the row says of a run; without a report a writing of questions keeps what earlier attempts counted."""
    if report is None and build.kind == BuildKind.QUESTIONS:
        return {}
    return {"report": report.as_json() if report else {}}


def build_missing_indexes(*, agent: Agent, report: IndexReport, on_progress: OnProgress = no_progress) -> None:
    """Build here and now the indexes that do not exist; one that another worker builds is left to it, and told."""
    for method in methods_without_index(agent):
        waiting = IndexBuild.objects.filter(
            agent=agent, method=method, kind=BuildKind.REBUILD, status=BuildStatus.QUEUED
        ).first()
        try:
            build = waiting or create_rebuild(agent=agent, method=method)
        except RebuildInProgressError as error:
            report.skip(collection_alias(agent.slug, method), str(error.public_message))
            continue
        if built := run_build(build.pk, on_progress=on_progress):
            report.points += built.points
            report.embedded += built.embedded
            report.reused += built.reused


def refresh_now(source: WebSource, *, report: IndexReport, on_progress: OnProgress = no_progress) -> None:
    """Refresh a source here and now, and add what was done to `report`; one that another worker has is left to it, and
    told.
    """
    build = create_refresh(source)
    try:
        done = run_build(build.pk, on_progress=on_progress)
    except KnowledgeError as error:
        report.fail(source.url, f"{error.public_message} ({error})")
        return
    if done is None:
        report.skip(source.url, _("Un autre worker relit cette adresse en ce moment."))
    else:
        report.absorb(done)
