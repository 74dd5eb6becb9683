"""`OpenAIEmbedder` at its border: what it sends, what it makes of faults, and what it never says."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from knowledge.embeddings.base import Purpose
from knowledge.embeddings.openai import OpenAIEmbedder
from knowledge.errors import EmbeddingUnavailableError
from tests.servers import embedding_server
from tests.servers.embedding_server import EmbeddingServer
from tests.waiting import PATIENCE_SECONDS

SECRET = "mon numéro est le 06 12 34 56 78"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


def _embedder(server: EmbeddingServer, **overrides: Any) -> OpenAIEmbedder:
    options: dict[str, Any] = {
        "api_key": embedding_server.KEY,
        "base_url": server.url,
        "model": "text-embedding-3-small",
        "max_retries": 0,
        "timeout": PATIENCE_SECONDS,
    }
    return OpenAIEmbedder(**(options | overrides))


@pytest.mark.parametrize(
    ("model", "dimensions", "size", "sent"),
    [
        ("text-embedding-3-small", 256, 256, 256),
        ("text-embedding-3-small", 0, 1536, None),
        ("text-embedding-ada-002", 0, 1536, None),
        ("house-model", 96, 96, None),
    ],
)
def test_dimensions_are_sent_where_they_are_not_the_model_s_own(
    server: EmbeddingServer, model: str, dimensions: int, size: int, sent: int | None
) -> None:
    embedder = _embedder(server, model=model, dimensions=dimensions)
    assert embedder.embed_one("bonjour", purpose=Purpose.QUERY).shape == (size,)
    assert server.bodies[0].get("dimensions") == sent


def test_texts_go_in_batches_and_are_cut_to_what_the_model_takes(server: EmbeddingServer) -> None:
    _embedder(server).embed([f"a {n}" for n in range(299)] + ["😀" * 8_000], purpose=Purpose.PASSAGE)
    assert [len(body["input"]) for body in server.bodies] == [128, 128, 44]
    assert len(server.bodies[2]["input"][-1].encode()) <= 8191


def test_passing_fault_is_retried_by_the_backend(server: EmbeddingServer) -> None:
    server.failures = [503]
    _embedder(server, max_retries=1).embed_one("bonjour", purpose=Purpose.QUERY)
    assert len(server.bodies) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
def test_refusals_are_unavailable_and_repeat_no_text(
    server: EmbeddingServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.failures = [status]
    with pytest.raises(EmbeddingUnavailableError, match=f"HTTP {status}") as caught:
        _embedder(server).embed_one(SECRET, purpose=Purpose.QUERY)
    assert caught.value.__cause__ is not None
    for said in (str(caught.value), caplog.text):
        assert SECRET not in said
        assert embedding_server.KEY not in said


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>proxy</html>",
        b"[]",
        b"null",
        b"{}",
        b'{"data": []}',
        b'{"data": [{"index": 0, "embedding": [0.5]}]}',
        b'{"data": [{"index": 0, "embedding": 0.5}]}',
        json.dumps({"data": [{"index": 1, "embedding": [0.5] * 1536}]}).encode(),
        json.dumps({"data": [{"index": 0, "embedding": [None] * 1536}]}).encode(),
    ],
)
def test_unusable_reply_is_unavailable(server: EmbeddingServer, reply: bytes) -> None:
    server.reply = reply
    with pytest.raises(EmbeddingUnavailableError):
        _embedder(server).embed_one("bonjour", purpose=Purpose.QUERY)


def test_server_that_is_not_there_is_unavailable() -> None:
    with EmbeddingServer() as gone:
        embedder = _embedder(gone)
    with pytest.raises(EmbeddingUnavailableError, match="LLMUnavailableError"):
        embedder.embed_one("bonjour", purpose=Purpose.QUERY)


@pytest.mark.parametrize(
    ("options", "identifiers"),
    [
        ({"model": "text-embedding-3-large"}, []),
        ({"model": "house-model", "dimensions": 96}, []),
        ({"model": "house-model"}, ["knowledge.E111"]),
        ({"model": "text-embedding-ada-002", "dimensions": 256}, ["knowledge.E112"]),
        ({"model": "text-embedding-3-small", "dimensions": 4096}, ["knowledge.E112"]),
        ({"model": "text-embedding-3-small", "api_key": ""}, ["knowledge.E113"]),
    ],
)
def test_check_finds_what_start_up_can_know(options: dict[str, Any], identifiers: list[str]) -> None:
    embedder = OpenAIEmbedder(**({"api_key": embedding_server.KEY} | options))
    assert [message.id for message in embedder.check()] == identifiers


def test_unknown_size_embeds_nothing(server: EmbeddingServer) -> None:
    with pytest.raises(EmbeddingUnavailableError, match="EMBEDDING_DIMENSIONS"):
        _embedder(server, model="house-model").embed_one("bonjour", purpose=Purpose.QUERY)
    assert server.bodies == []
