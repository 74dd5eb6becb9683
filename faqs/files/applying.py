"""An import that was chosen from is carried out: a few rows at once, many by a worker, each row exactly once.

The row of the preview is the truth, as an indexing job's is: who holds it by a lease, how many rows are behind. A batch
and its count are one transaction, so whoever is killed begins at the first row that was not written; whoever has lost
the lease writes nothing more.
"""

import logging
import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.jobs import lease_owner
from agents.processes.asking import ask_worker
from agents.staff.audit import acting
from faqs.answers.indexing import settle_now
from faqs.exceptions import FaqError
from faqs.files.importing import ImportReport, PlannedRow, changed_answers, wanted_rows, write_rows
from faqs.files.previews import plan_of, standing_previews
from faqs.models import ImportPreview, ImportState, LearnedResponse
from knowledge.vectors.base import batches

#: Rows that an import writes in one transaction, about a second of the database's one writer; ...
FAQ_IMPORT_BATCH = 50
#: ... and up to so many are written before the page comes back. More are left to a worker.
FAQ_IMPORT_AT_ONCE = 50

logger = logging.getLogger(__name__)

#: By name, because the task module imports this one.
RUN_TASK = "faqs.tasks.run_import"


class ImportTakenOverError(FaqError):
    """Another process carries the import out; this one must stop writing."""

    code = "import_taken_over"


def start_import(preview: ImportPreview, chosen: Collection[int]) -> bool:
    """Begin to write the new rows and the chosen lines; `False` where it has begun already, or is not there any more.

    A few rows are behind when this returns; for more a worker is told.
    """
    wanted = wanted_rows(plan_of(preview), chosen)
    planned = standing_previews().filter(pk=preview.pk, state=ImportState.PLANNED)
    begun = planned.update(
        state=ImportState.APPLYING,
        chosen=sorted(chosen),
        total=len(wanted),
        stale=sorted(changed_answers(wanted)),
        started_at=timezone.now(),
    )
    if begun:
        _carry_on(preview.pk, len(wanted))
    return bool(begun)


def retry_import(preview: ImportPreview) -> bool:
    """Go on with an import that failed, after the rows that are behind."""
    failed = ImportPreview.objects.filter(pk=preview.pk, state=ImportState.FAILED)
    begun = failed.update(state=ImportState.APPLYING, attempts=0, error="", lease_expires_at=None, finished_at=None)
    if begun:
        _carry_on(preview.pk, preview.total - preview.done)
    return bool(begun)


def _carry_on(key: uuid.UUID, rows: int) -> None:
    if rows <= FAQ_IMPORT_AT_ONCE:
        run_import(key)
    else:
        transaction.on_commit(partial(_nudge, key))


def run_import(key: uuid.UUID) -> None:
    """Write what is not behind yet; nothing where another process is at it, or it is over."""
    owner = lease_owner()
    if not _free().filter(pk=key).update(lease_owner=owner, lease_expires_at=_lease_end(), attempts=F("attempts") + 1):
        return
    preview = ImportPreview.objects.select_related("uploaded_by").get(pk=key)
    try:
        with acting(preview.uploaded_by, origin="import"):
            wanted = wanted_rows(plan_of(preview), preview.chosen)
            for batch in batches(wanted[preview.done :], FAQ_IMPORT_BATCH):
                _write_batch(preview, batch)
            _finish(preview)
    except ImportTakenOverError:
        logger.warning("import %s was taken over by another process", key)
    except DatabaseError:
        # Away or busy: the reaper has it taken up again when the lease has run out.
        raise
    except Exception:
        # The edge of the job: whatever went wrong, its row says so.
        logger.exception("import %s failed", key)
        reason = _("Erreur inattendue ; le journal du worker la détaille.")
        _mine(preview).update(state=ImportState.FAILED, error=reason, finished_at=timezone.now())


def _write_batch(preview: ImportPreview, batch: Sequence[PlannedRow]) -> None:
    report = ImportReport()
    with transaction.atomic():
        write_rows(preview.agent_id, batch, preview.stale, report, preview.uploaded_by)
        refused = [*preview.refused, *map(asdict, report.failed)]
        written = _mine(preview).filter(done=preview.done)
        if not written.update(
            done=preview.done + len(batch),
            created=F("created") + report.created,
            updated=F("updated") + report.updated,
            refused=refused,
            # It moves: only tries that bring nothing are counted.
            attempts=1,
            lease_expires_at=_lease_end(),
        ):
            raise ImportTakenOverError(f"import {preview.pk}")
    preview.done += len(batch)
    preview.refused = refused


def _finish(preview: ImportPreview) -> None:
    """What was written takes effect; of a process that dies right after, the reaper of answers sees to it."""
    with transaction.atomic():
        if not _mine(preview).update(state=ImportState.DONE, finished_at=timezone.now()):
            raise ImportTakenOverError(f"import {preview.pk}")
        waiting = LearnedResponse.objects.unsettled().filter(agent=preview.agent_id)
        if keys := list(waiting.order_by("pk").values_list("pk", flat=True)):
            transaction.on_commit(partial(settle_now, keys), robust=True)


def reap_imports() -> int:
    """Have taken up again what a dead process left, and what nobody has begun; returns how many.

    One that was tried `JOB_MAX_ATTEMPTS` times without writing a batch has failed.
    """
    _free().filter(attempts__gte=settings.JOB_MAX_ATTEMPTS).update(
        state=ImportState.FAILED,
        finished_at=timezone.now(),
        error=_("Le worker s’est arrêté à chaque essai ; voir son journal."),
    )
    grace = timezone.now() - timedelta(seconds=settings.JOB_REAP_SECONDS)
    waiting = list(_free().filter(started_at__lt=grace).values_list("pk", flat=True))
    for key in waiting:
        _nudge(key)
    return len(waiting)


def _free() -> QuerySet[ImportPreview]:
    """Begun, and held by no living process."""
    unheld = Q(lease_expires_at=None) | Q(lease_expires_at__lt=timezone.now())
    return ImportPreview.objects.filter(unheld, state=ImportState.APPLYING)


def _mine(preview: ImportPreview) -> QuerySet[ImportPreview]:
    return ImportPreview.objects.filter(pk=preview.pk, state=ImportState.APPLYING, lease_owner=preview.lease_owner)


def _lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.JOB_LEASE_SECONDS)


def _nudge(key: uuid.UUID) -> None:
    """Tell a worker. A broker that is away is no error: the reaper asks again."""
    waiting = f"import {key} waits for the reaper"
    ask_worker(RUN_TASK, str(key), otherwise=waiting, expires=settings.JOB_LEASE_SECONDS)
