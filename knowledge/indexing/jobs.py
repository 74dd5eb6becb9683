"""Long jobs as rows: an `IndexBuild` is queued, claimed under a lease, kept alive by a heartbeat, and reaped.

The row is the truth and a Celery message only a nudge, so a lost or doubled message does no harm: `claim` lets one
worker win, a worker that dies lets its lease run out, and `reap_builds` queues the build again. Commands run the
same verbs inline.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import NoReturn

from celery import current_app
from celery.exceptions import OperationalError, SoftTimeLimitExceeded
from django.conf import settings
from django.db import IntegrityError, close_old_connections, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from agents.exceptions import ApplicationError
from agents.models import Agent, IndexingMethod
from knowledge.exceptions import KnowledgeError, RebuildInProgressError
from knowledge.indexing.documents import index_documents, update_documents
from knowledge.indexing.preview import Preview, compare_questions, recent_questions
from knowledge.indexing.rebuild import (
    complete_generation,
    diff_agent_index,
    discard_generation,
    fill_generation,
    is_in_service,
    put_in_service,
)
from knowledge.indexing.refresh import next_reading, refresh_pages
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.indexing.sync import methods_without_index, stale_documents
from knowledge.models import (
    BuildKind,
    BuildPhase,
    BuildStatus,
    Document,
    DocumentStatus,
    IndexBuild,
    WebSource,
)
from knowledge.overlaps import find_overlaps
from knowledge.vectors.base import vector_store
from knowledge.vectors.generations import (
    collection_alias,
    generations,
    new_generation,
    previous_alias,
)

logger = logging.getLogger(__name__)

#: By name, because the task module imports this one.
RUN_TASK = "knowledge.tasks.run_index_build"


#: By name as well: how the worker's timer asks for a look at every agent.
RECONCILE_TASK = "knowledge.tasks.reconcile_indexes"
_JOIN_ATTEMPTS = 3
_LONGEST_REASON = 1_000
#: Finished refreshes of one source that are kept to be looked at.
_KEPT_REFRESHES = 10


class LeaseLostError(KnowledgeError):
    """Another worker has taken the build over; this one must stop writing."""

    code = "lease_lost"


class BuildCancelledError(KnowledgeError):
    """Staff cancelled the build; what is done is kept and it can be resumed."""

    code = "build_cancelled"
    default_message = _lazy("Ce travail a été annulé.")


def enqueue_documents(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    build = IndexBuild.objects.create(
        agent=agent,
        kind=BuildKind.DOCUMENTS,
        document_ids=list(document_ids),
        total=len(document_ids),
    )
    transaction.on_commit(lambda: nudge(build.pk))
    return build


def enqueue_sync(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    """Queue an update of these documents' points; one that nobody has begun takes them along."""
    wanted = set(document_ids)
    for _attempt in range(_JOIN_ATTEMPTS):
        waiting = IndexBuild.objects.filter(
            agent=agent, kind=BuildKind.SYNC, status=BuildStatus.QUEUED
        )
        with transaction.atomic():
            build = waiting.select_for_update().first()
            if build is not None:
                wanted |= set(build.document_ids)
                ids = sorted(wanted)
                if waiting.filter(pk=build.pk).update(document_ids=ids, total=len(ids)):
                    return build
        try:
            with transaction.atomic():
                build = IndexBuild.objects.create(
                    agent=agent,
                    kind=BuildKind.SYNC,
                    document_ids=sorted(wanted),
                    total=len(wanted),
                )
        except IntegrityError:
            continue  # another was queued in between: it is joined
        transaction.on_commit(partial(nudge, build.pk))
        return build
    raise KnowledgeError(f"An update of {agent.slug} could not be queued.")


def create_refresh(source: WebSource) -> IndexBuild:
    """The row of a refresh, which is its source's lock: the one that waits or runs, where there is one."""
    rows = IndexBuild.objects.filter(source=source, kind=BuildKind.REFRESH)
    going = rows.filter(status__in=(BuildStatus.QUEUED, BuildStatus.RUNNING))
    for _attempt in range(_JOIN_ATTEMPTS):
        if (build := going.first()) is not None:
            return build
        try:
            with transaction.atomic():
                build = IndexBuild.objects.create(
                    agent=source.agent, kind=BuildKind.REFRESH, source=source
                )
        except IntegrityError:
            continue  # another was made in between: it is taken
        finished = rows.filter(finished_at__isnull=False).order_by("-pk")
        rows.filter(pk__in=list(finished.values_list("pk", flat=True)[_KEPT_REFRESHES:])).delete()
        return build
    raise KnowledgeError(f"A refresh of {source.url} could not be queued.")


