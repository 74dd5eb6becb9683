"""A learned response's points follow its row: into the shared collection and into every index of its agent.

The row counts from its commit on; then its points are written, what it supersedes is withdrawn, and the row is settled.
A failure leaves it waiting with its reason and the time of the next try. Every step is idempotent.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import groupby

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import jobs
from agents.errors import ApplicationError
from agents.jobs import Held
from agents.models import Agent, IndexingMethod, JobKind
from faqs.memory import ID_BATCH, recipe_key, review_stale
from faqs.models import IndexState, LearnedResponse, LearnedResponseQuerySet, LearnedStatus, Phrasing
from faqs.neighbours import LEARNED_COLLECTION
from faqs.origins import resting_on
from faqs.precedence import confirm_learned, supersede_older
from faqs.second_key.same_question import are_opposites
from knowledge.acronyms import Forms
from knowledge.embeddings.base import Recipe, embedder
from knowledge.errors import CollectionMissingError
from knowledge.indexing.points import OnProgress, PointWriter, current_generation, no_progress, remove_points
from knowledge.search import PlannedPoint, ValidatedAnswers, plan_faq_point
from knowledge.vectors.base import VectorStore, batches, collection_alias, vector_store

#: Up to so many questions and phrasings that a person writes take effect before the page comes back; more are left to a
#: worker.
ANSWERS_SETTLED_AT_ONCE = 50
#: A validated answer whose points could not be written is tried again, at the latest after this time.
FAQ_RETRY_MAX_SECONDS = 300.0

logger = logging.getLogger(__name__)

#: Rows whose points are written, and fail, together.
SYNC_BATCH = 200
#: How often rows that were edited meanwhile, or an index that was rebuilt meanwhile, are followed in one go.
MAX_PASSES = 3


@dataclass(slots=True)
class SyncReport:
    """The outcome for the rows; `failed` has `{item, reason}` for each that will be tried again."""

    indexed: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)


def schedule_indexing(keys: Sequence[int]) -> None:
    """Mark the points of changed rows as not written, and notify a worker after the commit."""
    mark_pending(keys)
    transaction.on_commit(lambda: nudge(list(keys)))


def take_effect(keys: Sequence[int]) -> None:
    """Mark rows that a person has just written as pending; after the commit `settle_now` indexes them if they are few."""
    mark_pending(keys)
    transaction.on_commit(partial(settle_now, list(keys)), robust=True)


def settle_now(keys: list[int]) -> None:
    """Index committed rows at once where they are few, and notify a worker in any case."""
    phrasings = Phrasing.objects.filter(response__in=keys).count()
    if len(keys) + phrasings <= ANSWERS_SETTLED_AT_ONCE:
        sync_learned(keys)
    nudge(keys)


def unsettle(rows: LearnedResponseQuerySet) -> None:
    """Have a worker apply valid rows again, although unchanged, because a new deployment or index needs them."""
    rows.valid().update(settled_revision=0, next_attempt_at=None)


def mark_pending(keys: Sequence[int]) -> None:
    """Mark the points of changed rows as not written; the caller has them indexed."""
    LearnedResponse.objects.filter(pk__in=keys).mark_pending()


def nudge(keys: list[int]) -> None:
    """Have a worker index these rows; a queued job takes them along."""
    jobs.enqueue(JobKind.ANSWERS, key=JobKind.ANSWERS, payload={"ids": keys})


def reap_learned() -> int:
    """Take what is overdue out of service, and nudge for what still waits for its points; returns how many."""
    expire_reviews()
    due = list(LearnedResponse.objects.due_for_indexing().values_list("pk", flat=True)[:SYNC_BATCH])
    if due:
        # Whoever is nudged now has until then; the next look does not ask a second time meanwhile.
        grace = timezone.now() + timedelta(seconds=FAQ_RETRY_MAX_SECONDS)
        LearnedResponse.objects.filter(pk__in=due).update(next_attempt_at=grace)
        nudge(due)
    return len(due)


def settle_answers(held: Held) -> None:
    """The job that indexes answers; a row that fails keeps its reason, and `reap_learned` queues it again."""
    keys = held.job.payload["ids"]
    waiting = LearnedResponse.objects.unsettled().filter(pk__in=keys)
    sync_learned(list(waiting.values_list("pk", flat=True)), on_progress=held.progress)


def remove_answers(held: Held) -> None:
    """The job that removes the points of deleted answers."""
    remove_learned_points(agent_slug=held.job.payload["agent"], ids=held.job.payload["ids"])


def expire_reviews() -> int:
    """Rows past their review date go to review, with the reason; they stopped answering when it passed."""
    if not LearnedResponse.objects.review_overdue().exists():
        return 0
    with transaction.atomic():
        held = LearnedResponse.objects.review_overdue().order_by("pk").select_for_update()
        overdue = list(held.values_list("pk", "review_date"))
        keys = [key for key, _day in overdue]
        for key, day in overdue:
            LearnedResponse.objects.filter(pk=key).update(
                status=LearnedStatus.TO_REVIEW, status_reason=_("Date de relecture dépassée (%(day)s).") % {"day": day}
            )
        schedule_indexing(keys)
    return len(overdue)


def sync_learned(keys: Sequence[int] | None = None, *, on_progress: OnProgress = no_progress) -> SyncReport:
    """Bring the points of these rows (all of them for `None`) in line; failures are kept on the rows and reported."""
    report = SyncReport()
    todo = LearnedResponse.objects.all() if keys is None else LearnedResponse.objects.filter(pk__in=keys)
    waiting = list(todo.order_by("agent", "pk").values_list("agent", "pk"))
    done = 0
    for agent_id, pairs in groupby(waiting, key=lambda pair: pair[0]):
        agent = Agent.objects.get(pk=agent_id)
        for batch in batches((pk for _agent, pk in pairs), SYNC_BATCH):
            _sync_batch(agent, batch, report)
            done += len(batch)
            on_progress(done, len(waiting))
    return report


def plan_learned(agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """The points that a rebuild of the agent's index takes along, whatever its method."""
    rows = LearnedResponse.objects.valid().filter(agent=agent).order_by("pk")
    for row in rows.prefetch_related("phrasings").iterator(chunk_size=500):
        yield from plan_points(row)


