"""The rows behind the doors: one of every model that the admin shows, and conversations in each state, of an owner of
each kind.

What only some may read holds `MARK`: an answer that shows it shows a row.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from agents.models import Agent, Audience, Deployment, JobKind, JobStatus, Logo, ProviderGroup, RuntimeSettings
from chat.access.permissions import WidgetVisitor
from chat.models import (
    ApiKey,
    Approval,
    Channel,
    Feedback,
    GoldenRun,
    GoldenSet,
    HelpRequest,
    Message,
    Role,
    ToolExecution,
    ToolRound,
    Turn,
    TurnStatus,
)
from chat.runs.runner import runner
from chat.staff.golden import write_questions
from faqs.models import QuestionGroup
from knowledge.models import Category, Chunk, Document, IndexBuild, PairVerdict, Synonym, WebSource
from tests.factories import (
    make_api_key,
    make_calibration,
    make_conversation,
    make_entry,
    make_exchange,
    make_learned,
    make_library,
    make_turn,
    make_user,
)
from tools_registry.models import ToolOverride, ToolSource

MARK = "zygopetale"
SITE = "https://www.example.org"
CALL = "call-1"
#: A session, and when a key was last used, are no change to what a door is for.
_IGNORED = ("django_session", '"last_used_at" = ')


@dataclass(slots=True)
class World:
    """What the doors lead to. `rows` has one row of each model of the admin."""

    deployment: Deployment
    closed: Deployment
    rows: dict[type[Model], Any] = field(default_factory=dict)
    #: By owner (`page`, `widget`), a conversation with an answered, an interrupted and a waiting turn.
    answered: dict[str, Turn] = field(default_factory=dict)
    interrupted: dict[str, Turn] = field(default_factory=dict)
    waiting: dict[str, Turn] = field(default_factory=dict)
    #: The message of each answered turn's answer.
    answers: dict[str, int] = field(default_factory=dict)


def make_site() -> World:
    """The rows that no owner has: two deployments (one for a group), and what staff work on."""
    deployment = make_library(slug="public", name="Public", allowed_origins=SITE, logo=Logo.of(b"PNG"))
    Deployment.objects.filter(pk=deployment.pk).update(config_overlay={"ask_a_person": True})
    closed = make_library(slug="closed", name=f"Closed {MARK}", audience=Audience.GROUPS, allowed_origins=SITE)
    world = World(deployment, closed)
    for row in _staff_rows(closed):
        world.rows[type(row)] = row
    changed = LogEntry.objects.filter(content_type__model="agent", action=LogEntry.Action.UPDATE)
    world.rows[LogEntry] = changed.latest("pk")
    return world


def _staff_rows(deployment: Deployment) -> Iterator[Model]:
    agent = deployment.agent
    Agent.objects.filter(pk=agent.pk).update(description=MARK, name=f"Agent {MARK}")
    yield from (agent, deployment, RuntimeSettings.load())
    yield make_user(username=f"{MARK}-user")
    group = Group.objects.create(name=f"{MARK}-group")
    yield from (group, ProviderGroup.objects.create(name=MARK, group=group))
    yield from _knowledge_rows(agent)
    yield from _answer_rows(deployment)
    yield from _golden_rows(deployment)
    yield from _tool_rows()
    yield from _key_rows(deployment)


def _knowledge_rows(agent: Agent) -> Iterator[Model]:
    document = Document.objects.get(agent=agent)
    Document.objects.filter(pk=document.pk).update(title=MARK)
    chunk = Chunk.objects.filter(document=document).first()
    assert chunk is not None
    Chunk.objects.filter(pk=chunk.pk).update(content=f"{MARK} {chunk.content}")
    yield from (document, chunk)
    yield Category.objects.create(name=MARK)
    yield WebSource.objects.create(agent=agent, url=f"https://{MARK}.example.org/", kind="page")
    yield IndexBuild.objects.create(
        agent=agent, kind=JobKind.REBUILD, payload={"method": "qr_atomique"}, status=JobStatus.FAILED, error=MARK
    )
    yield Synonym.objects.create(agent=agent, short="MRK", long=MARK, short_key="mrk", long_key=MARK.casefold())
    yield make_calibration(model=MARK)
    yield PairVerdict.objects.create(stored=MARK, asked="b", same_answer=True)


def _answer_rows(deployment: Deployment) -> Iterator[Model]:
    learned = make_learned(deployment.agent, question=f"Où est le {MARK} ?")
    yield learned
    yield make_entry(deployment, question=f"Quand ouvre le {MARK} ?")
    yield QuestionGroup.objects.create(agent=deployment.agent, question=MARK, recipe="", vector=b"")


def _golden_rows(deployment: Deployment) -> Iterator[Model]:
    golden_set = GoldenSet.objects.create(name=MARK, deployment=deployment)
    write_questions(golden_set, [{"question": MARK}])
    yield golden_set
    yield golden_set.questions.get()
    yield GoldenRun.objects.create(golden_set=golden_set, deployment=deployment)


def _tool_rows() -> Iterator[Model]:
    tool = ToolOverride.objects.create(tool_name=MARK, description=MARK)
    source = ToolSource.objects.create(slug=MARK, name=MARK, kind="openapi", document="{}")
    yield from (tool, source)
    yield ToolOverride.objects.create(source=source, tool_name=f"{MARK}_a", remote_name=MARK)


def _key_rows(deployment: Deployment) -> Iterator[Model]:
    make_api_key(deployment, name=MARK)
    yield ApiKey.objects.get(name=MARK)


def make_owned(world: World, owner: str, **who: Any) -> None:
    """Conversations of one owner: an answered one, one whose last turn was interrupted, one that waits for a person."""
    answered = make_conversation(world.deployment, **who)
    turn = make_exchange(answered, f"{MARK} ?", f"Réponse {MARK}")
    Feedback.objects.create(turn=turn, verdict="down", comment=MARK)
    world.answered[owner] = turn
    world.answers[owner] = _sourced(turn)
    world.interrupted[owner] = _open_turn(world, TurnStatus.INTERRUPTED, **who)
    world.waiting[owner] = waiting = _open_turn(world, TurnStatus.AWAITING_APPROVAL, **who)
    calls = [{"id": CALL, "type": "function", "function": {"name": "book", "arguments": "{}"}}]
    planned = ToolRound.objects.create(
        conversation=waiting.conversation,
        turn=waiting,
        operation_id=uuid.uuid4(),
        round_index=1,
        tool_calls=calls,
        tool_names=["book"],
    )
    ToolExecution.objects.create(round=planned, position=0, tool_call_id=CALL, name=MARK, approval=Approval.PENDING)


def _sourced(turn: Turn) -> int:
    """Give a turn's answer a source; returns the answer's id."""
    answer = turn.messages.get(role=Role.ASSISTANT)
    answer.sources = [{"n": 1, "title": MARK, "question": "", "text": MARK, "type": "qa_pair"}]
    answer.save()
    return int(answer.pk)


def _open_turn(world: World, status: TurnStatus, **who: Any) -> Turn:
    conversation = make_conversation(world.deployment, title=MARK, **who)
    turn = make_turn(conversation, status=status, lease_expires_at=timezone.now())
    question = "Quels sont les horaires d'ouverture de la bibliothèque ?"
    Message.objects.create(conversation=conversation, turn=turn, role=Role.USER, content=question)
    return turn


def make_closed(world: World, **who: Any) -> None:
    """A conversation of the closed deployment, from the time when it was open to its owner."""
    conversation = make_conversation(world.closed, **who)
    world.answered["closed"] = turn = make_exchange(conversation, f"{MARK} ?", f"Réponse {MARK}")
    world.answers["closed"] = _sourced(turn)


def add_private_rows(world: World) -> None:
    """The page's owner, and what the admin shows of them."""
    make_owned(world, "page", visitor=None)
    turn = world.answered["page"]
    for row in (
        turn,
        turn.conversation,
        turn.feedback,
        HelpRequest.objects.create(turn=turn, address=f"{MARK}@example.org"),
    ):
        world.rows[type(row)] = row


