"""Qdrant's engine without its server: the product's backend over `qdrant-edge-py`, for measuring where no server runs.

Same index and scores as a server of its release, in this process: no network, no aliases, one shard. The package is no
dependency of the project: `pip install qdrant-edge-py` somewhere, and that folder in `PYTHONPATH`.
"""

import importlib
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from qdrant_client import models

from knowledge.errors import CollectionMissingError
from knowledge.vectors.qdrant import NameTakenError, QdrantVectorStore

edge: Any
try:
    edge = importlib.import_module("qdrant_edge")
except ModuleNotFoundError:  # Only who makes an `EdgeStore` needs it.
    edge = None


class EdgeStore(QdrantVectorStore):
    def __init__(self, folder: Path) -> None:
        super().__init__(url="http://127.0.0.1")
        self.engine = Engine(folder)
        self._turn = threading.Lock()

    def index(self) -> None:
        for shard, _metadata in self.engine.shards.values():
            shard.optimize()

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        with self._turn:
            yield self.engine


class Engine:
    """The calls of `QdrantClient` that the backend makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards: dict[str, tuple[Any, Any]] = {}
        self.aliases: dict[str, str] = {}

    def shard(self, name: str) -> Any:
        return self._held(name)[0]

    def _held(self, name: str) -> tuple[Any, Any]:
        try:
            return self.shards[self.aliases.get(name, name)]
        except KeyError as error:
            raise CollectionMissingError(name) from error

    def create_collection(self, name: str, *, vectors_config: Any, metadata: Any, **_sparse: Any) -> None:
        if name in self.shards:
            raise NameTakenError(name)
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir(parents=True)
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=vectors_config.size, distance=edge.Distance.Cosine),
            sparse_vectors={"terms": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        )
        self.shards[name] = edge.EdgeShard.create(str(folder), config), metadata

    def create_payload_index(self, name: str, field: str, schema: Any, **_wait: Any) -> None:
        kind = getattr(edge.PayloadSchemaType, schema.value.capitalize())
        self.shard(name).update(edge.UpdateOperation.create_field_index(field, kind))

    def get_collection(self, name: str) -> Any:
        shard, metadata = self._held(name)
        return SimpleNamespace(
            config=SimpleNamespace(metadata=metadata), points_count=shard.count(edge.CountRequest(exact=True))
        )

    def get_collections(self) -> Any:
        return SimpleNamespace(collections=[SimpleNamespace(name=name) for name in self.shards])

    def get_aliases(self) -> Any:
        return SimpleNamespace(
            aliases=[SimpleNamespace(alias_name=a, collection_name=name) for a, name in self.aliases.items()]
        )

    def update_collection_aliases(self, operations: list[Any]) -> None:
        for each in operations:
            if isinstance(each, models.DeleteAliasOperation):
                self.aliases.pop(each.delete_alias.alias_name, None)
            elif each.create_alias.alias_name in self.shards:
                raise NameTakenError(each.create_alias.alias_name)
            else:
                self.aliases[each.create_alias.alias_name] = each.create_alias.collection_name

    def delete_collection(self, name: str) -> None:
        self.shards.pop(name)[0].close()
        self.aliases = {alias: target for alias, target in self.aliases.items() if target != name}

    def upsert(self, name: str, points: list[Any], **_wait: Any) -> None:
        rows = [
            edge.Point(each.id, {key: vector_of(vector) for key, vector in each.vector.items()}, each.payload)
            for each in points
        ]
        self.shard(name).update(edge.UpdateOperation.upsert_points(rows))

    def delete(self, name: str, selector: Any, **_wait: Any) -> None:
        self.shard(name).update(edge.UpdateOperation.delete_points(selector.points))

    def count(self, name: str, **_exact: Any) -> Any:
        return SimpleNamespace(count=self.shard(name).count(edge.CountRequest(exact=True)))

    def retrieve(self, name: str, ids: list[str], *, with_payload: Any, with_vectors: Any) -> Any:
        return self.shard(name).retrieve(ids, with_payload, with_vectors)

    def scroll(self, name: str, *, limit: int, offset: Any, scroll_filter: Any = None, **returned: Any) -> Any:
        asked = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=filter_of(scroll_filter),
            with_payload=returned["with_payload"],
            with_vector=returned["with_vectors"],
        )
        return self.shard(name).scroll(asked)

    def query_points(
        self, name: str, query: Any, *, query_filter: Any, limit: int, score_threshold: float | None
    ) -> Any:
        asked = edge.QueryRequest(
            limit,
            query=edge.Query.Nearest(query),
            filter=filter_of(query_filter),
            score_threshold=score_threshold,
            with_payload=True,
        )
        return SimpleNamespace(points=self.shard(name).query(asked))

    def query_batch_points(self, name: str, requests: list[models.QueryRequest]) -> Any:
        answers = self.shard(name).query_batch(edge.QueryBatchRequest([request_of(each) for each in requests]))
        return [SimpleNamespace(points=points) for points in answers]


def request_of(asked: models.QueryRequest) -> Any:
    prefetches: Any = asked.prefetch or []
    return edge.QueryRequest(
        asked.limit,
        query=query_of(asked),
        prefetches=[edge.Prefetch(each.limit, query=query_of(each)) for each in prefetches],
        filter=filter_of(asked.filter),
        with_payload=asked.with_payload or False,
        with_vector=asked.with_vector or False,
    )


def query_of(asked: Any) -> Any:
    return edge.Query.Nearest(vector_of(asked.query), asked.using)


def vector_of(vector: Any) -> Any:
    return edge.SparseVector(vector.indices, vector.values) if isinstance(vector, models.SparseVector) else vector


def filter_of(kept: models.Filter | None) -> Any:
    if kept is None:
        return None

    def conditions(given: Any) -> Any:
        return given and [edge.FieldCondition(each.key, edge.MatchValue(each.match.value)) for each in given]

    return edge.Filter(must=conditions(kept.must), should=conditions(kept.should))
