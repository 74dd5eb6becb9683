"""What staff change in a chunk, and a document that changes after that."""

from auditlog.models import LogEntry
from django.test import TestCase

from agents.history import acting, restore
from agents.models import IndexingMethod
from knowledge.chunking import KnowledgeUnit, units_as_json
from knowledge.indexing.chunks import edit_chunk, resolve_conflict
from knowledge.indexing.path import update_documents
from knowledge.models import Chunk, Document, UnitsOrigin
from knowledge.search import SearchResult, confirm_passages
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import FAQ_TEXT, add_document, make_agent, make_user, search_index

RULES = "Les livres empruntés sont rendus sous trois semaines."


class StaffEditTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.document = add_document(self.agent)
        self.chunk = self.document.chunks.get(content__contains=RULES)

    def edit(self, content: str, units: list[KnowledgeUnit] | None = None) -> None:
        kept = [KnowledgeUnit(**each) for each in self.chunk.knowledge_units] if units is None else units
        edit_chunk(self.chunk, content=content, parent_context=self.chunk.parent_context, units=kept)

    def read_again(self, text: str) -> Document:
        return add_document(self.agent, text=text)

    def reload(self) -> Chunk:
        self.chunk.refresh_from_db()
        return self.chunk

    def find(self, question: str) -> SearchResult:
        return confirm_passages(search_index(self.agent, question), agent_id=self.agent.pk)

    def test_edit_is_kept_when_the_document_is_read_again(self) -> None:
        self.edit(self.chunk.content.replace("trois", "quatre"))
        self.read_again(FAQ_TEXT)
        assert "quatre semaines" in self.reload().content
        assert not self.chunk.conflict

    def test_restored_text_is_the_document_s_own_again(self) -> None:
        before, person = self.chunk.content, make_user(is_superuser=True)
        with acting(person):
            self.edit(before.replace("trois", "quatre"))
        restore(LogEntry.objects.get_for_object(self.chunk).latest("pk"), by=person)
        assert self.reload().content == before
        assert not self.chunk.is_edited

    def test_conflict_is_shown_and_nothing_is_lost(self) -> None:
        self.edit(self.chunk.content.replace("trois", "quatre"))
        self.read_again(FAQ_TEXT.replace("trois", "deux"))
        assert "quatre semaines" in self.reload().content
        assert self.chunk.conflict is not None
        assert "deux semaines" in self.chunk.conflict["content"]
        assert list(Chunk.objects.filter(conflict__isnull=False)) == [self.chunk]

    def test_staff_version_may_be_kept(self) -> None:
        self.test_conflict_is_shown_and_nothing_is_lost()
        resolve_conflict(self.chunk, "staff")
        self.read_again(FAQ_TEXT.replace("trois", "deux"))
        assert "quatre semaines" in self.reload().content
        assert not self.chunk.conflict

    def test_document_version_may_be_taken(self) -> None:
        self.test_conflict_is_shown_and_nothing_is_lost()
        resolve_conflict(self.chunk, "document")
        assert "deux semaines" in self.reload().content
        assert not self.chunk.is_edited

    def test_document_that_says_again_what_it_said_ends_the_conflict(self) -> None:
        self.test_conflict_is_shown_and_nothing_is_lost()
        self.read_again(FAQ_TEXT)
        assert not self.reload().conflict
        assert "quatre semaines" in self.chunk.content

    def test_edited_chunk_whose_text_left_the_document_is_kept_unused_until_staff_decide(self) -> None:
        self.edit(self.chunk.content.replace("trois", "quatre"))
        shorter = FAQ_TEXT.split("## Règlement")[0]
        self.read_again(shorter)
        assert self.reload().conflict is not None
        assert not self.chunk.enabled
        assert "quatre semaines" not in " ".join(h.content for h in self.find("semaines").hits)
        resolve_conflict(self.chunk, "staff")
        document = self.read_again(shorter + "\n")
        update_documents(agent=self.agent, documents=[document])
        assert self.reload().enabled
        assert not self.chunk.conflict
        assert "quatre semaines" in " ".join(h.content for h in self.find("rendus semaines").hits)

    def test_units_of_staff_are_served_and_kept(self) -> None:
        unit = KnowledgeUnit("Combien de temps garder un livre ?", "Quatre semaines.")
        self.edit(self.chunk.content, [unit])
        update_documents(agent=self.agent, documents=[self.document])
        assert self.find(unit.question).hits[0].content == "Quatre semaines."
        self.read_again(FAQ_TEXT)
        assert self.reload().knowledge_units == units_as_json([unit])
        assert self.chunk.units_origin == UnitsOrigin.STAFF

    def test_question_taken_out_leaves_no_point_in_any_method(self) -> None:
        chunk = self.document.chunks.get(content__contains="12 euros")
        edit_chunk(chunk, content=chunk.content, parent_context=chunk.parent_context, units=[])
        update_documents(agent=self.agent, documents=[self.document])
        alias = collection_alias(self.agent.slug, IndexingMethod.QA_ATOMIC)
        assert vector_store().count(alias) == 4

    def test_disabled_chunk_is_neither_indexed_nor_served_and_stays_so(self) -> None:
        self.chunk.enabled = False
        self.chunk.save()
        assert RULES not in " ".join(hit.content for hit in self.find(RULES).hits)
        document = self.read_again(FAQ_TEXT.replace("trois", "deux"))
        assert not self.reload().enabled
        assert "deux semaines" in self.chunk.content
        alias = collection_alias(self.agent.slug, IndexingMethod.QA_ATOMIC)
        assert vector_store().count(alias) == 4
        assert document.chunks.count() == 3
