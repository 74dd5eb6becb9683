"""What needs a person, on the first page of the admin: complete, bounded, and each line with its remedy."""

import uuid
from datetime import timedelta
from typing import Any
from unittest import mock

import numpy as np
from django.contrib.auth.models import User
from django.core import mail
from django.core.mail import EmailMessage
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.jobs import carry_out
from agents.models import AgentLimit, Job, JobKind, JobStatus
from chat.models import Feedback, Turn, TurnStatus, Verdict
from chat.telemetry import MODEL_SEEN
from config.home import Line
from faqs.models import (
    EntryStatus,
    GroupStatus,
    IndexState,
    LearnedResponse,
    LearnedStatus,
    QuestionGroup,
    StatusReason,
    UnansweredQuestion,
    UnansweredReason,
)
from knowledge.models import Chunk, Document, IndexBuild, WebPage, WebSource
from tests.admin_pages import client_of, make_staff, queries_of, superuser_client
from tests.constants import override
from tests.factories import make_conversation, make_deployment, make_entry, make_exchange, make_learned

VECTOR = np.zeros(4, dtype="<f4").tobytes()
#: The lines whose list shows exactly what they count; of the others the list is ordered so that they come first.
ORDERED = ("Adresses du web qui ne répondent pas", "Indexations en échec")


