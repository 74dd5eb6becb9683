"""The forms of `/v1`: bodies become a `CompletionRequest` or an error that names the field; answers, models and errors
are written as OpenAI's API has them.

What a desk does not do is ignored. The thread is the client's own word: nothing of it is searched, learned from or
shown to others. Beyond OpenAI's fields a message has `sources` (`chat.protocol.Source`) and `answer_source`.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import get_supported_language_variant
from django.utils.translation import gettext as _
from django.utils.translation.trans_real import parse_accept_lang_header

from agents.errors import ApplicationError
from agents.models import Deployment
from chat.access.permissions import passage_token
from chat.errors import AnswerCutError, AnswerFilteredError, InvalidMessageError
from chat.protocol import MAX_MESSAGE_CHARACTERS, Failure, kind_of, parse_json_object, valid_question
from chat.rendering import plain_markdown


@dataclass(frozen=True, slots=True)
class ClientThread:
    """What was said before a question: finished exchanges, oldest first, and the last question, answered or not."""

    exchanges: tuple[tuple[str, str], ...] = ()
    previous: str = ""

    def last(self, exchanges: int, *, characters: int) -> "ClientThread":
        """As many of the last exchanges as both bounds allow."""
        kept: list[tuple[str, str]] = []
        for question, answer in reversed(self.exchanges[-exchanges:] if exchanges else ()):
            characters -= len(question) + len(answer)
            if characters < 0:
                break
            kept.append((question, answer))
        return ClientThread(tuple(reversed(kept)), self.previous)

    def as_json(self) -> dict[str, object]:
        return {"exchanges": [list(pair) for pair in self.exchanges], "previous": self.previous}


def read_messages(messages: Sequence[tuple[str, str]]) -> tuple[ClientThread, str]:
    """Split `(role, text)` messages into earlier exchanges and the last question; of some in a row the last counts."""
    exchanges: list[tuple[str, str]] = []
    previous, is_answered = "", False
    for role, text in messages[:-1]:
        if role == "user":
            previous, is_answered = text, False
        elif is_answered:
            exchanges[-1] = (previous, text)
        elif previous:
            exchanges.append((previous, text))
            is_answered = True
    return ClientThread(tuple(exchanges), previous), messages[-1][1]


#: How Open WebUI heads what it asks for by itself (titles, tags, follow-ups): no question, and answered with nothing.
_TASK = re.compile(r"\s*### Task:.*<chat_history>", re.DOTALL)
_SPEAKING = {"user", "assistant"}
_INSTRUCTING = {"system", "developer"}
#: What the client's own tools were asked and said.
_OF_TOOLS = {"tool", "function"}


class RefusedFieldError(InvalidMessageError):
    """A field that is missing, malformed or not supported; `param` names it as OpenAI does."""

    code = "invalid_request"
    status = 400

    def __init__(self, param: str, public_message: str, *, wire_code: str | None = None) -> None:
        super().__init__(f"refused: {param}", public_message=public_message)
        self.param = param
        self.wire_code = wire_code


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """`is_task`: the client asks for housekeeping of its own, and no question is meant."""

    model: str
    question: str
    before: ClientThread
    is_streamed: bool
    includes_usage: bool
    is_task: bool = False


def parse_request(body: bytes) -> CompletionRequest:
    """Raises `RefusedFieldError`, or `InvalidMessageError` where the body is no JSON object at all."""
    data = parse_json_object(body)
    model = data.get("model")
    if not isinstance(model, str) or not model:
        refuse("model", _("« model » est demandé : l’identifiant d’un guichet."))
    is_streamed = flag(data, "stream")
    options = data.get("stream_options")
    if options is not None and not (is_streamed and isinstance(options, dict)):
        refuse("stream_options", _("« stream_options » est un objet, et va avec « stream »."))
    said, place = _said(data.get("messages"))
    before, text = read_messages(said)
    is_task = _TASK.match(text) is not None
    return CompletionRequest(
        model=model,
        question="" if is_task else _question(text, place),
        before=ClientThread() if is_task else before,
        is_streamed=is_streamed,
        includes_usage=flag(options or {}, "include_usage", within="stream_options."),
        is_task=is_task,
    )


def flag(data: Mapping[str, Any], name: str, *, within: str = "") -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        refuse(within + name, _("« %(name)s » est vrai ou faux.") % {"name": within + name})
    return bool(value)


def _said(messages: Any) -> tuple[list[tuple[str, str]], str]:
    """What user and assistant said, to the last question, and the question's place, which names it in a refusal."""
    if not isinstance(messages, list) or not messages:
        refuse("messages", _("« messages » est une liste qui n’est pas vide."))
    said: list[tuple[str, str]] = []
    end, place = 0, ""
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        role, text = _read_message(message, where)
        if role == "user" or (role not in _INSTRUCTING and text.strip()):
            said.append((role, text))
            if role == "user":
                end, place = len(said), f"{where}.content"
    if not end:
        refuse("messages", _("Le dernier message doit être une question : « role » « user »."))
    return said[:end], place


def _question(text: str, place: str) -> str:
    try:
        return valid_question(text)
    except InvalidMessageError as error:
        is_long = len(text) > MAX_MESSAGE_CHARACTERS
        refuse(place, str(error.public_message), wire_code="string_above_max_length" if is_long else None)


def _read_message(message: Any, where: str) -> tuple[str, str]:
    """Its role and its text, which is empty for a message of the client's tools."""
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in _SPEAKING | _INSTRUCTING | _OF_TOOLS:
        refuse(f"{where}.role", _("« role » doit être « system », « developer », « user » ou « assistant »."))
    if role in _OF_TOOLS:
        return "assistant", ""
    return role, text_of(message.get("content"), where)


def text_of(content: Any, where: str) -> str:
    """The text of a message's content; parts that are no text are passed over."""
    if isinstance(content, str):
        return content.replace("\0", "")
    if content is None:
        return ""
    if not isinstance(content, list):
        refuse(f"{where}.content", _("« content » est un texte, ou une liste de textes."))
    parts = (part for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(part["text"].replace("\0", "") for part in parts if isinstance(part.get("text"), str))


def refuse(param: str, message: str, *, wire_code: str | None = None) -> NoReturn:
    raise RefusedFieldError(param, message, wire_code=wire_code)


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
#: OpenAI's word for how an answer ended, by `chat.protocol.Done.cut`; for all others it is `stop`.
FINISH_REASONS: Mapping[str, FinishReason] = {AnswerCutError.code: "length", AnswerFilteredError.code: "content_filter"}


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
        """An error inside a stream: clients raise it, and nothing follows that would make the text look whole."""
        return event(error.as_json())


_CITED = re.compile(r"\[(\d{1,3})\]")


def url_citations(
    request: HttpRequest, turn_id: uuid.UUID, text: str, sources: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One for each `[n]` in the text, by characters, sorted by source. Programs show `[n]` as the n-th address that they
    are told: each source has its own, and a lower number that the text does not cite has an empty place.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for found in _CITED.finditer(text):
        places.setdefault(int(found[1]), []).append(found.span())
    last = max((source["n"] for source in sources if source["n"] in places), default=0)
    shown = sorted((source for source in sources if source["n"] <= last), key=lambda source: source["n"])
    return [
        {
            "type": "url_citation",
            "url_citation": {"start_index": start, "end_index": end, "title": _title(source), "url": url},
        }
        for source, url in zip(shown, _addresses(request, turn_id, shown), strict=True)
        for start, end in places.get(source["n"], [(0, 0)])
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
