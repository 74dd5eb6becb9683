"""A minimal Qdrant over HTTP, on loopback: the calls that our backend makes, answered by the client's own in-process
engine.

It is no Qdrant (no persistence, no index, one call at a time): it is there to be slow and to go away behind the real
client. `delay` is slept before each answer; a `Line` (`tests.servers.cutting`) in front of it is cut and mended.
`gone_after` writes the line is cut by itself.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient
from qdrant_client.http import models

from tests.servers.loopback import LoopbackServer, QuietHandler


class QdrantServer(LoopbackServer):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.engine = QdrantClient(":memory:")
        self.turn = threading.Lock()
        self.delay = 0.0
        #: So many more calls that write are answered; at the next `on_gone` is called instead.
        self.gone_after: int | None = None
        self.on_gone: Callable[[], None] = lambda: None

    def answer(self, method: str, path: str, body: bytes) -> Any:
        """What the engine says to a call; raises `LookupError` for one that our backend does not make."""
        name, _slash, rest = path.removeprefix("/collections").lstrip("/").partition("/")
        if path == "/aliases":
            return self.engine.get_aliases()
        if path == "/collections":
            return self.engine.get_collections()
        if path == "/collections/aliases":
            wanted = models.ChangeAliasesOperation.model_validate_json(body)
            return self.engine.update_collection_aliases(wanted.actions)
        return self._of_collection(name, f"{method} {rest}".strip(), body)

    def _of_collection(self, name: str, call: str, body: bytes) -> Any:
        engine = self.engine
        if call == "GET":
            return engine.get_collection(name)
        if call == "DELETE":
            return engine.delete_collection(name)
        if call == "PUT":
            new = models.CreateCollection.model_validate_json(body)
            return engine.create_collection(
                name, vectors_config=new.vectors, sparse_vectors_config=new.sparse_vectors, metadata=new.metadata
            )
        if call == "PUT index":
            return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)
        if call == "PUT points":
            return engine.upsert(name, models.PointsList.model_validate_json(body).points)
        return self._of_points(name, call, body)

    def _of_points(self, name: str, call: str, body: bytes) -> Any:
        engine = self.engine
        if call == "POST points/delete":
            selector: Any = TypeAdapter(models.PointsSelector).validate_json(body)
            return engine.delete(name, selector)
        if call == "POST points":
            asked = models.PointRequest.model_validate_json(body)
            return engine.retrieve(
                name, asked.ids, with_payload=asked.with_payload or False, with_vectors=asked.with_vector or False
            )
        if call == "POST points/count":
            counted = models.CountRequest.model_validate_json(body)
            return engine.count(name, count_filter=counted.filter, exact=True)
        if call == "POST points/scroll":
            page = models.ScrollRequest.model_validate_json(body)
            points, following = engine.scroll(
                name,
                scroll_filter=page.filter,
                limit=page.limit or 10,
                offset=page.offset,
                with_payload=page.with_payload or False,
                with_vectors=page.with_vector or False,
            )
            return {"points": _plain(points), "next_page_offset": following}
        if call == "POST points/query":
            return self._query(name, models.QueryRequest.model_validate_json(body))
        if call == "POST points/query/batch":
            several = models.QueryRequestBatch.model_validate_json(body).searches
            return [self._query(name, each) for each in several]
        raise LookupError(call)

    def _query(self, name: str, asked: models.QueryRequest) -> Any:
        return self.engine.query_points(
            name,
            query=asked.query,
            prefetch=asked.prefetch,
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit or 10,
            with_payload=asked.with_payload or False,
            with_vectors=asked.with_vector or False,
            score_threshold=asked.score_threshold,
        )


def _plain(said: Any) -> Any:
    if isinstance(said, BaseModel):
        return said.model_dump(mode="json", exclude_none=True)
    return [_plain(each) for each in said] if isinstance(said, list) else said


class _Handler(QuietHandler):
    server: QdrantServer
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.body()
        path = self.path.partition("?")[0]
        server = self.server
        if self.command == "PUT" and path.endswith("/points") and server.gone_after is not None:
            server.gone_after -= 1
            if server.gone_after < 0:
                server.on_gone()
                return
        time.sleep(server.delay)
        try:
            with server.turn:
                said, status = _plain(server.answer(self.command, path, body)), 200
        except ValueError as error:
            missing = re.search("not found", str(error))
            said, status = str(error), 404 if missing else 400
        told = {"result": said} if status == 200 else {"status": {"error": said}}
        sent = json.dumps({"time": 0.0, "status": "ok", **told}).encode()
        with suppress(OSError):
            self.send_json(status, sent)

    do_GET = do_PUT = do_POST = do_DELETE = _answer
