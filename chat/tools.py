"""Tools that act on the conversation itself; declared here because the registry knows no conversations."""

from typing import Annotated

from pydantic import Field

from chat.models import Conversation
from tools_registry.errors import ToolReportedError
from tools_registry.tool import ToolContext, tool


@tool(keywords=("titre", "renommer"), uses_database=True, optional=True)
def set_conversation_title(
    title: Annotated[str, Field(min_length=1, max_length=200)], context: ToolContext
) -> dict[str, str]:
    """Set the title of this conversation, when the user asks for another one.

    Args:
        title: the new title, a few words in the user's language.
    """
    cleaned = " ".join(title.split())
    if context.conversation_id is None or not cleaned:
        raise ToolReportedError("There is no conversation to name, or the title is blank.")
    if not Conversation.objects.filter(pk=context.conversation_id).update(title=cleaned):
        raise ToolReportedError("The conversation was deleted meanwhile.")
    return {"title": cleaned}
