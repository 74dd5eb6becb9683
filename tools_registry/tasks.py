"""Celery tasks of `tools_registry`: nudges that call one verb each. Running one twice changes nothing."""

import logging
from collections.abc import Iterable
from typing import Any

from celery import shared_task
from celery.exceptions import OperationalError
from django.db import connection, transaction

from knowledge.exceptions import EmbeddingUnavailableError, VectorStoreUnavailableError
from tools_registry.index import sync_index

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
    try:
        index_tools.delay()
    except OperationalError:
        logger.warning("The broker is unreachable: run `manage.py index_tools`.")
