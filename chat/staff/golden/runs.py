"""A run: its questions asked by a worker, one by one, without writing.

The row is the truth, as an `IndexBuild` is. A result that is empty is still to be asked, so a run that was killed goes
on where it was; its lease is renewed with each question, and a worker that has lost it writes no more.
"""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import named_trouble
from agents.errors import ApplicationError
from agents.llm.base import language_model
from agents.models import Deployment, IndexingMethod, RuntimeSettings
from agents.processes.asking import ask_worker
from agents.processes.heartbeat import lease_owner
from agents.processes.upkeep import night_before
from chat.models import TWO_WAYS, GoldenResult, GoldenRun, GoldenSet, Message, Role, RunKind, RunStatus
from chat.protocol import Event
from chat.runs.terminal import answer_row
from chat.staff.golden.expectations import unmet
from chat.staff.golden.paper import settings_on
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult
from knowledge.vectors.base import collection_alias

RUN_TASK = "chat.staff.golden.tasks.ask_golden_questions"
_KEPT_CHARACTERS = 4_000
#: Turns looked at for each question wanted: people repeat themselves.
_REPEATS = 4


def enqueue_run(
    golden_set: GoldenSet,
    kind: RunKind = RunKind.SET,
    by: AbstractBaseUser | None = None,
    since: datetime | None = None,
    **of: Any,
) -> GoldenRun:
    """Have a worker ask a set; one of the same kind that waits or runs already, and is of the same matter, is that run.
    One that was asked for before the set changed, or before `since`, is not.
    """
    going = GoldenRun.objects.filter(
        golden_set=golden_set, kind=kind, status__in=(RunStatus.QUEUED, RunStatus.RUNNING), **of
    ).filter(created_at__gte=since or golden_set.changed_at)
    if (found := going.first()) is not None:
        return found
    rows = [
        GoldenResult(question=each.question, expected=each.expected)
        for each in golden_set.questions.order_by("pk")[: settings.GOLDEN_MAX_QUESTIONS]
    ]
    run = GoldenRun(
        kind=kind,
        golden_set=golden_set,
        deployment=golden_set.deployment,
        language=golden_set.language,
        by=cast("User | None", by),
        **of,
    )
    return _made(run, rows)


def enqueue_what_if(
    deployment: Deployment, changes: Mapping[str, Any], *, level: str, count: int, by: AbstractBaseUser | None
) -> GoldenRun:
    """Have a worker ask the last real questions of a deployment both ways."""
    target = {"deployment": deployment.pk, "agent": deployment.agent_id}.get(level, 1)
    run = GoldenRun(
        kind=RunKind.WHAT_IF,
        deployment=deployment,
        language=settings.LANGUAGE_CODE[:2],
        level=level,
        target_id=target,
        changes=dict(changes),
        by=cast("User | None", by),
    )
    asked = last_questions(deployment, min(count, settings.GOLDEN_MAX_QUESTIONS))
    return _made(run, [GoldenResult(question=text, source_turn=turn) for text, turn in asked.items()])


def last_questions(deployment: Deployment, count: int) -> dict[str, uuid.UUID]:
    """The last different questions that were asked, newest first, each with its turn; none of a temporary chat."""
    asked = (
        Message.objects.filter(role=Role.USER, conversation__deployment=deployment)
        .filter(conversation__is_temporary=False, turn__isnull=False)
        .order_by("-turn__started_at")
        .values_list("content", "turn_id")[: count * _REPEATS]
    )
    found: dict[str, uuid.UUID] = {}
    for text, turn in asked:
        if text.strip() and len(found) < count:
            found.setdefault(text.strip(), turn)
    return found


def _made(run: GoldenRun, rows: Sequence[GoldenResult]) -> GoldenRun:
    with transaction.atomic():
        run.save()
        for position, row in enumerate(rows):
            row.run, row.position = run, position
        GoldenResult.objects.bulk_create(rows)
    transaction.on_commit(partial(nudge, run.pk))
    return run


def nudge(run_id: int) -> None:
    """A broker that is away is no error: the reaper tells a worker again."""
    if not ask_worker(RUN_TASK, run_id):
        GoldenRun.objects.filter(pk=run_id, status=RunStatus.QUEUED).update(
            error=_(
                "La file des tâches est injoignable : rien n’est perdu, ce travail commencera de lui-même dès son retour."
            )
        )


