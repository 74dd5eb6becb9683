"""Written questions in the admin: what waits is shown before they begin."""

from unittest import mock

from django.test import TestCase

from agents.admin_base import admin_url
from agents.models import JobKind, JobStatus
from knowledge.indexing import questions
from knowledge.models import Chunk, IndexBuild
from tests.admin_pages import shown_messages, superuser_client
from tests.factories import add_document, make_agent
from tests.scripted import ScriptedLLM


class QuestionPagesTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()
        self.agent = make_agent()
        add_document(self.agent)
        self.enterContext(mock.patch.object(questions, "language_model", return_value=ScriptedLLM()))
        self.begin = admin_url(IndexBuild, "questions", agent=self.agent.pk)

    def job(self) -> IndexBuild:
        return IndexBuild.objects.get(kind=JobKind.QUESTIONS)

    def test_what_waits_is_shown_before_anything_is_queued(self) -> None:
        self.assertContains(self.client.get(self.begin), "1 passage attend")
        assert not IndexBuild.objects.filter(kind=JobKind.QUESTIONS).exists()
        self.client.post(self.begin)
        assert self.job().status == JobStatus.QUEUED

    def test_nothing_to_write_is_told(self) -> None:
        Chunk.objects.update(units_origin="found")
        page = self.client.post(self.begin, follow=True)
        assert "Aucun passage" in shown_messages(page)
