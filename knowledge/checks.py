"""System checks: the embedder's and the vector store's own, limits of time; and what a worker checks."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.files.storage import default_storage
from django.db import DatabaseError

from knowledge.embeddings.base import embedder
from knowledge.models import Document
from knowledge.vectors.base import vector_store


@register()
def check_backends(**_kwargs: Any) -> list[CheckMessage]:
    return [*embedder().check(), *vector_store().check()]


@register()
def check_time_limits(**_kwargs: Any) -> list[CheckMessage]:
    """A call of the model must fit into its job and its turn."""
    return [
        Error(f"LLM_READ_TIMEOUT_SECONDS must be below {limit}.", id="knowledge.E001")
        for limit in ("JOB_SOFT_LIMIT_SECONDS", "TURN_TIMEOUT_SECONDS")
        if settings.LLM_READ_TIMEOUT_SECONDS >= getattr(settings, limit)
    ]


#: For the operator: logs and commands are in English.
UNSHARED = (
    "This machine does not see the site's documents in {storage} ({name}: {reason}): files that were uploaded elsewhere cannot be "
    "indexed here. Set the same DOCUMENT_STORAGE, a shared folder or a bucket, on every machine. See docs/operations.md, Several machines."
)


def storage_problem() -> str | None:
    """Why this process cannot read the newest file of the site's documents, in a sentence, if it cannot."""
    stored = Document.objects.exclude(file="").order_by("-pk").values_list("file", flat=True)
    try:
        name = stored.first()
    except DatabaseError:
        return None  # not migrated, or away: whoever needs the database says so
    try:
        if name:
            default_storage.open(name, "rb").close()
    except Exception as error:  # noqa: BLE001  # each package of storages has errors of its own
        return UNSHARED.format(storage=settings.DOCUMENT_STORAGE, reason=str(error) or type(error).__name__, name=name)
    return None