def plan_points(row: LearnedResponse) -> Iterator[PlannedPoint]:
    """One point a phrasing, the question first."""
    for point_id, text in row.points():
        yield plan_faq_point(
            agent_id=row.agent_id,
            point_id=point_id,
            question=text,
            answer=row.answer,
            indexed_at=row.updated_at.isoformat(),
        )


def point_ids(row: LearnedResponse) -> list[str]:
    return [point for point, _text in row.points()]


def remove_learned_points(*, agent_slug: str, ids: Sequence[str]) -> None:
    """Delete points from the shared collection and from every current index of the agent."""
    store = vector_store()
    if store.resolve_alias(LEARNED_COLLECTION):
        store.delete(LEARNED_COLLECTION, ids)
    remove_points(agent_slug=agent_slug, ids=ids)


def _sync_batch(agent: Agent, keys: list[int], report: SyncReport) -> None:
    for _pass in range(MAX_PASSES):
        rows = list(LearnedResponse.objects.filter(pk__in=keys).prefetch_related("phrasings"))
        try:
            _write(agent, rows)
            supersede_older(agent, [row for row in rows if row.is_valid])
            review_stale(learned_ids=keys)
        except ApplicationError as error:
            if len(rows) > 1 and not _heals(error):
                # One row that cannot be written must not keep the others back.
                for row in rows:
                    _sync_batch(agent, [row.pk], report)
            else:
                _postpone(rows, error, report)
            return
        keys = _settle(rows, report)
        if not keys:
            return


