"""Embeddings from OpenAI or any server that speaks its `/embeddings` endpoint.

The size of the vectors is known without asking the server: from the model's name, or from EMBEDDING_DIMENSIONS. The
client, its connections, timeouts and retries are kept for the process; callers must not retry. Every failure leaves
as `EmbeddingUnavailableError` with the failure's kind only, for a server's message may repeat the text or the key.
The vendor package is imported at the first call: it costs more than a second.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from django.core import checks

from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.exceptions import EmbeddingUnavailableError

if TYPE_CHECKING:
    from openai import OpenAI

_NATIVE_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
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
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._max_retries = max_retries
        self._recipe = Recipe(
            model=model, dimensions=dimensions or _NATIVE_DIMENSIONS.get(model, 0)
        )
        self._lock = threading.Lock()
        self._client: OpenAI | None = None

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
        if not self._api_key and not self._base_url:
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
        """The decoded body of the reply."""
        import openai

        wanted = self._recipe.dimensions
        shortened = self._shortens and wanted != _NATIVE_DIMENSIONS[self._recipe.model]
        try:
            reply = self._connected().embeddings.with_raw_response.create(
                model=self._recipe.model,
                input=texts,
                dimensions=wanted if shortened else openai.omit,
                # The package asks for base64 by default, which some servers refuse.
                encoding_format="float",
            )
            body: object = reply.http_response.json()
        except openai.OpenAIError as error:
            status = getattr(error, "status_code", None)
            detail = f"{type(error).__name__} (HTTP {status})" if status else type(error).__name__
            raise EmbeddingUnavailableError(f"{self._recipe.model}: {detail}") from error
        except ValueError as error:
            raise EmbeddingUnavailableError(
                f"{self._recipe.model}: the reply is not JSON"
            ) from error
        return body

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

    def _connected(self) -> "OpenAI":
        client = self._client
        if client is None:
            with self._lock:
                client = self._client = self._client or self._connect()
        return client

    def _connect(self) -> "OpenAI":
        from openai import OpenAI

        return OpenAI(
            # Servers of one's own often want no key; the package insists on one.
            api_key=self._api_key or "none",
            base_url=self._base_url or None,
            timeout=self._timeout,
            max_retries=self._max_retries,
        )


def _cut(text: str) -> str:
    return text.encode()[:_MAX_BYTES].decode(errors="ignore")
