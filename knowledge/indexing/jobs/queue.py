"""What is asked for, as a row: a build is made, joined to one that waits, and a worker is told."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from celery import current_app
from celery.exceptions import OperationalError
from django.db import IntegrityError, transaction
from django.db.models import Min
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.models import Agent, IndexingMethod
from agents.processes.asking import ask_worker
from knowledge.exceptions import KnowledgeError, RebuildInProgressError
from knowledge.indexing.questions import questions_model, waiting_passages
from knowledge.indexing.sync import methods_without_index, new_generation
from knowledge.models import UNDER_WAY, BuildKind, BuildStatus, IndexBuild, WebSource

logger = logging.getLogger(__name__)

#: By name, because the task module imports this one.
RUN_TASK = "knowledge.tasks.run_index_build"
_JOIN_ATTEMPTS = 3
#: Finished refreshes of one source that are kept to be looked at.
_KEPT_REFRESHES = 10


def enqueue_documents(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    build = IndexBuild.objects.create(
        agent=agent, kind=BuildKind.DOCUMENTS, document_ids=list(document_ids), total=len(document_ids)
    )
    transaction.on_commit(lambda: nudge(build.pk))
    return build


def enqueue_sync(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    """Queue an update of these documents' points; one that nobody has begun takes them along."""
    wanted = set(document_ids)
    for _attempt in range(_JOIN_ATTEMPTS):
        waiting = IndexBuild.objects.filter(agent=agent, kind=BuildKind.SYNC, status=BuildStatus.QUEUED)
        with transaction.atomic():
            build = waiting.select_for_update().first()
            if build is not None:
                wanted |= set(build.document_ids)
                ids = sorted(wanted)
                if waiting.filter(pk=build.pk).update(document_ids=ids, total=len(ids)):
                    return build
        try:
            with transaction.atomic():
                build = IndexBuild.objects.create(
                    agent=agent, kind=BuildKind.SYNC, document_ids=sorted(wanted), total=len(wanted)
                )
        except IntegrityError:
            continue  # another was queued in between: it is joined
        transaction.on_commit(partial(nudge, build.pk))
        return build
    raise KnowledgeError(f"An update of {agent.slug} could not be queued.")


def create_questions(*, agent: Agent, document_ids: Sequence[int] | None = None) -> IndexBuild | None:
    """The row of a writing of questions for these documents (all of the agent's, if none are named); one that is not
    over takes them along. `None` where no model is asked, or none of their passages waits.
    """
    model = questions_model(agent)
    passages = waiting_passages(agent, model, document_ids) if model else []
    if not passages:
        return None
    wanted = {document_id for _chunk, document_id in passages}
    with one_writing(agent) as build:
        if build is None:
            return IndexBuild.objects.create(
                agent=agent, kind=BuildKind.QUESTIONS, document_ids=sorted(wanted), total=len(passages)
            )
        IndexBuild.objects.filter(pk=build.pk).update(document_ids=sorted(wanted | set(build.document_ids)))
        return build


@contextmanager
def one_writing(agent: Agent) -> Iterator[IndexBuild | None]:
    """The writing of questions of an agent that is not over, and nobody makes another meanwhile.

    Its agent's row is the lock: a constraint of the table would be in the way of a release that does not know this
    kind.
    """
    with short_write():
        list(Agent.objects.select_for_update(no_key=True).filter(pk=agent.pk))
        going = IndexBuild.objects.filter(agent=agent, kind=BuildKind.QUESTIONS)
        open_ones = going.filter(status__in=UNDER_WAY)
        # The row, too: its end looks at the documents it has written for.
        yield open_ones.select_for_update().first()


def enqueue_questions(*, agent: Agent, document_ids: Sequence[int] | None = None) -> IndexBuild | None:
    """Have a worker write questions; a writing that waits for tomorrow is left as it is."""
    build = create_questions(agent=agent, document_ids=document_ids)
    if build is not None:
        transaction.on_commit(partial(nudge, build.pk))
    return build


