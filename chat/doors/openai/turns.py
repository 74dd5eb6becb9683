"""From a request of `/v1` to a turn, and a turn's events as far as a client of `/v1` can be told of them.

Each request has a conversation of its own, marked as the API's and nobody's on the pages: the client keeps its thread
and may send any other the next time. A turn whose client goes away is stopped, since nobody could ask for it again;
with an `Idempotency-Key` it goes on, since the same key comes back for its answer.
"""

import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from agents.database import in_database, single_write
from agents.effective import current_config
from agents.errors import ApplicationError
from agents.models import Deployment
from chat.access.permissions import keyed_deployment
from chat.doors.openai.client_threads import ClientThread
from chat.doors.openai.requests import CompletionRequest
from chat.doors.openai.wire import Ending, finish_reason_of
from chat.exceptions import ApprovalOverError, ChatError
from chat.models import ApiKey, Channel, Conversation, Turn, TurnStatus
from chat.protocol import Delta, Done, Event, Meta, Tool
from chat.runs.runner import runner
from chat.thread.turns import stale_turns

#: How much of the thread that a client of `/v1` sends reaches the prompt, in characters.
API_MAX_HISTORY_CHARACTERS = 40_000

_OPENED_BY_KEY = uuid.UUID("3d9c1c57-8f3b-4b7e-9a55-0f6f0f1de6f2")
#: Ends that another try with the same idempotency key may better.
_UNFINISHED = (TurnStatus.FAILED, TurnStatus.INTERRUPTED)


class IdempotencyConflictError(ChatError):
    code = "idempotency_conflict"
    status = 422
    default_message = _("Cette clé « Idempotency-Key » a déjà servi pour une autre demande.")


@dataclass(frozen=True, slots=True)
class OpenedRequest:
    """A request with the conversation that its turn belongs to."""

    conversation: Conversation
    client_message_id: str
    #: The same key may come back for the answer.
    is_kept: bool
    writes_source_lines: bool


def open_request(key: ApiKey, asked: CompletionRequest, *, idempotency_key: str) -> OpenedRequest:
    """Find or make its conversation. Raises `IdempotencyConflictError` where the key came with other messages before."""
    deployment = keyed_deployment(key, asked.model)
    config = current_config(deployment.pk)
    before = asked.before.last(config.context_exchanges, characters=API_MAX_HISTORY_CHARACTERS)
    fields: dict[str, Any] = {
        "deployment": deployment,
        "channel": Channel.API,
        "api_key": key,
        "client_thread": before.as_json(),
    }
    if not idempotency_key:
        with single_write():
            conversation = Conversation.objects.create(**fields)
        message_id = str(uuid.uuid4())
    else:
        natural_key = f"{key.pk}/{idempotency_key}"
        with single_write():
            conversation, _new = Conversation.objects.get_or_create(
                pk=uuid.uuid5(_OPENED_BY_KEY, natural_key), defaults=fields
            )
        message_id = _attempt(conversation, asked, deployment, before)
    return OpenedRequest(conversation, message_id, bool(idempotency_key), config.api_source_lines)


def _attempt(conversation: Conversation, asked: CompletionRequest, deployment: Deployment, before: ClientThread) -> str:
    """The id of the try that answers this request: the same again, unless all tries so far came to nothing."""
    # Nothing came of a turn whose process died, whoever marks it as interrupted.
    stale = {turn.turn_id for turn in stale_turns(conversation.pk)}
    turns = list(conversation.turns.values_list("pk", "client_message_id", "status"))
    if any(not message_id.startswith(asked.fingerprint) for _pk, message_id, _status in turns):
        raise IdempotencyConflictError
    # Another request with this key may have made the conversation a moment ago, and not have its turn yet.
    is_others = not turns and conversation.client_thread != before.as_json()
    if is_others or conversation.deployment_id != deployment.pk:
        raise IdempotencyConflictError
    failed = sum(status in _UNFINISHED or pk in stale for pk, _message_id, status in turns)
    return f"{asked.fingerprint}-{failed}"


async def follow_turn(turn_id: uuid.UUID, *, language: str) -> AsyncGenerator[Event, None]:
    """A turn's events to its end. A tool that asks for a person's approval is denied: there is nobody to ask."""
    while True:
        awaiting: list[str] = []
        told, to_skip = 0, 0
        async for _event_id, event in runner.follow(turn_id):
            if isinstance(event, Meta):
                # The process that ran the turn died, and the text is told from its start: what was passed on stays.
                to_skip = told
            elif isinstance(event, Delta):
                text, to_skip = event.text[to_skip:], max(0, to_skip - len(event.text))
                told += len(text)
                if text:
                    yield Delta(text)
                continue
            if isinstance(event, Tool) and event.status == "awaiting":
                awaiting.append(event.tool_call_id)
            if isinstance(event, Done) and event.status == "awaiting_approval":
                break
            yield event
        else:
            return
        await _deny(turn_id, awaiting, language)


async def _deny(turn_id: uuid.UUID, tool_call_ids: list[str], language: str) -> None:
    turn = await in_database(Turn.objects.get, pk=turn_id)
    for tool_call_id in tool_call_ids:
        try:
            await runner.decide(turn, tool_call_id=tool_call_id, is_approved=False, language=language)
        except ApprovalOverError:
            continue  # another reader of the same turn was faster


async def ending_of(turn_id: uuid.UUID, done: Done, sources: list[Any]) -> Ending:
    tokens = Turn.objects.values_list("prompt_tokens", "completion_tokens")
    read, written = await in_database(tokens.get, pk=turn_id)
    return Ending(
        sources,
        done.answer_source,
        prompt_tokens=read,
        completion_tokens=written,
        finish_reason=finish_reason_of(done.cut),
    )


class InterruptedTurnError(ApplicationError):
    """The turn was stopped by the server (it shuts down, or its process died): asking again gives the whole answer."""

    code = "interrupted"
    status = 503
    retryable = True
    default_message = _("La réponse a été interrompue avant la fin. Réessayez.")
