"""Documents that an older reader read: which they are, what reading them again would change, and doing it.

Their stored files are read; a passage whose text is the same keeps its row, its points and its vectors.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from agents.models import Agent
from knowledge.indexing.chunks import match_chunks
from knowledge.indexing.path import SitePages, index_documents, read_stored
from knowledge.indexing.questions import questions_model
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.isolation import ReadDocument, isolated_reader
from knowledge.models import BuildPhase, Document, DocumentStatus
from knowledge.readers.registry import read_by_older
from knowledge.vectors.base import batches

#: Documents that are read, then written, together: a run that is cut goes on after the last such batch.
_BATCH = 20


@dataclass(slots=True)
class RereadingCost:
    """What reading again would do: passages kept as they are, new ones (each embedded once), those that go; seconds of
    reading.
    """

    documents: int = 0
    unreadable: int = 0
    kept: int = 0
    #: The same text under other headings: they keep their rows and questions.
    renamed: int = 0
    new: int = 0
    gone: int = 0
    #: New passages that a model would be asked to write questions for.
    questions: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, float]:
        return {**asdict(self), "seconds": round(self.seconds, 1)}


def outdated_documents(agent: Agent | None = None) -> list[Document]:
    found = Document.objects.filter(read_by_older(), status=DocumentStatus.INDEXED)
    if agent is not None:
        found = found.filter(agent=agent)
    return list(found.select_related("agent").order_by("agent_id", "name"))


def cost_of_rereading(documents: Sequence[Document], *, on_progress: OnProgress = no_progress) -> RereadingCost:
    """Read the files and compare; nothing is written and no model is asked."""
    cost, started = RereadingCost(), time.monotonic()
    with isolated_reader() as reader:
        sites = SitePages()
        for done, document in enumerate(documents, start=1):
            _add_cost(cost, read_stored(reader, sites, document), document)
            on_progress(done, len(documents), BuildPhase.READING)
    cost.seconds = time.monotonic() - started
    return cost


def _add_cost(cost: RereadingCost, found: ReadDocument | str, document: Document) -> None:
    cost.documents += 1
    if isinstance(found, str):
        cost.unreadable += 1
        return
    matches = match_chunks(document.chunks.all(), found.drafts)
    cost.kept += len(matches.same)
    cost.renamed += len(matches.renamed)
    cost.new += len(matches.new)
    cost.gone += len(matches.left)
    if questions_model(document.agent) is not None:
        cost.questions += sum(not draft.units for draft in matches.new.values())


def reread_documents(
    documents: Sequence[Document], *, report: IndexReport | None = None, on_progress: OnProgress = no_progress
) -> IndexReport:
    """Read the files again and bring the index up to date; may be cut and run again at any moment."""
    report = report or IndexReport()
    with isolated_reader() as reader:
        for agent, batch in _batches(documents):
            index_documents(agent=agent, documents=batch, report=report, on_progress=on_progress, reader=reader)
    return report


def _batches(documents: Iterable[Document]) -> Iterator[tuple[Agent, list[Document]]]:
    by_agent: dict[Agent, list[Document]] = {}
    for document in documents:
        by_agent.setdefault(document.agent, []).append(document)
    for agent, of_agent in by_agent.items():
        for batch in batches(of_agent, _BATCH):
            yield agent, batch
