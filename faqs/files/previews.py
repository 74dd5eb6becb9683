"""Imports that wait for a choice: planned in one request, looked at and chosen from in others, applied once.

A row of the database, because the page may come from another process than the upload, and a session would carry the
whole plan through each of its requests. Only the uploader finds it. An uploader has one at a time, beside those that
are being applied (`faqs.files.applying`), and what is not being applied is forgotten after `FAQ_PREVIEW_SECONDS`.
"""

import uuid
import zlib
from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import TypeAdapter

from faqs.exceptions import AnswerRejectedError
from faqs.files.importing import ImportPlan
from faqs.models import ImportPreview, ImportState

FAQ_MAX_PREVIEW_BYTES = 25 * 1024 * 1024

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
        _idle().filter(uploaded_by=by.pk).delete()
        return ImportPreview.objects.create(agent_id=plan.agent_id, uploaded_by_id=by.pk, plan=zlib.compress(data))


def find_preview(key: uuid.UUID, *, by: AbstractBaseUser) -> ImportPreview | None:
    return standing_previews().filter(pk=key, uploaded_by=by.pk).select_related("agent").first()


def plan_of(preview: ImportPreview) -> ImportPlan:
    return _PLANS.validate_json(zlib.decompress(preview.plan))


def choose(preview: ImportPreview, lines: Collection[int]) -> None:
    """The lines that are chosen, in the place of those before."""
    preview.chosen = sorted(lines)
    ImportPreview.objects.filter(pk=preview.pk).update(chosen=preview.chosen)


def leave_preview(preview: ImportPreview) -> bool:
    """Take it out of the store; `False` where it is not there, or is being applied."""
    idle = standing_previews().exclude(state=ImportState.APPLYING)
    gone, _rows = idle.filter(pk=preview.pk).delete()
    return bool(gone)


def forgotten_previews() -> QuerySet[ImportPreview]:
    """Those past their time."""
    limit = timezone.now() - timedelta(seconds=settings.FAQ_PREVIEW_SECONDS)
    return _idle().filter(uploaded_at__lte=limit)


def purge_previews() -> int:
    return forgotten_previews().delete()[0]


def standing_previews() -> QuerySet[ImportPreview]:
    """Those that are not past their time, and those that are being applied."""
    limit = timezone.now() - timedelta(seconds=settings.FAQ_PREVIEW_SECONDS)
    is_young = Q(uploaded_at__gt=limit) | Q(state=ImportState.APPLYING)
    return ImportPreview.objects.filter(is_young)


def _idle() -> QuerySet[ImportPreview]:
    return ImportPreview.objects.exclude(state=ImportState.APPLYING)
