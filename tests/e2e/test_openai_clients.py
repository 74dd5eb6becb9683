"""OpenAI's official client, unchanged, against `/v1` of a live site."""

from collections.abc import Iterator

import openai
import pytest

from tests.e2e.conftest import LiveSite
from tests.servers.model_server import ModelReply
from tests.waiting import wait_until

KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
KNOWN_ANSWER = "deux ans"
#: Near the documents and not one of their questions: the model answers.
OPEN = "Comment s’organise le télétravail et que rembourse l’accord aux salariés ?"


KEY = """
from agents.models import Deployment
from chat.models import ApiKey
key = ApiKey(name="e2e-clients")
secret = key.draw_secret()
key.save()
key.deployments.set(Deployment.objects.filter(slug="guide"))
print(secret)
"""


@pytest.fixture(scope="module")
def secret(live_site: LiveSite) -> str:
    return live_site.manage("shell", "--no-imports", "-c", KEY).strip()


@pytest.fixture
def client(live_site: LiveSite, secret: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live_site.url}/v1", api_key=secret, max_retries=0) as client:
        yield client


def test_official_client_reads_models_and_a_whole_answer(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["guide"]
    assert client.models.retrieve("guide").owned_by == "repondant"
    completion = client.chat.completions.create(
        model="guide", messages=[{"role": "user", "content": KNOWN}], temperature=0.1
    )
    [choice] = completion.choices
    assert KNOWN_ANSWER in (choice.message.content or "")
    assert choice.finish_reason == "stop"
    extension = choice.message.model_extra
    assert extension is not None
    assert extension["sources"][0]["n"] == 1


def test_official_client_streams_with_usage(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="guide", messages=[{"role": "user", "content": OPEN}], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "[1]" in text
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_official_client_raises_in_a_stream_that_was_cut(live_site: LiveSite, client: openai.OpenAI) -> None:
    live_site.model.script(ModelReply(tokens=["Un début. ", "La suite "], cut_after=2, interval=0.05))
    stream = client.chat.completions.create(model="guide", messages=[{"role": "user", "content": OPEN}], stream=True)
    with pytest.raises(openai.APIError):
        list(stream)


def test_client_that_leaves_stops_the_model(live_site: LiveSite, client: openai.OpenAI) -> None:
    live_site.model.script(ModelReply(tokens=["mot "] * 200, interval=0.1))
    stream = client.chat.completions.create(model="guide", messages=[{"role": "user", "content": OPEN}], stream=True)
    next(iter(stream))
    stream.close()
    wait_until(
        lambda: live_site.query("SELECT status FROM chat_turn ORDER BY started_at DESC LIMIT 1") != [("running",)]
    )
    assert live_site.query("SELECT status FROM chat_turn ORDER BY started_at DESC LIMIT 1") == [("interrupted",)]
