"""LlamaIndex: an OpenAI-like model and tools."""

from asking import KNOWN, OPEN, UNKNOWN, run, site
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

address, key, name = site()
made = {"model": name, "api_base": address, "max_retries": 0}
chat = OpenAILike(api_key=key, is_chat_model=True, is_function_calling_model=True, **made)
question = [ChatMessage(role="user", content=KNOWN)]
tool = FunctionTool.from_defaults(lambda city: city, name="weather", description="The weather.")

thread = [
    ChatMessage(role="user", content=OPEN),
    ChatMessage(role="assistant", content="Deux jours par semaine."),
    ChatMessage(role="user", content="Et le matériel ?"),
]
unknown = OpenAILike(api_key=key, is_chat_model=True, **{**made, "model": UNKNOWN})

run(
    plain=lambda: chat.chat(question).message.content,
    stream=lambda: "".join(chunk.delta or "" for chunk in chat.stream_chat(question)),
    sources=lambda: chat.chat(question).raw.choices[0].message.annotations[0].url_citation.url,
    tools=lambda: chat.chat_with_tools([tool], user_msg=KNOWN).message.content,
    stop=lambda: chat.chat(question, stop=["\n"]).message.content,
    follow_up=lambda: chat.chat(thread).message.content,
    errors=lambda: unknown.chat(question),
    text=lambda: OpenAILike(api_key=key, is_chat_model=False, **made).complete(KNOWN).text,
    wrong_key=lambda: OpenAILike(api_key="rsk_wrong", is_chat_model=True, **made).chat(question),
)
