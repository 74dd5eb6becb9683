"""Which status an error is answered with, at our own doors and at `/v1`, where a turn that failed has only its code
left.
"""

import json

import pytest

from agents.errors import (
    ApplicationError,
    LLMCutError,
    LLMError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMTimeoutError,
    LLMUnavailableError,
)
from chat import errors as ours
from chat.api.errors import error_response
from chat.api.v1.requests import RefusedFieldError
from chat.api.v1.views import IdempotencyConflictError, InterruptedTurnError
from chat.api.v1.writers import WireError
from chat.protocol import Failure
from knowledge.errors import EmbeddingUnavailableError, VectorStoreUnavailableError

TRY_AGAIN = (408, 409, 429, 502, 503, 504)
STATUSES = [
    (ours.InvalidMessageError(), 422),
    (ours.MessageTooLargeError(), 413),
    (ours.ConversationNotFoundError(), 404),
    (ours.DeploymentNotFoundError(), 404),
    (ours.TurnNotFoundError(), 404),
    (ours.TurnRunningError(), 409),
    (ours.TurnNotLastError(), 409),
    (ours.InvalidToolMessageError(), 422),
    (ours.ThreadConflictError(version=1), 409),
    (ours.ApprovalOverError(), 409),
    (ours.ServiceTokenError(), 401),
    (ours.ServiceForbiddenError(), 403),
    (ours.DeploymentClosedError(), 403),
    (ours.RateLimitedError(retry_after=2), 429),
    (ours.VisitorTokenError(), 401),
    (ours.WidgetClosedError(), 403),
    (ours.MessageNotFoundError(), 404),
    (ours.LinkNotFoundError(), 404),
    (ours.SharingRefusedError(), 409),
    (ours.ServerStoppingError(), 503),
    (ours.AnswerNotSavedError(), 503),
    (EmbeddingUnavailableError(), 503),
    (VectorStoreUnavailableError(), 503),
    (ours.IsolationError(), 500),
    (ApplicationError(), 500),
]
#: The error, and the status, type and code that OpenAI's clients know.
V1 = [
    (ours.ApiKeyError(), 401, "invalid_request_error", "invalid_api_key"),
    (ours.DeploymentClosedError(), 403, "permission_error", "deployment_closed"),
    (ours.DeploymentNotFoundError(), 404, "invalid_request_error", "model_not_found"),
    (ours.InvalidMessageError(), 400, "invalid_request_error", "invalid_message"),
    (ours.MessageTooLargeError(), 413, "invalid_request_error", "message_too_large"),
    (ours.TurnRunningError(), 409, "conflict_error", "turn_running"),
    (IdempotencyConflictError(), 422, "idempotency_error", "idempotency_conflict"),
    (ours.RateLimitedError(retry_after=2), 429, "rate_limit_error", "rate_limit_exceeded"),
    (LLMError(), 502, "server_error", "llm_error"),
    (LLMResponseError(), 502, "server_error", "llm_response"),
    (LLMCutError(), 502, "server_error", "llm_cut"),
    (LLMTimeoutError(), 504, "server_error", "llm_timeout"),
    (ours.TurnTimeoutError(), 504, "server_error", "turn_timeout"),
    (LLMUnavailableError(), 503, "server_error", "llm_unavailable"),
    (LLMRateLimitedError(), 503, "server_error", "llm_rate_limited"),
    (ours.ServerStoppingError(), 503, "server_error", "server_stopping"),
    (ours.OverloadedError(), 503, "server_error", "overloaded"),
    (InterruptedTurnError(), 503, "server_error", "interrupted"),
    (ours.ThreadConflictError(version=1), 503, "server_error", "thread_conflict"),
    (ours.ConversationNotFoundError(), 404, "invalid_request_error", "conversation_not_found"),
    (ours.IsolationError(), 500, "server_error", "isolation"),
    (ApplicationError(), 500, "server_error", "internal_error"),
]


@pytest.mark.parametrize(("error", "status"), STATUSES)
def test_error_is_answered_with_its_own_status(error: ApplicationError, status: int) -> None:
    response = error_response(error)
    assert response.status_code == status
    told = {"code": error.code, "message": str(error.public_message)}
    assert json.loads(response.content) == told


@pytest.mark.parametrize(("error", "status", "kind", "code"), V1)
def test_v1_tells_an_error_as_openai_does(error: ApplicationError, status: int, kind: str, code: str) -> None:
    raised, failed = WireError.of(error), WireError.told(Failure.of(error))
    assert raised == failed
    assert (raised.status, raised.kind, raised.code) == (status, kind, code)


def test_refused_field_is_named() -> None:
    error = WireError.of(RefusedFieldError("n", "Non.", wire_code="unsupported_value"))
    assert error == WireError(400, "Non.", "invalid_request_error", "unsupported_value", "n")


def test_failure_that_nobody_knows_any_more_says_whether_to_try_again() -> None:
    assert WireError.told(Failure("gone", "", retryable=True)).status == 503
    assert WireError.told(Failure("gone", "", retryable=False)).status == 500


def test_time_to_wait_is_told_in_whole_seconds() -> None:
    assert error_response(ours.RateLimitedError(retry_after=1.2))["Retry-After"] == "2"


def test_error_that_is_worth_another_try_says_so_by_its_status() -> None:
    kinds, seen = [ApplicationError], set()
    while kinds:
        kind = kinds.pop()
        seen.add(kind)
        kinds += kind.__subclasses__()
    told = {kind.__name__: kind.status for kind in seen if kind.retryable}
    assert told
    assert {name: status for name, status in told.items() if status not in TRY_AGAIN} == {}