def enqueue_refresh(source: WebSource) -> IndexBuild:
    """Queue a refresh; one that waits or runs already is that one."""
    build = create_refresh(source)
    transaction.on_commit(partial(nudge, build.pk))
    return build


def due_sources() -> QuerySet[WebSource]:
    due = WebSource.objects.filter(is_active=True, due_at__lte=timezone.now())
    return due.select_related("agent").order_by("due_at")


def enqueue_due_refreshes() -> int:
    """Queue a refresh of every source whose time has come; returns how many. Workers ask this every few seconds."""
    count = 0
    for source in due_sources():
        # Of several workers one moves the time on, and queues; a refresh that fails leaves it there.
        taken = WebSource.objects.filter(pk=source.pk, due_at=source.due_at)
        source.checked_at = timezone.now()
        if taken.update(due_at=next_reading(source)):
            enqueue_refresh(source)
            count += 1
    return count


def reschedule_sources() -> None:
    """Have sources follow the interval that staff changed for an agent or for the site since they were read."""
    for source in WebSource.objects.filter(is_active=True).select_related("agent"):
        due = next_reading(source) if source.checked_at else source.due_at
        # Never later than it is planned: a failed reading may be tried again before its interval.
        if (due is None) != (source.due_at is None) or (
            due and source.due_at and due < source.due_at
        ):
            WebSource.objects.filter(pk=source.pk, due_at=source.due_at).update(due_at=due)


def enqueue_rebuild(
    *, agent: Agent, method: IndexingMethod, needs_approval: bool = False
) -> IndexBuild:
    """Queue a rebuild; raises `RebuildInProgressError` while one is queued, running or staged for the same index."""
    build = create_rebuild(agent=agent, method=method, needs_approval=needs_approval)
    transaction.on_commit(lambda: nudge(build.pk))
    return build


def create_rebuild(
    *, agent: Agent, method: IndexingMethod, needs_approval: bool = False
) -> IndexBuild:
    """The row of a rebuild, which is its lock. A dead worker's lock is taken over, its generation resumed."""
    abandoned = IndexBuild.objects.expired().filter(
        agent=agent, kind=BuildKind.REBUILD, method=method
    )
    resumed = abandoned.first()
    if resumed is not None:
        return resumed
    try:
        with transaction.atomic():
            return IndexBuild.objects.create(
                agent=agent,
                kind=BuildKind.REBUILD,
                method=method,
                generation=new_generation(agent, method),
                needs_approval=needs_approval,
            )
    except IntegrityError as error:
        raise _in_progress(agent, method) from error


def approve_build(build: IndexBuild) -> None:
    """Put a staged generation in service, with what has changed since it was filled."""
    decided = _decided(build)
    if not _take(
        build, BuildStatus.STAGED, BuildStatus.QUEUED, needs_approval=False, preview=decided
    ):
        raise KnowledgeError(
            f"Build {build.pk} is not staged.",
            public_message=_("Cette reconstruction n’attend pas d’approbation."),
        )
    transaction.on_commit(lambda: nudge(build.pk))


def discard_build(build: IndexBuild) -> None:
    """Give a staged generation up; the index in service stays."""
    ended = {"finished_at": timezone.now(), "preview": _decided(build)}
    if _take(build, BuildStatus.STAGED, BuildStatus.CANCELLED, **ended):
        discard_generation(
            agent=build.agent, method=IndexingMethod(build.method), generation=build.generation
        )


def _decided(build: IndexBuild) -> dict[str, object]:
    """The preview without the questions that people asked: they were compared for a decision, and it is made."""
    return {key: value for key, value in build.preview.items() if key != "questions"}


def leftover_points(build: IndexBuild) -> int | None:
    """How many points a rebuild that failed or was cancelled has left behind; `None` where nothing of it is there.

    A generation that readers use, or that a rollback would go to, is no leftover.
    """
    over = (BuildStatus.FAILED, BuildStatus.CANCELLED)
    if build.kind != BuildKind.REBUILD or build.status not in over or not build.generation:
        return None
    store, method = vector_store(), IndexingMethod(build.method)
    used = [collection_alias(build.agent.slug, method), previous_alias(build.agent, method)]
    if build.generation in [store.resolve_alias(alias) for alias in used]:
        return None
    if build.generation not in generations(store, build.agent, method):
        return None
    return store.count(build.generation)


