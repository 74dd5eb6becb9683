"""The protocol of a language model, its values, and the loader.

Two verbs: `complete` blocks (jobs, titles), `stream` is asynchronous (chat). Both bound every wait and own their
retries: a caller must not retry. Errors are `LLMError` subclasses only. A stream that ends without its final chunk
raises `LLMResponseError`, so a cut answer is never taken for a whole one.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal

from django.core.checks import CheckMessage

from agents.backends import BackendHandler

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class PromptMessage:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """`model` empty: the backend's configured model. `json_object`: ask the server for a JSON object."""

    model: str = ""
    temperature: float = 0.2
    max_tokens: int = 1024
    json_object: bool = False


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


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """A piece of a streamed reply: `text` (may hold several tokens), then one last chunk with `final` set."""

    text: str = ""
    final: Reply | None = None


class LanguageModel(ABC):
    @property
    @abstractmethod
    def default_model(self) -> str:
        """The model name used when the options name none."""

    @abstractmethod
    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply: ...

    @abstractmethod
    def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        """Stream a reply. Closing the generator (`aclose`) ends the request to the server."""

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
