"""The one mechanism of jobs: claims, leases, retries, joins, what is recovered, and what staff are told."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from celery.exceptions import OperationalError as BrokerError
from django.conf import settings
from django.db import OperationalError, connection
from django.test import TestCase, override_settings
from django.utils import timezone
from django.utils.module_loading import import_string

from agents import jobs
from agents.errors import ApplicationError, StorageUnavailableError
from agents.jobs import Held, JobCancelledError, LeaseLostError, Outcome, carry_out, enqueue
from agents.models import Job, JobKind, JobQuerySet, JobStatus
from tests.factories import fresh
from tests.waiting import PATIENCE_SECONDS

KIND = JobKind.FIGURES
_verb: Callable[[Held], Outcome | None] = lambda _held: None  # noqa: E731  # each test says its own


def verb(held: Held) -> Outcome | None:
    return _verb(held)


class JobCase(TestCase):
    def setUp(self) -> None:
        # The module as the setting names it, whatever name it is collected under.
        self.enterContext(self.settings(JOBS={KIND: f"{__name__}.verb"}))

    def does(self, work: Callable[[Held], Outcome | None]) -> None:
        self.enterContext(mock.patch(f"{__name__}._verb", work))

    def run_job(self, **options: Any) -> Job:
        job = enqueue(KIND, **options)
        carry_out(job.pk, in_background=True)
        job.refresh_from_db()
        return job


def _raise(error: Exception) -> Callable[[Held], Outcome | None]:
    def work(_held: Held) -> Outcome | None:
        raise error

    return work


class ClaimTests(JobCase):
    def test_of_two_workers_one_does_the_job(self) -> None:
        job = enqueue(KIND)
        assert Job.objects.claim(job.pk, "one")
        assert not Job.objects.claim(job.pk, "two")
        assert carry_out(job.pk) is None

    def test_a_job_that_was_killed_is_taken_over_once_its_lease_has_run_out(self) -> None:
        job = enqueue(KIND)
        Job.objects.claim(job.pk, "one")
        Job.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
        assert Job.objects.claim(job.pk, "two")
        assert not Job.objects.renew(job.pk, "one")
        assert Job.objects.renew(job.pk, "two")

    def test_who_has_lost_the_lease_writes_no_more(self) -> None:
        def work(held: Held) -> None:
            Job.objects.update(lease_owner="two")
            held.progress(1, 2)

        self.does(work)
        job = enqueue(KIND)
        with pytest.raises(LeaseLostError):
            carry_out(job.pk)
        assert (fresh(job).lease_owner, job.status, job.done) == ("two", JobStatus.RUNNING, 0)

    def test_a_cancelled_job_stops_and_is_resumed(self) -> None:
        def work(held: Held) -> None:
            held.progress(1, 2)
            jobs.cancel(held.job)
            held.progress(2, 2)

        self.does(work)
        job = enqueue(KIND)
        with pytest.raises(JobCancelledError):
            carry_out(job.pk)
        assert (fresh(job).status, job.done) == (JobStatus.CANCELLED, 1)
        assert carry_out(job.pk) is None
        self.does(lambda _held: None)
        assert jobs.retry(job)
        assert carry_out(job.pk) is not None

    @override_settings(JOB_HEARTBEAT_SECONDS=0.01)
    def test_a_lease_outlives_a_database_that_is_busy_for_a_moment(self) -> None:
        answers: Iterator[bool | Exception] = iter([OperationalError("locked"), True, OperationalError("locked")])

        def renew(*_args: Any) -> bool:
            answer = next(answers, False)
            if isinstance(answer, Exception):
                raise answer
            return answer

        renewed = mock.Mock(side_effect=renew)
        with mock.patch.object(JobQuerySet, "renew", renewed), jobs._renewed(1, "me") as lost:
            assert lost.wait(PATIENCE_SECONDS)
        assert renewed.call_count == 4


class OutcomeTests(JobCase):
    def test_what_came_out_is_on_the_row(self) -> None:
        def work(held: Held) -> Outcome:
            held.progress(3, 4, "reading")
            return Outcome(JobStatus.PARTLY_FAILED, {"n": 3}, "x")

        self.does(work)
        job = self.run_job(payload={"a": 1})
        assert (job.status, job.report, job.error) == ("partly_failed", {"n": 3}, "x")
        assert (job.done, job.phase) == (3, "reading")
        assert job.finished_at is not None

    def test_a_failure_that_may_pass_waits_ever_longer_and_is_bounded(self) -> None:
        self.does(_raise(StorageUnavailableError("away")))
        job, pauses = enqueue(KIND), []
        for _attempt in range(settings.JOB_MAX_ATTEMPTS - 1):
            carry_out(job.pk, in_background=True)
            assert fresh(job).status == JobStatus.QUEUED
            assert carry_out(job.pk, in_background=True) is None  # its time has not come
            pauses.append(round((job.not_before - timezone.now()).total_seconds()) if job.not_before else 0)
            Job.objects.update(not_before=timezone.now())
        assert pauses == [15, 30, 60, 120]
        with pytest.raises(StorageUnavailableError):
            carry_out(job.pk, in_background=True)
        assert fresh(job).status == JobStatus.FAILED
        assert "away" in job.error

    def test_what_is_to_be_removed_from_a_store_is_tried_until_it_is_there_again(self) -> None:
        self.does(_raise(StorageUnavailableError("away")))
        with self.settings(JOBS={JobKind.REMOVE_POINTS: f"{__name__}.verb"}):
            job = enqueue(JobKind.REMOVE_POINTS, tells=False)
            for _attempt in range(settings.JOB_MAX_ATTEMPTS + 3):
                Job.objects.update(not_before=None)
                carry_out(job.pk, in_background=True)
            assert fresh(job).status == JobStatus.QUEUED
            assert job.not_before is not None
            assert job.not_before < timezone.now() + timedelta(seconds=jobs.JOB_RETRY_CEILING_SECONDS + 1)

    def test_a_failure_that_cannot_pass_is_said_at_once(self) -> None:
        for error in (ApplicationError("broken"), ZeroDivisionError("by zero")):
            self.does(_raise(error))
            job = enqueue(KIND)
            with pytest.raises(ApplicationError):
                carry_out(job.pk, in_background=True)
            assert (fresh(job).status, str(error) in job.error) == (JobStatus.FAILED, True)

    def test_a_job_that_goes_on_later_counts_no_attempt(self) -> None:
        moment = timezone.now() + timedelta(hours=1)
        self.does(lambda _held: Outcome(again_at=moment))
        job = self.run_job()
        assert (job.status, job.not_before, job.attempts) == (JobStatus.QUEUED, moment, 0)


class JoinTests(JobCase):
    def test_of_one_key_one_job_is_open_and_what_is_asked_is_united(self) -> None:
        first = enqueue(KIND, key="a", payload={"ids": [2, 1]})
        assert enqueue(KIND, key="a", payload={"ids": [3, 1]}) == first
        assert enqueue(KIND, key="b") != first
        assert fresh(first).payload == {"ids": [1, 2, 3]}
        carry_out(first.pk)
        assert enqueue(KIND, key="a") != first

    def test_a_job_that_is_joined_while_it_runs_runs_once_more_with_all(self) -> None:
        seen: list[list[int]] = []

        def work(held: Held) -> None:
            seen.append(held.job.payload["ids"])
            if len(seen) == 1:
                enqueue(KIND, key="a", payload={"ids": [2]})

        self.does(work)
        job = self.run_job(key="a", payload={"ids": [1]})
        assert job.status == JobStatus.QUEUED
        carry_out(job.pk)
        assert (fresh(job).status, seen) == (JobStatus.DONE, [[1], [1, 2]])

    def test_what_is_asked_while_the_row_of_small_work_is_deleted_is_queued(self) -> None:
        asked: list[int] = []

        def ask_meanwhile(execute: Any, sql: str, *rest: Any) -> Any:
            if sql.startswith("DELETE") and not asked:
                asked.append(enqueue(JobKind.TOOLS, key="k").pk)
            return execute(sql, *rest)

        with self.settings(JOBS={JobKind.TOOLS: f"{__name__}.verb"}), connection.execute_wrapper(ask_meanwhile):
            carry_out(enqueue(JobKind.TOOLS, key="k").pk, in_background=True)
        assert list(Job.objects.filter(kind=JobKind.TOOLS).values_list("pk", "status")) == [
            (asked[0], JobStatus.QUEUED)
        ]


class RecoveryTests(JobCase):
    def test_what_a_dead_process_left_is_queued_and_one_that_kills_each_is_given_up(self) -> None:
        for attempts in (0, settings.JOB_MAX_ATTEMPTS - 1):
            job = enqueue(KIND)
            Job.objects.filter(pk=job.pk).update(attempts=attempts)
            Job.objects.claim(job.pk, "dead")
        past = timezone.now() - timedelta(minutes=5)
        Job.objects.update(lease_expires_at=past, created_at=past)
        with mock.patch("agents.jobs.nudge") as nudge:
            assert jobs.recover() == 1
        assert list(Job.objects.order_by("pk").values_list("status", flat=True)) == ["queued", "failed"]
        nudge.assert_called_once()

    def test_a_job_is_not_nudged_before_its_time(self) -> None:
        enqueue(KIND)
        past = timezone.now() - timedelta(minutes=5)
        Job.objects.update(created_at=past, not_before=timezone.now() + timedelta(minutes=5))
        assert jobs.recover() == 0

    def test_a_broker_that_is_away_is_said_until_a_worker_comes(self) -> None:
        away = mock.patch("agents.jobs.current_app.send_task", side_effect=BrokerError("away"))
        with away, self.captureOnCommitCallbacks(execute=True):
            job = enqueue(KIND)
        assert (fresh(job).status, "La file des tâches est injoignable" in job.error) == (JobStatus.QUEUED, True)
        carry_out(job.pk)
        assert (fresh(job).status, job.error) == (JobStatus.DONE, "")

    def test_a_comparison_that_fails_is_not_begun_again_at_once(self) -> None:
        def compared() -> int:
            with self.settings(RECOVERY={}):
                carry_out(jobs.ensure(JobKind.RECOVER).pk, in_background=True)
            Job.objects.filter(kind=JobKind.RECOVER).update(not_before=None)
            return Job.objects.filter(kind=JobKind.RECONCILE).count()

        with self.settings(JOBS=settings.JOBS | {JobKind.RECOVER: "agents.jobs.recover_all"}):
            assert compared() == 1
            Job.objects.filter(kind=JobKind.RECONCILE).update(status=JobStatus.FAILED, finished_at=timezone.now())
            assert compared() == 1
            an_hour_ago = timezone.now() - timedelta(hours=1)
            Job.objects.filter(kind=JobKind.RECONCILE).update(finished_at=an_hour_ago)
            assert compared() == 2

    def test_a_step_that_fails_does_not_keep_the_others(self) -> None:
        steps = {"bad": "math.nothing", "jobs": "agents.jobs.recover"}
        with self.settings(JOBS=settings.JOBS | {"recover": "agents.jobs.recover_all"}, RECOVERY=steps):
            job = jobs.ensure(JobKind.RECOVER)
            carry_out(job.pk)
        job.refresh_from_db()
        assert list(job.report["failed"]) == ["bad"]
        assert job.status == JobStatus.QUEUED


def test_every_kind_of_work_names_what_carries_it_out() -> None:
    assert set(settings.JOBS) == set(JobKind) - {JobKind.WORKER, JobKind.PROBE}
    for path in (*settings.JOBS.values(), *settings.RECOVERY.values()):
        assert callable(import_string(path))