def drop_leftover(build: IndexBuild) -> bool:
    """Drop what a rebuild left behind; the build can still be retried, and then begins anew."""
    if leftover_points(build) is None:
        return False
    vector_store().drop(build.generation)
    return True


def cancel_build(build: IndexBuild) -> bool:
    """Stop a build that is queued or running; what it has done is kept, and `retry_build` resumes it."""
    going = (BuildStatus.QUEUED, BuildStatus.RUNNING)
    return any(
        _take(build, status, BuildStatus.CANCELLED, finished_at=timezone.now()) for status in going
    )


def retry_build(build: IndexBuild) -> None:
    """Queue a failed or cancelled build again, with its attempts forgotten; it goes on where it was."""
    changes: dict[str, object] = {"attempts": 0, "error": "", "finished_at": None}
    if build.kind == BuildKind.REBUILD and _is_overtaken(build):
        changes["generation"] = new_generation(build.agent, IndexingMethod(build.method))
    over = (BuildStatus.FAILED, BuildStatus.CANCELLED)
    try:
        with transaction.atomic():
            taken = any(_take(build, status, BuildStatus.QUEUED, **changes) for status in over)
    except IntegrityError as error:
        if build.kind == BuildKind.REBUILD:
            raise _in_progress(build.agent, IndexingMethod(build.method)) from error
        if build.kind == BuildKind.REFRESH:
            return  # another is there already and does the same
        enqueue_sync(agent=build.agent, document_ids=build.document_ids)
        return
    if taken:
        transaction.on_commit(lambda: nudge(build.pk))


def reconcile_indexes() -> None:
    """Look at every agent for documents and methods whose points do not follow their rows, and at the plan of the web."""
    reschedule_sources()
    for agent_id in Agent.objects.order_by("pk").values_list("pk", flat=True):
        reconcile_agent(agent_id)


def reconcile_agent(agent_id: int) -> list[IndexBuild]:
    """Queue what an agent's indexes lack: one that was never built, documents changed without a signal."""
    agent = Agent.objects.filter(pk=agent_id).prefetch_related("deployments__agent").first()
    if agent is None:
        return []
    builds = _enqueue_missing_indexes(agent)
    if not builds and (stale := stale_documents(agent)):
        builds.append(enqueue_sync(agent=agent, document_ids=stale))
    return builds


def build_missing_indexes(
    *, agent: Agent, report: IndexReport, on_progress: OnProgress = no_progress
) -> None:
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


def refresh_now(
    source: WebSource, *, report: IndexReport, on_progress: OnProgress = no_progress
) -> None:
    """Refresh a source here and now, and add what was done to `report`; one that another worker has is left to it, and told."""
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


def _enqueue_missing_indexes(agent: Agent) -> list[IndexBuild]:
    builds = []
    for method in methods_without_index(agent):
        try:
            builds.append(enqueue_rebuild(agent=agent, method=method))
        except RebuildInProgressError:
            logger.info("%s (%s) is being rebuilt already.", agent.slug, method)
    return builds


def _in_progress(agent: Agent, method: IndexingMethod) -> RebuildInProgressError:
    staged = IndexBuild.objects.filter(
        agent=agent, method=method, kind=BuildKind.REBUILD, status=BuildStatus.STAGED
    ).exists()
    return RebuildInProgressError(
        f"{agent.slug} ({method}) is being rebuilt.",
        public_message=_(
            "Une reconstruction de cet index attend d’être approuvée ou abandonnée dans l’administration."
        )
        if staged
        else None,
    )


def _take(build: IndexBuild, before: BuildStatus, after: BuildStatus, **changes: object) -> bool:
    """Move a build from one state to another; one caller wins."""
    rows = IndexBuild.objects.filter(pk=build.pk, status=before)
    return bool(rows.update(status=after, lease_owner="", not_before=None, **changes))


def _is_overtaken(build: IndexBuild) -> bool:
    """Whether a later generation is in service: names sort by time, and an older one cannot follow it."""
    alias = collection_alias(build.agent.slug, IndexingMethod(build.method))
    return (vector_store().resolve_alias(alias) or "") > build.generation


