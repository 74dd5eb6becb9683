"""Conversation titles written by the model (a setting); a failure keeps the default title."""

from agents.database import in_database
from agents.effective import current_config
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, language_model
from chat.models import AnswerSource, TurnStatus
from chat.thread.turns import is_unnamed, rename_conversation
from chat.turn.values import TurnRequest, TurnResult

#: How long a model may take to name a conversation or to summarise it, after its answer.
TITLE_TIMEOUT_SECONDS = 20.0

TITLE_TOKENS = 24
MAX_CHARACTERS = 200
_INSTRUCTION = (
    "Give a title of at most six words to the conversation that opens with this question, in its "
    "language, without quotation marks or a final full stop."
)


async def generate_title(model: LanguageModel, *, question: str, llm_model: str) -> str:
    """A short title, or an empty string where the model gave none in time."""
    messages = [PromptMessage("system", _INSTRUCTION), PromptMessage("user", question[:2000])]
    options = GenerationOptions(model=llm_model, temperature=0.2, max_tokens=TITLE_TOKENS)
    reply = await model.write(messages, options, seconds=TITLE_TIMEOUT_SECONDS, characters=MAX_CHARACTERS)
    return " ".join(reply.text.split()).strip("\"'«» .")[:MAX_CHARACTERS] if reply else ""


async def write_title(request: TurnRequest, result: TurnResult) -> None:
    """Have the model name a conversation after the answer to the question it is named by, where staff want that.

    That is its first one, also where it was answered after an approval or at a second try. Never delays an answer.
    """
    llm, conversation_id, turn_id = language_model(), request.conversation_id, request.turn_id
    if llm is None or turn_id is None or conversation_id is None:
        return
    if request.given is not None:
        return  # the thread and its name are the client's
    if result.answer.source != AnswerSource.LLM or result.status is not TurnStatus.DONE:
        return
    context = request.context
    config = context.config if context else await in_database(current_config, request.deployment_id)
    if not config.generate_titles:
        return
    if not await in_database(is_unnamed, conversation_id, request.question):
        return
    title = await generate_title(llm, question=request.question, llm_model=config.llm_model)
    if title:
        await in_database(
            rename_conversation,
            conversation_id=conversation_id,
            turn_id=turn_id,
            title=title,
            question=request.question,
        )
