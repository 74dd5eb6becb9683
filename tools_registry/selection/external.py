"""Mode `external`: the nearest tools by the vector store, for catalogues too large for a matrix in each process.

The store knows names and vectors only. What comes back is kept if it is a candidate, so the wall holds whatever the
store says; where too few are left, more are fetched. Words then decide between near tools, as in mode `local`.
"""

from knowledge.embeddings.base import Vectors, embedder
from knowledge.exceptions import CollectionMissingError
from knowledge.vectors.base import Query, Wanted, vector_store
from tools_registry.catalog import ToolList
from tools_registry.index import EXTERNAL_ALIAS
from tools_registry.models import CatalogueState
from tools_registry.ranking import WordIndex
from tools_registry.selection.base import RankedTool, ToolSelector
from tools_registry.tasks import ask_for_index

#: The words decide among this many times the tools wanted.
_FETCHED = 8
_LEAST_FETCHED = 40


class ExternalToolSelector(ToolSelector):
    @property
    def uses_database(self) -> bool:
        return vector_store().uses_database

    def prepare(self, candidates: ToolList) -> None:
        """Ask for the store to be filled where it holds another state of the index than the database."""
        held = CatalogueState.objects.filter(pk=1).values_list("external", flat=True).first() or ""
        if not held or held != candidates.tokens[1]:
            ask_for_index(f"external {candidates.tokens} {held}")

    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[RankedTool]:
        wanted = min(max(limit * _FETCHED, _LEAST_FETCHED), len(candidates))
        near = _nearest(question_vector, candidates, wanted)
        words = _lexicon(candidates).scores(question)
        ranked = [RankedTool(candidates[position], score + float(words[position])) for position, score in near]
        ranked.sort(key=lambda found: (-found.score, found.spec.name))
        return ranked[:limit]


def _nearest(vector: Vectors, candidates: ToolList, wanted: int) -> list[tuple[int, float]]:
    positions, count = candidates.positions, wanted
    while True:
        try:
            asked = Query(vector, embedder().recipe)
            hits = vector_store().query(EXTERNAL_ALIAS, asked, Wanted(limit=count))
        except CollectionMissingError:
            return []
        found = [(positions[name], hit.score) for hit in hits if (name := str(hit.payload.get("name"))) in positions]
        if len(found) >= wanted or len(hits) < count:
            return found
        count *= 4


def _lexicon(candidates: ToolList) -> WordIndex:
    known = candidates.words
    if known is None:
        known = candidates.words = WordIndex(candidates)
    return known
