"""The path of a document: what happens from a file that was given to its points in the index, top to bottom.

1. `receive_file`: a file is bounded by its size before it is read, and kept as it was given. Its document waits.
   The entry points are `knowledge/admin/documents.py`, the command `add_documents`, and the refresh of a page.
2. It is queued (`jobs.enqueue_documents`), and a worker's `jobs.carry_out` takes it; the command goes on here.
3. `index_documents`: each file is read and cut into chunks in a child process with limits (`isolation`); the document's
   rows become what it says now (`chunks`); the rows become points, and only what changed is embedded (`points`); the
   acronyms that documents spell out are kept for reading questions (`knowledge.acronyms`).
4. The document answers. A job of its own has a model write questions for chunks that have none (`questions`).

Each step is idempotent, so a run that was cut is simply run again. A file that cannot be read, or whose points cannot
be written, stays as a failed document with the reason; the rest of its batch is done.
"""

import hashlib
import logging
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.errors import ApplicationError
from agents.models import Agent
from knowledge.errors import MachineTroubleError, UnreadableDocumentError, machine_trouble
from knowledge.indexing.chunks import synchronise_chunks
from knowledge.indexing.points import IndexReport, OnProgress, count_points, no_progress, refuse, write_documents
from knowledge.isolation import ReadDocument, Reader, isolated_reader
from knowledge.models import BuildPhase, Category, Chunk, Document, DocumentStatus
from knowledge.readers.base import page_name
from knowledge.readers.registry import check_size
from knowledge.synonyms import learn_from
from knowledge.vectors.base import batches

logger = logging.getLogger(__name__)

#: Of many documents so many are read and written before the others are read: somebody waits for a first answer.
FIRST_DOCUMENTS = 8
#: Files up to this are read and embedded within seconds, whatever they hold, and never wait for larger ones.
QUICK_BYTES = 500_000

SitePages = Callable[[int, str], frozenset[str]]


def _site_pages(agent_id: int, host: str) -> frozenset[str]:
    """The page names of a site: a host, or all pages uploaded as files to an agent."""
    rows = Document.objects.filter(agent_id=agent_id).exclude(file="").only("name", "file")
    names = (row.name for row in rows if _is_page(row) and _host(row.name) == host)
    return frozenset(map(page_name, names))


def _is_page(document: Document) -> bool:
    return document.file_name.lower().endswith((".html", ".htm", ".xhtml"))


def _host(name: str) -> str:
    return urlsplit(name).netloc.lower() if "://" in name else ""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    document: Document
    changed: bool


def receive_file(
    *, agent: Agent, name: str, size: int, read: Callable[[], bytes], category: Category | None = None
) -> StoredDocument:
    """Store an uploaded file; raises `UnreadableDocumentError` for one that is too big, before reading its bytes."""
    check_size(size, filename=name)
    return store_document(agent=agent, name=name, data=read(), category=category)


def store_document(
    *, agent: Agent, name: str, data: bytes, category: Category | None = None, suffix: str = ""
) -> StoredDocument:
    """Store a file as a document; the same name replaces its content. `suffix`: the format, if the name has none."""
    digest = hashlib.sha256(data).hexdigest()
    with transaction.atomic():
        # The row first and locked: of two uploads of one name, the second replaces what the first stored.
        name = unicodedata.normalize("NFC", name)  # a Mac parts accents from their letters
        same = Document.objects.filter(agent=agent, name__in=[name, unicodedata.normalize("NFD", name)])
        key = same.values_list("pk", flat=True).first() or Document.objects.get_or_create(agent=agent, name=name)[0].pk
        document = Document.objects.select_for_update().get(pk=key)
        document.name = name
        is_same = document.file_hash == digest
        same_category = category is None or document.category_id == category.pk
        if is_same and document.status == DocumentStatus.INDEXED and same_category:
            return StoredDocument(document, changed=False)
        replaced = "" if is_same else document.file.name
        if not is_same:
            filename = f"page{suffix}" if suffix else name.rsplit("/", 1)[-1]
            document.file.save(filename, ContentFile(data), save=False)
        document.is_replaced |= not is_same and document.chunks.exists()
        document.file_hash = digest
        document.category = category or document.category
        document.status, document.error = DocumentStatus.PENDING, ""
        document.save()
        if replaced and replaced != document.file.name:
            transaction.on_commit(partial(document.file.storage.delete, replaced))
    return StoredDocument(document, changed=True)


def index_documents(
    *,
    agent: Agent,
    documents: Sequence[Document],
    report: IndexReport | None = None,
    on_progress: OnProgress = no_progress,
) -> IndexReport:
    """Read, cut and index `documents`, each by itself."""
    report = report or IndexReport()
    with isolated_reader() as reader:
        # Looked up once in a run.
        site_pages, done = cache(_site_pages), 0
        documents = sorted(documents, key=_stored_size)
        small = sum(_stored_size(document) <= QUICK_BYTES for document in documents[:FIRST_DOCUMENTS])
        for part in (documents[:small], documents[small:]):
            readable = []
            for document in part:
                if _cut(reader, site_pages, document, report):
                    readable.append(document)
                done += 1
                on_progress(done, len(documents), BuildPhase.READING)
            if readable:
                update_documents(agent=agent, documents=readable, report=report, on_progress=on_progress)
    return report


def takes_long(documents: Collection[Document]) -> bool:
    """Whether somebody who waits for a small file should not wait for these."""
    return len(documents) > FIRST_DOCUMENTS or sum(map(_stored_size, documents)) > QUICK_BYTES


