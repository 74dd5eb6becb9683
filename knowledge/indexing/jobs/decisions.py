"""What staff decide about a build that waits, runs or is over: approve, discard, cancel, retry, clean up."""

from collections.abc import Collection

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext as _

from agents.models import IndexingMethod
from knowledge.exceptions import KnowledgeError
from knowledge.indexing.jobs.queue import (
    enqueue_questions,
    enqueue_sync,
    gate_refusals,
    in_progress,
    nudge,
    one_writing,
)
from knowledge.indexing.rebuild import discard_generation
from knowledge.models import GIVEN_UP, UNDER_WAY, BuildKind, BuildStatus, IndexBuild
from knowledge.vectors.base import collection_alias, vector_store
from knowledge.vectors.generations import generations, new_generation, previous_alias


def approve_build(build: IndexBuild) -> None:
    """Put a staged generation in service, with what has changed since it was filled. Raises what a gate says against
    it.
    """
    # As the decider saw it: what is staged only now was not shown, and no gate was asked.
    is_staged = build.status == BuildStatus.STAGED
    if is_staged and (reasons := gate_refusals(build)):
        raise KnowledgeError(
            f"Build {build.pk} is stopped by a gate.",
            public_message=format_html_join(" ", "{}", ((each,) for each in reasons)),
        )
    decided = _decided(build)
    changes: dict[str, object] = {"needs_approval": False, "preview": decided}
    if not (is_staged and _take(build, [BuildStatus.STAGED], BuildStatus.QUEUED, changes)):
        raise KnowledgeError(
            f"Build {build.pk} is not staged.", public_message=_("Cette reconstruction n’attend pas d’approbation.")
        )
    transaction.on_commit(lambda: nudge(build.pk))


def discard_build(build: IndexBuild) -> None:
    """Give a staged generation up; the index in service stays."""
    ended: dict[str, object] = {"finished_at": timezone.now(), "preview": _decided(build)}
    if _take(build, [BuildStatus.STAGED], BuildStatus.CANCELLED, ended):
        discard_generation(agent=build.agent, method=IndexingMethod(build.method), generation=build.generation)


def _decided(build: IndexBuild) -> dict[str, object]:
    """The preview without the questions that people asked: they were compared for a decision, and it is made."""
    return {key: value for key, value in build.preview.items() if key != "questions"}


def leftover_points(build: IndexBuild) -> int | None:
    """How many points a rebuild that ended before its time has left behind; `None` where there are none, or readers use
    them.
    """
    if build.kind != BuildKind.REBUILD or build.status not in GIVEN_UP or not build.generation:
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
    """Stop a build that is queued, running or held; what it has done is kept, and `retry_build` resumes it."""
    before = (*UNDER_WAY, BuildStatus.PAUSED)
    return _take(build, before, BuildStatus.CANCELLED, {"finished_at": timezone.now()})


def pause_build(build: IndexBuild) -> bool:
    """Hold a writing of questions: no call is made until `resume_build`, whatever documents come meanwhile."""
    if build.kind != BuildKind.QUESTIONS:
        return False
    return _take(build, UNDER_WAY, BuildStatus.PAUSED, {})


def resume_build(build: IndexBuild) -> bool:
    """Let a held writing of questions go on, or one that waits for tomorrow's budget try at once."""
    if build.kind != BuildKind.QUESTIONS:
        return False
    before = (BuildStatus.PAUSED, BuildStatus.QUEUED)
    taken = _take(build, before, BuildStatus.QUEUED, {"attempts": 0, "error": ""})
    if taken:
        transaction.on_commit(lambda: nudge(build.pk))
    return taken


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
            raise in_progress(build.agent, IndexingMethod(build.method)) from error
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
