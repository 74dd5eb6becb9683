"""Embeddings from OpenAI or any server that speaks its `/embeddings` endpoint.

The size of the vectors is known without asking: from the model's name, or from EMBEDDING_DIMENSIONS. The client
retries; callers must not. A failure leaves with its kind only, for a server's message may repeat the text or the key.
"""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from django.core import checks

from agents.errors import LLMError
from agents.llm.openai import Clients, translated_errors
from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.errors import EmbeddingUnavailableError

_NATIVE_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
#: Models that return shorter vectors on demand; other servers reject the argument.
_SHORTENABLE = frozenset({"text-embedding-3-small", "text-embedding-3-large"})
#: A token is at least one byte, and these models take 8,191 tokens: no text so cut is ever refused for its length.
_MAX_BYTES = 8_191


class OpenAIEmbedder(Embedder):
    batch_size: ClassVar[int] = 128

    def __init__(
        self,
        *,
        api_key: str,
        model: str,
        base_url: str = "",
        dimensions: int = 0,
        timeout: float = 30.0,
        max_retries: int = 2,
    ) -> None:
        self._is_addressed = bool(api_key or base_url)
        self._clients = Clients(api_key=api_key, base_url=base_url, read_timeout=timeout, max_retries=max_retries)
        self._recipe = Recipe(model=model, dimensions=dimensions or _NATIVE_DIMENSIONS.get(model, 0))

    @property
    def recipe(self) -> Recipe:
        """`dimensions` is 0 while it is unknown: `check` says so, and nothing is embedded."""
        return self._recipe

    def check(self) -> list[checks.CheckMessage]:
        messages: list[checks.CheckMessage] = []
        model, dimensions = self._recipe.model, self._recipe.dimensions
        native = _NATIVE_DIMENSIONS.get(model)
        if dimensions <= 0:
            said = f"The size of the vectors of {model!r} is unknown."
            hint = "Set EMBEDDING_DIMENSIONS to the number that the model's documentation gives."
            messages.append(checks.Error(said, hint=hint, id="knowledge.E111"))
        elif native and (dimensions > native or (dimensions < native and model not in _SHORTENABLE)):
            said = f"EMBEDDING_DIMENSIONS={dimensions}, but {model!r} gives {native}."
            messages.append(checks.Error(said, hint="Leave EMBEDDING_DIMENSIONS empty.", id="knowledge.E112"))
        if not self._is_addressed:
            hint = "Set OPENAI_API_KEY (or EMBEDDING_API_KEY), or EMBEDDING_BASE_URL."
            said = "EMBEDDER=openai has neither a key nor an address."
            messages.append(checks.Error(said, hint=hint, id="knowledge.E113"))
        return messages

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        """The rows in the order of the texts, whatever the order of the reply."""
        model, size = self._recipe.model, self._recipe.dimensions
        if size <= 0:
            raise EmbeddingUnavailableError(
                f"The size of the vectors of {model!r} is unknown: set EMBEDDING_DIMENSIONS."
            )
        body = self._reply([text.encode()[:_MAX_BYTES].decode(errors="ignore") for text in texts])
        try:
            vectors = {
                item["index"]: np.asarray(item["embedding"], dtype=np.float32).reshape(size)
                for item in json.loads(body)["data"]
            }
            return np.stack([vectors[index] for index in range(len(texts))])
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingUnavailableError(
                f"{model}: the reply does not hold {len(texts)} vectors of {size} dimensions"
            ) from error

    def _reply(self, texts: list[str]) -> bytes:
        model, size = self._recipe.model, self._recipe.dimensions
        # Some servers refuse base64, which is smaller, and is the package's default.
        request: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
        if model in _SHORTENABLE and size != _NATIVE_DIMENSIONS[model]:
            request["dimensions"] = size
        try:
            with translated_errors():
                raw = self._clients.blocking.embeddings.with_raw_response
                return raw.create(**request).content
        except LLMError as error:
            raise EmbeddingUnavailableError(f"{model}: {type(error).__name__}: {error}") from error
