"""Qdrant as the vector store: a server or cluster through `qdrant-client`.

The recipe is kept in the collection's own metadata (servers 1.16 and later), and read before each query: another
process may have moved the alias. A point's words are a sparse vector beside its dense one, weighed by rarity on the
server. A hybrid query is one request: the nearest points and those with most of the words, all scored in both ways, and
for each word the point that says it most, which tells its rarity. Vendor errors never leave this file.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
from django.core.checks import CheckMessage, Error, Warning
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from knowledge.embeddings.base import Recipe
from knowledge.errors import CollectionMissingError, EmbeddingMismatchError, KnowledgeError, VectorStoreUnavailableError
from knowledge.vectors.base import (
    NEAREST_ALWAYS,
    SCORE_DECIMALS,
    CollectionInfo,
    Condition,
    Hit,
    PayloadFilter,
    Point,
    Query,
    Vector,
    VectorStore,
    Wanted,
    batches,
    point_uuid,
)
from knowledge.vectors.bm25 import Terms, document_terms, question_terms, rarity
from knowledge.vectors.matrix import rank_hybrid
from knowledge.vectors.payloads import FILTERED_NUMBERS, FILTERED_TEXTS

#: The metadata key under which a collection says that it is ours, and with which recipe.
_METADATA = "repondant"
_WRITE_BATCH = 256
#: The name of the sparse vector; the dense one has none.
_TERMS = "terms"
_DENSE = ""
#: Points of either kind that a hybrid query looks at, at least.
_HYBRID_DEPTH = 50
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

#: How long the server may take to answer one request.
QDRANT_TIMEOUT_SECONDS = 10.0
#: Ids alone are small.
_IDS_AT_ONCE = 5_000


class QdrantVectorStore(VectorStore):
    def __init__(self, *, url: str, api_key: str = "", timeout: float = 0, prefix: str = "") -> None:
        self._url = url
        self._api_key = api_key
        self._timeout = timeout or QDRANT_TIMEOUT_SECONDS
        self._prefix = prefix
        self._client: QdrantClient | None = None
        self._connecting = threading.Lock()

    def ensure(self, collection: str, recipe: Recipe) -> None:
        try:
            stored = self._recipe(collection)
        except CollectionMissingError:
            self._create(collection, recipe)
            # Read back, not assumed: another process may have created it first, with its own recipe.
            stored = self._recipe(collection)
        self._require_recipe(collection, stored, recipe)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        rows = self._unit_rows(collection, self._recipe(collection), [p.vector for p in points])
        structs = {
            (key := str(point_uuid(point.id))): models.PointStruct(
                id=key,
                vector={_DENSE: row.tolist(), _TERMS: _sparse(document_terms(point.payload))},
                payload=dict(point.payload),
            )
            for point, row in zip(points, rows, strict=True)
        }
        for batch in batches(structs.values(), _WRITE_BATCH):
            with self._asking() as client:
                client.upsert(self._name(collection), batch, wait=True)

    def query(self, collection: str, query: Query, wanted: Wanted) -> list[Hit]:
        recipe, points = self._described(collection)
        self._require_recipe(collection, recipe, query.recipe)
        asked = self._unit_rows(collection, query.recipe, [query.vector])[0]
        if wanted.limit <= 0:
            return []
        if wanted.lexical_weight is None:
            hits = self._nearest(collection, asked, wanted)
        elif terms := question_terms(query.text):
            hits = self._hybrid(collection, asked, terms, wanted, wanted.lexical_weight, points)
        else:
            hits = self._nearest(collection, asked, replace(wanted, limit=max(wanted.limit, NEAREST_ALWAYS)))
        return [hit for hit in hits if wanted.min_score is None or hit.score >= wanted.min_score]

    def fetch(self, collection: str, ids: Sequence[str]) -> dict[str, Point]:
        points: dict[str, Point] = {}
        for batch in self._wanted(collection, ids):
            with self._asking() as client:
                records = client.retrieve(self._name(collection), batch, with_payload=True, with_vectors=[_DENSE])
            points.update((point.id, point) for point in map(_point, records))
        return points

    def scroll(self, collection: str, *, batch_size: int = 500) -> Iterator[list[Point]]:
        self._recipe(collection)
        pages = self._pages(collection, batch_size, with_payload=True, with_vectors=[_DENSE])
        return ([_point(record) for record in records] for records in pages if records)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        for batch in self._wanted(collection, ids):
            selector = models.PointIdsList(points=list(batch))
            with self._asking() as client:
                client.delete(self._name(collection), selector, wait=True)

    def ids_where(self, collection: str, payload_filter: PayloadFilter) -> list[str]:
        kept = _filter(payload_filter)
        pages = self._pages(collection, _IDS_AT_ONCE, scroll_filter=kept, with_payload=False, with_vectors=False)
        return [str(record.id) for records in pages for record in records]

    def count(self, collection: str) -> int:
        with self._asking() as client:
            return client.count(self._name(collection), exact=True).count

    def info(self, collection: str) -> CollectionInfo:
        aliases = self._aliases()
        name = aliases.get(collection, collection)
        return CollectionInfo(name, self._recipe(name), self.count(name), _of(aliases, name))

    def collections(self) -> list[CollectionInfo]:
        with self._asking() as client:
            found = client.get_collections().collections
        names = [each.name.removeprefix(self._prefix) for each in found if each.name.startswith(self._prefix)]
        aliases = self._aliases()
        infos: list[CollectionInfo] = []
        for name in sorted(names):
            try:
                recipe, _about = self._read(name)
                if recipe is None:
                    continue
                points = self.count(name)
            except CollectionMissingError:
                continue  # dropped by another process since the list was made
            infos.append(CollectionInfo(name, recipe, points, _of(aliases, name)))
        return infos

    def point_alias(self, alias: str, collection: str) -> None:
        aliases = self._aliases()
        target = aliases.get(collection, collection)
        self._recipe(target)
        create = models.CreateAlias(collection_name=self._name(target), alias_name=self._name(alias))
        operations: list[Any] = [models.CreateAliasOperation(create_alias=create)]
        if alias in aliases:
            delete = models.DeleteAlias(alias_name=self._name(alias))
            operations.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        with self._asking() as client:
            client.update_collection_aliases(operations)

    def resolve_alias(self, alias: str) -> str | None:
        return self._aliases().get(alias)

    def remove_alias(self, alias: str) -> None:
        if alias in self._aliases():
            delete = models.DeleteAlias(alias_name=self._name(alias))
            with self._asking() as client:
                client.update_collection_aliases([models.DeleteAliasOperation(delete_alias=delete)])

    def drop(self, collection: str) -> None:
        name = self.resolve_alias(collection) or collection
        with suppress(CollectionMissingError), self._asking() as client:
            client.delete_collection(self._name(name))

    def ping(self) -> None:
        with self._asking() as client:
            client.get_collections()

    def check(self) -> list[CheckMessage]:
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            said = f"QDRANT_URL={self._url!r} is not an http or https address."
            return [Error(said, hint="For example http://127.0.0.1:6333", id="knowledge.E010")]
        if self._api_key and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            said = "QDRANT_API_KEY is sent over an unencrypted connection."
            return [Warning(said, hint="Use an https address in QDRANT_URL.", id="knowledge.W010")]
        return []

    def _nearest(self, collection: str, vector: Vector, wanted: Wanted) -> list[Hit]:
        """More are asked for until all are known that tie with the last one wanted: the engine breaks ties anyhow."""
        # Lower by more than the rounding; the caller compares rounded scores.
        floor = None if wanted.min_score is None else wanted.min_score - 1e-5
        kept, size = _filter(wanted.payload_filter), wanted.limit + 1
        while True:
            with self._asking() as client:
                name = self._name(collection)
                answer = client.query_points(
                    name, vector.tolist(), query_filter=kept, limit=size, score_threshold=floor
                )
            hits = [Hit(str(each.id), _cosine(each.score), each.payload or {}) for each in answer.points]
            if len(hits) < size or hits[-1].score != hits[wanted.limit - 1].score:
                return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: wanted.limit]
            size *= 2

    def _hybrid(
        self, collection: str, asked: Vector, terms: Terms, wanted: Wanted, lexical_weight: float, points: int
    ) -> list[Hit]:
        """The best of the points near the vector or with the terms."""
        kept, depth = _filter(wanted.payload_filter), max(wanted.limit, _HYBRID_DEPTH)
        nearest: dict[str, Any] = {"query": asked.tolist()}
        saying: dict[str, Any] = {"query": _sparse(terms), "using": _TERMS}
        either = [models.Prefetch(**nearest, limit=depth), models.Prefetch(**saying, limit=depth)]
        requests = [
            models.QueryRequest(**nearest, prefetch=either, filter=kept, limit=2 * depth, with_payload=True),
            models.QueryRequest(**saying, prefetch=either, filter=kept, limit=2 * depth),
        ]
        requests += [
            models.QueryRequest(
                query=models.SparseVector(indices=[term], values=[1.0]), using=_TERMS, limit=1, with_vector=[_TERMS]
            )
            for term in terms.ids.tolist()
        ]
        with self._asking() as client:
            by_vector, by_terms, *telling = client.query_batch_points(self._name(collection), requests)
        rarities = [_rarity(answer.points, points, term) for answer, term in zip(telling, terms.ids, strict=True)]
        most = float(terms.weights @ np.asarray(rarities))
        overlaps = {point.id: round(point.score / most, SCORE_DECIMALS) for point in by_terms.points}
        hits = {
            str(point.id): Hit(str(point.id), _cosine(point.score), point.payload or {}, overlaps.get(point.id, 0.0))
            for point in by_vector.points
        }
        scored = [(hit.id, hit.score, hit.overlap) for hit in hits.values()]
        ranked = rank_hybrid(scored, lexical_weight=lexical_weight, limit=wanted.limit, always=NEAREST_ALWAYS)
        return [hits[key] for key, *_scores in ranked]

    def _wanted(self, collection: str, ids: Sequence[str]) -> Iterator[list[str]]:
        """The ids, each once, in batches; where there is none, that the collection exists is asked all the same."""
        if not ids:
            self._recipe(collection)
        return batches({str(point_uuid(point_id)) for point_id in ids}, _WRITE_BATCH)

    def _pages(self, collection: str, size: int, **wanted: Any) -> Iterator[list[models.Record]]:
        """Every record, in batches of `size`; `wanted` says which, and what of them."""
        offset: Any = None
        while True:
            with self._asking() as client:
                records, offset = client.scroll(self._name(collection), limit=size, offset=offset, **wanted)
            yield records
            if offset is None:
                return

    def _create(self, collection: str, recipe: Recipe) -> None:
        size, near = recipe.dimensions, models.Distance.COSINE
        terms = models.SparseVectorParams(modifier=models.Modifier.IDF)
        try:
            with self._asking() as client:
                client.create_collection(
                    self._name(collection),
                    vectors_config=models.VectorParams(size=size, distance=near),
                    sparse_vectors_config={_TERMS: terms},
                    metadata={_METADATA: {"recipe": recipe.as_json(), "prefix": self._prefix}},
                )
        except NameTakenError:
            return
        schemas = {
            **dict.fromkeys(FILTERED_TEXTS, models.PayloadSchemaType.KEYWORD),
            **dict.fromkeys(FILTERED_NUMBERS, models.PayloadSchemaType.INTEGER),
        }
        for field, schema in schemas.items():
            with self._asking() as client:
                client.create_payload_index(self._name(collection), field, schema, wait=True)

    def _recipe(self, collection: str) -> Recipe:
        return self._described(collection)[0]

    def _described(self, collection: str) -> tuple[Recipe, int]:
        """The recipe of a collection, and about how many points it has."""
        recipe, points = self._read(collection)
        if recipe is None:
            raise EmbeddingMismatchError(
                f"Collection {collection!r} has no recipe: it was made by another program, or by a Qdrant server "
                "older than 1.16, which keeps no metadata."
            )
        return recipe, points

    def _read(self, collection: str) -> tuple[Recipe | None, int]:
        """The recipe is `None` where the collection is somebody else's."""
        with self._asking() as client:
            found = client.get_collection(self._name(collection))
        ours, points = (found.config.metadata or {}).get(_METADATA), found.points_count or 0
        if ours is None or ours["prefix"] != self._prefix:
            return None, points
        return Recipe.from_json(ours["recipe"]), points

    def _aliases(self) -> dict[str, str]:
        with self._asking() as client:
            found = client.get_aliases().aliases
        return {
            alias.alias_name.removeprefix(self._prefix): alias.collection_name.removeprefix(self._prefix)
            for alias in found
            if alias.alias_name.startswith(self._prefix)
        }

    def _name(self, name: str) -> str:
        return self._prefix + name

    @contextmanager
    def _asking(self) -> Iterator[QdrantClient]:
        """The client, for one call: its errors leave as ours."""
        with _translated():
            yield self._connected()

    def _connected(self) -> QdrantClient:
        with self._connecting:
            if self._client is None:
                parts = urlsplit(self._url)
                self._client = QdrantClient(
                    url=self._url,
                    # HTTPS means a proxy or a managed cluster in front; plain HTTP a Qdrant server itself.
                    port=parts.port or (443 if parts.scheme == "https" else 6333),
                    api_key=self._api_key or None,
                    timeout=max(1, round(self._timeout)),
                    # It would ask the server, and warn on standard error, before the first call.
                    check_compatibility=False,
                )
            return self._client


