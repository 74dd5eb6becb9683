"""What indexing leaves behind: finished jobs, generations that nothing refers to, and files that no document names."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.files.storage import Storage
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.processes.upkeep import Kept, kept_rows
from knowledge.models import GIVEN_UP, UNDER_WAY, BuildStatus, Document, IndexBuild
from knowledge.vectors.base import CollectionInfo, batches, vector_store
from knowledge.vectors.generations import superseded_generations

_OVER = (BuildStatus.DONE, *GIVEN_UP)


def unused_generations() -> list[CollectionInfo]:
    """Those that no alias, no build and no rollback needs."""
    infos = vector_store().collections()
    # Asked after the list: a build that starts now uses a collection that is not in it.
    unfinished = IndexBuild.objects.filter(status__in=UNDER_WAY)
    return superseded_generations(infos, in_use=set(unfinished.values_list("generation", flat=True)))


def _finished_jobs() -> QuerySet[IndexBuild]:
    if not settings.FINISHED_JOB_DAYS:
        return IndexBuild.objects.none()
    limit = timezone.now() - timedelta(days=settings.FINISHED_JOB_DAYS)
    return IndexBuild.objects.filter(status__in=_OVER, finished_at__lt=limit)


def _abandoned_generations() -> list[CollectionInfo]:
    """Unused ones whose job is forgotten: staff may still retry the others."""
    kept = set(IndexBuild.objects.exclude(generation="").values_list("generation", flat=True))
    return [info for info in unused_generations() if info.name not in kept]


def _drop_generations() -> Iterator[int]:
    for info in _abandoned_generations():
        vector_store().drop(info.name)
        yield 1


def orphaned_files() -> Iterator[str]:
    """Files in the documents' store that no row names, and that are old enough not to be on their way to one."""
    storage: Storage = Document._meta.get_field("file").storage
    limit = timezone.now() - timedelta(hours=settings.ORPHAN_FILE_HOURS)
    for names in batches(_files(storage, ""), settings.RETAIN_BATCH):
        old = [name for name in names if storage.get_modified_time(name) < limit]
        named = set(Document.objects.filter(file__in=old).values_list("file", flat=True))
        yield from (name for name in old if name not in named)


def _files(storage: Storage, folder: str) -> Iterator[str]:
    try:
        folders, names = storage.listdir(folder)
    except FileNotFoundError:
        return  # nothing was ever stored
    for name in names:
        yield f"{folder}/{name}" if folder else name
    for each in folders:
        yield from _files(storage, f"{folder}/{each}" if folder else each)


def _delete_files() -> Iterator[int]:
    storage: Storage = Document._meta.get_field("file").storage
    for name in orphaned_files():
        storage.delete(name)
        yield 1


KEPT: tuple[Kept, ...] = (
    kept_rows("jobs", _("travaux d’indexation finis"), "FINISHED_JOB_DAYS", _finished_jobs),
    Kept(
        "generations",
        _("index abandonnés"),
        "FINISHED_JOB_DAYS",
        lambda: len(_abandoned_generations()),
        _drop_generations,
    ),
    Kept(
        "files",
        _("fichiers sans document"),
        "ORPHAN_FILE_HOURS",
        lambda: sum(1 for _name in orphaned_files()),
        _delete_files,
    ),
)
