"""A small, strict `/v1/embeddings` server on loopback, for the tests of `OpenAIEmbedder`.

It refuses what the real one refuses (a wrong key, an empty or too long input, an unknown argument, `dimensions` for a
model that has none), answers in reverse order to prove that `index` is read, records every body, and can be told to
fail.
"""

import json
from typing import Any

from knowledge.embeddings.base import Purpose
from tests.hashing import HashingEmbedder
from tests.servers.loopback import LoopbackServer, QuietHandler

KEY = "sk-only-for-tests"
NATIVE = {"text-embedding-3-small": 1536, "text-embedding-ada-002": 1536, "house-model": 96}
_ARGUMENTS = {"model", "input", "dimensions", "encoding_format", "user"}


class EmbeddingServer(LoopbackServer):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.bodies: list[dict[str, Any]] = []
        self.failures: list[int] = []
        """Statuses of the next replies; afterwards the server answers."""
        self.reply: bytes | None = None
        """If set, the body of every reply."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


class _Handler(QuietHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.body())
        self.server.bodies.append(body)
        if self.server.failures:
            self._send(self.server.failures.pop(0), {"error": {"message": f"echo {body['input']}"}})
        elif self.server.reply is not None:
            self.send_json(200, self.server.reply)
        elif self.path != "/v1/embeddings" or body.get("model") not in NATIVE:
            self._send(404, {"error": {"message": "not found"}})
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            self._send(401, {"error": {"message": "Incorrect API key provided."}})
        elif refusal := _refusal(body):
            self._send(400, {"error": {"message": refusal}})
        else:
            self._send(200, {"object": "list", "model": body["model"], "data": _rows(body)})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self.send_json(status, json.dumps(body).encode())


def _refusal(body: dict[str, Any]) -> str:
    texts = body["input"]
    if not isinstance(texts, list) or not 0 < len(texts) <= 2048:
        return "wrong number of inputs"
    if not all(isinstance(text, str) and 0 < len(text.encode()) <= 8191 for text in texts):
        return "an input is empty or too long"
    if body.get("encoding_format") != "float":
        return "encoding_format is not supported"
    if "dimensions" in body and not body["model"].startswith("text-embedding-3"):
        return "this model has no dimensions"
    return "" if set(body) <= _ARGUMENTS else "unknown argument"


def _rows(body: dict[str, Any]) -> list[dict[str, Any]]:
    size = body.get("dimensions") or NATIVE[body["model"]]
    rows = HashingEmbedder(dimensions=size).embed(body["input"], purpose=Purpose.QUERY)
    data = [{"object": "embedding", "index": index, "embedding": row.tolist()} for index, row in enumerate(rows)]
    return data[::-1]