class NameTakenError(KnowledgeError):
    """The name is in use, by a collection or an alias."""


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except UnexpectedResponse as error:
        raise _as_ours(error) from error
    except (ApiException, QdrantException) as error:
        raise VectorStoreUnavailableError(f"Qdrant cannot be reached: {getattr(error, 'source', error)}") from error
    except (AssertionError, ValueError) as error:
        raise VectorStoreUnavailableError(f"Another program than Qdrant answers at QDRANT_URL: {error}") from error


def _as_ours(error: UnexpectedResponse) -> KnowledgeError:
    text, is_refused = str(error), error.status_code == 400
    if error.status_code in (401, 403):
        return VectorStoreUnavailableError(f"Qdrant refuses QDRANT_API_KEY: {text}")
    if error.status_code == 404 and "Collection" not in text:
        return VectorStoreUnavailableError(f"Another program than Qdrant answers at QDRANT_URL: {text}")
    if error.status_code == 404:
        return CollectionMissingError(text)
    if error.status_code == 409 or (is_refused and "already exists" in text.lower()):
        return NameTakenError(text)
    return (EmbeddingMismatchError if is_refused and "dimension" in text.lower() else VectorStoreUnavailableError)(text)


def _of(aliases: dict[str, str], name: str) -> tuple[str, ...]:
    return tuple(sorted(alias for alias, target in aliases.items() if target == name))


