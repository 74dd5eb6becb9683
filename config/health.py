"""Liveness, readiness and metrics: what an orchestrator and a monitoring system ask.

Without the database, with a write, and the vector store no question is answered: `/readyz` says 503. Its other parts
take nothing out of service. Each is looked at in a thread of its own, at most every `READY_CACHE_SECONDS` and for
`PROBE_TIMEOUT_SECONDS`, and a look that hangs is not begun a second time.
"""

import hmac
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from celery import current_app
from django.conf import settings
from django.core.cache import caches
from django.core.checks import CheckMessage, Warning, register
from django.db import DatabaseError, connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import sync_and_async_middleware
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from agents.jobs import waiting_seconds, worker_state
from agents.llm.base import language_model
from agents.models import JOB_FAILURES, Job, JobKind, JobStatus
from chat.telemetry import MODEL_SEEN
from config.version import VERSION
from knowledge.vectors.base import vector_store
from tools_registry.sources.base import SECRET_PREFIX

#: `/readyz` looks anew after this time, however often it is asked.
READY_CACHE_SECONDS = 2.0
#: A part that has not answered within this time counts as down.
PROBE_TIMEOUT_SECONDS = 3.0
#: What the probe writes into the database: more than a page, so that a full disk or file is noticed.
PROBE_BYTES = 16 * 1024

logger = logging.getLogger(__name__)

#: What a look finds: `status`, and what else there is to say.
Detail = Mapping[str, Any]
OK: Detail = {"status": "ok"}
_UNAVAILABLE: Detail = {"status": "unavailable"}
#: Nothing is wrong with a part that is not there, or that nobody has needed yet.
_FINE = frozenset({"ok", "unknown", "off"})


