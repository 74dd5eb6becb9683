"""Telling a worker that there is work. A broker that is away is no error: what is to be done stands on rows, which are
looked for.
"""

import logging
from typing import Any

from celery import Task, current_app
from celery.exceptions import OperationalError

logger = logging.getLogger(__name__)


def ask_worker(task: "Task[Any, Any] | str", *args: Any, otherwise: str = "", expires: float | None = None) -> bool:
    """Send a task, given itself or by its name; `False`, with `otherwise` in the log, where no broker takes it."""
    try:
        if isinstance(task, str):
            current_app.send_task(task, args=list(args), expires=expires)
        elif expires is None:
            task.delay(*args)
        else:
            task.apply_async(args, expires=expires)
    except OperationalError:
        if otherwise:
            logger.warning("The broker is unreachable; %s.", otherwise)
        return False
    return True
