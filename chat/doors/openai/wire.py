"""What `/v1` answers: completions, chunks, models and errors, with the names and shapes of OpenAI's API.

Beyond OpenAI's fields, the message (or, streamed, the last chunk's delta) has `sources`, the passages that `[n]` in
the text refers to, with the keys of `chat.protocol.Source`, and `answer_source`, the exit by which it was answered.
"""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import JsonResponse

from agents.exceptions import ApplicationError
from agents.models import Deployment
from chat.doors.openai.requests import RefusedFieldError
from chat.rendering import plain_markdown

DONE = b"data: [DONE]\n\n"
#: By code: the status, and OpenAI's word for the kind of trouble. 502 to 504 are the model server's troubles.
_STATUS: Mapping[str, tuple[int, str]] = {
    "invalid_api_key": (401, "invalid_request_error"),
    "deployment_closed": (403, "permission_error"),
    "deployment_not_found": (404, "invalid_request_error"),
    "invalid_request": (400, "invalid_request_error"),
    "invalid_message": (400, "invalid_request_error"),
    "message_too_large": (413, "invalid_request_error"),
    "turn_running": (409, "conflict_error"),
    "idempotency_conflict": (422, "idempotency_error"),
    "rate_limited": (429, "rate_limit_error"),
    "llm_response": (502, "server_error"),
    "llm_cut": (502, "server_error"),
    "llm_error": (502, "server_error"),
    "llm_timeout": (504, "server_error"),
    "turn_timeout": (504, "server_error"),
}
#: OpenAI's own codes where it has one: clients know them.
_CODES = {"deployment_not_found": "model_not_found", "rate_limited": "rate_limit_exceeded"}


@dataclass(frozen=True, slots=True)
class WireError:
    """An error as a client reads it: in a response with this status, or inside a stream that has begun."""

    status: int
    message: str
    kind: str
    code: str | None
    param: str | None = None
    retry_after: float | None = None

    @classmethod
    def named(
        cls, code: str, message: str, *, is_retryable: bool, retry_after: float | None = None
    ) -> "WireError":
        """The error of a turn, or one of ours."""
        status, kind = _STATUS.get(code, (503 if is_retryable else 500, "server_error"))
        return cls(status, message, kind, _CODES.get(code, code), retry_after=retry_after)

    @classmethod
    def of(cls, error: ApplicationError) -> "WireError":
        message = str(error.public_message)
        if isinstance(error, RefusedFieldError):
            kind = "invalid_request_error"
            return cls(400, message, kind, error.wire_code, param=error.param)
        found = cls.named(
            error.code, message, is_retryable=error.retryable, retry_after=error.retry_after
        )
        if error.code == "deployment_not_found":
            return cls(found.status, message, found.kind, found.code, param="model")
        return found

    def as_json(self) -> dict[str, Any]:
        said = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": said}

    def response(self) -> JsonResponse:
        response = JsonResponse(self.as_json(), status=self.status)
        if self.retry_after is not None:
            response["Retry-After"] = str(max(1, round(self.retry_after)))
        if self.status == 401:
            response["WWW-Authenticate"] = "Bearer"
        return response


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended: what the last chunk, or the message, carries besides its text."""

    sources: Sequence[Mapping[str, Any]]
    answer_source: str
    prompt_tokens: int
    completion_tokens: int

    def usage(self) -> dict[str, int]:
        """Of the deployment's language model; zero where it was not asked."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }

    def extension(self) -> dict[str, Any]:
        return {"sources": list(self.sources), "answer_source": self.answer_source}


@dataclass(frozen=True, slots=True)
class CompletionWriter:
    """Writes one completion, whole or in chunks; they share an id, which names the turn."""

    turn_id: uuid.UUID
    model: str
    includes_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.turn_id.hex}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": None,
        }

    def whole(self, text: str, ending: Ending) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None, **ending.extension()}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": ending.usage(),
        }

    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def closing(self, ending: Ending) -> bytes:
        """The last chunk, the usage where it was asked for, and the end of the stream."""
        last = self._chunk(ending.extension(), finish_reason="stop")
        if not self.includes_usage:
            return last + DONE
        counted = {**self._head("chat.completion.chunk"), "choices": [], "usage": ending.usage()}
        return last + _event(counted) + DONE

    def _chunk(self, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return _event({**chunk, "usage": None} if self.includes_usage else chunk)


def error_event(error: WireError) -> bytes:
    """An error inside a stream: clients raise it, and no `[DONE]` follows to make the text look whole."""
    return _event(error.as_json())


def _event(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def model_json(deployment: Deployment) -> dict[str, Any]:
    return {
        "id": deployment.slug,
        "object": "model",
        "created": int(deployment.created_at.timestamp()),
        "owned_by": "repondant",
    }


def source_lines(text: str, sources: Sequence[Mapping[str, Any]]) -> str:
    """The titles of the sources that the text cites (all where it cites none), as Markdown to append."""
    cited = [source for source in sources if f"[{source['n']}]" in text] or list(sources)
    if not cited:
        return ""
    lines = "\n".join(f"- [{source['n']}] {plain_markdown(source['title'])}" for source in cited)
    return f"\n\n---\n{lines}"
