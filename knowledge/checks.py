"""System checks: the embedder's and the vector store's own, and the order of the job limits."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from knowledge.embeddings.base import embedder
from knowledge.storage import storage_problem
from knowledge.vectors.base import vector_store


@register()
def check_backends(app_configs: Sequence[AppConfig] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    return [*embedder().check(), *vector_store().check()]


@register(Tags.database)
def check_document_storage(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **_kwargs: Any
) -> list[CheckMessage]:
    """A warning, since it stops nothing but indexing here; the database is asked by `check --database default`."""
    problem = storage_problem() if databases else None
    return [Warning(problem, id="knowledge.W002")] if problem else []


@register()
def check_job_limits(app_configs: Sequence[AppConfig] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """A heartbeat must fit into its lease, a soft limit below its hard one, a paid call below both."""
    ordered = (
        ("JOB_HEARTBEAT_SECONDS", "JOB_LEASE_SECONDS"),
        ("LLM_READ_TIMEOUT_SECONDS", "JOB_SOFT_LIMIT_SECONDS"),
        ("JOB_SOFT_LIMIT_SECONDS", "JOB_HARD_LIMIT_SECONDS"),
        ("LLM_READ_TIMEOUT_SECONDS", "TURN_TIMEOUT_SECONDS"),
    )
    return [
        Error(f"{low} must be below {high}.", id="knowledge.E001")
        for low, high in ordered
        if getattr(settings, low) >= getattr(settings, high)
    ]
