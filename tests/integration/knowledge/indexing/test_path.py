"""Documents to points: both methods, what is reused, what is refused, what is removed."""

from unittest import mock

import pytest
from django.test import TestCase
from fpdf import FPDF

from agents.admin_base import admin_url
from agents.models import IndexingMethod
from knowledge.errors import EmbeddingMismatchError
from knowledge.indexing.path import index_documents, store_document
from knowledge.models import Document
from knowledge.search import confirm_passages
from knowledge.vectors.base import collection_alias, vector_store
from knowledge.vectors.payloads import PointType
from tests.admin_pages import superuser_client
from tests.constants import override
from tests.factories import FAQ_TEXT, add_document, make_agent, search_index
from tests.hashing import HashingEmbedder

KNOWN = "Combien coûte la carte de lecteur ?"


class IndexDocumentTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def test_chunk_without_questions_is_found_by_its_content_and_counted_waiting(self) -> None:
        document = add_document(self.agent)
        waiting = document.chunks.waiting()
        assert waiting.count() == 1
        hits = search_index(self.agent, "Les livres empruntés sont rendus sous trois semaines").hits
        assert hits[0].type is PointType.SOURCE_MATERIAL
        assert hits[0].chunk_id == waiting.get().pk

    def test_passages_of_a_pdf_know_their_page_and_place(self) -> None:
        pdf = FPDF(unit="pt", format="A4")
        for text in (
            "Le dossier est adressé au guichet de la préfecture. ",
            "Une attestation est remise le jour même. ",
        ):
            pdf.add_page()
            pdf.set_font("helvetica", size=11)
            pdf.multi_cell(0, 14, text * 20)
        document = store_document(agent=self.agent, name="guide.pdf", data=bytes(pdf.output())).document
        index_documents(agent=self.agent, documents=[document])
        first, second = document.chunks.order_by("index")
        assert (first.page, second.page) == (1, 2)
        assert first.places is not None
        page, left, top, right, bottom = first.places[0]
        assert page == 1
        assert 0 < left < right <= 1
        assert 0 < top < bottom < 0.5

    def test_second_run_embeds_nothing_and_calls_no_model(self) -> None:
        document = add_document(self.agent)
        with mock.patch.object(HashingEmbedder, "_embed_batch") as embed:
            report = index_documents(agent=self.agent, documents=[document])
        assert embed.call_count == 0
        assert (report.embedded, report.reused, report.model_calls) == (0, report.points, 0)

    def test_changed_paragraph_embeds_its_own_points_only(self) -> None:
        add_document(self.agent)
        stored = store_document(agent=self.agent, name="faq.md", data=FAQ_TEXT.replace("12 euros", "15 euros").encode())
        report = index_documents(agent=self.agent, documents=[stored.document])
        assert report.embedded == 2  # the new chunk's question and its content
        assert "15 euros" in search_index(self.agent, KNOWN).hits[0].content
        assert not [hit for hit in search_index(self.agent, KNOWN).hits if "12 euros" in hit.content]

    @override(MAX_DOCUMENT_CHUNKS=2)
    def test_a_document_that_was_cut_says_so_until_it_is_read_whole(self) -> None:
        rows = "".join(f"Combien coûte {n} ?,{n} euros\n" for n in range(5))
        long = add_document(self.agent, text=f"question,answer\n{rows}", name="prix.csv")
        assert "seuls ses 2 premiers passages" in long.notices
        short = add_document(self.agent, text="question,answer\nQuoi ?,Rien\n", name="prix.csv")
        assert (short.pk, short.notices) == (long.pk, "")

    def test_deletion_removes_the_points_after_commit(self) -> None:
        document = add_document(self.agent)
        alias = collection_alias(self.agent.slug, IndexingMethod.QA_ATOMIC)
        with self.captureOnCommitCallbacks(execute=True):
            document.delete()
        assert vector_store().count(alias) == 0

    def test_replaced_file_answers_no_more_until_the_new_one_is_read(self) -> None:
        add_document(self.agent)
        document = store_document(agent=self.agent, name="faq.md", data=FAQ_TEXT.replace("12", "15").encode()).document
        assert not confirm_passages(search_index(self.agent, KNOWN), agent_id=self.agent.pk).hits
        assert "Mise à jour en cours" in superuser_client().get(admin_url(Document, "changelist")).content.decode()
        index_documents(agent=self.agent, documents=[document])
        assert "15 euros" in confirm_passages(search_index(self.agent, KNOWN), agent_id=self.agent.pk).hits[0].content

    def test_other_recipe_is_an_error_and_never_a_wrong_answer(self) -> None:
        document = add_document(self.agent)
        other = HashingEmbedder(dimensions=64)
        with mock.patch("knowledge.indexing.points.embedder", return_value=other):
            with pytest.raises(EmbeddingMismatchError):
                index_documents(agent=self.agent, documents=[document])