def nudge(build_id: int) -> None:
    """Tell a worker that there is work. A broker that is away is no error: the reaper nudges again."""
    try:
        current_app.send_task(RUN_TASK, args=[build_id])
    except OperationalError:
        logger.warning("The broker is unreachable; build %s waits for the reaper.", build_id)


def reap_builds() -> int:
    """Queue again what a dead worker left, and nudge what nobody has taken; returns how many were nudged."""
    now = timezone.now()
    expired = IndexBuild.objects.expired()
    expired.filter(attempts__gte=settings.JOB_MAX_ATTEMPTS).update(
        status=BuildStatus.FAILED,
        finished_at=now,
        error=_("Le worker s’est arrêté à chaque essai ; voir son journal."),
    )
    expired.update(status=BuildStatus.QUEUED, lease_owner="")
    forgotten = now - timedelta(seconds=settings.JOB_REAP_SECONDS)
    due = Q(not_before=None) | Q(not_before__lte=now)
    waiting = IndexBuild.objects.filter(due, status=BuildStatus.QUEUED, created_at__lt=forgotten)
    for pk in (pks := list(waiting.values_list("pk", flat=True))):
        nudge(pk)
    return len(pks)


def run_build(
    build_id: int, *, on_progress: OnProgress = no_progress, may_retry: bool = False
) -> IndexReport | None:
    """Claim and carry out a build; `None` when another worker has it. Its outcome is kept on the row either way.

    With `may_retry`, a failure for a reason that may pass queues it again for later, up to `JOB_MAX_ATTEMPTS`.
    """
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    if not IndexBuild.objects.claim(build_id, owner):
        return None
    build = IndexBuild.objects.select_related("agent").get(pk=build_id)
    try:
        with _heartbeat(build_id, owner) as lease_lost:
            watched = _progress_on_row(build_id, owner, lease_lost, on_progress)
            report = _carry_out(build, watched)
    except ApplicationError as error:
        reason = f"{error.public_message} ({error})"
        if may_retry and error.retryable and _retry_later(build, owner, reason):
            return None
        _finish(build, owner, BuildStatus.FAILED, error=reason)
        raise
    except SoftTimeLimitExceeded:
        _finish(
            build, owner, BuildStatus.FAILED, error=_("Le travail a dépassé sa durée maximale.")
        )
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
    done = BuildStatus.STAGED if build.needs_approval else BuildStatus.DONE
    _finish(build, owner, done, report=report)
    if report.embedded and done is BuildStatus.DONE:
        _look_for_overlaps(build)
    return report


def _look_for_overlaps(build: IndexBuild) -> None:
    """A service to staff after the work is done: that it failed is no failure of the build."""
    whole = build.kind == BuildKind.REBUILD
    try:
        find_overlaps(build.agent, document_ids=None if whole else set(build.document_ids))
    except KnowledgeError:
        logger.exception("Build %s: close questions could not be looked for.", build.pk)


def _carry_out(build: IndexBuild, on_progress: OnProgress) -> IndexReport:
    if build.kind == BuildKind.REBUILD:
        return _rebuild(build, on_progress)
    if build.kind == BuildKind.REFRESH:
        return _refresh(build, on_progress)
    documents = list(
        Document.objects.filter(agent=build.agent, pk__in=build.document_ids).select_related(
            "category", "agent"
        )
    )
    if build.kind == BuildKind.SYNC:
        indexed = [each for each in documents if each.status == DocumentStatus.INDEXED]
        report = update_documents(agent=build.agent, documents=indexed, on_progress=on_progress)
    else:
        report = index_documents(agent=build.agent, documents=documents, on_progress=on_progress)
    if not report.may_pass:
        _enqueue_missing_indexes(build.agent)
    return report


def _refresh(build: IndexBuild, on_progress: OnProgress) -> IndexReport:
    """Pages settled by an attempt before this one are not fetched again; those that it could not index are."""
    report = IndexReport()
    source = WebSource.objects.select_related("agent").filter(builds=build).first()
    if source is None:
        return report
    changed = refresh_pages(source, since=build.created_at, report=report, on_progress=on_progress)
    build.document_ids = sorted({*build.document_ids, *(document.pk for document in changed)})
    IndexBuild.objects.filter(pk=build.pk).update(document_ids=build.document_ids)
    unfinished = (DocumentStatus.PENDING, DocumentStatus.FAILED)
    documents = list(
        Document.objects.filter(pk__in=build.document_ids, status__in=unfinished).select_related(
            "agent", "category"
        )
    )
    if documents:
        index_documents(
            agent=build.agent, documents=documents, report=report, on_progress=on_progress
        )
        if not report.may_pass:
            _enqueue_missing_indexes(build.agent)
    return report


