"""`langchain-openai`: chat, stream, bound tools, a prompt of its own with passages, embeddings."""

from asking import KNOWN, OPEN, TOOL, UNKNOWN, run, site
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

address, key, model = site()
chat = ChatOpenAI(base_url=address, api_key=key, model=model, max_retries=0)
thread = [("user", OPEN), ("assistant", "Deux jours par semaine."), ("user", "Et le matériel ?")]
template = (
    "Use the following pieces of context to answer the question at the end.\n\nRien ici.\n\n"
    f"Question: {KNOWN}\nHelpful Answer:"
)
vectors = OpenAIEmbeddings(base_url=address, api_key=key, model=model, check_embedding_ctx_length=False)


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
    template=lambda: chat.invoke(template).text,
    follow_up=lambda: chat.invoke(thread).text,
    errors=lambda: ChatOpenAI(base_url=address, api_key=key, model=UNKNOWN).invoke(KNOWN),
    responses=lambda: ChatOpenAI(base_url=address, api_key=key, model=model, use_responses_api=True).invoke(KNOWN).text,
    embeddings=lambda: len(vectors.embed_query(KNOWN)),
    wrong_key=lambda: ChatOpenAI(base_url=address, api_key="rsk_wrong", model=model).invoke("a"),
)
