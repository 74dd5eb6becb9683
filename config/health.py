"""Liveness, readiness and metrics: what an orchestrator and a monitoring system ask."""

import hmac
import os
from collections.abc import Callable, Iterator

from celery import current_app
from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from knowledge.exceptions import KnowledgeError
from knowledge.models import BuildStatus, IndexBuild
from knowledge.vectors.base import vector_store

PROBE_TIMEOUT_SECONDS = 3


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Every part that an answer needs is reachable; 503 names those that are not."""
    parts: dict[str, Callable[[], None]] = {
        "database": _database,
        "vector_store": lambda: vector_store().ping(),
        "broker": _broker,
    }
    if settings.REDIS_URL:
        parts["redis"] = lambda: cache.get("readyz")
    states = {name: _state(probe) for name, probe in parts.items()}
    ready = all(state == "ok" for state in states.values())
    return JsonResponse(
        {"status": "ok" if ready else "unavailable", **states}, status=200 if ready else 503
    )


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics, for staff and for the bearer of `METRICS_TOKEN`."""
    if not (_bears_token(request) or (request.user.is_authenticated and request.user.is_staff)):
        return HttpResponse(status=403)
    return HttpResponse(generate_latest(_registry()), content_type=CONTENT_TYPE_LATEST)


class JobCollector(Collector):
    """Indexing jobs, counted in the database when somebody asks: the same in every process."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Nothing where the database is away: the other figures are still told."""
        jobs = GaugeMetricFamily(
            "repondant_index_jobs", "Indexing jobs, by status.", labels=["status"]
        )
        try:
            found = dict(IndexBuild.objects.values_list("status").annotate(Count("pk")).order_by())
        except DatabaseError:
            return
        for status in BuildStatus.values:
            jobs.add_metric([status], found.get(status, 0))
        yield jobs


def _registry() -> CollectorRegistry:
    """What this process counts; where several share a port, what they all count."""
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(JobCollector())
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library leaves it untyped
    else:
        registry.register(REGISTRY)
    return registry


def _bears_token(request: HttpRequest) -> bool:
    expected = f"Bearer {settings.METRICS_TOKEN}"
    given = request.headers.get("Authorization", "")
    return bool(settings.METRICS_TOKEN) and hmac.compare_digest(given.encode(), expected.encode())


def _state(probe: Callable[[], None]) -> str:
    try:
        probe()
    except (DatabaseError, KnowledgeError, OperationalError, OSError):
        return "unavailable"
    return "ok"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _broker() -> None:
    with current_app.connection_for_read() as broker:
        broker.ensure_connection(max_retries=1, timeout=PROBE_TIMEOUT_SECONDS)