def _stored_size(document: Document) -> int:
    try:
        return int(document.file.size)
    except (OSError, ValueError):  # no file
        return 0


def _cut(reader: Reader, site_pages: SitePages, document: Document, report: IndexReport) -> bool:
    """Read the stored file and update its chunks; `False` when it cannot be read, or has been replaced meanwhile."""
    try:
        found = _read_stored(reader, site_pages, document)
    except MachineTroubleError as error:
        refuse(document, f"{error.public_message} ({error})", report, may_pass=True)
        return False
    with transaction.atomic():
        rows = Document.objects.select_for_update().filter(pk=document.pk)
        digest = rows.values_list("file_hash", flat=True).first()
        if digest is None:
            report.skip(document.name, _("Supprimé pendant l’indexation."))
            return False
        if digest != document.file_hash:
            # Whoever stored the new content has it indexed; what was read of the old one must not follow it.
            report.skip(document.name, _("Remplacé pendant l’indexation."))
            return False
        if isinstance(found, str):
            refuse(document, found, report)
            return False
        _update_document(document, found)
        synchronise_chunks(document, found.drafts)
    for notice in found.notices:
        report.skip(document.name, notice)
    return True


def _read_stored(reader: Reader, site_pages: SitePages, document: Document) -> ReadDocument | str:
    """The content of a document's stored file, or the reason why it is unreadable; raises `MachineTroubleError`."""
    try:
        with document.file.open("rb") as file:
            data = file.read()
        pages = site_pages(document.agent_id, _host(document.name)) if _is_page(document) else frozenset[str]()
        return reader.read(data, filename=document.file_name, pages=pages)
    except UnreadableDocumentError as error:
        return str(error.public_message)
    except FileNotFoundError:
        return _("Le fichier n’est pas dans le stockage des documents que voit ce worker (DOCUMENT_STORAGE).")
    except (OSError, ValueError) as error:
        if (trouble := machine_trouble(error)) is not None:
            raise trouble from error
        # `ValueError`: a document whose file was never stored.
        return getattr(error, "strerror", None) or str(error)


def _update_document(document: Document, read: ReadDocument) -> None:
    found = {
        "title": document.given_title or read.title[:500],
        "source_type": read.source_type,
        "language": read.language,
        "notices": "\n".join(read.notices),
        "is_replaced": False,
    }
    changed = [name for name, value in found.items() if getattr(document, name) != value]
    for name in changed:
        setattr(document, name, found[name])
    if changed:
        document.save(update_fields=changed)


def update_documents(
    *,
    agent: Agent,
    documents: Sequence[Document],
    report: IndexReport | None = None,
    on_progress: OnProgress = no_progress,
) -> None:
    """Bring the points of `documents` up to date with their rows; nothing is read again and no model is asked."""
    report = report or IndexReport()
    written = write_documents(agent=agent, documents=documents, report=report, on_progress=on_progress)
    learn_from(documents)
    report.documents += len(written)
    for document in written:
        report.chunks += document.chunks.count()
        waiting = list(document.chunks.waiting().values_list("pk", flat=True))
        report.waiting += len(waiting)
        if waiting:
            # Seed 001, section 5.5: they have no question to be found by, and their text alone is indexed.
            logger.info("chunks without units document_id=%d chunk_ids=%s", document.pk, waiting)


_BATCH = 500


def store_files(
    agent: Agent, files: "Mapping[str, Path | UploadedFile[bytes]]", category: Category | None, report: IndexReport
) -> tuple[list[Document], list[Document]]:
    """Store files by their document's name: what is new or has changed, and what has not; a failure is reported."""
    unchanged: list[Document] = []
    due: list[Document] = []
    for name, file in files.items():
        try:
            if isinstance(file, Path):
                size, read = file.stat().st_size, file.read_bytes
            else:
                size, read = file.size or 0, file.read
            stored = receive_file(agent=agent, name=name, size=size, read=read, category=category)
        except ApplicationError as error:
            report.fail(name, str(error.public_message))
        except OSError as error:
            logger.warning("A file could not be stored.", exc_info=True)
            report.fail(name, error.strerror or str(error))
        else:
            (due if stored.changed else unchanged).append(stored.document)
    _count_unchanged(agent, [document.pk for document in unchanged], report)
    return due, unchanged


def _count_unchanged(agent: Agent, keys: Sequence[int], report: IndexReport) -> None:
    """Count unchanged documents and their points as reused."""
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


def stored_files(folder: str = "") -> Iterator[str]:
    """The name of every file that documents have stored."""
    try:
        folders, names = Document._meta.get_field("file").storage.listdir(folder)
    except FileNotFoundError:
        return  # nothing was ever stored
    within = f"{folder}/" if folder else ""
    yield from (within + name for name in names)
    for each in folders:
        yield from stored_files(within + each)


def delete_orphans() -> Iterator[int]:
    """Delete the stored files that no row names, and that are old enough not to be on their way to one."""
    storage: Storage = Document._meta.get_field("file").storage
    limit = timezone.now() - timedelta(hours=settings.ORPHAN_FILE_HOURS)
    for names in batches(stored_files(), settings.RETAIN_BATCH):
        old = [name for name in names if storage.get_modified_time(name) < limit]
        named = set(Document.objects.filter(file__in=old).values_list("file", flat=True))
        for name in set(old) - named:
            storage.delete(name)
            yield 1
