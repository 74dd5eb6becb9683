"""What a turn starts from: its settings, what was said before, where the memory stands, what tools there are."""

import uuid

from agents.database import in_database
from agents.effective import EffectiveConfig, current_config, with_settings
from agents.llm.base import language_model
from chat.models import ThreadSummary, Turn
from chat.thread.messages import finished_exchanges, previous_question
from chat.turn.toolbox import ToolGround, load_tool_ground
from chat.turn.values import Exchange, TurnContext, TurnInProgress, TurnRequest
from faqs.recall import stored_mark
from knowledge.synonyms import forms_of
from knowledge.thresholds import load_calibrations

#: How a prompt asks for what a summary says: with it, user and assistant take turns as in any thread.
SUMMARY_REQUEST = "Summarise what we said so far."


async def receive(turn: TurnInProgress) -> None:
    """Read what the turn starts from, unless whoever claimed it did; and what it had come to where it goes on."""
    request = turn.request
    if request.context is None:
        turn.context = await in_database(load_context, request)
    else:
        turn.context = request.context
    if request.is_resumed and request.turn_id is not None:
        await in_database(_restore, turn, request.turn_id)
    outcome = "resumed" if request.is_resumed else "loaded"
    turn.trace.step("receive", outcome, detail=f"{len(turn.history)}")


def load_context(request: TurnRequest) -> TurnContext:
    """Raises `Deployment.DoesNotExist`."""
    config = with_settings(current_config(request.deployment_id), request.settings)
    load_calibrations()
    mark = None
    if any(agent.memory for agent in config.of_each_agent):
        mark = stored_mark(request.deployment_id)
    tools = tool_ground(request, config)
    forms = forms_of([agent.agent_id for agent in config.of_each_agent])
    if request.given is not None:
        given = request.given
        return TurnContext(config, given.history, given.previous, mark, tools, forms=forms)
    if request.conversation_id is None or request.is_first:
        return TurnContext(config, [], "", mark, tools, forms=forms)
    history = load_exchanges(conversation_id=request.conversation_id, limit=config.context_exchanges)
    previous = previous_question(conversation_id=request.conversation_id, turn_id=request.turn_id)
    short = summarised(history) if config.summarise_exchanges else ()
    return TurnContext(config, history, previous, mark, tools, short, forms)


def load_exchanges(*, conversation_id: uuid.UUID, limit: int) -> list[Exchange]:
    """The last `limit` finished exchanges of the current branch, oldest first."""
    return [Exchange.of(*pair) for pair in finished_exchanges(conversation_id, limit=limit)]


def summarised(history: list[Exchange]) -> list[Exchange]:
    """The exchanges as a prompt gets them: the newest summary in the place of those that it covers, then the others.

    Empty where there is no summary of any of them (`chat.runs.summaries` writes them). One query; none without history.
    """
    if not history:
        return []
    found: dict[uuid.UUID | None, Exchange] = {
        turn: Exchange(conversation, SUMMARY_REQUEST, text, turn)
        for turn, conversation, text in ThreadSummary.objects.filter(
            turn__in=[exchange.turn_id for exchange in history]
        ).values_list("turn", "turn__conversation", "text")
    }
    for position in reversed(range(len(history))):
        if (summary := found.get(history[position].turn_id)) is not None:
            return [summary, *history[position + 1 :]]
    return []


def tool_ground(request: TurnRequest, config: EffectiveConfig) -> ToolGround | None:
    """What tools are chosen from. A dry run has none, as they may change things, nor has a site without a model."""
    if request.turn_id is None or request.conversation_id is None or language_model() is None:
        return None
    return load_tool_ground(
        config=config,
        conversation_id=request.conversation_id,
        user_id=request.user_id,
        is_first=request.is_first,
        resumed_turn_id=request.turn_id if request.is_resumed else None,
    )


def _restore(turn: TurnInProgress, turn_id: uuid.UUID) -> None:
    """What the turn had come to before its pause."""
    stored, answer = Turn.objects.get(pk=turn_id), turn.answer
    answer.llm_calls = stored.llm_calls
    answer.prompt_tokens, answer.completion_tokens = stored.prompt_tokens, stored.completion_tokens
    answer.rounds, answer.is_personal = stored.rounds, stored.is_personal
    # Whatever way the turn takes from here, the round that it waited for comes into the thread before its answer.
    answer.has_open_round = True
    turn.trace.lines[:0] = stored.trace
