"""`openai` for Python."""

import openai
from asking import KNOWN, OPEN, TOOL, UNKNOWN, run, site

address, key, model = site()
client = openai.OpenAI(base_url=address, api_key=key, max_retries=0)


def said(text: str, **more: object) -> str:
    done = client.chat.completions.create(**{"model": model, "messages": [{"role": "user", "content": text}], **more})
    return done.choices[0].message.content


def stream() -> str:
    chunks = client.chat.completions.create(model=model, messages=[{"role": "user", "content": KNOWN}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def sources() -> str:
    done = client.chat.completions.create(model=model, messages=[{"role": "user", "content": KNOWN}])
    return done.choices[0].message.annotations[0].url_citation.url


def follow_up() -> str:
    first = client.responses.create(model=model, input=OPEN)
    return client.responses.create(
        model=model, input="Et pour le matériel ?", previous_response_id=first.id
    ).output_text


run(
    models=lambda: [each.id for each in client.models.list()][0],
    plain=lambda: said(KNOWN),
    stream=stream,
    sources=sources,
    tools=lambda: said(KNOWN, tools=[TOOL]),
    stop=lambda: said(KNOWN, stop=["\n"]),
    follow_up=follow_up,
    errors=lambda: said(KNOWN, model=UNKNOWN),
    wrong_key=lambda: openai.OpenAI(base_url=address, api_key="rsk_wrong").models.list(),
    text=lambda: client.completions.create(model=model, prompt=KNOWN).choices[0].text,
    responses=lambda: client.responses.create(model=model, input=KNOWN).output_text,
)
