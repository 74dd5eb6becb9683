"""`litellm`, as a library."""

import litellm
from asking import KNOWN, OPEN, TOOL, UNKNOWN, run, site

address, key, name = site()
asked = {"model": f"openai/{name}", "api_base": address, "api_key": key, "num_retries": 0}
question = [{"role": "user", "content": KNOWN}]


def stream() -> str:
    chunks = litellm.completion(messages=question, stream=True, **asked)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def sources() -> str:
    done = litellm.completion(messages=question, **asked)
    return done.choices[0].message.annotations[0]["url_citation"]["url"]


def follow_up() -> str:
    thread = [
        {"role": "user", "content": OPEN},
        {"role": "assistant", "content": "Deux jours par semaine."},
        {"role": "user", "content": "Et le matériel ?"},
    ]
    return litellm.completion(messages=thread, **asked).choices[0].message.content


run(
    models=lambda: litellm.get_valid_models(
        check_provider_endpoint=True, custom_llm_provider="openai", api_base=address.removesuffix("/v1"), api_key=key
    )[0],
    plain=lambda: litellm.completion(messages=question, **asked).choices[0].message.content,
    stream=stream,
    sources=sources,
    tools=lambda: litellm.completion(messages=question, tools=[TOOL], **asked).choices[0].message.content,
    stop=lambda: litellm.completion(messages=question, stop=["\n"], **asked).choices[0].message.content,
    follow_up=follow_up,
    errors=lambda: litellm.completion(messages=question, **{**asked, "model": f"openai/{UNKNOWN}"}),
    text=lambda: (
        litellm.text_completion(prompt=KNOWN, **{**asked, "model": f"text-completion-openai/{name}"}).choices[0].text
    ),
    responses=lambda: litellm.responses(input=KNOWN, **asked).output[0].content[0].text,
    wrong_key=lambda: litellm.completion(messages=question, **{**asked, "api_key": "rsk_wrong"}),
)
