"""A file to indexed points: store it, cut it into chunks, complete the questions, write the points.

Each step is idempotent, so a run that was cut is simply run again. A file that cannot be read, or whose points cannot be
written, stays as a failed document with the reason; the rest of its batch is done.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.files.base import ContentFile

from agents.effective import agent_setting
from agents.llm.base import language_model
from agents.models import Agent
from knowledge.exceptions import UnreadableDocumentError
from knowledge.indexing.chunks import synchronise_chunks
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.indexing.sync import refuse, write_documents
from knowledge.indexing.units import complete_units
from knowledge.models import BuildPhase, Category, Document, DocumentStatus
from knowledge.reading.isolation import ReadDocument, Reader, isolated_reader


@dataclass(frozen=True, slots=True)
class StoredDocument:
    document: Document
    changed: bool


def store_document(
    *, agent: Agent, name: str, data: bytes, category: Category | None = None
) -> StoredDocument:
    """Keep a file as a document of the agent; the same name again replaces its content, if that differs."""
    digest = hashlib.sha256(data).hexdigest()
    document = Document.objects.filter(agent=agent, name=name).first()
    if document is None:
        document = Document(agent=agent, name=name)
    same_category = category is None or document.category_id == category.pk
    if document.file_hash == digest and document.status == DocumentStatus.INDEXED and same_category:
        return StoredDocument(document, changed=False)
    replaced = document.file.name if document.file and document.file_hash != digest else ""
    if document.file_hash != digest:
        document.file.save(name.rsplit("/", 1)[-1], ContentFile(data), save=False)
    document.file_hash = digest
    document.category = category or document.category
    document.status, document.error = DocumentStatus.PENDING, ""
    document.save()
    if replaced and replaced != document.file.name:
        document.file.storage.delete(replaced)
    return StoredDocument(document, changed=True)


def index_documents(
    *,
    agent: Agent,
    documents: Sequence[Document],
    report: IndexReport | None = None,
    on_progress: OnProgress = no_progress,
) -> IndexReport:
    """Read, cut, complete and index `documents` in every method in use; a document that fails stops no other."""
    report = report or IndexReport()
    readable = _read_all(documents, report, on_progress)
    model = language_model() if agent_setting(agent, "generate_questions") else None
    if model is not None:
        complete_units(model, readable, report, on_progress)
    return update_documents(agent=agent, documents=readable, report=report, on_progress=on_progress)


def update_documents(
    *,
    agent: Agent,
    documents: Sequence[Document],
    report: IndexReport | None = None,
    on_progress: OnProgress = no_progress,
) -> IndexReport:
    """Bring the points of `documents` up to date with their rows; nothing is read again and no model is asked."""
    report = report or IndexReport()
    written = write_documents(
        agent=agent, documents=documents, report=report, on_progress=on_progress
    )
    report.documents += len(written)
    for document in written:
        report.chunks += document.chunks.count()
        report.waiting += document.chunks.waiting().count()
    return report


def _read_all(
    documents: Sequence[Document], report: IndexReport, on_progress: OnProgress
) -> list[Document]:
    readable = []
    with isolated_reader() as reader:
        for done, document in enumerate(documents, start=1):
            if _cut(reader, document, report):
                readable.append(document)
            on_progress(done, len(documents), BuildPhase.READING)
    return readable


def _cut(reader: Reader, document: Document, report: IndexReport) -> bool:
    """Read the stored file and bring its chunks up to date; `False` when it cannot be read."""
    try:
        with document.file.open("rb") as file:
            read = reader.read(file.read(), filename=document.name)
    except UnreadableDocumentError as error:
        refuse(document, str(error.public_message), report)
        return False
    except (OSError, ValueError) as error:
        # `ValueError`: a document whose file was never stored.
        refuse(document, getattr(error, "strerror", None) or str(error), report)
        return False
    _update_document(document, read)
    for notice in read.notices:
        report.skip(document.name, notice)
    synchronise_chunks(document, read.drafts)
    return True


def _update_document(document: Document, read: ReadDocument) -> None:
    document.title = read.title[:500]
    document.source_type = read.source_type
    document.save(update_fields=["title", "source_type"])
