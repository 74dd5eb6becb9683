"""Whether this process sees the files of documents (`DOCUMENT_STORAGE`), and files that no document names."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.files.storage import Storage, default_storage
from django.db import DatabaseError
from django.utils import timezone

from knowledge.models import Document
from knowledge.vectors.base import batches

#: For the operator: logs and commands are in English.
UNSHARED = (
    "This machine does not see the site's documents in {storage} ({name}: {reason}): files that were uploaded elsewhere cannot be "
    "indexed here. Set the same DOCUMENT_STORAGE, a shared folder or a bucket, on every machine. See docs/operations.md, Several machines."
)


def storage_problem() -> str | None:
    """Why this process cannot read the newest file of the site's documents, in a sentence, if it cannot."""
    stored = Document.objects.exclude(file="").order_by("-pk").values_list("file", flat=True)
    try:
        name = stored.first()
    except DatabaseError:
        return None  # not migrated, or away: whoever needs the database says so
    try:
        if name:
            default_storage.open(name, "rb").close()
    except Exception as error:  # noqa: BLE001  # each package of storages has errors of its own
        return UNSHARED.format(storage=settings.DOCUMENT_STORAGE, reason=str(error) or type(error).__name__, name=name)
    return None


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


def delete_orphans() -> Iterator[int]:
    storage: Storage = Document._meta.get_field("file").storage
    for name in _orphans():
        storage.delete(name)
        yield 1
