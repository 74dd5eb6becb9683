"""A file to indexed points: store it, cut it into chunks, complete the questions, write the points.

Each step is idempotent, so a run that was cut is simply run again. A file that cannot be read stays, as a failed
document with the reason; the rest of its batch is done.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.core.files.base import ContentFile
from django.db import transaction
from django.utils import timezone

from agents.effective import agent_setting
from agents.exceptions import LLMError
from agents.llm.base import LanguageModel, language_model
from agents.models import Agent, IndexingMethod
from knowledge.chunking import ChunkDraft, chunk_document
from knowledge.embeddings.base import embedder
from knowledge.exceptions import UnreadableDocumentError
from knowledge.indexing.generations import current_generation
from knowledge.indexing.points import PointWriter
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.indexing.sources import plan_chunk, plan_document
from knowledge.models import Category, Chunk, Document, DocumentStatus, UnitsOrigin
from knowledge.parsing.base import ParsedDocument
from knowledge.parsing.registry import parse_document
from knowledge.qa_generation import GeneratedUnits, generate_units
from knowledge.search import collection_alias
from knowledge.vectors.base import vector_store


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
    readable = [document for document in documents if _cut(document, report)]
    model = language_model() if agent_setting(agent, "generate_questions") else None
    if model is not None:
        _complete_units(model, readable, report)
    _write(agent, readable, report, on_progress)
    report.documents += len(readable)
    for document in readable:
        report.chunks += document.chunks.count()
        report.waiting += document.chunks.waiting().count()
    Document.objects.filter(pk__in=[document.pk for document in readable]).update(
        status=DocumentStatus.INDEXED, error="", indexed_at=timezone.now()
    )
    return report


def _cut(document: Document, report: IndexReport) -> bool:
    """Parse the stored file and bring its chunks up to date; `False` when it cannot be read."""
    try:
        with document.file.open("rb") as file:
            parsed = parse_document(file.read(), filename=document.name)
        drafts = chunk_document(parsed)
    except UnreadableDocumentError as error:
        return _refuse(document, str(error.public_message), report)
    except OSError as error:
        return _refuse(document, f"{error.strerror or error}", report)
    _update_document(document, parsed)
    for notice in parsed.notices:
        report.skip(document.name, notice)
    synchronise_chunks(document, drafts)
    return True


def _refuse(document: Document, reason: str, report: IndexReport) -> bool:
    document.status, document.error = DocumentStatus.FAILED, reason
    document.save(update_fields=["status", "error"])
    report.fail(document.name, reason)
    return False


def _update_document(document: Document, parsed: ParsedDocument) -> None:
    document.title = parsed.title[:500]
    document.source_type = parsed.source_type
    document.save(update_fields=["title", "source_type"])


def synchronise_chunks(document: Document, drafts: Sequence[ChunkDraft]) -> None:
    """Make the document's chunks those of `drafts`; a chunk whose text is unchanged keeps its row."""
    kept: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk in document.chunks.order_by("-index"):
        kept[chunk.content_hash].append(chunk)
    categories = _categories(drafts)
    fresh, moved = [], []
    for index, draft in enumerate(drafts):
        if kept[draft.content_hash]:
            chunk = kept[draft.content_hash].pop()
            chunk.index = index
            moved.append(chunk)
        else:
            fresh.append(_chunk(document, index, draft, categories.get(draft.category)))
    gone = [chunk for chunks in kept.values() for chunk in chunks]
    gone_ids = point_ids(gone)
    with transaction.atomic():
        Chunk.objects.filter(pk__in=[chunk.pk for chunk in gone]).delete()
        Chunk.objects.bulk_update(moved, ["index"], batch_size=500)
        Chunk.objects.bulk_create(fresh, batch_size=500)
    if gone_ids:
        remove_points(agent_slug=document.agent.slug, ids=gone_ids)


def _chunk(document: Document, index: int, draft: ChunkDraft, category: Category | None) -> Chunk:
    units = [{"question": unit.question, "answer": unit.answer} for unit in draft.units]
    return Chunk(
        document=document,
        index=index,
        parent_context=draft.parent_context,
        content=draft.content,
        summary=draft.summary,
        keywords=list(draft.keywords),
        category=category,
        knowledge_units=units,
        units_origin=UnitsOrigin.FOUND if units else UnitsOrigin.WAITING,
        content_hash=draft.content_hash,
    )


def _categories(drafts: Iterable[ChunkDraft]) -> dict[str, Category]:
    names = {draft.category for draft in drafts if draft.category}
    return {name: Category.objects.get_or_create(name=name[:200])[0] for name in names}


def _complete_units(
    model: LanguageModel, documents: Sequence[Document], report: IndexReport
) -> None:
    """Have the model write the questions of waiting chunks; a model that fails leaves the rest waiting."""
    for document in documents:
        for chunk in document.chunks.waiting():
            try:
                generated = generate_units(
                    model,
                    title=document.title,
                    parent_context=chunk.parent_context,
                    content=chunk.content,
                )
            except LLMError as error:
                report.skip(document.name, str(error.public_message))
                return
            report.model_calls += generated.model_calls
            if generated.units:
                _keep_generated(chunk, generated)


def _keep_generated(chunk: Chunk, generated: GeneratedUnits) -> None:
    chunk.knowledge_units = [
        {"question": unit.question, "answer": unit.answer} for unit in generated.units
    ]
    chunk.units_origin = UnitsOrigin.GENERATED
    chunk.summary = generated.summary
    chunk.keywords = list(generated.keywords)
    chunk.save(update_fields=["knowledge_units", "units_origin", "summary", "keywords"])


def point_ids(chunks: Iterable[Chunk]) -> list[str]:
    """The ids of every point that these chunks own, in both methods."""
    return [
        point.id
        for chunk in chunks
        for method in IndexingMethod
        for point in plan_chunk(chunk.document, chunk, method)
    ]


def remove_points(*, agent_slug: str, ids: Sequence[str]) -> None:
    """Delete points from every current index of the agent."""
    store = vector_store()
    for method in IndexingMethod:
        if store.resolve_alias(alias := collection_alias(agent_slug, method)):
            store.delete(alias, ids)


def drop_indexes(*, agent_slug: str) -> None:
    """Drop every current index of an agent that was deleted."""
    store = vector_store()
    for method in IndexingMethod:
        current = store.resolve_alias(collection_alias(agent_slug, method))
        if current is not None:
            store.drop(current)


def _write(
    agent: Agent, documents: Sequence[Document], report: IndexReport, on_progress: OnProgress
) -> None:
    model, store = embedder(), vector_store()
    planned = {
        method: [point for document in documents for point in plan_document(document, method)]
        for method in sorted(agent.methods_in_use())
    }
    total = sum(len(points) for points in planned.values())
    before = 0
    for method, points in planned.items():
        collection = current_generation(store, agent, method, model.recipe)
        writer = PointWriter(store=store, collection=collection, embedder=model)

        def report_all(done: int, _total: int, at: int = before) -> None:
            on_progress(at + done, total)

        writer.write(points, total=total, on_progress=report_all)
        before += len(points)
        report.points += len(points)
        report.embedded += writer.counts.embedded
        report.reused += writer.counts.reused
