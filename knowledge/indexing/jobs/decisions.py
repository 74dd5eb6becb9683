"""What staff decide about a build that waits, runs or is over: cancel, retry."""

from collections.abc import Collection

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.models import IndexingMethod
from knowledge.exceptions import RebuildInProgressError
from knowledge.indexing.jobs.queue import enqueue_questions, enqueue_sync, nudge, one_writing
from knowledge.indexing.sync import new_generation
from knowledge.models import GIVEN_UP, UNDER_WAY, BuildKind, BuildStatus, IndexBuild
from knowledge.vectors.base import collection_alias, vector_store


def cancel_build(build: IndexBuild) -> bool:
    """Stop a build that is queued or running; what it has done is kept, and `retry_build` resumes it."""
    return _take(build, UNDER_WAY, BuildStatus.CANCELLED, {"finished_at": timezone.now()})


def retry_build(build: IndexBuild) -> None:
    """Queue a failed or cancelled build again, with its attempts forgotten; it goes on where it was."""
    changes: dict[str, object] = {"attempts": 0, "error": "", "finished_at": None}
    if build.kind == BuildKind.REBUILD and _is_overtaken(build):
        changes["generation"] = new_generation(build.agent, IndexingMethod(build.method))
    if build.kind == BuildKind.QUESTIONS:
        _write_again(build, changes)
        return
    try:
        with transaction.atomic():
            taken = _take(build, GIVEN_UP, BuildStatus.QUEUED, changes)
    except IntegrityError as error:
        if build.kind == BuildKind.REBUILD:
            raise RebuildInProgressError(f"{build.agent.slug} ({build.method}) is being rebuilt.") from error
        if build.kind == BuildKind.REFRESH:
            return  # another is there already and does the same
        enqueue_sync(agent=build.agent, document_ids=build.document_ids)
        return
    if taken:
        transaction.on_commit(lambda: nudge(build.pk))


def _write_again(build: IndexBuild, changes: dict[str, object]) -> None:
    """Where another is not over, it takes these documents along."""
    with one_writing(build.agent) as other:
        taken = other is None and _take(build, GIVEN_UP, BuildStatus.QUEUED, changes)
    if other is not None:
        enqueue_questions(agent=build.agent, document_ids=build.document_ids)
    elif taken:
        transaction.on_commit(lambda: nudge(build.pk))


def _take(build: IndexBuild, before: Collection[BuildStatus], after: BuildStatus, changes: dict[str, object]) -> bool:
    """Move a build from one of these states to another; one caller wins."""
    rows = IndexBuild.objects.filter(pk=build.pk, status__in=before)
    return bool(rows.update(status=after, lease_owner="", not_before=None, **changes))


def _is_overtaken(build: IndexBuild) -> bool:
    """Whether a later generation is in service: names sort by time, and an older one cannot follow it."""
    alias = collection_alias(build.agent.slug, IndexingMethod(build.method))
    return (vector_store().resolve_alias(alias) or "") > build.generation
