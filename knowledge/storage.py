"""Checks that every process sees the same storage of documents' files.

Web processes store files, workers read them: on several machines both need the same storage (`DOCUMENT_STORAGE`). The
first process of a site writes a marker file to its storage and the mark to the database; every later process looks for
it.
"""

import uuid
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, default_storage
from django.db import DatabaseError, transaction
from django.utils import timezone

from knowledge.models import Document, StorageMark
from knowledge.vectors.base import batches

#: For the operator: logs and commands are in English.
UNSHARED = (
    "This machine does not see the site's documents in {storage} ({reason}): files that were uploaded elsewhere cannot be indexed "
    "here. Set the same DOCUMENT_STORAGE, a shared folder or a bucket, on every machine. If the files were moved, move the file "
    "{name} with them. See docs/operations.md, Several machines."
)


def storage_problem(*, may_mark: bool = False) -> str | None:
    """Why this process does not see what others stored, in a sentence; `None` where it does, or nobody can tell yet.

    With `may_mark`, a site without a mark gets one here, unless its documents lie elsewhere.
    """
    try:
        mark = StorageMark.objects.first()
        if mark is None:
            return _first_look(may_mark=may_mark)
    except DatabaseError:
        return None  # not migrated, or away: whoever needs the database says so
    return _problem_with(mark.file_name, mark.mark)


def _first_look(*, may_mark: bool) -> str | None:
    """A site that is older than its mark: its newest file shows where its storage is."""
    stored = Document.objects.exclude(file="").order_by("-pk").values_list("file", flat=True)
    newest = stored.first()
    if newest is not None and (problem := _problem_with(newest)):
        return problem
    if may_mark:
        mark = StorageMark(pk=1, mark=uuid.uuid4().hex)
        # The file first: whoever finds the row finds the file.
        default_storage.save(mark.file_name, ContentFile(mark.mark.encode()))
        with transaction.atomic():
            kept, is_new = StorageMark.objects.get_or_create(pk=1, defaults={"mark": mark.mark})
        if not is_new:
            default_storage.delete(mark.file_name)
            return _problem_with(kept.file_name, kept.mark)
    return None


def _problem_with(name: str, content: str | None = None) -> str | None:
    """Why a file cannot be read, or is not what was written."""
    try:
        with default_storage.open(name, "rb") as file:
            read = file.read()
        is_it = content is None or read == content.encode()
        reason = "" if is_it else "another file is there"
    except Exception as error:  # noqa: BLE001  # each package of storages has errors of its own
        reason = str(error) or type(error).__name__
    if not reason:
        return None
    return UNSHARED.format(storage=settings.DOCUMENT_STORAGE, reason=reason, name=name)


# --- Files that no document names ------------------------------------------------------------------------------------


def _orphans() -> Iterator[str]:
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


def count_orphans() -> int:
    return sum(1 for _name in _orphans())


def delete_orphans() -> Iterator[int]:
    storage: Storage = Document._meta.get_field("file").storage
    for name in _orphans():
        storage.delete(name)
        yield 1
