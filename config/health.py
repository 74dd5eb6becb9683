"""Liveness, readiness and metrics: what an orchestrator and a monitoring system ask."""

import hmac
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from agents.jobs import waiting_seconds, worker_state
from agents.models import Job, JobKind, JobStatus
from config.readiness import readiness
from config.version import VERSION
from knowledge.models import IndexBuild


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether this process can answer questions, and how each part does (`config.readiness`); 503 where it cannot."""
    told = readiness().told()
    return JsonResponse({"version": VERSION, **told}, status=503 if told["status"] == "unavailable" else 200)


#: By their whole path: a probe comes from inside, by an address instead of a name, and is answered by whoever is alive.
_PROBES = {"/healthz": healthz, "/readyz": readyz}


@sync_and_async_middleware
def answer_probes(get_response: Any) -> Any:
    """Ahead of everything else: a probe has no session, and `ALLOWED_HOSTS` does not name the address it came by."""

    async def asynchronous(request: HttpRequest) -> HttpResponseBase:
        if probe := _PROBES.get(request.path_info):
            return await sync_to_async(probe)(request)
        response: HttpResponseBase = await get_response(request)
        return response

    def synchronous(request: HttpRequest) -> HttpResponseBase:
        probe = _PROBES.get(request.path_info, get_response)
        response: HttpResponseBase = probe(request)
        return response

    return asynchronous if iscoroutinefunction(get_response) else synchronous


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics, for staff and for the bearer of `METRICS_TOKEN`."""
    if not (_bears_token(request) or (request.user.is_authenticated and request.user.is_staff)):
        return HttpResponse(status=403)
    return HttpResponse(generate_latest(_registry()), content_type=CONTENT_TYPE_LATEST)


class JobCollector(Collector):
    """Jobs, workers and upkeep, read from the database when somebody asks: the same in every process."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Nothing where the database is away: the other figures are still told."""
        try:
            yield from [*_job_figures(), *_worker_figures(), *_upkeep_figures()]
        except DatabaseError:
            return


def _job_figures() -> Iterator[GaugeMetricFamily]:
    jobs = GaugeMetricFamily("repondant_index_jobs", "Indexing jobs, by status.", labels=["status"])
    found = dict(IndexBuild.objects.values_list("status").annotate(Count("pk")).order_by())
    # Of which some files failed is a failure, as it is for staff: whoever is alerted of one is alerted of both.
    partly = found.pop(JobStatus.PARTLY_FAILED, 0)
    for status in JobStatus.values:
        if status != JobStatus.PARTLY_FAILED:
            extra = partly if status == JobStatus.FAILED else 0
            jobs.add_metric([status], found.get(status, 0) + extra)
    yield jobs
    yield GaugeMetricFamily(
        "repondant_jobs_waiting_seconds",
        "How long the oldest job that could begin has waited for a worker.",
        value=waiting_seconds(),
    )


def _worker_figures() -> Iterator[GaugeMetricFamily]:
    workers = worker_state()
    yield GaugeMetricFamily("repondant_workers", "Workers that live.", value=len(workers.alive))
    if workers.seen_at is not None:
        yield GaugeMetricFamily(
            "repondant_worker_last_beat_timestamp_seconds",
            "The last sign of life of any worker.",
            value=workers.seen_at.timestamp(),
        )


def _upkeep_figures() -> Iterator[GaugeMetricFamily]:
    runs = GaugeMetricFamily(
        "repondant_upkeep_timestamp_seconds", "When a kind of upkeep (reap, retain) last ended.", labels=["kind"]
    )
    failed = GaugeMetricFamily("repondant_upkeep_failed", "Steps of the last run that failed.", labels=["kind"])
    names = {JobKind.RECOVER: "reap", JobKind.RETENTION: "retain"}
    for row in Job.objects.filter(kind__in=names).order_by("pk"):
        if row.finished_at is not None:
            runs.add_metric([names[JobKind(row.kind)]], row.finished_at.timestamp())
        failed.add_metric([names[JobKind(row.kind)]], len(row.report.get("failed", ())))
    yield from (runs, failed)


def _registry() -> CollectorRegistry:
    """What this process counts; where several share a port, what they all count."""
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(JobCollector())
    if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        _end_gauges_of_the_dead(Path(folder))
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library leaves it untyped
    else:
        registry.register(REGISTRY)
    return registry


def _end_gauges_of_the_dead(folder: Path) -> None:
    """What runs or is open in a process ends with it; what it counted stays."""
    for pid in {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_live*.db")}:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            with suppress(FileNotFoundError):
                mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]  # untyped, too


def _bears_token(request: HttpRequest) -> bool:
    expected = f"Bearer {settings.METRICS_TOKEN}"
    given = request.headers.get("Authorization", "")
    return bool(settings.METRICS_TOKEN) and hmac.compare_digest(given.encode(), expected.encode())
