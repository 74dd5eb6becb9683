"""That a worker lives, and what maintenance did: as rows, in words, and as figures."""

import time
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

from django.conf import settings
from django.test import TestCase
from django.utils import timezone

from agents.jobs import Heartbeat, carry_out, due_jobs, ensure, lease_owner, run_job, worker_state
from agents.models import Job, JobKind, JobStatus
from config.celery import LINGER_SECONDS, _leave, _poll, note_build
from config.health import worker_detail
from knowledge.models import IndexBuild
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.factories import make_agent
from tests.integration.config.test_health import figures

SILENT = timedelta(seconds=settings.WORKER_SILENT_SECONDS + 30)


def age(name: str, by: timedelta = SILENT) -> None:
    seen_at = timezone.now() - by
    Job.objects.filter(kind=JobKind.WORKER, key=name).update(
        lease_expires_at=seen_at + timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    )


def queue_job(waited: timedelta) -> IndexBuild:
    build = IndexBuild.objects.create(agent=make_agent(), kind=JobKind.DOCUMENTS)
    IndexBuild.objects.filter(pk=build.pk).update(created_at=timezone.now() - waited)
    return build


def polled(reserved: int) -> list[int]:
    with (
        mock.patch("config.celery.state.reserved_requests", range(reserved)),
        mock.patch("agents.jobs.run_job.delay") as delay,
    ):
        _poll(SimpleNamespace(concurrency=2))
    return [call.args[0] for call in delay.call_args_list]


class PollTests(TestCase):
    def test_a_worker_without_a_broker_takes_up_as_many_jobs_as_it_has_processes_free(self) -> None:
        jobs = [queue_job(timedelta(minutes=minutes)) for minutes in (3, 2, 1)]
        for reserved, taken in ((0, 2), (1, 1), (2, 0)):
            assert polled(reserved) == [job.pk for job in jobs[:taken]]

    def test_long_jobs_leave_a_slot_to_those_that_somebody_waits_for(self) -> None:
        long, longer, quick = (queue_job(timedelta()) for _time in range(3))
        IndexBuild.objects.exclude(pk=quick.pk).update(payload={"is_long": True})
        Job.objects.filter(pk=longer.pk).update(kind=JobKind.REBUILD)
        assert polled(0) == [long.pk, quick.pk]
        assert Job.objects.claim(longer.pk, f"{lease_owner()[:-9]}7:12345678")  # another process's
        assert polled(0) == [long.pk, quick.pk]
        Job.objects.filter(pk=longer.pk).update(status=JobStatus.QUEUED, lease_owner="")
        assert Job.objects.claim(long.pk, lease_owner())
        assert (polled(1), due_jobs(9)) == ([quick.pk], [longer.pk, quick.pk])
        assert Job.objects.claim(quick.pk, lease_owner())
        assert polled(1) == []

    def test_embedded_worker_ends_some_time_after_its_last_build(self) -> None:
        build, now = queue_job(timedelta()), time.monotonic()
        note_build(task=run_job, args=[build.pk], retval=True)
        for later, reserved, ends in ((1, (), None), (LINGER_SECONDS + 1, (build,), None), (LINGER_SECONDS + 1, (), 0)):
            with (
                mock.patch("config.celery.time.monotonic", return_value=now + later),
                mock.patch(
                    "config.celery.state", SimpleNamespace(reserved_requests=reserved, should_stop=None)
                ) as state,
            ):
                _leave()
            assert state.should_stop == ends


class WorkerStateTests(TestCase):
    def test_a_worker_that_beats_or_is_being_started_is_not_missing(self) -> None:
        Heartbeat("celery@one").beat()
        assert (worker_state().state, worker_detail()["status"]) == ("ok", "ok")
        age("celery@one")
        Heartbeat("embedded-1@one").beat()
        assert worker_state().state == "ok"

    def test_a_silent_worker_is_missing_and_one_of_two_is_not(self) -> None:
        for name in ("celery@one", "celery@two"):
            Heartbeat(name).beat()
            age(name)
        found = worker_state()
        assert (found.state, worker_detail()["status"]) == ("silent", "silent")
        assert SILENT.total_seconds() <= (found.seconds or 0) < SILENT.total_seconds() + 60
        Heartbeat("celery@two").beat()
        assert [each.key for each in worker_state().alive] == ["celery@two"]


class ToldTests(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()

    def test_alarm_is_a_job_that_nobody_ever_took_or_a_worker_that_fell_silent(self) -> None:
        self.assertNotContains(self.client.get("/admin/"), "à l’arrêt")
        queue_job(SILENT)
        self.assertContains(self.client.get("/admin/"), "à l’arrêt")
        Heartbeat("celery@one").beat()
        self.assertNotContains(self.client.get("/admin/"), "à l’arrêt")
        age("celery@one")
        self.assertContains(self.client.get("/admin/"), "à l’arrêt")
        reader = client_of(make_staff("knowledge.view_document"))
        self.assertNotContains(reader.get("/admin/"), "à l’arrêt")

    def test_figures_tell_workers_waiting_jobs_and_maintenance(self) -> None:
        Heartbeat("celery@one").beat()
        build = queue_job(timedelta(minutes=5))
        carry_out(ensure(JobKind.RECOVER).pk)
        found = figures(self.client)
        assert found["repondant_workers[]"] == 1
        assert 300 <= found["repondant_jobs_waiting_seconds[]"] < 360
        assert 300 <= worker_detail()["waiting_seconds"] < 360
        assert found["repondant_upkeep_timestamp_seconds[('kind', 'reap')]"] > 0
        age("celery@one")
        IndexBuild.objects.filter(pk=build.pk).update(status=JobStatus.DONE)
        found = figures(self.client)
        assert found["repondant_workers[]"] == 0
        assert found["repondant_jobs_waiting_seconds[]"] < 60