def widget_token(deployment: Deployment, visitor: uuid.UUID) -> str:
    return WidgetVisitor(deployment, SITE, visitor).token()


WIDGET: dict[str, Any] = {"channel": Channel.WIDGET}


def grant(user: User, *, only: type[Model] | None, actions: tuple[str, ...]) -> User:
    """Give a user these rights, on one model or on all."""
    rights = Permission.objects.all()
    if only is not None:
        names = [f"{action}_{only._meta.model_name}" for action in actions]
        rights = rights.filter(content_type__app_label=only._meta.app_label, codename__in=names)
    user.user_permissions.set(rights)
    return user


class Writes:
    """The statements that change more than a session, on the connection of the thread that starts and stops it."""

    def __init__(self) -> None:
        self._written: list[str] = []

    def __call__(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        is_write = sql.startswith(("INSERT", "UPDATE", "DELETE"))
        if is_write and not any(part in sql for part in _IGNORED):
            self._written.append(sql)
        return execute(sql, *rest)

    def start(self) -> None:
        connection.execute_wrappers.append(self)

    def stop(self) -> bool:
        """Whether anything was written."""
        connection.execute_wrappers.remove(self)
        return bool(self._written)


async def settled() -> None:
    """Wait for what answers do after their end, as far as this event loop began it: each test has a loop of its own."""
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(task for task in runner._settling if task.get_loop() is loop), return_exceptions=True)
