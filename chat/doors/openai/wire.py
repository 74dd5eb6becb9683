"""What all of `/v1` answers alike: how an answer ended, models and errors, with the names and shapes of OpenAI's API.

Sources are `annotations` as OpenAI's. Beyond its fields, the message (or, streamed, the last chunk's delta) has
`sources`, the passages that `[n]` in the text refers to, with the keys of `chat.protocol.Source`, and `answer_source`,
the exit by which it was answered.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.http import HttpRequest, JsonResponse
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

from agents.errors import ApplicationError
from agents.models import Deployment
from chat.doors.errors import status_of
from chat.doors.openai.requests import RefusedFieldError
from chat.exceptions import AnswerCutError, AnswerFilteredError
from chat.protocol import Failure
from chat.rendering import plain_markdown

#: OpenAI's word for what a caller did wrong, by code. All other trouble is the server's.
_KINDS: Mapping[str, str] = {
    "invalid_api_key": "invalid_request_error",
    "deployment_closed": "permission_error",
    "deployment_not_found": "invalid_request_error",
    "conversation_not_found": "invalid_request_error",
    "invalid_request": "invalid_request_error",
    "invalid_message": "invalid_request_error",
    "message_too_large": "invalid_request_error",
    "turn_running": "conflict_error",
    "idempotency_conflict": "idempotency_error",
    "rate_limited": "rate_limit_error",
}
#: OpenAI's own codes where it has one: clients know them.
_CODES = {"deployment_not_found": "model_not_found", "rate_limited": "rate_limit_exceeded"}
#: And the field that is wrong, where the code says it.
_PARAMS = {"deployment_not_found": "model"}


def client_language(request: HttpRequest) -> str:
    """The first language that the client names and this site speaks; English where there is none."""
    for code, _weight in parse_accept_lang_header(request.headers.get("Accept-Language", "")):
        with suppress(LookupError):
            return get_supported_language_variant(code)
    return "en"


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
    def of(cls, error: ApplicationError) -> "WireError":
        told = cls.told(Failure.of(error))
        if isinstance(error, RefusedFieldError):
            return replace(told, code=error.wire_code, param=error.param)
        return told

    @classmethod
    def told(cls, failure: Failure) -> "WireError":
        """An error as the turn's own events tell it."""
        code = failure.code
        kind = _KINDS.get(code, "server_error")
        status = status_of(code, is_retryable=failure.retryable)
        if code == "invalid_message":
            status = 400  # as OpenAI says it
        elif code not in _KINDS and status < 500:
            # Inside a turn: nothing that the caller did wrong.
            status = 503 if failure.retryable else 500
        return cls(
            status,
            failure.message,
            kind,
            _CODES.get(code, code),
            param=_PARAMS.get(code),
            retry_after=failure.retry_after,
        )

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


FinishReason = Literal["stop", "length", "content_filter"]
_FINISH_REASONS: Mapping[str, FinishReason] = {
    AnswerCutError.code: "length",
    AnswerFilteredError.code: "content_filter",
}


def finish_reason_of(cut: str) -> FinishReason:
    """OpenAI's word for how an answer ended, by `chat.protocol.Done.cut`."""
    return _FINISH_REASONS.get(cut, "stop")


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended: what the last chunk, or the message, carries besides its text."""

    sources: Sequence[Mapping[str, Any]]
    answer_source: str
    prompt_tokens: int
    completion_tokens: int
    annotations: Sequence[Mapping[str, Any]] = ()
    #: `length` and `content_filter` are what ended the language model's answer before its end.
    finish_reason: FinishReason = "stop"

    def usage(self) -> dict[str, int]:
        """Of the deployment's language model; zero where it was not asked."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }

    def extension(self) -> dict[str, Any]:
        return {
            "annotations": list(self.annotations),
            "sources": list(self.sources),
            "answer_source": self.answer_source,
        }


def error_event(error: WireError) -> bytes:
    return event(error.as_json())


def event(data: Mapping[str, Any]) -> bytes:
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
