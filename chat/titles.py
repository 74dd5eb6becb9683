"""Conversation titles written by the model (a setting); a failure keeps the default title."""

import asyncio
from contextlib import aclosing

from django.conf import settings

from agents.exceptions import LLMError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage

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
