"""What every embedder promises, on each of them: the fake, the local model, and OpenAI against a loopback server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knowledge.embeddings.base import Embedder, Purpose, Recipe
from knowledge.embeddings.local import UniversalSentenceEncoder
from knowledge.embeddings.openai import OpenAIEmbedder
from knowledge.errors import EmbeddingInputError
from tests.hashing import HashingEmbedder
from tests.servers import embedding_server

TEXTS = [
    "Comment réinitialiser mon mot de passe ?",
    "Où trouver le formulaire de remboursement ?",
    "How do I reset my password?",
    "La photosynthèse transforme la lumière en énergie chimique.",
]


@pytest.fixture(scope="module", params=["hashing", "use", "openai"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    if request.param == "hashing":
        yield HashingEmbedder()
    elif request.param == "use":
        yield UniversalSentenceEncoder()
    else:
        with embedding_server.EmbeddingServer() as server:
            yield OpenAIEmbedder(api_key=embedding_server.KEY, base_url=server.url, model="text-embedding-3-small")


def test_rows_are_unit_float32_of_the_recipe_s_size(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS, purpose=Purpose.PASSAGE)
    assert rows.shape == (len(TEXTS), embedder.recipe.dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert embedder.embed([], purpose=Purpose.QUERY).shape == (0, embedder.recipe.dimensions)


def test_a_text_has_the_same_row_alone_and_in_any_batch(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS, purpose=Purpose.QUERY)
    assert np.array_equal(rows, embedder.embed(TEXTS, purpose=Purpose.QUERY))
    assert np.allclose(rows, embedder.embed(TEXTS[::-1], purpose=Purpose.QUERY)[::-1], atol=1e-4)
    for text, row in zip(TEXTS, rows, strict=True):
        assert np.allclose(embedder.embed_one(text, purpose=Purpose.QUERY), row, atol=1e-4)


def test_a_text_is_closer_to_its_near_copy_than_to_another(embedder: Embedder) -> None:
    near = "Comment réinitialiser le mot de passe ?"
    asked, copy, other = embedder.embed([TEXTS[0], near, TEXTS[3]], purpose=Purpose.QUERY)
    assert asked @ copy > asked @ other


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\u200b\u0000", "\u00a0"])
def test_a_blank_text_is_refused(embedder: Embedder, blank: str) -> None:
    with pytest.raises(EmbeddingInputError):
        embedder.embed(["du texte", blank], purpose=Purpose.QUERY)


@pytest.mark.parametrize(
    "text",
    [
        "mot\x00 de\x07 passe\x1b[31m",
        "\ud800 orphelin",
        "👩‍👩‍👧‍👦🇫🇷",
        "\ufdfa" * 500,
        "Привет 你好 مرحبا שלום",
        "?",
        "mot " * 5_000,
    ],
    ids=["control", "surrogate", "emoji", "U+FDFA", "scripts", "mark", "long"],
)
def test_any_text_a_user_can_type_has_a_row(embedder: Embedder, text: str) -> None:
    row = embedder.embed_one(text, purpose=Purpose.QUERY)
    assert np.isclose(np.linalg.norm(row), 1.0, atol=1e-5)


def test_four_threads_get_the_same_rows(embedder: Embedder) -> None:
    expected = embedder.embed(TEXTS, purpose=Purpose.QUERY)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(embedder.embed, TEXTS, purpose=Purpose.QUERY) for _ in range(12)]
        for call in calls:
            assert np.allclose(call.result(), expected, atol=1e-5)


def test_a_usable_embedder_has_no_complaint_and_its_recipe_survives_its_json(embedder: Embedder) -> None:
    assert embedder.check() == []
    assert Recipe.from_json(embedder.recipe.as_json()) == embedder.recipe
