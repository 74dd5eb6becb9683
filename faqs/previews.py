"""Imports that wait for a choice: planned in one request, looked at and chosen from in others, written in further ones.

A row of the database holds the plan, because the pages may come from other processes than the upload. Only the uploader
finds it. An uploader has one at a time, beside those that are being written. Each is forgotten `FAQ_PREVIEW_SECONDS`
after it was uploaded, or after its writing began.

A batch of rows and the count of what is behind are one transaction: whoever is killed goes on at the first row that was
not written, and of two requests at once one waits for the other.
"""

import time
import uuid
import zlib
from collections.abc import Collection
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import TypeAdapter

from faqs.answer_points import settle_now
from faqs.csv import ImportPlan, ImportReport, changed_answers, write_rows
from faqs.errors import AnswerRejectedError
from faqs.models import ImportPreview, ImportState, LearnedResponse

FAQ_MAX_PREVIEW_BYTES = 25 * 1024 * 1024
#: Rows that an import writes in one transaction, about a second of the database's one writer.
FAQ_IMPORT_BATCH = 50

_PLANS: TypeAdapter[ImportPlan] = TypeAdapter(ImportPlan)


def keep_preview(plan: ImportPlan, *, by: AbstractBaseUser) -> ImportPreview:
    """Keep a plan in the place of the uploader's last one; raises `AnswerRejectedError` for one that is too large."""
    data = _PLANS.dump_json(plan)
    if len(data) > FAQ_MAX_PREVIEW_BYTES:
        raise AnswerRejectedError(
            _("L’aperçu de ce fichier dépasse %(limit)d octets ; importez-le en plusieurs fois.")
            % {"limit": FAQ_MAX_PREVIEW_BYTES}
        )
    with transaction.atomic():
        ImportPreview.objects.filter(uploaded_by=by.pk).exclude(state=ImportState.APPLYING).delete()
        return ImportPreview.objects.create(agent_id=plan.agent_id, uploaded_by_id=by.pk, plan=zlib.compress(data))


def find_preview(key: uuid.UUID, *, by: AbstractBaseUser) -> ImportPreview | None:
    return _valid().filter(pk=key, uploaded_by=by.pk).select_related("agent", "uploaded_by").first()


def plan_of(preview: ImportPreview) -> ImportPlan:
    return _PLANS.validate_json(zlib.decompress(preview.plan))


def choose(preview: ImportPreview, lines: Collection[int]) -> None:
    """Choose these lines, in the place of those before."""
    preview.chosen = sorted(lines)
    ImportPreview.objects.filter(pk=preview.pk).update(chosen=preview.chosen)


def leave_preview(preview: ImportPreview) -> bool:
    """Delete a preview; `False` where it does not exist, or is being written."""
    deleted, _rows = _valid().exclude(state=ImportState.APPLYING).filter(pk=preview.pk).delete()
    return bool(deleted)


def start_import(preview: ImportPreview, chosen: Collection[int]) -> bool:
    """Begin to write the new rows and the chosen lines; `False` where it has begun already, or is deleted."""
    wanted = plan_of(preview).wanted(chosen)
    planned = _valid().filter(pk=preview.pk, state=ImportState.PLANNED)
    return bool(
        planned.update(
            state=ImportState.APPLYING,
            chosen=sorted(chosen),
            total=len(wanted),
            uploaded_at=timezone.now(),
            stale=sorted(changed_answers(wanted)),
        )
    )


def continue_import(preview: ImportPreview, *, seconds: float) -> None:
    """Write batches until all is written or so much time has passed; the row says how far it is."""
    end = time.monotonic() + seconds
    wanted = plan_of(preview).wanted(preview.chosen)
    while True:
        with transaction.atomic():
            held = ImportPreview.objects.select_for_update().filter(pk=preview.pk).first()
            if held is None or held.state != ImportState.APPLYING:
                return
            batch = wanted[held.done : held.done + FAQ_IMPORT_BATCH]
            report = ImportReport()
            write_rows(held.agent_id, batch, held.stale, report, preview.uploaded_by)
            held.done += len(batch)
            held.created, held.updated = held.created + report.created, held.updated + report.updated
            held.refused = [*held.refused, *map(asdict, report.failed)]
            if held.done >= len(wanted):
                held.state = ImportState.DONE
                _settle(held.agent_id)
            held.save()
        if held.state == ImportState.DONE or time.monotonic() >= end:
            return


def _settle(agent_id: int) -> None:
    """Index the written rows; if this process dies, `reap_learned` does it."""
    waiting = LearnedResponse.objects.unsettled().filter(agent=agent_id)
    if keys := list(waiting.order_by("pk").values_list("pk", flat=True)):
        transaction.on_commit(partial(settle_now, keys), robust=True)


def forgotten_previews() -> QuerySet[ImportPreview]:
    """Return those past their time."""
    limit = timezone.now() - timedelta(seconds=settings.FAQ_PREVIEW_SECONDS)
    return ImportPreview.objects.filter(uploaded_at__lte=limit)


def purge_previews() -> int:
    return forgotten_previews().delete()[0]


def _valid() -> QuerySet[ImportPreview]:
    return ImportPreview.objects.exclude(pk__in=forgotten_previews())
