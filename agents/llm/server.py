"""A model server as its clients see it: where it is, how long to wait for it, what its refusals mean, when to try
again.

Shared by whole replies (`agents.llm.client`), streamed ones (`agents.llm.transport`) and embeddings. Errors are
`LLMError`s; what a server answers may hold the prompt or the key, so they keep its status and codes only.
"""

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from agents.errors import (
    LLMError,
    LLMKeyRefusedError,
    LLMQuotaError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMTimeoutError,
    LLMUnavailableError,
)

_OPENAI = "https://api.openai.com/v1"
#: Servers without authentication still need a header that is not blank.
_NO_KEY = "none"
#: Pauses before another try, doubled each time.
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0
#: A server that asks for more patience than this is taken for unavailable.
_LONGEST_RETRY_AFTER_SECONDS = 60.0
#: OpenAI, DeepSeek, Mistral, xAI… by the code or the type of their refusals; a rate limit has others.
_USED_UP = re.compile(r"insufficient.?(?:quota|balance|credit|funds)|billing|payment.?required", re.I)
#: How much of a refusal is read, to find which argument the server refused.
REFUSAL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`read_timeout` bounds the wait for the first byte and between two reads, in seconds; `read_pause` is how long the
    tokens of a reply gather after its first ones."""

    api_key: str = ""
    base_url: str = ""
    connect_timeout: float = 5.0
    read_timeout: float = 60.0
    max_retries: int = 2
    max_connections: int = 600
    read_pause: float = 0.0

    def url(self, path: str) -> str:
        return f"{(self.base_url or _OPENAI).rstrip('/')}/{path}"

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.api_key or _NO_KEY}",
            "Content-Type": "application/json",
            "User-Agent": "repondant",
        }

    def pause_after(self, error: LLMError, attempt: int) -> float | None:
        """Seconds to wait before another try, `None` where there is none left or it would not help."""
        if not error.retryable or attempt >= self.max_retries:
            return None
        cause = error.__cause__
        if isinstance(cause, StatusError) and cause.retry_after is not None:
            return cause.retry_after if cause.retry_after <= _LONGEST_RETRY_AFTER_SECONDS else None
        pause = min(_FIRST_PAUSE_SECONDS * (1 << attempt), _LONGEST_PAUSE_SECONDS)
        return pause * random.uniform(0.75, 1.0)  # noqa: S311  # spreads retries, protects nothing


class StatusError(Exception):
    """An HTTP status that is not a success: `said` is for finding a refused argument, never for a log."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.said = said
        self.request_id = headers.get("x-request-id", "")
        self.retry_after = _retry_after(headers)


def raise_for_status(status: int, said: bytes, headers: Mapping[str, str]) -> None:
    """Raise the `LLMError` of a response that is not a success, with a `StatusError` as its cause."""
    if status < 300:
        return
    cause = StatusError(status, said[:REFUSAL_BYTES].decode(errors="replace"), headers)
    error = error_for_status(status, _detail(cause), codes=_codes(cause.said))
    error.retry_after = cause.retry_after
    raise error from cause


def error_for_status(status: int, detail: str, *, codes: str = "") -> LLMError:
    """`codes`: what the server calls the error; a used-up credit often has the status of being asked too much."""
    if status == 402 or (status in {400, 403, 429} and is_used_up(codes)):
        return LLMQuotaError(detail)
    if status in {401, 403}:
        return LLMKeyRefusedError(detail)
    if status in {408, 504}:
        return LLMTimeoutError(detail)
    if status == 429:
        return LLMRateLimitedError(detail)
    if status in {409, 425} or status >= 500:
        return LLMUnavailableError(detail)
    return LLMResponseError(detail)


def is_used_up(codes: str) -> bool:
    return _USED_UP.search(codes) is not None


def short_code(value: object) -> str:
    """A machine-readable code as it is; anything that could be a sentence is left out."""
    return code if re.fullmatch(r"[\w.\-]{1,60}", code := str(value)) else "unreadable"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """What the server asks for, in seconds. A date (no server of this protocol sends one) counts as nothing."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    return None


def _codes(said: str) -> str:
    """The code and the type of a refusal."""
    try:
        error = json.loads(said)["error"]
        return f"{error.get('code')} {error.get('type')}"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def _detail(error: StatusError) -> str:
    try:
        code = json.loads(error.said)["error"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        code = None
    request_id = f", request {short_code(error.request_id)}" if error.request_id else ""
    return f"The server answered {error.status} (code {short_code(code)}{request_id})."
