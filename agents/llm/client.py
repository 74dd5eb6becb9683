"""Whole replies of a model server: one POST, its body once it is complete. Blocks; for jobs, titles and embeddings."""

import json
import threading
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

import httpx2

from agents.errors import LLMError, LLMTimeoutError, LLMUnavailableError
from agents.llm.server import ServerOptions, raise_for_status
from agents.processes.requests import outgoing_headers


class ReplyClient:
    """One client and its connections for the process, made at first use; threads share it."""

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None

    def connect(self) -> httpx2.Client:
        """Loading the certificates takes tens of milliseconds: once, and not at start-up."""
        with self._lock:
            if self._client is None:
                server = self._server
                self._client = httpx2.Client(
                    headers=server.headers,
                    timeout=httpx2.Timeout(server.read_timeout, connect=server.connect_timeout),
                    limits=httpx2.Limits(max_connections=server.max_connections),
                    follow_redirects=True,
                )
            return self._client

    def post(self, path: str, request: Mapping[str, Any]) -> bytes:
        """Send `request` as JSON; the body of a success. Tried again after a passing trouble."""
        body = json.dumps(request, ensure_ascii=False).encode()
        for attempt in count():
            try:
                reply = self._send(self._server.url(path), body)
                break
            except LLMError as error:
                if (pause := self._server.pause_after(error, attempt)) is None:
                    raise
            time.sleep(pause)
        return reply

    def _send(self, url: str, body: bytes) -> bytes:
        try:
            response = self.connect().post(url, content=body, headers=outgoing_headers())
        except httpx2.TimeoutException as error:
            raise LLMTimeoutError("The server did not answer in time.") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise LLMUnavailableError("The server cannot be reached.") from error
        raise_for_status(response.status_code, response.content, response.headers)
        return response.content