def _cosine(score: float) -> float:
    return round(min(1.0, max(-1.0, score)), SCORE_DECIMALS) + 0.0


def _point(record: "models.Record") -> Point:
    """A server gives the dense vector alone without a name."""
    vector: Any = record.vector
    dense = vector[_DENSE] if isinstance(vector, dict) else vector
    return Point(str(record.id), np.asarray(dense, dtype=np.float32), record.payload or {})


def _rarity(best: Sequence[models.ScoredPoint], points: int, term: int) -> float:
    """The rarity of a term as the server counts it: the score of the best point, by the term's weight there."""
    if not best:
        return rarity(points, 0)
    held: Any = cast("dict[str, Any]", best[0].vector)[_TERMS]
    return float(best[0].score / held.values[held.indices.index(term)])


def _sparse(terms: Terms) -> models.SparseVector:
    return models.SparseVector(indices=terms.ids.tolist(), values=terms.weights.tolist())


def _filter(payload_filter: PayloadFilter | None) -> models.Filter | None:
    if not payload_filter:
        return None

    def matching(conditions: Sequence[Condition]) -> list[Any] | None:
        return [
            models.FieldCondition(key=each.key, match=models.MatchValue(value=each.value)) for each in conditions
        ] or None

    return models.Filter(must=matching(payload_filter.all_of), should=matching(payload_filter.any_of))
