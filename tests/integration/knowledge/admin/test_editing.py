"""The admin of passages and their conflicts, close questions, and the page of a build."""

import re
from typing import Any

from django.test import TestCase
from django.urls import reverse

from agents.admin_base import admin_url
from agents.models import IndexingMethod, JobKind, JobStatus
from faqs.origins import keep_passages, origins_of
from knowledge.indexing.jobs import run_build
from knowledge.models import Chunk, IndexBuild, UnitsOrigin
from knowledge.vectors.base import collection_alias, vector_store
from tests.admin_pages import client_of, make_staff, run_action, shown_messages, superuser_client
from tests.factories import FAQ_TEXT, add_document, make_agent, make_learned, source_of

LIST = admin_url(Chunk, "changelist")


class PassageTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()
        self.agent = make_agent()
        self.document = add_document(self.agent)
        self.chunk = self.document.chunks.get(content__contains="trois semaines")
        self.address = admin_url(Chunk, "change", self.chunk.pk)

    def send(self, **changes: Any) -> Any:
        page = self.client.get(self.address).content.decode()
        seen = re.search(r'name="seen" value="([0-9a-f]+)"', page)
        assert seen is not None
        data = {
            "seen": seen[1],
            "content": self.chunk.content,
            "parent_context": self.chunk.parent_context,
            "category": "",
            "enabled": "on",
            "units-question": [u["question"] for u in self.chunk.knowledge_units],
            "units-answer": [u["answer"] for u in self.chunk.knowledge_units],
            **changes,
        }
        with self.captureOnCommitCallbacks(execute=True):
            return self.client.post(self.address, data, follow=True)

    def reload(self) -> Chunk:
        self.chunk.refresh_from_db()
        return self.chunk

    def in_conflict(self) -> None:
        self.send(content=self.chunk.content.replace("trois", "quatre"))
        add_document(self.agent, text=FAQ_TEXT.replace("trois", "deux"))
        assert self.reload().conflict

    def test_text_and_questions_are_edited_beside_the_text_of_the_document(self) -> None:
        text = self.chunk.content.replace("trois", "quatre")
        self.send(
            **{"content": text, "units-question": ["Combien de temps ?", ""], "units-answer": ["Quatre semaines.", ""]}
        )
        assert self.reload().content == text
        assert self.chunk.units_origin == UnitsOrigin.STAFF
        assert IndexBuild.objects.get().kind == JobKind.SYNC
        page = self.client.get(self.address)
        self.assertContains(page, "trois semaines")
        self.assertContains(page, "quatre semaines")
        self.assertContains(page, "Combien de temps ?")

    def test_a_form_sent_back_unchanged_is_no_edit(self) -> None:
        chunk = self.document.chunks.get(content__contains="12 euros")
        self.chunk, self.address = chunk, admin_url(Chunk, "change", chunk.pk)
        self.send()
        assert not self.reload().is_edited
        assert self.chunk.units_origin == UnitsOrigin.FOUND

    def test_a_question_without_an_answer_is_refused(self) -> None:
        response = self.send(**{"units-question": ["Combien ?"], "units-answer": [""]})
        self.assertContains(response, "Chaque question a besoin d’une réponse")
        assert not self.reload().is_edited

    def test_answers_drawn_from_it_are_named_before_they_are_withdrawn(self) -> None:
        for question, answer in (
            ("Combien de temps ?", "Trois semaines."),
            ("Où réserver une salle ?", "À l’accueil."),
        ):
            row = make_learned(self.agent, question=question, answer=answer)
            keep_passages(row, origins_of([source_of(self.chunk)]) or ())
        changed = self.chunk.content.replace("trois", "12")
        page = self.send(content=changed)
        assert "Cette modification retire : « Combien de temps ? ». Cochez" in page.content.decode()
        assert self.reload().content != changed
        unit = {"units-question": ["Combien ?"], "units-answer": ["14 semaines."]}
        page = self.send(content=changed, withdraw="on", **unit)
        assert "« Combien ? » dit 14, que le texte ne contient pas" in shown_messages(page)
        assert self.reload().content == changed

    def test_a_passage_that_changed_meanwhile_is_not_overwritten(self) -> None:
        response = self.send(seen="0" * 64)
        self.assertContains(response, "a changé depuis que vous l’avez ouvert")

    def test_a_conflict_is_listed_shown_and_resolved_by_a_button(self) -> None:
        self.in_conflict()
        self.assertContains(self.client.get(LIST, {"staff": "conflict"}), "Conflit à régler")
        page = self.client.get(self.address)
        for text in ("deux semaines", "quatre semaines", "trois semaines"):
            self.assertContains(page, text)
        resolve = reverse("admin:knowledge_chunk_resolve", args=[self.chunk.pk])
        assert self.client.post(resolve, {"choice": "other"}).status_code == 404
        self.client.post(resolve, {"choice": "document"})
        assert "deux semaines" in self.reload().content
        assert not self.chunk.conflict

    def test_passages_are_switched_off_and_on_in_bulk(self) -> None:
        alias = collection_alias(self.agent.slug, IndexingMethod.QA_ATOMIC)
        for action, points in (("disable", 0), ("enable", 5)):
            with self.captureOnCommitCallbacks(execute=True):
                run_action(self.client, action, *self.document.chunks.all())
            for build in IndexBuild.objects.filter(status=JobStatus.QUEUED):
                run_build(build.pk)
            assert vector_store().count(alias) == points

    def test_who_may_only_look_changes_nothing(self) -> None:
        client = client_of(make_staff("knowledge.view_chunk"))
        assert client.get(self.address).status_code == 200
        assert client.post(self.address, {"content": "x"}).status_code == 403
        resolve = reverse("admin:knowledge_chunk_resolve", args=[self.chunk.pk])
        assert client.post(resolve, {"choice": "staff"}).status_code == 403
