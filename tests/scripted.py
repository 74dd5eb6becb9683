"""A language model that recites declared replies.

Replies are used in order, and every call is kept. A call that was not declared raises
`AssertionError`, at once and again in `assert_exhausted`, so that an edge that swallows it hides nothing.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.errors import LLMError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, Reply, RequestedCall, StreamChunk, Usage


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """The pieces of a reply, each after `interval` seconds; then its end, or `error` instead.

    With `rest`, what follows the first piece waits until it is set: for ever, if nobody sets it.
    """

    pieces: Sequence[str] = ()
    error: LLMError | None = None
    interval: float = 0.0
    finish_reason: str = "stop"
    usage: Usage | None = None
    tool_calls: Sequence[RequestedCall] = ()
    rest: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    messages: tuple[PromptMessage, ...]
    options: GenerationOptions


class ScriptedLLM(LanguageModel):
    supports_tools: ClassVar[bool] = True

    def __init__(
        self, replies: Iterable[str | Sequence[str] | LLMError | ScriptedReply] = (), *, model: str = "scripted"
    ) -> None:
        """Each reply: its text, its pieces, the error to raise, or a `ScriptedReply`."""
        self.default_model = model
        self._lock = threading.Lock()
        self._replies = [_scripted(reply) for reply in replies]
        self._unexpected = 0
        self.calls: list[ScriptedCall] = []
        #: Streams that their reader left before the end.
        self.abandoned = 0

    def script(self, *replies: str | Sequence[str] | LLMError | ScriptedReply) -> None:
        """Declare more replies."""
        with self._lock:
            self._replies.extend(_scripted(reply) for reply in replies)

    async def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        scripted = self._next(messages, options)
        ended = False
        try:
            for piece in scripted.pieces:
                await asyncio.sleep(scripted.interval)
                yield StreamChunk(text=piece)
                while scripted.rest is not None and not scripted.rest.is_set():  # noqa: ASYNC110  # it is set in any thread
                    await asyncio.sleep(0.005)
            ended = True
            if scripted.error is not None:
                raise scripted.error
            yield StreamChunk(final=self._reply(scripted, messages, options))
        finally:
            if not ended:
                self.abandoned += 1

    def assert_exhausted(self) -> None:
        """Fail when a declared reply was not asked for, or a call came that no reply was declared for."""
        if self._unexpected:
            raise AssertionError(f"{self._unexpected} call(s) had no declared reply.")
        if self._replies:
            raise AssertionError(f"{len(self._replies)} declared reply(ies) were not asked for.")

    def _next(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> ScriptedReply:
        with self._lock:
            self.calls.append(ScriptedCall(messages=tuple(messages), options=options))
            if not self._replies:
                self._unexpected += 1
                raise AssertionError(f"Call {len(self.calls)} to the model has no declared reply.")
            return self._replies.pop(0)

    def _reply(self, scripted: ScriptedReply, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        prompt = sum(len(message.content.split()) for message in messages)
        return Reply(
            text="".join(scripted.pieces),
            model=options.model or self.default_model,
            usage=scripted.usage or Usage(prompt, len(scripted.pieces)),
            finish_reason=scripted.finish_reason,
            tool_calls=tuple(scripted.tool_calls),
        )


def _scripted(reply: str | Sequence[str] | LLMError | ScriptedReply) -> ScriptedReply:
    if isinstance(reply, ScriptedReply):
        return reply
    if isinstance(reply, LLMError):
        return ScriptedReply(error=reply)
    if isinstance(reply, str):
        return ScriptedReply(pieces=[reply] if reply else [])
    return ScriptedReply(pieces=tuple(reply))