class TodaysWorkTest(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.agent = self.deployment.agent
        Document.objects.create(agent=self.agent, name="présent.md", status="indexed")

    def lines(self, *rights: str) -> dict[str, Line]:
        client = client_of(make_staff(*rights)) if rights else superuser_client()
        return {str(line.title): line for line in client.get("/admin/").context["work"]}

    def add_report(self, question: str = "Où est la gare ?", **overrides: Any) -> Feedback:
        turn = make_exchange(make_conversation(self.deployment, **overrides), question, "Là.")
        return Feedback.objects.create(turn=turn, verdict=Verdict.DOWN)

    def add_group(self, question: str, **overrides: Any) -> None:
        group = QuestionGroup.objects.create(
            agent=self.agent, question=question, recipe="r", vector=VECTOR, **overrides
        )
        asked = {"agent": self.agent, "question": question, "recipe": "r", "vector": VECTOR}
        reason = UnansweredReason.REFUSED
        UnansweredQuestion.objects.create(**asked, group=group, reason=reason, source_turn=uuid.uuid4())

    def add_one_of_each(self, number: int = 0) -> None:
        self.add_report(f"Question signalée {number} ?")
        entry = {"status": EntryStatus.TO_REVIEW}
        for reason in (StatusReason.LEARNED, StatusReason.CHUNK_CHANGED):
            question = f"Question {reason} {number} ?"
            make_entry(self.deployment, question, "Oui.", status_reason=reason, **entry)
        make_learned(self.agent, question=f"Brouillon {number} ?", status=LearnedStatus.TO_REVIEW)
        failed = make_learned(self.agent, question=f"Non indexée {number} ?")
        LearnedResponse.objects.filter(pk=failed.pk).update(index_state=IndexState.FAILED)
        self.add_group(f"Sans réponse {number} ?")
        self.add_group(f"Rédigée {number} ?", status=GroupStatus.DRAFTED)
        Document.objects.create(agent=self.agent, name=f"{number}.doc", status="failed")
        gone = Document.objects.create(agent=self.agent, name=f"https://example.org/{number}")
        Chunk.objects.create(document=gone, index=0, content="Texte.", content_hash="h", conflict={"kind": "removed"})
        WebPage.objects.create(document=gone, state="gone", checked_at=timezone.now())
        WebSource.objects.create(
            agent=self.agent, url=f"https://example.org/plan/{number}", error="muette", checked_at=timezone.now()
        )
        IndexBuild.objects.create(agent=make_deployment().agent, kind=JobKind.REBUILD, status=JobStatus.FAILED)
        make_exchange(make_conversation(self.deployment), "Panne ?", "", status=TurnStatus.FAILED)

    def test_every_kind_of_work_has_its_line_and_its_list_opens_on_it(self) -> None:
        old = make_exchange(make_conversation(self.deployment), "Panne ?", "", status=TurnStatus.FAILED)
        Turn.objects.filter(pk=old.pk).update(started_at=timezone.now() - timedelta(days=30))
        self.add_one_of_each()
        client = superuser_client()
        page = client.get("/admin/")
        self.assertNotContains(page, "Tout est à jour")
        lines = page.context["work"]
        assert len(lines) == 12
        for line in lines:
            response = client.get(line.address)
            assert response.status_code == 200, line.title
            assert "e=1" not in response.request["QUERY_STRING"], line.title
            if "cl" in response.context and line.title not in ORDERED:
                assert str(response.context["cl"].result_count) == line.count, line.title

    def test_a_report_waits_until_it_is_settled_dismissed_or_taken_back(self) -> None:
        title = "Réponses signalées comme fausses"
        now = timezone.now()
        for column in ("settled_at", "dismissed_at", "withdrawn_at"):
            report = self.add_report()
            assert title in self.lines()
            Feedback.objects.filter(pk=report.pk).update(**{column: now})
            assert title not in self.lines()

    def test_a_failed_job_that_was_made_up_for_is_no_work(self) -> None:
        for status in (JobStatus.FAILED, JobStatus.DONE):
            IndexBuild.objects.create(agent=self.agent, kind=JobKind.SYNC, status=status)
        assert self.lines() == {}

    def test_a_model_that_fails_is_said_and_one_that_answers_again_is_not(self) -> None:
        title = "Le modèle de langage ne répond pas"
        with mock.patch("config.home.language_model", return_value=object()):
            self.addCleanup(setattr, MODEL_SEEN, "_status", "unknown")
            MODEL_SEEN.note(failed=True)
            assert title in self.lines()
            MODEL_SEEN.note(failed=False)
            assert title not in self.lines()

    def test_a_line_is_for_those_who_may_act_on_it(self) -> None:
        self.add_one_of_each()
        assert list(self.lines("knowledge.change_document")) == [
            "Documents illisibles ou en échec",
            "Pages du web disparues",
        ]
        assert "Réponses signalées comme fausses" not in self.lines("chat.view_turn")
        assert self.lines("agents.view_agent") == {}

    def night(self, *people: User) -> dict[str, EmailMessage]:
        """What the job of each of them sends, by address."""
        mail.outbox.clear()
        for person in people:
            job = Job.objects.get(kind=JobKind.WORK_MAIL, key=str(person.pk), not_before__gt=timezone.now())
            Job.objects.filter(pk=job.pk).update(not_before=None)
            carry_out(job.pk, in_background=True)
        return {message.to[0]: message for message in mail.outbox}

    @override_settings(HAS_MAIL=True)
    def test_who_chose_it_gets_what_waits_for_them_by_mail_once_a_night_in_their_language(self) -> None:
        right = "knowledge.change_document"
        reader, limited, idle = (make_staff(right, email=f"{name}@example.org") for name in ("a", "b", "c"))
        AgentLimit.objects.create(user=limited).agents.add(self.agent)
        AgentLimit.objects.create(user=idle)
        for person, language in ((reader, "en"), (limited, "fr"), (idle, "fr")):
            client = client_of(person)
            self.assertContains(client.get("/admin/"), "Recevoir ce travail")
            client.post("/admin/work-mail/", HTTP_ACCEPT_LANGUAGE=language)
        for agent in (self.agent, make_deployment().agent):
            Document.objects.create(agent=agent, name="a.doc", status="failed")
        sent = self.night(reader, limited, idle)
        address = "http://testserver/admin/knowledge/document/?status__exact=failed"
        assert "2 – Documents that cannot be read, or failed\n" + address in sent["a@example.org"].body
        assert "1 – Documents illisibles ou en échec\n" + address in sent["b@example.org"].body
        assert sorted(sent) == ["a@example.org", "b@example.org"]
        assert self.night(reader) == {}  # The same day again: its process had been killed.
        Job.objects.filter(kind=JobKind.WORK_MAIL).update(report={})
        for fault in ("send_mail", "_work"):
            with mock.patch(f"config.home.{fault}", side_effect=ConnectionRefusedError):
                assert self.night(reader) == {}
            Job.objects.filter(kind=JobKind.WORK_MAIL).update(report={})
        assert sorted(self.night(reader)) == ["a@example.org"]
        client_of(limited).post("/admin/work-mail/")
        assert [job.key for job in Job.objects.filter(kind=JobKind.WORK_MAIL).due()] == []

    def test_ten_times_as_much_takes_no_query_more(self) -> None:
        client = superuser_client()
        self.add_one_of_each()
        client.get("/admin/")
        before = queries_of(client, "/admin/")
        for number in range(1, 10):
            self.add_one_of_each(number)
        assert queries_of(client, "/admin/") == before
        assert before <= 40

    @override(FRONT_PAGE_COUNTED=3)
    def test_a_count_stops_where_it_says_so(self) -> None:
        for number in range(5):
            self.add_report(f"Question {number} ?")
        assert self.lines()["Réponses signalées comme fausses"].count == "3+"
