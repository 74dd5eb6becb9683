"""What nobody asked for and is due all the same: pages to read again, indexes that lack something."""

from django.db.models import QuerySet
from django.utils import timezone

from agents.models import Agent
from knowledge.indexing.jobs.queue import enqueue_missing_indexes, enqueue_questions, enqueue_refresh, enqueue_sync
from knowledge.indexing.refresh import next_reading
from knowledge.indexing.sync import stale_documents
from knowledge.models import BuildKind, BuildStatus, IndexBuild, WebSource

#: By name as well: how the worker's timer asks for a look at every agent.
RECONCILE_TASK = "knowledge.tasks.reconcile_indexes"


def due_sources() -> QuerySet[WebSource]:
    due = WebSource.objects.filter(is_active=True, due_at__lte=timezone.now())
    return due.select_related("agent").order_by("due_at")


def enqueue_due_refreshes() -> int:
    """Queue a refresh of every source whose time has come; returns how many. Workers ask this every few seconds."""
    count = 0
    for source in due_sources():
        # Of several workers one moves the time on, and queues; a refresh that fails leaves it there.
        taken = WebSource.objects.filter(pk=source.pk, due_at=source.due_at)
        source.checked_at = timezone.now()
        if taken.update(due_at=next_reading(source)):
            enqueue_refresh(source)
            count += 1
    return count


def reschedule_sources() -> None:
    """Have sources follow the interval that staff changed for an agent or for the site since they were read."""
    for source in WebSource.objects.filter(is_active=True).select_related("agent"):
        due = next_reading(source) if source.checked_at else source.due_at
        # Never later than it is planned: a failed reading may be tried again before its interval.
        if (due is None) != (source.due_at is None) or (due and source.due_at and due < source.due_at):
            WebSource.objects.filter(pk=source.pk, due_at=source.due_at).update(due_at=due)


def reconcile_indexes() -> None:
    """Look at every agent for documents and methods whose points do not follow their rows, and at the plan of the web."""
    reschedule_sources()
    for agent_id in Agent.objects.order_by("pk").values_list("pk", flat=True):
        reconcile_agent(agent_id)


def reconcile_agent(agent_id: int) -> list[IndexBuild]:
    """Queue what an agent's indexes lack: one that was never built, documents changed without a signal."""
    agent = Agent.objects.filter(pk=agent_id).prefetch_related("deployments__agent").first()
    if agent is None:
        return []
    builds = enqueue_missing_indexes(agent)
    if not builds and (stale := stale_documents(agent)):
        builds.append(enqueue_sync(agent=agent, document_ids=stale))
    builds += _questions_never_asked(agent)
    return builds


def _questions_never_asked(agent: Agent) -> list[IndexBuild]:
    """A writing of questions that ended without a call: a worker of an earlier release took it for something else."""
    last = IndexBuild.objects.filter(agent=agent, kind=BuildKind.QUESTIONS).order_by("pk").last()
    if last is None or last.status != BuildStatus.DONE or last.report.get("model_calls"):
        return []
    build = enqueue_questions(agent=agent, document_ids=last.document_ids)
    return [build] if build else []
