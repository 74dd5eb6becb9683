"""Search by meaning and by words together, through the index of an agent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from django.test import TestCase

from agents.models import Agent, IndexingMethod
from knowledge import search as search_module
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.jobs import create_rebuild, run_build
from knowledge.models import Chunk, VectorPoint
from knowledge.search import Passage, PointType, SearchResult, confirm_passages, search
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Hit, Query, collection_alias
from knowledge.vectors.payloads import passage_from_hit, source_material_payload
from tests.factories import add_document, make_agent

QUESTION = "carte de lecteur"


@contextmanager
def lexical_weight(weight: float) -> Iterator[None]:
    """The tests' embedder has no measured profile, hence no weight."""
    known = threshold_profile("universal-sentence-encoder-multilingual-3")
    assert known is not None
    profile = replace(known, lexical_weight=weight)
    with mock.patch.object(search_module, "threshold_profile", return_value=profile):
        yield


def find(agent: Agent, question: str, *, min_score: float | None = None) -> SearchResult:
    model = embedder()
    return search(
        collection_alias(agent.slug, IndexingMethod.QA_ATOMIC),
        Query(model.embed_one("tout autre chose", purpose=Purpose.QUERY), model.recipe, question),
        limit=3,
        min_score=min_score,
    )


class HybridSearchTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.document = add_document(self.agent)

    def test_least_similarity_is_a_cosine_also_for_words(self) -> None:
        with lexical_weight(5.0):
            assert not find(self.agent, QUESTION, min_score=1.01).hits

    def test_words_follow_a_deleted_document_and_a_rebuild(self) -> None:
        with lexical_weight(5.0):
            before = find(self.agent, QUESTION).best_relevance
            run_build(create_rebuild(agent=self.agent, method=IndexingMethod.QA_ATOMIC).pk)
            assert find(self.agent, QUESTION).best_relevance == before
            self.document.delete()
            assert not confirm_passages(find(self.agent, QUESTION), agent_id=self.agent.pk).hits

    def test_questions_have_no_lead_over_a_passage_without_any(self) -> None:
        plain = add_document(self.agent, name="c.md", text="# Cantine\n\nLe repas coûte quatre euros.").chunks.get()
        asked, other = (
            add_document(self.agent, name=f"{question}.md", text=f"# FAQ\n\n## {question}\n\nOui.").chunks.get()
            for question in ("Quel tarif ?", "Quel prix ?")
        )

        def hit(chunk: Chunk, kind: PointType, score: float) -> Passage:
            made = passage_from_hit(Hit(f"{chunk.pk}-{kind}", score, source_material_payload(chunk)))
            return made.with_values(type=kind, relevance=score)

        questions = [hit(asked, PointType.QA_PAIR, 0.5), hit(other, PointType.QA_PAIR, 0.46)]
        texts = [hit(other, PointType.SOURCE_MATERIAL, 0.45), hit(plain, PointType.SOURCE_MATERIAL, 0.44)]
        with lexical_weight(1.0):
            mixed = confirm_passages(SearchResult((*questions, *texts)), agent_id=self.agent.pk)
            alone = confirm_passages(SearchResult((*questions, texts[0])), agent_id=self.agent.pk)
        assert [each.chunk_id for each in mixed.passages(3)] == [plain.pk, asked.pk, other.pk]
        assert [each.chunk_id for each in alone.passages(3)] == [asked.pk, other.pk]

    def test_points_from_before_there_were_words_are_read_all_the_same(self) -> None:
        with lexical_weight(5.0):
            before = find(self.agent, QUESTION)
            VectorPoint.objects.update(terms=None)
            assert find(self.agent, QUESTION) == before
