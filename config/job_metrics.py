"""Indexing jobs for `/metrics`, counted in the database when somebody asks: the same in every process."""

from collections.abc import Iterator

from django.db import DatabaseError
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from knowledge.models import BuildStatus, IndexBuild


class JobCollector(Collector):
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
