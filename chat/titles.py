"""Conversation titles written by the model (a setting); a failure keeps the default title."""

import asyncio
import uuid
from contextlib import aclosing

from django.conf import settings

from agents.bridges import in_database
from agents.effective import current_config
from agents.exceptions import LLMError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, language_model
from chat.models import AnswerSource, Conversation, TurnStatus
from chat.thread import rename_conversation
from chat.turn import TurnRequest, TurnResult

TITLE_TOKENS = 24
_INSTRUCTION = (
    "Give a title of at most six words to the conversation that opens with this question, in its "
    "language, without quotation marks or a final full stop."
)


async def generate_title(model: LanguageModel, *, question: str, llm_model: str) -> str:
    """A short title, or an empty string where the model gave none in time."""
    messages = [PromptMessage("system", _INSTRUCTION), PromptMessage("user", question[:2000])]
    options = GenerationOptions(model=llm_model, temperature=0.2, max_tokens=TITLE_TOKENS)
    text = ""
    try:
        async with (
            asyncio.timeout(settings.TITLE_TIMEOUT_SECONDS),
            aclosing(model.stream(messages, options)) as stream,
        ):
            async for chunk in stream:
                text += chunk.text
    except (LLMError, TimeoutError):
        return ""
    return " ".join(text.split()).strip("\"'«» .")[:200]


async def write_title(request: TurnRequest, result: TurnResult) -> None:
    """Have the model name a conversation after its first answer, where staff want that. Never delays an answer."""
    llm, conversation_id, turn_id = language_model(), request.conversation_id, request.turn_id
    if llm is None or turn_id is None or conversation_id is None or not request.is_first:
        return
    if request.given is not None:
        return  # the thread and its name are the client's
    if result.answer.source != AnswerSource.LLM or result.status is not TurnStatus.DONE:
        return
    model = await in_database(_naming_model, request.deployment_id, conversation_id)
    if model is None:
        return
    title = await generate_title(llm, question=request.question, llm_model=model)
    if title:
        await in_database(
            rename_conversation,
            conversation_id=conversation_id,
            turn_id=turn_id,
            title=title,
            question=request.question,
        )


def _naming_model(deployment_id: int, conversation_id: uuid.UUID) -> str | None:
    """The model that is to name the conversation; none where staff want no such titles, nor for a temporary chat."""
    config = current_config(deployment_id)
    kept = Conversation.objects.filter(pk=conversation_id, is_temporary=False)
    return config.llm_model if config.generate_titles and kept.exists() else None