def create_refresh(source: WebSource) -> IndexBuild:
    """The row of a refresh, which is its source's lock: the one that waits or runs, where there is one."""
    rows = IndexBuild.objects.filter(source=source, kind=BuildKind.REFRESH)
    going = rows.filter(status__in=UNDER_WAY)
    for _attempt in range(_JOIN_ATTEMPTS):
        if (build := going.first()) is not None:
            return build
        try:
            with transaction.atomic():
                build = IndexBuild.objects.create(agent=source.agent, kind=BuildKind.REFRESH, source=source)
        except IntegrityError:
            continue  # another was made in between: it is taken
        finished = rows.filter(finished_at__isnull=False).order_by("-pk")
        rows.filter(pk__in=list(finished.values_list("pk", flat=True)[_KEPT_REFRESHES:])).delete()
        return build
    raise KnowledgeError(f"A refresh of {source.url} could not be queued.")


def enqueue_refresh(source: WebSource) -> IndexBuild:
    """Queue a refresh; one that waits or runs already is that one."""
    build = create_refresh(source)
    transaction.on_commit(partial(nudge, build.pk))
    return build


def enqueue_rebuild(*, agent: Agent, method: IndexingMethod) -> IndexBuild:
    """Queue a rebuild; raises `RebuildInProgressError` while one is queued or running for the same index."""
    build = create_rebuild(agent=agent, method=method)
    transaction.on_commit(lambda: nudge(build.pk))
    return build


def create_rebuild(*, agent: Agent, method: IndexingMethod) -> IndexBuild:
    """The row of a rebuild, which is its lock. A dead worker's lock is taken over, its generation resumed."""
    abandoned = IndexBuild.objects.expired().filter(agent=agent, kind=BuildKind.REBUILD, method=method)
    resumed = abandoned.first()
    if resumed is not None:
        return resumed
    try:
        with transaction.atomic():
            return IndexBuild.objects.create(
                agent=agent, kind=BuildKind.REBUILD, method=method, generation=new_generation(agent, method)
            )
    except IntegrityError as error:
        raise RebuildInProgressError(f"{agent.slug} ({method}) is being rebuilt.") from error


def enqueue_missing_indexes(agent: Agent) -> list[IndexBuild]:
    builds = []
    for method in methods_without_index(agent):
        try:
            builds.append(enqueue_rebuild(agent=agent, method=method))
        except RebuildInProgressError:
            logger.info("%s (%s) is being rebuilt already.", agent.slug, method)
    return builds


def waiting_seconds() -> float:
    """How long the oldest job that could begin has waited; 0 where none does. One that is tried again waits from then
    on.
    """
    waiting = IndexBuild.objects.due()
    since = waiting.aggregate(since=Min(Coalesce("not_before", "created_at")))["since"]
    return max(0.0, (timezone.now() - since).total_seconds()) if since else 0.0


def others_wait(build: IndexBuild) -> bool:
    """Whether a job of another kind could begin: documents are found before more questions are written."""
    others = IndexBuild.objects.due().exclude(pk=build.pk)
    return others.exclude(kind=BuildKind.QUESTIONS).exists()


def waiting_messages() -> int:
    """How many messages no worker has taken yet; none where the broker does not say."""
    with current_app.connection_for_write() as broker:
        unheard: tuple[type[BaseException], ...] = (OperationalError, *broker.connection_errors, *broker.channel_errors)
        try:
            broker.ensure_connection(max_retries=1)
            queue = current_app.amqp.queues[current_app.conf.task_default_queue]
            declared: Any = queue(broker.default_channel).queue_declare()
        except unheard:
            return 0
    return int(declared.message_count)


def nudge(build_id: int) -> None:
    """Tell a worker that there is work. A broker that is away is no error: the row says so, and the reaper nudges
    again.
    """
    if not ask_worker(RUN_TASK, build_id, otherwise=f"build {build_id} waits for the reaper"):
        waiting = IndexBuild.objects.filter(pk=build_id, status=BuildStatus.QUEUED)
        waiting.update(
            error=_(
                "La file des tâches est injoignable : rien n’est perdu, ce travail commencera de lui-même dès son retour."
            )
        )
