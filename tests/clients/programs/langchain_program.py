"""`langchain-openai`: chat, stream, bound tools."""

from asking import KNOWN, OPEN, TOOL, UNKNOWN, run, site
from langchain_openai import ChatOpenAI

address, key, model = site()
chat = ChatOpenAI(base_url=address, api_key=key, model=model, max_retries=0)
thread = [("user", OPEN), ("assistant", "Deux jours par semaine."), ("user", "Et le matériel ?")]


def sources() -> str:
    """Over responses: its chat completions pass annotations over."""
    answer = ChatOpenAI(base_url=address, api_key=key, model=model, use_responses_api=True)
    return answer.invoke(KNOWN).content_blocks[0]["annotations"][0]["url"]


run(
    plain=lambda: chat.invoke(KNOWN).text,
    stream=lambda: "".join(chunk.text for chunk in chat.stream(KNOWN)),
    sources=sources,
    tools=lambda: chat.bind_tools([TOOL]).invoke(KNOWN).text,
    stop=lambda: chat.invoke(KNOWN, stop=["\n"]).text,
    follow_up=lambda: chat.invoke(thread).text,
    errors=lambda: ChatOpenAI(base_url=address, api_key=key, model=UNKNOWN).invoke(KNOWN),
    responses=lambda: ChatOpenAI(base_url=address, api_key=key, model=model, use_responses_api=True).invoke(KNOWN).text,
    wrong_key=lambda: ChatOpenAI(base_url=address, api_key="rsk_wrong", model=model).invoke("a"),
)
