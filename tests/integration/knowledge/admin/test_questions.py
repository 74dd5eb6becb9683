"""Written questions in the admin: an estimate before they begin, held, resumed and stopped with buttons, and what each
day took.
"""

from unittest import mock

from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from agents.admin_base import admin_url
from agents.llm.scripted import ScriptedLLM
from agents.models import Agent, RuntimeSettings
from knowledge.indexing.questions import waiting
from knowledge.models import BuildKind, BuildStatus, Chunk, IndexBuild, QuestionSpending
from tests.admin_pages import client_of, make_staff, shown_messages, superuser_client
from tests.factories import add_document, make_agent


class QuestionPagesTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()
        self.agent = make_agent()
        add_document(self.agent)
        self.enterContext(mock.patch.object(waiting, "language_model", return_value=ScriptedLLM()))
        self.begin = admin_url(IndexBuild, "questions", agent=self.agent.pk)

    def job(self) -> IndexBuild:
        return IndexBuild.objects.get(kind=BuildKind.QUESTIONS)

    def test_estimate_is_shown_before_anything_is_queued(self) -> None:
        RuntimeSettings(prompt_price=2, completion_price=8).save()
        page = self.client.get(self.begin)
        self.assertContains(page, "1 passage, environ 1 appel")
        self.assertContains(page, "dépense 0,00")
        assert not IndexBuild.objects.filter(kind=BuildKind.QUESTIONS).exists()
        self.client.post(self.begin)
        assert self.job().status == BuildStatus.QUEUED

    def test_an_agent_of_a_number_beyond_the_database_is_not_chosen(self) -> None:
        for page in ("questions", "rebuild", "rollback"):
            for key in ("9" * 40, "²", "x"):
                assert self.client.get(admin_url(IndexBuild, page, agent=key)).status_code == 404
                chosen = admin_url(IndexBuild, page, agent=[key, self.agent.pk])
                assert self.client.get(chosen).status_code == 200

    def test_only_a_writing_that_waits_shows_its_estimate(self) -> None:
        self.client.post(self.begin)
        address = admin_url(IndexBuild, "change", self.job().pk)
        for status, is_shown in (("queued", True), ("paused", True), ("running", False)):
            IndexBuild.objects.update(status=status)
            page = self.client.get(address).content.decode()
            assert ("environ 1 appel" in page) == is_shown, status

    def test_an_estimate_reads_no_text_and_only_documents_that_are_meant(self) -> None:
        passage = Chunk.objects.get(units_origin="waiting")
        other = add_document(self.agent, name="autre.md")
        with CaptureQueriesContext(connection) as asked:
            found = waiting.waiting_passages(self.agent, ScriptedLLM(), [passage.document_id])
        assert [each.characters for each in found] == [len(passage.content)]
        columns = "".join(query["sql"].partition(" FROM ")[0] for query in asked)
        assert columns.count('"content"') == columns.count('LENGTH("knowledge_chunk"."content")') == 1
        assert waiting.waiting_passages(self.agent, ScriptedLLM(), []) == []
        assert len(waiting.waiting_passages(self.agent, ScriptedLLM(), [other.pk])) == 1

    def test_writing_is_held_resumed_and_stopped_from_its_page(self) -> None:
        self.client.post(self.begin)
        address = admin_url(IndexBuild, "change", self.job().pk)
        self.assertContains(self.client.get(address), "Mettre en pause")
        for verb, status in (
            ("pause", BuildStatus.PAUSED),
            ("resume", BuildStatus.QUEUED),
            ("cancel", BuildStatus.CANCELLED),
        ):
            self.client.post(admin_url(IndexBuild, verb, self.job().pk))
            assert self.job().status == status
            assert self.client.get(address).status_code == 200
        too_late = self.client.post(admin_url(IndexBuild, "pause", self.job().pk), follow=True)
        assert "ne peut pas être mise en pause" in shown_messages(too_late)

    def test_page_of_a_held_writing_says_so(self) -> None:
        self.client.post(self.begin)
        self.client.post(admin_url(IndexBuild, "pause", self.job().pk))
        page = self.client.get(admin_url(IndexBuild, "change", self.job().pk))
        self.assertContains(page, "Reprendre maintenant")
        self.assertContains(page, "L’écriture est en pause")
        self.client.post(self.begin)
        assert self.job().status == BuildStatus.PAUSED

    def test_nothing_to_write_is_told(self) -> None:
        Chunk.objects.update(units_origin="found")
        page = self.client.post(self.begin, follow=True)
        assert "Aucun passage" in shown_messages(page)

    def test_days_and_what_they_took_are_listed(self) -> None:
        QuestionSpending.objects.create(day="2026-01-02", calls=12, cost=1)
        self.assertContains(self.client.get(admin_url(QuestionSpending, "changelist")), "12")

    def test_who_may_not_index_begins_nothing(self) -> None:
        client = client_of(make_staff("knowledge.view_indexbuild"))
        assert client.get(self.begin).status_code == 403
        assert client.post(self.begin).status_code == 403

    def test_without_a_model_no_passage_is_said_to_wait(self) -> None:
        agents = self.client.get(admin_url(Agent, "changelist"))
        self.assertNotContains(agents, "units_origin__exact=waiting")
        self.assertNotContains(self.client.get("/admin/"), "Passages en attente de questions")
