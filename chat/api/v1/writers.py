"""What all of `/v1` answers alike: how an answer ended, models and errors, as in OpenAI's API.

Beyond its fields, the message (or the last chunk's delta) has `sources`, with the keys of `chat.protocol.Source`, and
`answer_source`.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

from agents.errors import ApplicationError
from agents.models import Deployment
from chat.api.v1.requests import RefusedFieldError
from chat.archive import passage_token
from chat.errors import AnswerCutError, AnswerFilteredError
from chat.protocol import Failure, kind_of
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
        # Its code is all that a stored turn has kept of an error.
        known, unknown = kind_of(code), 503 if failure.retryable else 500
        status = known.status if known else unknown
        if code == "invalid_message":
            status = 400  # as OpenAI says it
        elif code not in _KINDS and status < 500:
            # Inside a turn: nothing that the caller did wrong.
            status = unknown
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


DONE = b"data: [DONE]\n\n"


class Writer(Protocol):
    """Writes one answer, whole or in chunks, of which the texts are between `opening` and `closing`."""

    turn_id: uuid.UUID

    def whole(self, text: str, ending: Ending) -> dict[str, Any]: ...
    def opening(self) -> bytes: ...
    def text(self, text: str) -> bytes: ...
    def closing(self, ending: Ending) -> bytes: ...
    def failure(self, error: WireError) -> bytes:
        """An error inside a stream: clients raise it, and nothing follows that would make the text look whole."""


@dataclass(slots=True)
class CompletionWriter:
    """A completion; its chunks share an id, which names the turn."""

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
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ending.finish_reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": ending.usage()}

    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def closing(self, ending: Ending) -> bytes:
        """The last chunk, the usage where it was asked for, and the end of the stream."""
        last = self._chunk(ending.extension(), finish_reason=ending.finish_reason)
        if not self.includes_usage:
            return last + DONE
        counted = {**self._head("chat.completion.chunk"), "choices": [], "usage": ending.usage()}
        return last + event(counted) + DONE

    def _chunk(self, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return event({**chunk, "usage": None} if self.includes_usage else chunk)

    def failure(self, error: WireError) -> bytes:
        return event(error.as_json())


_CITED = re.compile(r"\[(\d{1,3})\]")


def url_citations(
    request: HttpRequest, turn_id: uuid.UUID, text: str, sources: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One for each `[n]` in the text, by characters; an answer that cites none rests whole on each of its sources.

    Programs that show `[n]` as the n-th source count the addresses in the order in which they come. So they come by
    number, each source with an address of its own, and a lower number that the text does not cite has an empty place.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for found in _CITED.finditer(text):
        places.setdefault(int(found[1]), []).append(found.span())
    by_number = sorted(sources, key=lambda source: source["n"])
    last = max((source["n"] for source in by_number if source["n"] in places), default=0)
    elsewhere = (0, 0) if last else (0, len(text))
    shown = [source for source in by_number if not last or source["n"] <= last]
    return [
        {
            "type": "url_citation",
            "url_citation": {"start_index": start, "end_index": end, "title": _title(source), "url": url},
        }
        for source, url in zip(shown, _addresses(request, turn_id, shown), strict=True)
        for start, end in places.get(source["n"], [elsewhere])
    ]


def _addresses(request: HttpRequest, turn_id: uuid.UUID, sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """The pages they come from; a second passage of one page has its own page of this site."""
    addresses: list[str] = []
    for source in sources:
        url = source.get("url")
        is_new = url and url not in addresses
        addresses.append(str(url) if is_new else _page(request, turn_id, source["n"]))
    return addresses


def _title(source: Mapping[str, Any]) -> str:
    """One line that tells two sources of one document apart."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    return title.replace(" > ", " › ") if question in title else f"{title} › {question}"


def _page(request: HttpRequest, turn_id: uuid.UUID, number: int) -> str:
    return request.build_absolute_uri(reverse("cited-passage", args=[passage_token(turn_id, number)]))
