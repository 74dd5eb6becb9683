"""`litellm`, as a library."""

import litellm
from asking import KNOWN, TOOL, run, site

address, key, name = site()
asked = {"model": f"openai/{name}", "api_base": address, "api_key": key, "num_retries": 0}
question = [{"role": "user", "content": KNOWN}]


def stream() -> str:
    chunks = litellm.completion(messages=question, stream=True, **asked)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


run(
    plain=lambda: litellm.completion(messages=question, **asked).choices[0].message.content,
    stream=stream,
    tools=lambda: (
        litellm.completion(messages=question, tools=[TOOL], **asked).choices[0].message.content
    ),
    stop=lambda: (
        litellm.completion(messages=question, stop=["\n"], **asked).choices[0].message.content
    ),
    text=lambda: (
        litellm.text_completion(
            prompt=KNOWN, **{**asked, "model": f"text-completion-openai/{name}"}
        )
        .choices[0]
        .text
    ),
    responses=lambda: litellm.responses(input=KNOWN, **asked).output[0].content[0].text,
    embeddings=lambda: len(litellm.embedding(input=[KNOWN], **asked).data[0]["embedding"]),
    wrong_key=lambda: litellm.completion(messages=question, **{**asked, "api_key": "rsk_wrong"}),
)