def _write(agent: Agent, rows: Sequence[LearnedResponse]) -> None:
    """Write the points of valid rows and remove those of others, in the shared collection and in each method's index.

    A rebuild writes those of an index that was never built. Raises `CollectionMissingError` where the agent has no index
    at all, so that the rows stay pending, and the first error of the store.
    """
    withdrawn = [point for row in rows if not row.is_valid for point in point_ids(row)]
    if withdrawn:
        remove_learned_points(agent_slug=agent.slug, ids=withdrawn)
    planned = [point for row in rows if row.is_valid for point in plan_points(row)]
    if not planned:
        return
    store, model = vector_store(), embedder()
    shared = _shared_collection(store, model.recipe)
    PointWriter(store=store, collection=shared, embedder=model).write(planned)
    written, never_built = False, None
    for method in sorted(agent.methods_in_use()):
        for _pass in range(MAX_PASSES):
            try:
                generation = current_generation(store, agent, method, model.recipe)
            except CollectionMissingError as error:
                never_built = error
                break
            # The vectors were just made: no phrasing is embedded twice.
            PointWriter(store=store, collection=generation, embedder=model, donors=[shared]).write(planned)
            written = True
            if store.resolve_alias(collection_alias(agent.slug, method)) == generation:
                break  # no rebuild has put another generation in its place meanwhile
    if never_built is not None and not written:
        raise never_built


def _shared_collection(store: VectorStore, recipe: Recipe) -> str:
    """The collection behind `learned_responses` for this recipe."""
    name = f"{LEARNED_COLLECTION}_{recipe_key(recipe)}"
    before = store.resolve_alias(LEARNED_COLLECTION)
    if before != name:
        store.ensure(name, recipe)
        store.point_alias(LEARNED_COLLECTION, name)
        if before is not None:
            LearnedResponse.objects.valid().update(index_state=IndexState.PENDING, next_attempt_at=None)
            store.drop(before)
    return name


def _settle(rows: Sequence[LearnedResponse], report: SyncReport) -> list[int]:
    """Mark rows as indexed; returns those that were edited during the writing."""
    changed = []
    for row in rows:
        state = IndexState.INDEXED if row.is_valid else IndexState.WITHDRAWN
        followed = LearnedResponse.objects.filter(pk=row.pk, revision=row.revision).update(
            index_state=state,
            index_error="",
            attempts=0,
            next_attempt_at=None,
            indexed_at=timezone.now(),
            settled_revision=row.revision,
        )
        if not followed:
            changed.append(row.pk)
        elif state is IndexState.INDEXED:
            report.indexed += 1
            logger.info("FAQ indexed agent_id=%d learned_id=%d", row.agent_id, row.pk)
    return changed


def _heals(error: ApplicationError) -> bool:
    """Whether the error passes without staff: it is retryable, or the index is missing and a worker builds it."""
    return error.retryable or isinstance(error, CollectionMissingError)


def _postpone(rows: Sequence[LearnedResponse], error: ApplicationError, report: SyncReport) -> None:
    """Store the reason as pending where the error heals by itself, else as failed; retries come ever later."""
    logger.warning("%d learned responses could not be indexed: %s", len(rows), error.code)
    state = IndexState.PENDING if _heals(error) else IndexState.FAILED
    reason = str(error.public_message)
    for row in rows:
        wait = min(settings.JOB_REAP_SECONDS * 2 ** min(row.attempts, 16), FAQ_RETRY_MAX_SECONDS)
        LearnedResponse.objects.filter(pk=row.pk).update(
            index_state=state,
            index_error=reason,
            attempts=F("attempts") + 1,
            next_attempt_at=timezone.now() + timedelta(seconds=wait),
        )
        report.failed.append({"item": row.question, "reason": reason})


def settle_again(agent_id: int, forms: Forms) -> None:
    """Have the valid answers with one of the forms applied again: they then supersede older ones in the other form."""
    rows = LearnedResponse.objects.valid().filter(agent=agent_id).prefetch_related("phrasings")
    found = (
        row.pk for row in rows.iterator(chunk_size=500) if any(forms.other_reading(text) for _p, text in row.points())
    )
    for batch in batches(list(found), ID_BATCH):
        unsettle(LearnedResponse.objects.filter(pk__in=batch))


class AnswersOfFaqs(ValidatedAnswers):
    """The interface through which the index, search and the forms of an agent reach its validated answers."""

    plan_points = staticmethod(plan_learned)
    confirm = staticmethod(confirm_learned)
    settle_again = staticmethod(settle_again)
    resting_on = staticmethod(resting_on)
    are_opposites = staticmethod(are_opposites)
