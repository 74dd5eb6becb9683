"""The protocol of a vector store, its values, and the loader.

A *collection* holds points of one recipe. An *alias* is a second name that can be moved to another collection in one
step; every verb takes either. Ids are UUID strings; upserting an id again overwrites it. Scores are cosines rounded to
`SCORE_DECIMALS`, best first, ties by id so that two stores agree. Only errors of `knowledge.errors` leave it.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from django.core.checks import CheckMessage

from agents.cache import BackendHandler
from agents.models import IndexingMethod
from knowledge.embeddings.base import Recipe
from knowledge.errors import EmbeddingMismatchError, KnowledgeError

T = TypeVar("T")

#: Two engines agree on a cosine to about a millionth; what is closer than that is a tie.
SCORE_DECIMALS = 6

#: So many of the nearest points are in every hybrid result, whatever their words are.
NEAREST_ALWAYS = 4

Vector = npt.NDArray[np.float32]
Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
Payload = Mapping[str, Json]


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    id: str
    vector: Vector
    payload: Payload


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` is the cosine; `overlap` the share of the question's words that the point has, where it was asked for."""

    id: str
    score: float
    payload: Payload
    overlap: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question as an index is asked it: its vector, the recipe that made it, and its text, for the words."""

    vector: Vector
    recipe: Recipe
    text: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which hits are wanted: the `limit` best that `payload_filter` keeps, by cosine, at `min_score` or above. With a
    `lexical_weight`, by cosine + that weight x overlap with the question's words: each hit has both, and the
    `NEAREST_ALWAYS` nearest by cosine alone come along (thresholds are cosines)."""

    limit: int
    payload_filter: "PayloadFilter | None" = None
    min_score: float | None = None
    lexical_weight: float | None = None


def scalar_kind(value: Json) -> type | None:
    """What a condition can compare `value` as; subclasses (string enumerations) count as their base."""
    return next((kind for kind in (bool, int, str) if isinstance(value, kind)), None)


@dataclass(frozen=True, slots=True)
class Condition:
    """The field `key` is `value`; `None` matches nothing, True is not 1, 1.0 is not 1. No payload field is a list."""

    key: str
    value: str | int | bool

    def matches(self, payload: Payload) -> bool:
        found = payload.get(self.key)
        return scalar_kind(found) is scalar_kind(self.value) and found == self.value


@dataclass(frozen=True, slots=True)
class PayloadFilter:
    """Keep points that match every condition of `all_of` and at least one of `any_of`, if given."""

    all_of: tuple[Condition, ...] = ()
    any_of: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.all_of or self.any_of)

    def matches(self, payload: Payload) -> bool:
        has_one = not self.any_of or any(c.matches(payload) for c in self.any_of)
        return has_one and all(c.matches(payload) for c in self.all_of)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    name: str
    recipe: Recipe
    points: int
    aliases: tuple[str, ...] = ()


class VectorStore(ABC):
    #: Whether its verbs use Django's database, and so belong on the database bridge; else they wait for the network.
    uses_database: ClassVar[bool] = False

    @abstractmethod
    def ensure(self, collection: str, recipe: Recipe) -> None:
        """Create the collection if it is absent; raise `EmbeddingMismatchError` if it has another recipe."""

    @abstractmethod
    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write points, all or none of each batch. A wrong vector size raises `EmbeddingMismatchError`."""

    @abstractmethod
    def query(self, collection: str, query: Query, wanted: Wanted) -> list[Hit]:
        """The best points; raises `EmbeddingMismatchError` for another recipe."""

    @abstractmethod
    def fetch(self, collection: str, ids: Sequence[str]) -> dict[str, Point]:
        """The stored points among `ids`, by id. Vectors come back as unit rows."""

    @abstractmethod
    def scroll(self, collection: str, *, batch_size: int = 500) -> Iterator[list[Point]]:
        """Every point, in batches, in a stable order."""

    @abstractmethod
    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove points; ids that are not there are no error."""

    @abstractmethod
    def ids_where(self, collection: str, payload_filter: PayloadFilter) -> list[str]:
        """The ids of the matching points, in no order."""

    @abstractmethod
    def count(self, collection: str) -> int: ...

    @abstractmethod
    def info(self, collection: str) -> CollectionInfo:
        """Name, recipe and size of the collection (an alias is resolved); `CollectionMissingError` if absent."""

    @abstractmethod
    def collections(self) -> list[CollectionInfo]:
        """All collections of this project, by name."""

    @abstractmethod
    def point_alias(self, alias: str, collection: str) -> None:
        """Make `alias` name `collection`, in one step; `knowledge.indexing.rebuild` decides when."""

    @abstractmethod
    def resolve_alias(self, alias: str) -> str | None: ...

    @abstractmethod
    def remove_alias(self, alias: str) -> None:
        """Forget `alias`; its collection stays. No error if absent."""

    @abstractmethod
    def drop(self, collection: str) -> None:
        """Remove the collection, its points and its aliases; no error if absent."""

    def ping(self) -> None:
        """Raise `VectorStoreUnavailableError` when the store cannot be reached."""
        self.collections()

    def check(self) -> list[CheckMessage]:
        """Configuration mistakes; neither the database nor the network is asked."""
        return []

    def _unit_rows(self, collection: str, recipe: Recipe, vectors: Sequence[Vector]) -> Vector:
        """`vectors` as unit rows; anything else than finite directions of the right size is refused."""
        wanted = recipe.dimensions
        if any(vector.shape != (wanted,) for vector in vectors):
            raise EmbeddingMismatchError(
                f"Collection {collection!r} holds vectors of {wanted} dimensions, others were given."
            )
        rows = np.asarray(vectors, dtype=np.float32).reshape(len(vectors), wanted)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise EmbeddingMismatchError(
                f"A vector for collection {collection!r} has no direction (zero, infinite or not a number)."
            )
        unit: Vector = rows / norms
        return unit

    def _require_recipe(self, collection: str, stored: Recipe, used: Recipe) -> None:
        if stored != used:
            raise EmbeddingMismatchError(
                f"Collection {collection!r} was built with {stored}, the embedder in use is {used}."
            )


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def point_uuid(point_id: str) -> uuid.UUID:
    try:
        return uuid.UUID(point_id)
    except ValueError as error:
        raise KnowledgeError(f"{point_id!r} is not a UUID.") from error


_stores: BackendHandler[VectorStore] = BackendHandler("VECTOR_STORES", VectorStore)


def vector_store(alias: str = "default") -> VectorStore:
    return _stores[alias]


def collection_alias(agent_slug: str, method: IndexingMethod) -> str:
    """The name that readers use; it points at the current generation."""
    return f"agent_{agent_slug}_{method.value}"