def carry_out(run_id: int) -> None:
    """Claim a run and ask what is left of it, for `GOLDEN_TURN_SECONDS` at most; nothing where another worker has it."""
    owner = lease_owner()
    if not GoldenRun.objects.claim(run_id, owner, _until()):
        return
    runs = GoldenRun.objects.select_related("deployment__agent", "build__agent", "golden_set")
    run = runs.get(pk=run_id)
    mine = GoldenRun.objects.filter(pk=run_id, lease_owner=owner, status=RunStatus.RUNNING)
    began = time.monotonic()
    try:
        with named_trouble():
            changed = _settings_of(run)
            for result in run.results.filter(after__isnull=True).iterator(chunk_size=50):
                if time.monotonic() - began > settings.GOLDEN_TURN_SECONDS:
                    if mine.update(status=RunStatus.QUEUED, lease_owner="", attempts=0):
                        nudge(run_id)
                    return
                before = _asked(run, result, {}) if run.kind in TWO_WAYS else None
                after = _asked(run, result, changed)
                with transaction.atomic():
                    if not mine.update(lease_expires_at=_until()):
                        return
                    GoldenResult.objects.filter(pk=result.pk).update(before=before, after=after)
    except ApplicationError as error:
        mine.update(status=RunStatus.FAILED, error=str(error.public_message), finished_at=timezone.now())
        return
    mine.update(status=RunStatus.DONE, error="", finished_at=timezone.now())


def _until() -> datetime:
    """A question is asked twice at most between two renewals."""
    seconds = settings.JOB_LEASE_SECONDS + 2 * settings.TURN_TIMEOUT_SECONDS
    return timezone.now() + timedelta(seconds=seconds)


def _settings_of(run: GoldenRun) -> dict[str, Any]:
    """What is otherwise in what is tried."""
    if run.build is not None:
        alias = collection_alias(run.build.agent.slug, IndexingMethod(run.build.method))
        return {"staged": ((alias, run.build.generation),)}
    return settings_on(run.deployment, run.level, run.changes) if run.changes else {}


def _asked(run: GoldenRun, result: GoldenResult, changed: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an answer."""
    request = TurnRequest(run.deployment_id, result.question, run.language, settings=changed)
    found = async_to_sync(_run)(request)
    row = answer_row(request, found)
    row["error"] = found.error.code if found.error else ""
    return {
        "answer_source": row["answer_source"],
        "answer": row["answer"][:_KEPT_CHARACTERS],
        "sources": [
            {key: each.get(key) for key in ("title", "document_id", "chunk_id", "page", "question")}
            for each in row["sources"]
        ],
        "error": row["error"],
        "llm_calls": found.answer.llm_calls,
        "prompt_tokens": found.answer.prompt_tokens,
        "completion_tokens": found.answer.completion_tokens,
        "unmet": list(unmet(row, result.expected)),
    }


async def _run(request: TurnRequest) -> TurnResult:
    try:
        return await run_turn(request, _ignore)
    finally:
        # This event loop ends with the question.
        if (model := language_model()) is not None:
            await model.aclose()


async def _ignore(event: Event) -> None:
    """Nobody follows a run."""


def cancel_run(run: GoldenRun) -> bool:
    going = GoldenRun.objects.filter(pk=run.pk, status__in=(RunStatus.QUEUED, RunStatus.RUNNING))
    return bool(going.update(status=RunStatus.CANCELLED, finished_at=timezone.now()))


def reap_runs() -> int:
    """Tell a worker of what a dead one left, or nobody took; one that kills its worker each time is given up."""
    now = timezone.now()
    expired = GoldenRun.objects.filter(status=RunStatus.RUNNING, lease_expires_at__lt=now)
    expired.filter(attempts__gte=settings.JOB_MAX_ATTEMPTS).update(
        status=RunStatus.FAILED, finished_at=now, error=_("Le worker s’est arrêté à chaque essai ; voir son journal.")
    )
    forgotten = now - timedelta(seconds=settings.JOB_REAP_SECONDS)
    due = Q(status=RunStatus.QUEUED, created_at__lt=forgotten) | Q(status=RunStatus.RUNNING, lease_expires_at__lt=now)
    for pk in (pks := list(GoldenRun.objects.filter(due).values_list("pk", flat=True)[:20])):
        nudge(pk)
    return len(pks)


def enqueue_nightly() -> int:
    """What the reaper does: the sets of every night that this night has not begun, as the nightly deletion begins."""
    if settings.RETAIN_HOUR < 0:
        return 0
    tonight = GoldenRun.objects.filter(kind=RunKind.NIGHTLY, created_at__gte=night_before(timezone.now()))
    nightly = GoldenSet.objects.filter(is_nightly=True, deployment__is_active=True)
    chosen = list(nightly.exclude(pk__in=tonight.values("golden_set")))
    for golden_set in chosen:
        enqueue_run(golden_set, RunKind.NIGHTLY)
    return len(chosen)


def run_cost(results: Iterable[GoldenResult], way: str) -> dict[str, Any]:
    """Calls, tokens, and money at the site's prices, of one way (`before`, `after`)."""
    rows = [found for each in results if (found := getattr(each, way))]
    total = {key: sum(row[key] for row in rows) for key in ("llm_calls", "prompt_tokens", "completion_tokens")}
    site = RuntimeSettings.load()
    read = total["prompt_tokens"] * site.prompt_price
    money = (read + total["completion_tokens"] * site.completion_price) / 1_000_000
    return {**total, "cost": money if site.prompt_price or site.completion_price else None}
