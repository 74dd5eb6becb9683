"""Conversation titles written by the model (a setting); a failure keeps the default title."""

from agents.exceptions import LLMError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage

TITLE_TOKENS = 24
_INSTRUCTION = (
    "Give a title of at most six words to the conversation that opens with this question, in its "
    "language, without quotation marks or a final full stop."
)


def generate_title(model: LanguageModel, *, question: str, llm_model: str) -> str:
    """A short title, or an empty string where the model gave none."""
    messages = [PromptMessage("system", _INSTRUCTION), PromptMessage("user", question[:2000])]
    options = GenerationOptions(model=llm_model, temperature=0.2, max_tokens=TITLE_TOKENS)
    try:
        reply = model.complete(messages, options)
    except LLMError:
        return ""
    return " ".join(reply.text.split()).strip("\"'«» .")[:200]
