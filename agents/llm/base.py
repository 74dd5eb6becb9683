"""The protocol of a language model, its values, and the loader.

`complete` blocks (jobs), `stream` is asynchronous (chat), and so is `write`, for a title or a summary. All bound every
wait and own their retries: a caller must not retry. Errors are `LLMError` subclasses only. A stream that ends without
its final chunk raises `LLMResponseError`, so a cut answer is never taken for a whole one.
"""

import asyncio
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from agents.cache import BackendHandler
from agents.errors import LLMError

Role = Literal["system", "user", "assistant", "tool"]

#: Characters that people are not shown and models read: tags (whole sentences are hidden in them), marks that turn a
#: line around, and spaces of no width. What joins letters or pictures (U+200C, U+200D) is writing, and stays.
_UNSEEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff\u00ad]")


def seen_text(text: str) -> str:
    """The text as a person reads it: a model is told nothing that staff and readers could not see."""
    return text if text.isascii() else _UNSEEN.sub("", text)


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool that a model asks for. `arguments` is the text it wrote: JSON as a rule, and never to be trusted."""

    id: str
    name: str
    arguments: str

    def as_json(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message to a model. `conversation_id` says whose it is, for the check before a call; it is never sent."""

    role: Role
    content: str
    tool_calls: tuple[RequestedCall, ...] = ()
    tool_call_id: str = ""
    conversation_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """`model` empty: the configured one. `tools`: function definitions, only where the backend `supports_tools`."""

    model: str = ""
    temperature: float = 0.2
    max_tokens: int = 1024
    json_object: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    model: str
    usage: Usage = Usage()
    finish_reason: str = "stop"
    tool_calls: tuple[RequestedCall, ...] = ()
    #: Never part of the text; for staff.
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """A piece of a streamed reply: `text` (may hold several tokens), then one last chunk with `final` set.

    `is_reasoning`: the model reasons, and has no text yet. `starts_over`: what came before was reasoning, not text.
    """

    text: str = ""
    final: Reply | None = None
    is_reasoning: bool = False
    starts_over: bool = False


class LanguageModel(ABC):
    #: Whether `GenerationOptions.tools` reaches the model.
    supports_tools: ClassVar[bool] = False
    #: How many a request may offer.
    most_tools: int = 128
    #: The name of the model that answers where the options name none.
    default_model: str = ""

    async def window(self, model: str) -> int | None:
        """How many tokens this model reads, its answer included; `None` where nobody says."""
        return None

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        """The whole reply, for a job: its thread has no event loop."""

        async def read() -> Reply:
            try:
                async with aclosing(self.stream(messages, options)) as stream:
                    return [chunk.final async for chunk in stream if chunk.final][-1]
            finally:
                await self.aclose()

        return asyncio.run(read())

    @abstractmethod
    def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        """Stream a reply. Closing the generator (`aclose`) ends the request to the server."""

    async def write(
        self, messages: Sequence[PromptMessage], options: GenerationOptions, *, seconds: float, characters: int
    ) -> Reply | None:
        """A short text, left past `characters`; `None` where the model failed or was too slow."""
        text, end = "", Reply(text="", model=options.model)
        try:
            async with asyncio.timeout(seconds), aclosing(self.stream(messages, options)) as stream:
                async for chunk in stream:
                    text = chunk.text if chunk.starts_over else text + chunk.text
                    end = chunk.final or end
                    if len(text) > characters:
                        break
        except (LLMError, TimeoutError):
            return None
        return replace(end, text=text)

    def check(self) -> list[CheckMessage]:
        return []

    def warm_up(self) -> None:  # noqa: B027
        """Import and connect what the first call would otherwise pay for."""

    async def aclose(self) -> None:  # noqa: B027
        """Close the connections of the running event loop, before it ends."""


_models: BackendHandler[LanguageModel] = BackendHandler("LLMS", LanguageModel)


def language_model() -> LanguageModel | None:
    """The configured language model, or `None` when there is none: answers are then extractive."""
    return _models["default"] if "default" in _models else None


@checks.register()
def check_language_model(**_kwargs: Any) -> list[CheckMessage]:
    """Load the configured language model and ask it for its own messages; no connection is opened."""
    try:
        model = language_model()
    except (ImproperlyConfigured, ImportError, KeyError, TypeError, ValueError) as error:
        # A wrong option is a `TypeError` of the backend's constructor: its text names the option, not its value.
        hint = "An alias has a BACKEND (dotted path) and OPTIONS that it accepts."
        return [checks.Error(f"The setting LLMS is wrong: {error}", hint=hint, id="agents.E001")]
    return [] if model is None else model.check()