class Part:
    """Something that an answer may need, with what the last look found; `look` raises, or returns that."""

    def __init__(self, name: str, look: Callable[[], Detail], is_required: bool = False) -> None:
        self.name, self.is_required = name, is_required
        self.detail: Detail = {"status": "unknown"}
        self._look = look
        self._thread = threading.Thread()

    def begin(self) -> None:
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=f"probe-{self.name}", daemon=True)
            self._thread.start()

    def end(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._found(_UNAVAILABLE, "no answer in time")

    def _run(self) -> None:
        try:
            self._found(self._look())
        except Exception as error:  # noqa: BLE001  # a library of each part, with errors of its own: all say that it is down
            self._found(_UNAVAILABLE, error)
        finally:
            connections.close_all()

    def _found(self, detail: Detail, why: object = "") -> None:
        is_news, self.detail = detail["status"] != self.detail["status"], detail
        if is_news and not self.is_fine:
            # Once for each change: whoever asks every second is no reason for a line a second.
            logger.warning("%s is %s %s", self.name, detail["status"], " ".join(str(why).split()))

    @property
    def is_fine(self) -> bool:
        return self.detail["status"] in _FINE


class Readiness:
    """The parts of this process, looked at when somebody asks."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._looking = threading.Lock()
        self._looked_at = float("-inf")

    def told(self) -> dict[str, Any]:
        """`status` is `ok`, `degraded` (a part that is not required is not well) or `unavailable`; `parts` by name."""
        # Whoever waits longer than a look may take is told what the last one found.
        if self._looking.acquire(timeout=PROBE_TIMEOUT_SECONDS):
            try:
                if time.monotonic() - self._looked_at >= READY_CACHE_SECONDS:
                    deadline = time.monotonic() + PROBE_TIMEOUT_SECONDS
                    for part in self._parts:
                        part.begin()
                    for part in self._parts:
                        part.end(deadline)
                    self._looked_at = time.monotonic()
            finally:
                self._looking.release()
        ill = [part for part in self._parts if not part.is_fine]
        is_down = any(part.is_required for part in ill)
        status = "unavailable" if is_down else "degraded" if ill else "ok"
        return {"status": status, "parts": {p.name: {"required": p.is_required, **p.detail} for p in self._parts}}


@cache
def readiness() -> Readiness:
    """Of this process."""
    required = (Part("database", _database, is_required=True), Part("vector_store", _vector_store, is_required=True))
    others = {"broker": _broker, "redis": _redis, "worker": worker_detail, "model": _model}
    return Readiness([*required, *(Part(name, look) for name, look in others.items())])


def _database() -> Detail:
    """A row is written and the one before it removed, as an answer is: a full or read-only database answers queries."""
    with transaction.atomic():
        filling = {"filling": "x" * PROBE_BYTES}
        row = Job.objects.create(kind=JobKind.PROBE, status=JobStatus.DONE, payload=filling)
        Job.objects.filter(kind=JobKind.PROBE).exclude(pk=row.pk).delete()
    return OK


def _vector_store() -> Detail:
    vector_store().ping()
    return OK


def _broker() -> Detail:
    if not settings.HAS_BROKER:
        return {"status": "off"}
    with current_app.connection_for_read() as broker:
        broker.ensure_connection(max_retries=1, timeout=math.ceil(PROBE_TIMEOUT_SECONDS))
    return OK


def _redis() -> Detail:
    if not settings.REDIS_URL:
        return {"status": "off"}
    caches["shared"].get("readyz")
    return OK


def worker_detail() -> Detail:
    """The last sign of life of any worker, and how long the oldest job has waited for one."""
    workers = worker_state()
    status = {"ok": "ok", "silent": "silent", "never": "unknown"}[workers.state]
    seen = None if workers.seconds is None else round(workers.seconds, 1)
    return {"status": status, "seen_seconds_ago": seen, "waiting_seconds": round(waiting_seconds())}


def _model() -> Detail:
    """As answers found it: asking a model to see whether it answers would cost what an answer costs."""
    if language_model() is None:
        return {"status": "off"}
    return MODEL_SEEN.as_json()


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether this process can answer questions, and how each part does; 503 where it cannot."""
    told = readiness().told()
    return JsonResponse({"version": VERSION, **told}, status=503 if told["status"] == "unavailable" else 200)


#: By their whole path: a probe comes from inside, by an address instead of a name, and is answered by whoever is alive.
_PROBES = {"/healthz": healthz, "/readyz": readyz}


@sync_and_async_middleware
def answer_probes(get_response: Any) -> Any:
    """Ahead of everything else: a probe has no session, and `ALLOWED_HOSTS` does not name the address it came by."""

    async def asynchronous(request: HttpRequest) -> Any:
        probe = _PROBES.get(request.path_info)
        return await (sync_to_async(probe)(request) if probe else get_response(request))

    def synchronous(request: HttpRequest) -> Any:
        return _PROBES.get(request.path_info, get_response)(request)

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
            yield from [*_job_figures(), *_upkeep_figures()]
        except DatabaseError:
            return


def _job_figures() -> Iterator[GaugeMetricFamily]:
    failed = Job.objects.filter(status__in=JOB_FAILURES).count()
    yield GaugeMetricFamily("repondant_jobs_failed", "Failed jobs that staff have not dealt with.", value=failed)
    waits = "How long the oldest job that could begin has waited for a worker."
    yield GaugeMetricFamily("repondant_jobs_waiting_seconds", waits, value=waiting_seconds())
    yield GaugeMetricFamily("repondant_workers", "Workers that live.", value=len(worker_state().alive))


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


@register(deploy=True)
def check_service(**_kwargs: object) -> list[CheckMessage]:
    """What a site in service lacks; docs/operations.md lists it with Django's own checks (`check --deploy`)."""
    engine, several = settings.DATABASES["default"]["ENGINE"], settings.WEB_PROCESSES > 1
    secrets = [name for name in os.environ if name.startswith(SECRET_PREFIX) and not name.endswith("_HOSTS")]
    homeless = ", ".join(sorted(name for name in secrets if not os.environ.get(f"{name}_HOSTS")))
    lacking = (
        (set(settings.ALLOWED_HOSTS) <= {"localhost", "127.0.0.1", "[::1]"}, "ALLOWED_HOSTS names this machine alone."),
        (settings.BEHIND_TLS and not settings.TRUSTED_PROXIES, "TRUSTED_PROXIES is 0: visitors share one limit."),
        (not settings.RATE_LIMITS, "RATE_LIMITS is off: one visitor can take the whole desk."),
        (several and "sqlite" in engine, "Several web processes write to one SQLite file: set DATABASE_URL."),
        (several and not settings.REDIS_URL, "Several web processes count visitors each by itself: set REDIS_URL."),
        (not settings.METRICS_TOKEN, "METRICS_TOKEN is not set: nothing can watch /metrics without a staff session."),
        (bool(homeless), f"{homeless} may go to no host: set the variable of that name and _HOSTS."),
    )
    return [Warning(text, id=f"config.W{n:03}") for n, (is_lacking, text) in enumerate(lacking, 1) if is_lacking]
