"""`pydantic-ai`: an agent with a tool, streamed, and over responses."""

import asyncio

from asking import KNOWN, UNKNOWN, run, site
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

address, key, name = site()
provider = OpenAIProvider(base_url=address, api_key=key)
agent = Agent(OpenAIChatModel(name, provider=provider))
with_tool = Agent(OpenAIChatModel(name, provider=provider))


@with_tool.tool_plain
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: rain"


async def streamed() -> str:
    async with agent.run_stream(KNOWN) as result:
        return str(await result.get_output())


def follow_up() -> str:
    first = agent.run_sync(KNOWN)
    return agent.run_sync("Et après ?", message_history=first.all_messages()).output


wrong = OpenAIChatModel(name, provider=OpenAIProvider(base_url=address, api_key="rsk_wrong"))
run(
    plain=lambda: agent.run_sync(KNOWN).output,
    stream=lambda: asyncio.run(streamed()),
    sources=lambda: agent.run_sync(KNOWN).response.parts[-1].citations[0].sources[0].url,
    tools=lambda: with_tool.run_sync(KNOWN).output,
    stop=lambda: agent.run_sync(KNOWN, model_settings={"stop_sequences": ["\n"]}).output,
    follow_up=follow_up,
    errors=lambda: Agent(OpenAIChatModel(UNKNOWN, provider=provider)).run_sync(KNOWN).output,
    responses=lambda: Agent(OpenAIResponsesModel(name, provider=provider)).run_sync(KNOWN).output,
    wrong_key=lambda: Agent(wrong).run_sync(KNOWN).output,
)
