"""Celery tasks of `tools_registry`: nudges that call one verb each. Running one twice changes nothing."""

import logging
from collections.abc import Iterable
from typing import Any

from celery import shared_task
from django.db import connection, transaction

from agents.processes.asking import ask_worker
from knowledge.errors import EmbeddingUnavailableError, VectorStoreUnavailableError
from tools_registry.errors import ToolError
from tools_registry.index import sync_index
from tools_registry.models import ToolSource
from tools_registry.sources.remote import refresh_source

logger = logging.getLogger(__name__)

#: The states of the catalogue for which this process has already asked.
_asked: set[str] = set()


@shared_task(
    soft_time_limit=600,
    time_limit=660,
    autoretry_for=(VectorStoreUnavailableError, EmbeddingUnavailableError),
    retry_backoff=True,
    max_retries=8,
)
def index_tools() -> None:
    sync_index()


@shared_task(soft_time_limit=600, time_limit=660)
def read_tool_source(source_id: int) -> None:
    """Read the list of a source; what came of it stands on its row."""
    source = ToolSource.objects.filter(pk=source_id).first()
    if source is None:
        return
    try:
        refresh_source(source)
    except ToolError as error:
        logger.info("The source of tools %d was not read (%s).", source_id, error.code)


def ask_to_read(source_id: int) -> bool:
    """Have a worker read a source once the transaction is committed; false where no broker takes the job."""
    return ask_worker(read_tool_source, source_id)


def ask_for_index(state: str) -> None:
    """Have a worker bring the index up to date, once in this process for each state of the catalogue."""
    if state not in _asked:
        _asked.add(state)
        enqueue_index_after_commit()


def enqueue_index_after_commit() -> None:
    """Once for each transaction, however many rows it changes."""
    hooks: Iterable[tuple[Any, ...]] = connection.run_on_commit
    if not any(hook[1] is _enqueue for hook in hooks):
        transaction.on_commit(_enqueue)


def _enqueue() -> None:
    ask_worker(index_tools, otherwise="run `manage.py index_tools`")
