"""A folder that is loaded again: what is unchanged is not read, what is gone is told and can be removed.

A document remembers the folder that a command loaded it from, and the size and time of change of its file
(`Document.folder`). Where both are what they were, the bytes are not even read. Documents of other doors, or of other
folders, are nobody's loss.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import stat_result
from pathlib import Path

from agents.errors import ApplicationError
from agents.models import Agent
from knowledge.indexing.path import receive_file
from knowledge.indexing.report import IndexReport
from knowledge.indexing.sync import count_points
from knowledge.models import Category, Chunk, Document, DocumentStatus
from knowledge.readers.registry import is_read_by_newest
from knowledge.vectors.base import batches

#: A file that changed so shortly before it was read may change again within one tick of its file system's clock.
SETTLED_FILE_SECONDS = 2.0

_BATCH = 500


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file to load; `folder` is the one it was found in, empty for a file that was named itself."""

    path: Path
    folder: str = ""


def store_files(
    agent: Agent,
    files: Mapping[str, FolderFile],
    category: Category | None,
    report: IndexReport,
    *,
    again: bool = False,
) -> list[Document]:
    """Store what is new or has changed (everything, if `again`) and return it, to be indexed.

    One file that is too big, cannot be read or finds the disk full is reported, and the rest is done.
    """
    known = _known(agent, files)
    unchanged: list[int] = []
    due: list[Document] = []
    for name, file in files.items():
        try:
            found = file.path.stat()
            row = known.get(name)
            if not again and row is not None and _is_as_loaded(row, file, found, category):
                unchanged.append(row.pk)
                continue
            stored = receive_file(
                agent=agent, name=name, size=found.st_size, read=file.path.read_bytes, category=category
            )
        except ApplicationError as error:
            report.fail(name, str(error.public_message))
        except OSError as error:
            report.fail(name, error.strerror or str(error))
        else:
            _remember(stored.document, file, found)
            if stored.changed or again:
                due.append(stored.document)
            else:
                unchanged.append(stored.document.pk)
    _count_unchanged(agent, unchanged, report)
    return due


def gone_documents(agent: Agent, folders: Collection[Path], names: Iterable[str]) -> list[Document]:
    """Documents that were loaded from one of these folders and whose file is not among `names` any more.

    A folder in which nothing is found tells nothing: it may not be mounted.
    """
    seen = set(names)
    loaded = agent.documents.filter(folder__in=[str(folder) for folder in folders])
    return [document for document in loaded.order_by("name") if document.name not in seen]


def remove_documents(documents: Sequence[Document]) -> int:
    """Delete documents with their passages; their points follow, and nothing of them is served from now on."""
    for document in documents:
        document.delete()
    return len(documents)


def _known(agent: Agent, names: Iterable[str]) -> dict[str, Document]:
    wanted = set(names)
    rows = agent.documents.filter(status=DocumentStatus.INDEXED, loaded_mtime__isnull=False)
    return {row.name: row for row in rows.iterator(chunk_size=_BATCH) if row.name in wanted}


def _is_as_loaded(row: Document, file: FolderFile, found: stat_result, category: Category | None) -> bool:
    return (
        (row.loaded_size, row.loaded_mtime) == (found.st_size, found.st_mtime_ns)
        and row.folder == file.folder
        and is_read_by_newest(row)
        and (category is None or row.category_id == category.pk)
    )


def _remember(document: Document, file: FolderFile, found: stat_result) -> None:
    """By a query: nothing that the points carry changes, and no signal is sent."""
    is_settled = time.time() - found.st_mtime > SETTLED_FILE_SECONDS
    changes = {
        "folder": file.folder,
        "loaded_size": found.st_size,
        "loaded_mtime": found.st_mtime_ns if is_settled else None,
    }
    for name, value in changes.items():
        setattr(document, name, value)
    Document.objects.filter(pk=document.pk).update(**changes)


def _count_unchanged(agent: Agent, keys: Sequence[int], report: IndexReport) -> None:
    """They are in the index as they are: counted as reused."""
    report.unchanged += len(keys)
    report.documents += len(keys)
    methods = sorted(agent.methods_in_use())
    for batch in batches(keys, _BATCH):
        chunks = Chunk.objects.filter(document__in=batch)
        report.chunks += chunks.count()
        report.waiting += chunks.waiting().count()
        points = count_points(chunks, methods)
        report.points += points
        report.reused += points
