"""Work that is killed at every boundary of what it stores, and what stands once another process has taken it up.

    python -m tests.crash_lab correction|import [EVERY]
    python -m tests.crash_lab tools TOOLS[:EVERY]…

Run as a process of its own, on a database of its own. Each experiment forks a process that does the work and, before or
after its n-th writing statement or commit (of a turn with tools: its n-th step), kills itself with SIGKILL; other
processes then look, take the work up as the worker does, and look again. Prints one JSON object a line. Boundaries are
counted, not listed: n grows (by EVERY, 1 by default) until the work ends without reaching it.
"""

# ruff: noqa: E402  # Django is set up, on a database of its own, before anything else is imported

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import django

_FOLDER = Path(tempfile.mkdtemp(prefix="repondant-crash-"))
DATABASE = _FOLDER / "lab.db"
os.environ["TEST_DATA_DIR"] = str(_FOLDER)
os.environ["DATABASE_URL"] = f"sqlite:///{DATABASE}"
os.environ["LOG_LEVEL"] = "CRITICAL"
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

# isort: split

from django.conf import settings
from django.db import connection, connections

import chat.thread.rounds
import chat.turn.path
import chat.turn.tool_loop
from agents.errors import LLMResponseError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, Reply, RequestedCall, StreamChunk
from agents.llm.openai import _wire_message
from agents.models import Agent, Deployment
from chat.errors import ThreadConflictError
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.protocol import Event
from chat.thread.rounds import append_batch, load_thread
from chat.thread.turns import claim_turn, interrupt_stale_turns
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest
from faqs import csv
from faqs.answer_points import sync_learned
from faqs.answers import learn_from_message
from faqs.models import LearnedResponse
from knowledge.language import spelling
from tests.factories import (
    add_document,
    make_agent,
    make_batch,
    make_conversation,
    make_deployment,
    make_entry,
    make_learned,
    make_library,
)
from tests.servers.model_server import _Refusal, check_chat_request
from tests.servers.of_the_run import migrated_sqlite
from tools_registry.execution import execute_calls
from tools_registry.tool import registry, tool

settings.DATABASE_THREAD_SENSITIVE = False
#: The module as the loader imports it: run with -m, this file is also `__main__`.
sys.modules["tests.crash_lab"] = sys.modules[__name__]
_WRITES = ("INSERT", "UPDATE", "DELETE")


def keep() -> None:
    """The database as it is now is what `restore` brings back."""
    connections.close_all()
    with_checkpoint = connection.cursor()
    with_checkpoint.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connections.close_all()
    shutil.copy(DATABASE, _FOLDER / "before.db")


def restore() -> None:
    connections.close_all()
    for suffix in ("-wal", "-shm"):
        Path(f"{DATABASE}{suffix}").unlink(missing_ok=True)
    shutil.copy(_FOLDER / "before.db", DATABASE)


