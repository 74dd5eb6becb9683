"""Embeddings from OpenAI or any server that speaks its `/embeddings` endpoint.

The size of the vectors is known without asking: from the model's name, or from EMBEDDING_DIMENSIONS. The client
retries; callers must not. A failure leaves with its kind only, for a server's message may repeat the text or the key.
"""

import json
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from django.core import checks

from agents.errors import LLMError
from agents.llm.client import ReplyClient
from agents.llm.server import ServerOptions, StatusError
from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.exceptions import EmbeddingUnavailableError

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
        self._client = ReplyClient(
            ServerOptions(
                api_key=api_key,
                base_url=base_url,
                connect_timeout=timeout,
                read_timeout=timeout,
                max_retries=max_retries,
            )
        )
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
            messages.append(
                checks.Error(
                    f"The size of the vectors of {model!r} is unknown.",
                    hint="Set EMBEDDING_DIMENSIONS to the number that the model's documentation gives.",
                    id="knowledge.E111",
                )
            )
        elif native and (dimensions > native or (dimensions < native and not self._shortens)):
            messages.append(
                checks.Error(
                    f"EMBEDDING_DIMENSIONS={dimensions}, but {model!r} gives {native}.",
                    hint="Leave EMBEDDING_DIMENSIONS empty.",
                    id="knowledge.E112",
                )
            )
        if not self._is_addressed:
            messages.append(
                checks.Error(
                    "EMBEDDER=openai has neither a key nor an address.",
                    hint="Set OPENAI_API_KEY (or EMBEDDING_API_KEY), or EMBEDDING_BASE_URL.",
                    id="knowledge.E113",
                )
            )
        return messages

    @property
    def _shortens(self) -> bool:
        return self._recipe.model in _SHORTENABLE

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        if self._recipe.dimensions <= 0:
            raise EmbeddingUnavailableError(
                f"The size of the vectors of {self._recipe.model!r} is unknown: set EMBEDDING_DIMENSIONS."
            )
        return self._parsed(self._request([_cut(text) for text in texts]), len(texts))

    def _request(self, texts: list[str]) -> object:
        wanted = self._recipe.dimensions
        # Some servers refuse base64, which is smaller.
        request: dict[str, object] = {"model": self._recipe.model, "input": texts, "encoding_format": "float"}
        if self._shortens and wanted != _NATIVE_DIMENSIONS[self._recipe.model]:
            request["dimensions"] = wanted
        try:
            return json.loads(self._client.post("embeddings", request))
        except LLMError as error:
            cause = error.__cause__
            status = f" (HTTP {cause.status})" if isinstance(cause, StatusError) else ""
            detail = f"{type(error).__name__}{status}"
            raise EmbeddingUnavailableError(f"{self._recipe.model}: {detail}") from error
        except ValueError as error:
            raise EmbeddingUnavailableError(f"{self._recipe.model}: the reply is not JSON") from error

    def _parsed(self, body: object, count: int) -> Vectors:
        """The rows in the order of the texts, whatever the order of the reply."""
        size = self._recipe.dimensions
        try:
            vectors = {
                item["index"]: np.asarray(item["embedding"], dtype=np.float32).reshape(size)
                for item in body["data"]  # type: ignore[index]
            }
            return np.stack([vectors[index] for index in range(count)])
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingUnavailableError(
                f"{self._recipe.model}: the reply does not hold {count} vectors of {size} dimensions"
            ) from error


def _cut(text: str) -> str:
    return text.encode()[:_MAX_BYTES].decode(errors="ignore")