def _rebuild(build: IndexBuild, on_progress: OnProgress) -> IndexReport:
    method = IndexingMethod(build.method)
    if is_in_service(agent=build.agent, method=method, generation=build.generation):
        return complete_generation(agent=build.agent, method=method, generation=build.generation)
    report = fill_generation(
        agent=build.agent, method=method, generation=build.generation, on_progress=on_progress
    )
    if build.needs_approval:
        diff = diff_agent_index(agent=build.agent, method=method)
        asked = recent_questions(build.agent)
        compared = compare_questions(build.agent, method, build.generation, asked)
        preview = Preview(diff, tuple(compared)).as_json()
        IndexBuild.objects.filter(pk=build.pk).update(preview=preview)
    else:
        put_in_service(
            agent=build.agent,
            method=method,
            generation=build.generation,
            fingerprints=report.fingerprints,
        )
    return report


def _retry_later(
    build: IndexBuild, owner: str, reason: str, report: IndexReport | None = None
) -> bool:
    """Queue the build again after a pause that doubles; `False` when its attempts are used up."""
    if build.attempts >= settings.JOB_MAX_ATTEMPTS:
        return False
    pause = min(
        settings.JOB_RETRY_SECONDS * 2 ** (build.attempts - 1), settings.JOB_RETRY_CEILING_SECONDS
    )
    try:
        with transaction.atomic():
            IndexBuild.objects.filter(pk=build.pk, lease_owner=owner).update(
                status=BuildStatus.QUEUED,
                error=reason,
                report=report.as_json() if report else {},
                not_before=timezone.now() + timedelta(seconds=pause),
                lease_owner="",
            )
    except IntegrityError:  # an update that nobody has begun is there already: it does the same
        enqueue_sync(agent=build.agent, document_ids=build.document_ids)
        return False
    return True


def _finish(
    build: IndexBuild,
    owner: str,
    status: BuildStatus,
    *,
    report: IndexReport | None = None,
    error: str = "",
) -> None:
    IndexBuild.objects.filter(pk=build.pk, lease_owner=owner).update(
        status=status,
        report=report.as_json() if report else {},
        error=error,
        finished_at=timezone.now(),
    )


@contextmanager
def _heartbeat(build_id: int, owner: str) -> Iterator[threading.Event]:
    """Renew the lease from a thread of its own until the block ends; the event is set when the lease is lost.

    A build past its hard limit loses its lease too, also under a pool that enforces no limits.
    """
    stopped, lost = threading.Event(), threading.Event()
    limit = time.monotonic() + settings.JOB_HARD_LIMIT_SECONDS

    def beat() -> None:
        while not stopped.wait(settings.JOB_HEARTBEAT_SECONDS):
            close_old_connections()
            if time.monotonic() > limit or not IndexBuild.objects.renew(build_id, owner):
                lost.set()
                break
        connection.close()

    thread = threading.Thread(target=beat, name=f"heartbeat-{build_id}", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stopped.set()
        thread.join(timeout=5)


def _progress_on_row(
    build_id: int, owner: str, lease_lost: threading.Event, on_progress: OnProgress
) -> OnProgress:
    shown: BuildPhase | None = None

    def report(done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None:
        nonlocal shown
        changes: dict[str, object] = {"done": done, "total": total}
        if phase is not shown:
            shown = phase
            changes |= {"phase": phase, "phase_started_at": timezone.now()}
        mine = IndexBuild.objects.filter(pk=build_id, lease_owner=owner, status=BuildStatus.RUNNING)
        if lease_lost.is_set() or not mine.update(**changes):
            _stop(build_id)
        on_progress(done, total, phase)

    return report


def _stop(build_id: int) -> NoReturn:
    status = IndexBuild.objects.filter(pk=build_id).values_list("status", flat=True).first()
    if status == BuildStatus.CANCELLED:
        raise BuildCancelledError(f"Build {build_id} was cancelled.")
    raise LeaseLostError(f"Build {build_id} was taken over by another worker.")
