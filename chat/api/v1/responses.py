"""`/v1/responses`: the newer form of a question and its answer; the thread is the client's, or the desk's."""

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, NoReturn

from django.utils.translation import gettext as _

from chat.api.v1.requests import ClientThread, CompletionRequest, read_request, refuse
from chat.api.v1.writers import Ending, WireError
from chat.models import ApiKey, Message, Turn
from chat.protocol import parse_json_object

#: How the id of a response begins, before its turn.
PREFIX = "resp_"


def parse_response_request(body: bytes) -> CompletionRequest:
    """Raises what `parse_request` raises."""
    data = parse_json_object(body)
    asked = data.get("input")
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    if not isinstance(items, list) or not items:
        refuse("input", _("« input » est un texte, ou une liste qui n’est pas vide."))
    return read_request(
        {**data, "messages": [_message(item) for item in items], "stream_options": None},
        follows=_turn_id(data.get("previous_response_id")),
    )


def _message(item: Any) -> Any:
    """An item as a message; calls, their results and reasoning are what the client's tools said."""
    if isinstance(item, dict) and item.get("type", "message") != "message":
        return {"role": "tool"}
    return item


def _turn_id(response_id: Any) -> uuid.UUID | None:
    if response_id is None:
        return None
    try:
        return uuid.UUID(hex=str(response_id).removeprefix(PREFIX))
    except ValueError:
        refuse_previous()


def refuse_previous() -> NoReturn:
    refuse(
        "previous_response_id",
        _("Cette réponse précédente n’existe pas, ou n’est plus conservée."),
        wire_code="previous_response_not_found",
    )


def thread_to(key: ApiKey, slug: str, turn_id: uuid.UUID) -> ClientThread:
    """What was said until the end of an answer that this key was given. Raises `RefusedFieldError` where there is none."""
    turn = (
        Turn.objects.filter(pk=turn_id, conversation__api_key=key, conversation__deployment__slug=slug)
        .select_related("conversation")
        .first()
    )
    said = dict(Message.objects.filter(turn=turn).values_list("role", "content")) if turn else {}
    if turn is None or "user" not in said:
        refuse_previous()
    before = turn.conversation.client_thread or {}
    exchanges = tuple((str(asked), str(answer)) for asked, answer in before.get("exchanges", ()))
    if answer := said.get("assistant"):
        exchanges += ((said["user"], answer),)
    return ClientThread(exchanges, said["user"])


@dataclass(slots=True)
class ResponseWriter:
    """A response, or its events, numbered from 0."""

    turn_id: uuid.UUID
    model: str
    #: Not used: a response always says what it used.
    includes_usage: bool = True
    created: int = field(default_factory=lambda: int(time.time()))
    _sent: int = 0
    _texts: list[str] = field(default_factory=list)

    @property
    def _item_id(self) -> str:
        return f"msg_{self.turn_id.hex}"

    def whole(self, text: str, ending: Ending) -> dict[str, Any]:
        status = _status(ending)
        return self._response(status, [self._item(status, [_part(text, ending)])], ending)

    def opening(self) -> bytes:
        begun = {"response": self._response("in_progress", [], None)}
        return b"".join(
            (
                self._event("response.created", begun),
                self._event("response.in_progress", begun),
                self._event("response.output_item.added", {"output_index": 0, "item": self._item("in_progress", [])}),
                self._event("response.content_part.added", {**self._place(), "part": _part("")}),
            )
        )

    def text(self, text: str) -> bytes:
        self._texts.append(text)
        return self._event("response.output_text.delta", {**self._place(), "delta": text, "logprobs": []})

    def closing(self, ending: Ending) -> bytes:
        text = "".join(self._texts)
        part = _part(text, ending)
        annotations = b"".join(
            self._event(
                "response.output_text.annotation.added",
                {**self._place(), "annotation_index": number, "annotation": annotation},
            )
            for number, annotation in enumerate(part["annotations"])
        )
        return annotations + b"".join(
            (
                self._event("response.output_text.done", {**self._place(), "text": text, "logprobs": []}),
                self._event("response.content_part.done", {**self._place(), "part": part}),
                self._event(
                    "response.output_item.done", {"output_index": 0, "item": self._item(_status(ending), [part])}
                ),
                self._event(f"response.{_status(ending)}", {"response": self.whole(text, ending)}),
            )
        )

    def failure(self, error: WireError) -> bytes:
        failed = self._response("failed", [], None)
        failed["error"] = {"code": error.code or "server_error", "message": error.message}
        said = {"code": error.code, "message": error.message, "param": error.param}
        return self._event("error", said) + self._event("response.failed", {"response": failed})

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        data = {"type": kind, "sequence_number": self._sent, **fields}
        self._sent += 1
        return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "message", "id": self._item_id, "status": status, "role": "assistant", "content": content}

    def _response(self, status: str, output: list[dict[str, Any]], ending: Ending | None) -> dict[str, Any]:
        """Fields that OpenAI's clients demand are there, with what a desk always does."""
        return {
            "id": f"{PREFIX}{self.turn_id.hex}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": _why_incomplete(ending),
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "text": {"format": {"type": "text"}},
            "usage": _usage(ending) if ending else None,
            **({"answer_source": ending.answer_source} if ending else {}),
        }


#: Why a response is incomplete, by how its answer ended.
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def _status(ending: Ending) -> str:
    return "incomplete" if ending.finish_reason in _INCOMPLETE else "completed"


def _why_incomplete(ending: Ending | None) -> dict[str, str] | None:
    reason = _INCOMPLETE.get(ending.finish_reason) if ending else None
    return {"reason": reason} if reason else None


def _part(text: str, ending: Ending | None = None) -> dict[str, Any]:
    """Annotations are flat in a response. `sources` is the extension that a completion has, too."""
    cited = ending.annotations if ending else ()
    part = {
        "type": "output_text",
        "text": text,
        "annotations": [{"type": each["type"], **each[each["type"]]} for each in cited],
        "logprobs": [],
    }
    return {**part, "sources": list(ending.sources)} if ending else part


def _usage(ending: Ending) -> dict[str, Any]:
    return {
        "input_tokens": ending.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": ending.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": ending.prompt_tokens + ending.completion_tokens,
    }
