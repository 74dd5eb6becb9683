"""What is past its time is deleted once a day: everything that the site keeps and that has an end, in one place.

A worker does it at night (`RETAIN_HOUR`), or as soon as one runs again; `manage.py retain` does it at once. One process
on the site at a time, which is seen in the row (`agents.processes.upkeep`); each batch is a transaction of its own, so
whoever kills it loses nothing.
"""

import logging
from collections.abc import Callable, Iterator

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from agents.errors import ApplicationError
from agents.processes import kept as sites
from agents.processes.heartbeat import lease_owner
from agents.processes.upkeep import Kept, claim, is_due, night_before, renew
from chat.archive import retention
from faqs import kept as faqs
from knowledge import kept as knowledge

logger = logging.getLogger(__name__)

#: The end of what is kept, in the order in which it is looked at. Unanswered questions and choices end with the reaper,
#: every few seconds; versions of an answer, where the next one is written (`ANSWER_VERSIONS_KEPT`).
KEPT: tuple[Kept, ...] = (*retention.KEPT, *faqs.KEPT, *knowledge.KEPT, *sites.KEPT)

#: Told after each batch: which kind, and how many of it have gone so far.
OnForgotten = Callable[[Kept, int], None]


class AlreadyRetainingError(ApplicationError):
    """Another process deletes what is past its time."""

    code = "already_retaining"


def is_night_due() -> bool:
    return settings.RETAIN_HOUR >= 0 and is_due(night_before(timezone.now()))


def retain_if_due() -> dict[str, int]:
    """What a worker does when it is told to; empty where another was quicker."""
    if not is_night_due():
        return {}
    by = lease_owner()
    if not claim(by, since=night_before(timezone.now())):
        return {}
    return _retain(by, lambda _kept, _count: None)


def retain_now(on_forgotten: OnForgotten = lambda _kept, _count: None) -> dict[str, int]:
    """Delete what is past its time; how many of each kind. Raises `AlreadyRetainingError`."""
    by = lease_owner()
    if not claim(by):
        raise AlreadyRetainingError("another process is at it")
    return _retain(by, on_forgotten)


def _retain(by: str, on_forgotten: OnForgotten) -> dict[str, int]:
    """Each kind by itself: that one cannot be deleted does not keep the others."""
    done: dict[str, int] = {}
    failed: dict[str, str] = {}
    for kept in KEPT:
        try:
            for count in _counted(kept):
                done[kept.name] = count
                on_forgotten(kept, count)
                if not renew(by, done=done, failed=failed):
                    logger.warning("The nightly deletion was taken over by another process.")
                    return done
        except (ApplicationError, DatabaseError, OSError) as error:
            failed[kept.name] = str(error).strip().partition("\n")[0][:500]
            logger.warning("Retention of %s failed: %s", kept.name, failed[kept.name])
    changes = {"acted_at": timezone.now()} if done else {}
    renew(by, done=done, failed=failed, finished_at=timezone.now(), **changes)
    logger.info(
        "retention done %s failed=%s",
        " ".join(f"{name}={count}" for name, count in done.items()) or "nothing",
        ",".join(failed) or "none",
    )
    return done


def _counted(kept: Kept) -> Iterator[int]:
    total = 0
    for count in kept.forget():
        total += count
        yield total
