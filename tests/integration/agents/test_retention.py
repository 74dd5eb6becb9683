"""Everything that is kept ends: what is past its time goes, what is not stays, and a kill in the middle costs nothing."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.sessions.models import Session
from django.core.files.base import ContentFile
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.jobs import Heartbeat, carry_out, ensure
from agents.models import Job, JobKind, JobStatus
from agents.retention import next_night
from chat.models import Conversation
from faqs.models import CachedResponse
from knowledge.errors import VectorStoreUnavailableError
from knowledge.models import Document, IndexBuild
from tests.factories import make_agent, make_conversation, make_deployment, make_entry, make_exchange, make_user

LONG_AGO = timezone.now() - timedelta(days=3_000)


def make_sessions(count: int, expires: datetime) -> None:
    before = Session.objects.count()
    Session.objects.bulk_create(
        Session(session_key=f"{before + n:032}", session_data="", expire_date=expires) for n in range(count)
    )


def retain_now(on_deleted: Callable[[str, int], None] = lambda _rule, _count: None) -> dict[str, int]:
    """The nightly job, now: how many of each kind went."""
    Job.objects.filter(pk=ensure(JobKind.RETENTION).pk, status=JobStatus.QUEUED).update(not_before=None)

    def watch(done: int, _total: int, phase: Any = "", /) -> None:
        on_deleted(phase, done)

    outcome = carry_out(ensure(JobKind.RETENTION).pk, on_progress=watch)
    assert outcome is not None
    return dict((outcome.report or {})["done"])


def make_job(status: JobStatus, finished_at: datetime | None) -> IndexBuild:
    agent = make_agent(slug=f"a{IndexBuild.objects.count()}")
    return IndexBuild.objects.create(agent=agent, kind=JobKind.DOCUMENTS, status=status, finished_at=finished_at)


class EndTests(TestCase):
    def test_expired_sessions_go_in_batches_and_others_stay(self) -> None:
        make_sessions(7, LONG_AGO)
        make_sessions(3, timezone.now() + timedelta(days=1))
        seen: list[int] = []
        with override_settings(RETAIN_BATCH=2):
            retain_now(lambda _rule, count: seen.append(count))
        assert seen == [2, 4, 6, 7]
        assert Session.objects.count() == 3

    def test_finished_jobs_go_and_those_that_wait_or_are_recent_stay(self) -> None:
        make_job(JobStatus.DONE, LONG_AGO)
        make_job(JobStatus.FAILED, LONG_AGO)
        make_job(JobStatus.PARTLY_FAILED, LONG_AGO)
        stay = [make_job(JobStatus.DONE, timezone.now()).pk, make_job(JobStatus.QUEUED, None).pk]
        assert retain_now()["jobs"] == 3
        assert list(IndexBuild.objects.order_by("pk").values_list("pk", flat=True)) == stay

    def test_lines_of_the_admin_log_go(self) -> None:
        for moment in (LONG_AGO, timezone.now()):
            entry = LogEntry.objects.create(user=make_user(), action_flag=CHANGE, object_repr="x")
            LogEntry.objects.filter(pk=entry.pk).update(action_time=moment)
        assert retain_now()["changes"] == 1

    def test_rows_of_gone_workers_go_and_that_of_a_living_one_stays(self) -> None:
        for name in ("a", "b"):
            Heartbeat(name).beat()
        workers = Job.objects.filter(kind=JobKind.WORKER)
        workers.filter(key="a").update(lease_expires_at=LONG_AGO)
        retain_now()
        assert [each.key for each in workers.all()] == ["b"]

    def test_files_that_no_document_names_go_once_they_are_old(self) -> None:
        storage: Any = Document._meta.get_field("file").storage
        names = [storage.save(f"ab/{n}.txt", ContentFile(b"x")) for n in range(3)]
        Document.objects.create(agent=make_agent(), name="kept", file=names[0])
        for name in names:
            self.addCleanup(storage.delete, name)
        for name in names[:2]:
            os.utime(storage.path(name), (0, 0))
        retain_now()
        assert [storage.exists(name) for name in names] == [True, False, True]

    def test_conversations_stay_unless_the_site_gives_them_an_end(self) -> None:
        conversation = make_conversation()
        make_exchange(conversation, "Quels sont les horaires ?", "De 9 heures à 20 heures.")
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=LONG_AGO)
        assert "conversations" not in retain_now()
        with override_settings(CONVERSATION_DAYS=30):
            assert retain_now()["conversations"] == 1

    def test_old_answers_of_the_memory_go_at_the_age_of_their_deployment(self) -> None:
        for slug, days in (("a", 180), ("b", 36_500)):
            deployment = make_deployment(slug=slug, config_overlay={"memory_max_age_days": days})
            make_entry(deployment, "Quels sont les horaires ?", "De 9 heures à 20 heures.")
        CachedResponse.objects.update(confirmed_at=LONG_AGO)
        assert retain_now()["memory"] == 1
        assert CachedResponse.objects.get().deployment.slug == "b"


class NightTests(TestCase):
    def run_due(self) -> None:
        carry_out(ensure(JobKind.RETENTION).pk, in_background=True)

    def job(self) -> Job:
        return Job.objects.get(kind=JobKind.RETENTION)

    def test_the_next_night_is_at_the_hour_of_the_site(self) -> None:
        zone = ZoneInfo(settings.TIME_ZONE)
        for now, night in (
            (datetime(2026, 5, 6, 2, 59, tzinfo=zone), datetime(2026, 5, 6, 3, tzinfo=zone)),
            (datetime(2026, 5, 6, 3, 0, tzinfo=zone), datetime(2026, 5, 7, 3, tzinfo=zone)),
        ):
            assert next_night(now) == night

    def test_it_is_done_once_a_night(self) -> None:
        for _time in range(2):
            make_sessions(1, LONG_AGO)
            self.run_due()
        assert Session.objects.count() == 1
        assert self.job().not_before == next_night(timezone.now())
        Job.objects.update(not_before=timezone.now())
        self.run_due()
        assert self.job().report["done"] == {"sessions": 1}

    def test_one_kind_that_fails_does_not_keep_the_others(self) -> None:
        make_sessions(1, LONG_AGO)
        with mock.patch("knowledge.indexing.rebuild.vector_store", side_effect=VectorStoreUnavailableError("away")):
            assert retain_now() == {"sessions": 1}
        assert list(self.job().report["failed"]) == ["generations"]

    def test_what_was_killed_is_taken_up_again(self) -> None:
        make_sessions(5, LONG_AGO)

        def killed(*_args: Any) -> None:
            raise KeyboardInterrupt

        with override_settings(RETAIN_BATCH=2):
            with pytest.raises(KeyboardInterrupt):
                retain_now(killed)
            assert Session.objects.count() == 3
            self.run_due()  # its lease still runs
            assert Session.objects.count() == 3
            Job.objects.update(lease_expires_at=LONG_AGO)
            self.run_due()
            assert Session.objects.count() == 0
