"""The answers of chat completions, and of the older completions, whole or in chunks.

A `Writer` is one form of an answer; the views know no other. Those of a response are in `chat.doors.openai.responses`.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from chat.doors.openai.wire import Ending, WireError, error_event, event

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
    id_prefix: ClassVar[str] = "chatcmpl-"
    whole_kind: ClassVar[str] = "chat.completion"
    chunk_kind: ClassVar[str] = "chat.completion.chunk"

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"{self.id_prefix}{self.turn_id.hex}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": None,
        }

    def whole(self, text: str, ending: Ending) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None, **ending.extension()}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ending.finish_reason}
        return {**self._head(self.whole_kind), "choices": [choice], "usage": ending.usage()}

    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def closing(self, ending: Ending) -> bytes:
        """The last chunk, the usage where it was asked for, and the end of the stream."""
        last = self._chunk(ending.extension(), finish_reason=ending.finish_reason)
        if not self.includes_usage:
            return last + DONE
        counted = {**self._head(self.chunk_kind), "choices": [], "usage": ending.usage()}
        return last + event(counted) + DONE

    def _chunk(self, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head(self.chunk_kind), "choices": [choice]}
        return event({**chunk, "usage": None} if self.includes_usage else chunk)

    def failure(self, error: WireError) -> bytes:
        return error_event(error)


@dataclass(slots=True)
class TextWriter(CompletionWriter):
    """The same in the form of the older completions: a choice has a text and no message."""

    id_prefix: ClassVar[str] = "cmpl-"
    whole_kind: ClassVar[str] = "text_completion"
    chunk_kind: ClassVar[str] = "text_completion"

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}

    def whole(self, text: str, ending: Ending) -> dict[str, Any]:
        choice = {**self._choice(text, ending.finish_reason), **ending.extension()}
        return {**self._head(self.whole_kind), "choices": [choice], "usage": ending.usage()}

    def opening(self) -> bytes:
        return b""

    def _chunk(self, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
        more = {name: value for name, value in delta.items() if name != "content"}
        choice = {**self._choice(delta.get("content", ""), finish_reason), **more}
        chunk = {**self._head(self.chunk_kind), "choices": [choice]}
        return event({**chunk, "usage": None} if self.includes_usage else chunk)
