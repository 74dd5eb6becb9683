"""The protocol of an embedder, the recipe that identifies its vectors, and the loader.

Vectors are float32 rows of unit length, so a dot product is a cosine. The base class prepares texts, cuts batches and
checks what comes back; a subclass owns the vendor call only. Embedders are thread-safe and never touch the ORM.
"""

import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from django.core.checks import CheckMessage

from agents.cache import BackendHandler
from knowledge.errors import EmbeddingInputError, EmbeddingUnavailableError
from knowledge.language.words import bounded_marks

Vectors = npt.NDArray[np.float32]


class Purpose(StrEnum):
    """What a text is embedded for. Questions are `QUERY`, asked or stored: comparing two questions is symmetric."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that makes two vectors comparable; stored with each collection and each stored vector."""

    model: str
    dimensions: int
    normalised: bool = True
    query_prefix: str = ""
    passage_prefix: str = ""

    def as_json(self) -> dict[str, str | int | bool]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Recipe":
        return cls(**data)


class Embedder(ABC):
    batch_size: ClassVar[int] = 64
    max_characters: ClassVar[int] = 8_000
    #: Single texts whose vectors are kept: people ask the same questions.
    cached: ClassVar[int] = 1_024
    _lock = threading.Lock()

    @property
    @abstractmethod
    def recipe(self) -> Recipe: ...

    @abstractmethod
    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        """Embed prepared, prefixed texts, at most `batch_size` of them, as (n, dimensions)."""

    def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Vectors:
        """Embed `texts`, each once, as unit rows in their order."""
        recipe = self.recipe
        prefix = recipe.query_prefix if purpose is Purpose.QUERY else recipe.passage_prefix
        prepared = [prefix + self._prepare(text) for text in texts]
        different = list(dict.fromkeys(prepared))
        rows = np.empty((len(different), recipe.dimensions), dtype=np.float32)
        for start in range(0, len(different), self.batch_size):
            batch = different[start : start + self.batch_size]
            end = start + len(batch)
            rows[start:end] = self._checked(self._embed_batch(batch), len(batch))
        if len(different) == len(prepared):
            return rows
        place = {text: index for index, text in enumerate(different)}
        return rows[[place[text] for text in prepared]]

    def embed_one(self, text: str, *, purpose: Purpose) -> Vectors:
        """Embed one text as a read-only vector of shape (dimensions,); the last `cached` ones are kept."""
        row = self.known_vector(text, purpose=purpose)
        if row is None:
            row = self.embed([text], purpose=purpose)[0].copy()
            row.flags.writeable = False
            with self._lock:
                self._recent[text, purpose] = row
        return row

    def known_vector(self, text: str, *, purpose: Purpose) -> Vectors | None:
        """The vector of a text that was embedded lately, at no cost: callable where nothing may block."""
        with self._lock:
            return self._recent.get((text, purpose))

    @cached_property
    def _recent(self) -> "LRUCache[tuple[str, Purpose], Vectors]":
        return LRUCache(self.cached)

    def check(self) -> list[CheckMessage]:
        return []

    def warm_up(self) -> None:
        self.embed_one("warm up", purpose=Purpose.QUERY)

    def _prepare(self, text: str) -> str:
        folded = unicodedata.normalize("NFKC", bounded_marks(text[: self.max_characters]))
        kept = "".join(c if c.isprintable() else " " for c in folded)
        cleaned = " ".join(kept.split())[: self.max_characters]
        if not cleaned:
            raise EmbeddingInputError("A blank text cannot be embedded.")
        return cleaned

    def _checked(self, rows: Vectors, count: int) -> Vectors:
        expected = (count, self.recipe.dimensions)
        if rows.shape != expected or not np.isfinite(rows).all():
            raise EmbeddingUnavailableError(
                f"{self.recipe.model} returned vectors of shape {rows.shape}, expected finite {expected}."
            )
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vectors = (rows / np.maximum(norms, 1e-12)).astype(np.float32)
        return unit


_embedders: BackendHandler[Embedder] = BackendHandler("EMBEDDERS", Embedder)


def embedder() -> Embedder:
    """The one embedder of this site (HOUSE ADR 6): memory, search, categories and tools share its vectors."""
    return _embedders["default"]
