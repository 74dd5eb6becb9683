"""Turns with tools that die at every boundary of what they store, and what the conversation looks like after.

    python -m tests.crash_lab kill|raise TOOLS[:EVERY]…

Run as a process of its own, on a database of its own. Each experiment forks a process that answers a question with so
many parallel tools and, at the n-th boundary, kills itself with SIGKILL (or raises); a second process writes to the
same conversation meanwhile. Then a third plays the turn again, a fourth asks the next question, and the thread is
looked at. Prints one JSON object a line. Boundaries are counted, not listed: n grows (by EVERY, 1 by default) until a
turn ends without reaching it.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import django

_FOLDER = Path(tempfile.mkdtemp(prefix="repondant-crash-"))
os.environ["TEST_DATA_DIR"] = str(_FOLDER)
os.environ["DATABASE_URL"] = f"sqlite:///{_FOLDER / 'crash.db'}"
os.environ["LOG_LEVEL"] = "CRITICAL"
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

import chat.thread.rounds  # noqa: E402
import chat.turn.path  # noqa: E402
import chat.turn.tool_loop  # noqa: E402
from agents.errors import LLMResponseError  # noqa: E402
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, Reply, RequestedCall, StreamChunk  # noqa: E402
from agents.llm.openai import _wire_message  # noqa: E402
from chat.errors import ThreadConflictError  # noqa: E402
from chat.models import Conversation, Message, Role, Turn, TurnStatus  # noqa: E402
from chat.thread.messages import ThreadMessage  # noqa: E402
from chat.thread.rounds import Batch, append_batch, load_thread  # noqa: E402
from chat.thread.turns import claim_turn, interrupt_turns, stale_turns  # noqa: E402
from chat.turn.path import run_turn  # noqa: E402
from chat.turn.values import TurnRequest  # noqa: E402
from knowledge.language import spelling  # noqa: E402
from tests.factories import make_batch, make_conversation, make_library  # noqa: E402
from tests.servers.model_server import _Refusal, check_chat_request  # noqa: E402
from tests.servers.of_the_run import migrated_sqlite  # noqa: E402
from tools_registry.execution import execute_calls  # noqa: E402
from tools_registry.tool import registry, tool  # noqa: E402

settings.DATABASE_THREAD_SENSITIVE = False
chat.turn.tool_loop.BATCH_RETRY_SECONDS = 0.005
chat.turn.tool_loop.BATCH_TRIES = 8
QUESTION = "Comment se réservent les salles de travail de la bibliothèque à l'accueil ?"
FOREIGN_BATCHES = 3
_RAN = _FOLDER / "ran"


class StrictModel(LanguageModel):
    """Asks for `tools` parallel calls after a question, answers after their results, refuses what OpenAI would."""

    supports_tools: ClassVar[bool] = True
    tools = 2

    @property
    def default_model(self) -> str:
        return "strict"

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
        check_chat_request(body, models=(), refused=frozenset())
    except _Refusal as refusal:
        raise LLMResponseError(refusal.message) from refusal


settings.LLMS = {"default": {"BACKEND": "tests.crash_lab.StrictModel"}}
#: The module as the loader imports it: run with -m, this file is also `__main__`.
sys.modules["tests.crash_lab"] = sys.modules[__name__]


def mark() -> dict[str, object]:
    """Leave a mark."""
    return {"done": True}


def _mark_run(call_id: str) -> None:
    descriptor = os.open(_RAN, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{call_id}\n".encode())
    os.close(descriptor)


class Boundaries:
    """Counts the moments before and after each step that stores or runs something, and ends the process at one."""

    def __init__(self, fatal: int, end: Callable[[], Any]) -> None:
        self._fatal = fatal
        self._end = end
        self._count = 0
        self._lock = threading.Lock()

    def tick(self) -> None:
        with self._lock:
            self._count += 1
            is_fatal = self._count == self._fatal
        if is_fatal:
            self._end()

    def watch(self, module: Any, *names: str) -> None:
        for name in names:
            setattr(module, name, self._watched(getattr(module, name)))

    def _watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
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


def _count_runs() -> None:
    execute = execute_calls

    async def counted(calls: Any, **kwargs: Any) -> Any:
        for call in calls:
            _mark_run(call.id)
        return await execute(calls, **kwargs)

    setattr(chat.turn.tool_loop, "execute_calls", counted)  # noqa: B010  # the module does not export it


def forked(work: Callable[[], None]) -> int:
    """Run in a forked process; returns its pid."""
    connections.close_all()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # noqa: BLE001  # a forked process must end here
        if str(error) != "boundary":
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            status = 2
    finally:
        os._exit(status)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def play(turn: Turn, *, fatal: int = 0, end: Callable[[], Any] = lambda: None) -> None:
    """Answer the question of a turn, up to the fatal boundary."""
    _count_runs()
    boundaries = Boundaries(fatal, end)
    boundaries.watch(
        chat.turn.tool_loop, "plan_round", "start_call", "execute_calls", "finish_call", "apply_round", "load_loop"
    )
    boundaries.watch(chat.thread.rounds, "_next_version", "_row", "_replay")
    boundaries.watch(chat.turn.path, "save_exchange")
    request = TurnRequest(
        deployment_id=turn.conversation.deployment_id,
        question=QUESTION,
        language="fr",
        turn_id=turn.pk,
        conversation_id=turn.conversation_id,
    )

    async def ignore(_event: Any) -> None:
        return None

    result = asyncio.run(run_turn(request, ignore))
    if result.error is not None:
        raise result.error


def write_meanwhile(conversation: Conversation) -> None:
    """The other writer: batches of its own, each against the version it read, replayed on conflict, and once more."""
    for number in range(FOREIGN_BATCHES):
        batch = make_batch(conversation, f"other-{number}")
        operation, version = uuid.uuid4(), 0
        while True:
            try:
                _append(conversation, batch, operation, version)
                break
            except ThreadConflictError as conflict:
                version = conflict.version
        if _append(conversation, batch, operation, version).applied:
            raise AssertionError("a replay was applied")


def _append(conversation: Conversation, batch: list[ThreadMessage], operation: uuid.UUID, version: int) -> Any:
    return append_batch(
        Batch(conversation.pk, batch, operation_id=operation, round_index=0),
        expected_version=version,
        max_tool_calls=10,
    )


def claimed(conversation: Conversation) -> Turn:
    interrupt_turns(stale_turns(conversation.pk))
    made = claim_turn(
        conversation_id=conversation.pk, client_message_id=str(uuid.uuid4()), question=QUESTION, lease_seconds=0.001
    )
    return Turn.objects.select_related("conversation").get(pk=made.turn_id)


def experiment(deployment: Any, *, fatal: int, end: Callable[[], Any], plays_again: bool) -> dict[str, Any]:
    conversation = make_conversation(deployment)
    turn = claimed(conversation)
    _RAN.write_text("")
    victim = forked(lambda: play(turn, fatal=fatal, end=end))
    writer = forked(lambda: write_meanwhile(conversation))
    status, written = ended(victim), ended(writer)
    turn.refresh_from_db()
    was_over = turn.status == TurnStatus.DONE
    again = 0
    if plays_again and turn.status != TurnStatus.DONE:
        # Whoever plays the turn again, after a crash or an error, is the same operation.
        Turn.objects.filter(pk=turn.pk).update(status=TurnStatus.RUNNING)
        again = ended(forked(lambda: play(turn)))
    following = claimed(conversation)
    after = ended(forked(lambda: play(following)))
    return {
        "boundary": fatal,
        "status": status,
        "writer": written,
        "again": again,
        "next": after,
        "was_over": was_over,
        **verdict(conversation, turn),
    }


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


def _kill() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _raise() -> NoReturn:
    raise RuntimeError("boundary")


def main(arguments: Sequence[str]) -> None:
    manner = arguments[0]
    for spec in list(registry):
        registry.remove(spec.name)
    tool()(mark)
    migrated_sqlite(_FOLDER / "crash.db")
    deployment = make_library()
    # Each forked process would read the words of the languages anew: most of what it costs.
    spelling.warm_up()
    end = _kill if manner == "kill" else _raise
    for case in arguments[1:]:
        tools, _colon, every = case.partition(":")
        StrictModel.tools = int(tools)
        _run_case(deployment, end=end, every=int(every or 1))


def _run_case(deployment: Any, *, end: Callable[[], Any], every: int) -> None:
    count = 0
    while True:
        fatal, count = 1 + every * count, count + 1
        found = experiment(deployment, fatal=fatal, end=end, plays_again=bool(count % 2))
        sys.stdout.write(json.dumps({"tools": StrictModel.tools, **found}) + "\n")
        sys.stdout.flush()
        if found["status"] == 0:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