class Boundaries:
    """Counts the moments before and after each step that stores or runs something, and kills the process at one."""

    def __init__(self, fatal: int) -> None:
        self._fatal = fatal
        self._count = 0
        self._lock = threading.Lock()

    def tick(self) -> None:
        with self._lock:
            self._count += 1
            is_fatal = self._count == self._fatal
        if is_fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, module: Any, *names: str) -> None:
        for name in names:
            setattr(module, name, self.watched(getattr(module, name)))

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        if asyncio.iscoroutinefunction(step):

            async def run_async(*args: Any, **kwargs: Any) -> Any:
                self.tick()
                result = await step(*args, **kwargs)
                self.tick()
                return result

            return run_async

        def run(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            result = step(*args, **kwargs)
            self.tick()
            return result

        return run


@contextmanager
def boundaries(fatal: int) -> Iterator[None]:
    """Kill this process before or after its `fatal`-th write or commit."""
    steps = Boundaries(fatal)

    def watched(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        return (steps.watched(execute) if sql.lstrip().startswith(_WRITES) else execute)(sql, *rest)

    with (
        connection.execute_wrapper(watched),
        mock.patch.object(connection, "_commit", steps.watched(connection._commit)),  # type: ignore[attr-defined]
        mock.patch("faqs.answer_points.nudge"),
    ):
        yield


def begun(work: Callable[[], None]) -> int:
    """Work in a forked process; returns its pid."""
    connections.close_all()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # noqa: BLE001  # a forked process must end here
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def forked(work: Callable[[], None]) -> int:
    """Work in a forked process to its end; returns its exit code, negative for a signal."""
    return ended(begun(work))


async def ignore(_event: Event) -> None:
    return None


def say(row: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()


# A correction: a wrong answer stands in the memory of two deployments and, in other words, among the validated ones.

POOL = "Quels sont les horaires de la piscine ?"
REWORDED = "Pouvez-vous me dire quels sont les horaires de la piscine ?"
OLD, NEW = "De 9 heures à 20 heures.", "De 7 heures à 22 heures."


def build_correction() -> None:
    """The site as it stands before the correction, kept as a file that every experiment starts from."""
    agent = make_agent()
    add_document(agent)
    overlay = {"memory_threshold": 0.7}
    make_learned(agent, question=REWORDED, answer=OLD)
    for slug in ("premier", "second"):
        make_entry(make_deployment(agent, slug=slug, config_overlay=overlay), POOL, OLD)


def correct(fatal: int) -> None:
    agent = Deployment.objects.get(slug="premier").agent
    with boundaries(fatal):
        learn_from_message(agent=agent, message_uuid=uuid.uuid4(), question=POOL, answer=NEW)


def told(deployment: Deployment, question: str) -> list[str]:
    """Which of the two answers a visitor is given."""

    request = TurnRequest(deployment_id=deployment.pk, question=question, language="fr")
    text = asyncio.run(run_turn(request, ignore)).answer.text
    return [name for name, answer in (("old", OLD), ("new", NEW)) if answer in text]


def ask_everywhere() -> dict[str, list[str]]:
    """What both deployments say to both wordings, by a process that has seen nothing."""
    path = _FOLDER / "told.json"

    def work() -> None:
        answers = {
            f"{deployment.slug} {name}": told(deployment, question)
            for deployment in Deployment.objects.order_by("slug")
            for name, question in (("same", POOL), ("reworded", REWORDED))
        }
        path.write_text(json.dumps(answers))

    if forked(work):
        raise RuntimeError("The lab could not ask.")
    found: dict[str, list[str]] = json.loads(path.read_text())
    return found


def correction(fatal: int) -> dict[str, Any]:
    status = forked(lambda: correct(fatal))
    is_written = LearnedResponse.objects.filter(answer=NEW).exists()
    first = ask_everywhere()
    retried = forked(sync_all)
    return {
        "status": status,
        "is_written": is_written,
        "first": first,
        "retried": retried,
        "after": ask_everywhere(),
        "settled": not LearnedResponse.objects.unsettled().exists(),
    }


def sync_all() -> None:
    """As the worker does it."""
    sync_learned()


# An import of rows, one of which changes an answer.

ROWS = [(f"Comment s’inscrire à l’activité {n} ?", f"Au guichet {n}.") for n in range(6)]
CHANGED = ("Quels sont les horaires de la piscine ?", "De 7 heures à 22 heures.")
BATCH = 3


def build_import() -> None:
    agent = make_agent()
    add_document(agent)
    make_learned(agent, question=CHANGED[0], answer="De 9 heures à 20 heures.")


def import_rows() -> None:
    lines = ["question,answer", *(f'"{q}","{a}"' for q, a in (*ROWS, CHANGED))]
    with mock.patch.object(csv, "_BATCH", BATCH):
        plan = csv.plan_import(Agent.objects.get(), "\n".join(lines))
        csv.apply_import(plan, chosen=[len(ROWS) + 2])


def apply(fatal: int) -> None:
    with boundaries(fatal):
        import_rows()


def take_up_import() -> None:
    """As its uploader does, and then the worker."""
    import_rows()
    sync_learned()


def importing(fatal: int) -> dict[str, Any]:
    status = forked(lambda: apply(fatal))
    written = LearnedResponse.objects.count() - 1
    retried = forked(take_up_import)
    stored = Counter(LearnedResponse.objects.values_list("question", "answer"))
    return {
        "status": status,
        "written": written,
        "retried": retried,
        "once": stored == Counter([*ROWS, CHANGED]),
        "settled": not LearnedResponse.objects.unsettled().exists(),
    }


# Turns with tools, beside a second process that writes to the same conversation. Then a third plays the turn again, a
# fourth asks the next question.

ROOMS = "Comment se réservent les salles de travail de la bibliothèque à l'accueil ?"
FOREIGN_BATCHES = 3
_RAN = _FOLDER / "ran"


class StrictModel(LanguageModel):
    """Asks for `tools` parallel calls after a question, answers after their results, refuses what OpenAI would."""

    supports_tools: ClassVar[bool] = True
    default_model = "strict"
    tools = 2

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        return Reply("{}", "strict")

    async def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        accept(messages)
        asked_at = max(n for n, message in enumerate(messages) if message.role == "user")
        names = {call.name for message in messages[asked_at:] for call in message.tool_calls}
        if "mark" in names:
            yield StreamChunk(final=Reply("Fin.", "strict"))
            return
        calls = tuple(RequestedCall(f"{uuid.uuid4().hex[:8]}-{number}", "mark", "{}") for number in range(self.tools))
        yield StreamChunk(final=Reply("", "strict", tool_calls=calls))


def accept(messages: Sequence[PromptMessage]) -> None:
    body = {"model": "strict", "messages": [_wire_message(message) for message in messages]}
    try:
        check_chat_request(body)
    except _Refusal as refusal:
        raise LLMResponseError(refusal.message) from refusal


def mark() -> dict[str, object]:
    """Leave a mark."""
    return {"done": True}


def _mark_run(call_id: str) -> None:
    descriptor = os.open(_RAN, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{call_id}\n".encode())
    os.close(descriptor)


def _count_runs() -> None:
    execute = execute_calls

    async def counted(calls: Any, **kwargs: Any) -> Any:
        for call in calls:
            _mark_run(call.id)
        return await execute(calls, **kwargs)

    setattr(chat.turn.tool_loop, "execute_calls", counted)  # noqa: B010  # the module does not export it


def play(turn: Turn, *, fatal: int = 0) -> None:
    """Answer the question of a turn, up to the fatal boundary."""
    _count_runs()
    steps = Boundaries(fatal)
    steps.watch(
        chat.turn.tool_loop, "plan_round", "start_call", "execute_calls", "finish_call", "apply_round", "load_loop"
    )
    steps.watch(chat.thread.rounds, "_next_version", "_replay")
    steps.watch(chat.turn.path, "save_exchange")
    request = TurnRequest(turn.conversation.deployment_id, ROOMS, "fr", turn.pk, turn.conversation_id)

    result = asyncio.run(run_turn(request, ignore))
    if result.error is not None:
        raise result.error


def write_meanwhile(conversation: Conversation) -> None:
    """The other writer: batches of its own, each against the version it read, replayed on conflict, and once more."""
    for number in range(FOREIGN_BATCHES):
        batch = make_batch(conversation, f"other-{number}")
        version = 0
        while True:
            try:
                append_batch(batch, max_tool_calls=10, expected_version=version)
                break
            except ThreadConflictError as conflict:
                version = conflict.version
        if append_batch(batch, max_tool_calls=10, expected_version=version).applied:
            raise AssertionError("a replay was applied")


def claimed(conversation: Conversation) -> Turn:
    interrupt_stale_turns(conversation.pk)
    made = claim_turn(
        conversation_id=conversation.pk, client_message_id=str(uuid.uuid4()), question=ROOMS, lease_seconds=0.001
    )
    return Turn.objects.select_related("conversation").get(pk=made.turn.pk)


def looping(deployment: Any, *, fatal: int, plays_again: bool) -> dict[str, Any]:
    conversation = make_conversation(deployment)
    turn = claimed(conversation)
    _RAN.write_text("")
    victim = begun(lambda: play(turn, fatal=fatal))
    writer = begun(lambda: write_meanwhile(conversation))
    status, written = ended(victim), ended(writer)
    turn.refresh_from_db()
    again = 0
    if plays_again and turn.status != TurnStatus.DONE:
        # Whoever plays the turn again, after a crash, is the same operation.
        Turn.objects.filter(pk=turn.pk).update(status=TurnStatus.RUNNING)
        again = forked(lambda: play(turn))
    following = claimed(conversation)
    after = forked(lambda: play(following))
    return {"status": status, "writer": written, "again": again, "next": after, **verdict(conversation, turn)}


def verdict(conversation: Conversation, turn: Turn) -> dict[str, Any]:
    """What the conversation looks like now, from its rows alone."""
    stored = list(Message.objects.for_conversation(conversation.pk))
    tools = [(m.operation_id, m.tool_call_id) for m in stored if m.role == Role.TOOL]
    orphans, disorder, position = 0, 0, 0
    while position < len(stored):
        message = stored[position]
        position += 1
        if not message.tool_calls:
            orphans += message.role == Role.TOOL
            continue
        asked = [call["id"] for call in message.tool_calls]
        answers = [m.tool_call_id for m in stored[position : position + len(asked)]]
        orphans += len(set(asked) - set(answers))
        disorder += asked != answers
        position += len(asked)
    thread = load_thread(conversation_id=conversation.pk, limit=500)
    refused = ""
    try:
        accept([message.as_prompt() for message in thread.messages])
    except LLMResponseError as error:
        refused = str(error)
    runs = _RAN.read_text().split()
    return {
        "orphans": orphans,
        "disorder": disorder,
        "duplicates": len(tools) - len(set(tools)),
        "second_runs": len(runs) - len(set(runs)),
        "runs": len(runs),
        "results": sum(bool(m.success) for m in stored if m.turn_id == turn.pk),
        "foreign": sum(m.tool_call_id.startswith("other-") for m in stored),
        "refused": refused,
    }


def run_loop(cases: Sequence[str]) -> None:
    settings.LLMS = {"default": {"BACKEND": "tests.crash_lab.StrictModel"}}
    chat.turn.tool_loop.BATCH_RETRY_SECONDS = 0.005
    chat.turn.tool_loop.BATCH_TRIES = 8
    for spec in list(registry):
        registry.remove(spec.name)
    tool()(mark)
    deployment = make_library()
    for case in cases:
        tools, _colon, every = case.partition(":")
        StrictModel.tools = int(tools)
        count, status = 0, 1
        while status:
            fatal, count = 1 + int(every or 1) * count, count + 1
            found = looping(deployment, fatal=fatal, plays_again=bool(count % 2))
            status = found["status"]
            say({"boundary": fatal, "tools": StrictModel.tools, **found})


EXPERIMENTS = {"correction": (build_correction, correction), "import": (build_import, importing)}


def main(name: str, *arguments: str) -> None:
    migrated_sqlite(DATABASE)
    # Each forked process would read the words of the languages anew: most of what it costs.
    spelling.warm_up()
    if name in EXPERIMENTS:
        build, experiment = EXPERIMENTS[name]
        build()
        keep()
        fatal, status = 1, 1
        while status:
            restore()
            row = experiment(fatal)
            status = row["status"]
            say({"boundary": fatal, **row})
            fatal += int(arguments[0]) if arguments else 1
    else:
        run_loop(arguments)
    shutil.rmtree(_FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
