"""Versions of a validated answer: as it stood after each change, with who made it, when, and by which door.

Whoever writes rows calls `begin_history` before and `record_versions` after, in the transaction of the write. A row
keeps its first version and the latest ones, `ANSWER_VERSIONS_KEPT` in all; a version is never edited.
"""

from collections.abc import Sequence

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Exists, OuterRef

from faqs.models import AnswerVersion, LearnedResponse, WrittenHow
from knowledge.vectors.base import batches

#: Versions kept of a validated answer: the first and the latest ones. Each is as long as the answer.
ANSWER_VERSIONS_KEPT = 50

#: What a version says of its answer, beside the phrasings.
VERSIONED = ("question", "answer", "category", "status", "status_reason", "review_date")
#: Rows read and written together.
_BATCH = 200


def begin_history(keys: Sequence[int]) -> None:
    """Keep the state of rows that are about to be written, where no version holds it: it would be lost.

    So it is with the state before the first version, and with what the program changed by itself.
    """
    _record(keys, how=WrittenHow.SYSTEM, by=None, is_before=True)


def record_versions(keys: Sequence[int], *, how: WrittenHow, by: AbstractBaseUser | None) -> None:
    """Keep rows as they now stand; a write that changed nothing leaves no version."""
    _record(keys, how=how, by=by, is_before=False)


def _record(keys: Sequence[int], *, how: WrittenHow, by: AbstractBaseUser | None, is_before: bool) -> None:
    for batch in batches(keys, _BATCH):
        rows = LearnedResponse.objects.filter(pk__in=batch).prefetch_related("phrasings")
        # Locked before the numbers are read: two writes of a row take turns.
        locked = list(rows.order_by("pk").select_for_update())
        latest = _latest(batch)
        made = []
        for row in locked:
            last = latest.get(row.pk)
            version = _version(row, last.number + 1 if last else 1, how=how, by=by)
            if is_before:
                version.made_at = row.updated_at
            if last is None or _state(version) != _state(last):
                made.append(version)
        AnswerVersion.objects.bulk_create(made)
        for version in made:
            _forget_older(version)


def _latest(keys: Sequence[int]) -> dict[int, AnswerVersion]:
    newer = AnswerVersion.objects.filter(response=OuterRef("response"), number__gt=OuterRef("number"))
    found = AnswerVersion.objects.filter(~Exists(newer), response__in=keys)
    return {version.response_id: version for version in found}


def _version(row: LearnedResponse, number: int, *, how: WrittenHow, by: AbstractBaseUser | None) -> AnswerVersion:
    return AnswerVersion(
        response=row,
        number=number,
        how=how,
        made_by_id=by.pk if by else None,
        phrasings=[phrasing.text for phrasing in row.phrasings.all()],
        **{name: getattr(row, name) for name in VERSIONED},
    )


def _state(version: AnswerVersion) -> tuple[object, ...]:
    return (version.phrasings, *(getattr(version, name) for name in VERSIONED))


def _forget_older(version: AnswerVersion) -> None:
    """Between the first version and the latest ones there is a gap once a row has had many."""
    oldest_kept = version.number - ANSWER_VERSIONS_KEPT + 1
    if oldest_kept > 1:
        older = AnswerVersion.objects.filter(response=version.response_id, number__gt=1)
        older.filter(number__lte=oldest_kept).delete()
