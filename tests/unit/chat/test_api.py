"""The doors without a database: threads of clients, statuses of errors, origins of sockets, citations, events out."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

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
from chat.api import openai as views
from chat.api.asgi import is_allowed, websocket_frame
from chat.api.errors import error_response
from chat.api.openai import InterruptedTurnError
from chat.api.openai_forms import ClientThread, WireError, read_messages, url_citations
from chat.api.questions import server_sent_event
from chat.protocol import Delta, Done, Event, Failure, Meta
from chat.runs.runner import runner
from knowledge.errors import EmbeddingUnavailableError, VectorStoreUnavailableError

MESSAGES = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1)))


def test_exchanges_are_paired_and_the_question_is_the_last_message() -> None:
    before, question = read_messages(
        [("assistant", "hello"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d")]
    )
    assert before == ClientThread((("a", "b"),), previous="c")
    assert question == "d"


def test_question_asked_twice_has_two_exchanges() -> None:
    said = [("user", "a"), ("assistant", "1"), ("user", "a"), ("assistant", "2"), ("user", "z")]
    assert read_messages(said)[0].exchanges == (("a", "1"), ("a", "2"))


@given(MESSAGES, st.integers(0, 5), st.integers(0, 50))
def test_nothing_is_invented_and_both_bounds_hold(said: list[tuple[str, str]], exchanges: int, characters: int) -> None:
    before, question = read_messages([*said, ("user", "q")])
    assert question == "q"
    questions = [text for role, text in said if role == "user"]
    answers = [text for role, text in said if role == "assistant"]
    assert all(asked in questions and told in answers for asked, told in before.exchanges)
    assert before.previous == (questions[-1] if questions else "")
    kept = before.last(exchanges, characters=characters)
    assert len(kept.exchanges) <= exchanges
    assert sum(len(asked) + len(told) for asked, told in kept.exchanges) <= characters
    assert kept.exchanges == before.exchanges[len(before.exchanges) - len(kept.exchanges) :]


TRY_AGAIN = (408, 409, 429, 502, 503, 504)
STATUSES: dict[int, list[ApplicationError]] = {
    401: [ours.ServiceTokenError(), ours.VisitorTokenError()],
    403: [ours.ServiceForbiddenError(), ours.DeploymentClosedError(), ours.WidgetClosedError()],
    404: [
        *(ours.ConversationNotFoundError(), ours.DeploymentNotFoundError(), ours.TurnNotFoundError()),
        *(ours.MessageNotFoundError(), ours.LinkNotFoundError()),
    ],
    409: [
        *(ours.TurnRunningError(), ours.TurnNotLastError()),
        *(ours.ThreadConflictError(version=1), ours.ApprovalOverError()),
    ],
    413: [ours.MessageTooLargeError()],
    422: [ours.InvalidMessageError(), ours.InvalidToolMessageError()],
    429: [ours.RateLimitedError(retry_after=2)],
    500: [ours.IsolationError(), ApplicationError()],
    503: [
        *(ours.ServerStoppingError(), ours.AnswerNotSavedError()),
        *(EmbeddingUnavailableError(), VectorStoreUnavailableError()),
    ],
}
#: The error, and the status, type and code that OpenAI's clients know.
V1 = [
    (ours.ApiKeyError(), 401, "invalid_request_error", "invalid_api_key"),
    (ours.DeploymentClosedError(), 403, "permission_error", "deployment_closed"),
    (ours.DeploymentNotFoundError(), 404, "invalid_request_error", "model_not_found"),
    (ours.InvalidMessageError(), 400, "invalid_request_error", "invalid_message"),
    (ours.MessageTooLargeError(), 413, "invalid_request_error", "message_too_large"),
    (ours.TurnRunningError(), 409, "conflict_error", "turn_running"),
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


@pytest.mark.parametrize(("error", "status"), [(error, status) for status in STATUSES for error in STATUSES[status]])
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


def test_failure_that_nobody_knows_any_more_says_whether_to_try_again() -> None:
    assert WireError.told(Failure("gone", "", retryable=True)).status == 503
    assert WireError.told(Failure("gone", "", retryable=False)).status == 500


def test_error_that_is_worth_another_try_says_so_by_its_status() -> None:
    kinds, seen = [ApplicationError], set()
    while kinds:
        kind = kinds.pop()
        seen.add(kind)
        kinds += kind.__subclasses__()
    told = {kind.__name__: kind.status for kind in seen if kind.retryable}
    assert told
    assert {name: status for name, status in told.items() if status not in TRY_AGAIN} == {}


TURN = uuid.uuid4()


def told(text: str) -> list[Event]:
    """A turn's events as they are told from the start, its text in two pieces."""
    meta = Meta(TURN, uuid.uuid4(), "a", "title", "question")
    half = len(text) // 2
    return [meta, Delta(text[:half]), Delta(text[half:])]


@pytest.mark.parametrize("first", ["", "Un", "Un début", "Un début et la fin."])
def test_text_that_is_told_again_comes_once(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "Un début et la fin."
    done = Done("done", "llm", "m", 1, whole)

    async def follow(turn_id: uuid.UUID, after: int = 0) -> AsyncIterator[tuple[int, Event]]:
        for number, event in enumerate([*told(first), *told(whole), done], start=1):
            yield number, event

    monkeypatch.setattr(runner, "follow", follow)

    async def read() -> list[Event]:
        return [event async for event in views.follow_turn(TURN, language="fr")]

    events = asyncio.run(read())
    assert "".join(event.text for event in events if isinstance(event, Delta)) == whole
    assert events[-1] == done


def scope(host: str, *origins: str, scheme: str = "ws", **headers: str) -> dict[str, Any]:
    sent = [("host", host), *(("origin", origin) for origin in origins), *headers.items()]
    return {
        "type": "websocket",
        "path": "/ws/",
        "scheme": scheme,
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent],
    }


@pytest.mark.parametrize(
    ("host", "origins", "allowed"),
    [
        ("localhost:8000", ("http://localhost:8000",), True),
        # The fault: another program of the same machine.
        ("localhost:8000", ("http://localhost:9999",), False),
        ("localhost:8000", ("http://localhost",), False),
        ("localhost:8000", ("https://localhost:8000",), False),
        ("localhost:8000", ("http://127.0.0.1:8000",), False),
        ("localhost:8000", ("http://localhost:8000.attacker.example",), False),
        ("localhost:8000", ("http://localhost:99999999",), False),
        ("localhost:8000", ("ftp://localhost:8000",), False),
        # What no browser writes: more than an origin.
        ("localhost:8000", ("http://user@localhost:8000",), False),
        ("localhost:8000", ("http://localhost:8000/",), False),
        ("localhost:8000", ("http://localhost:8000?",), False),
        ("localhost:8000", ("http://localhost:8000#",), False),
        ("localhost:8000", ("http://localhost:8000\t",), False),
        ("localhost", ("http://localhost:",), False),
        ("localhost:8000", ("null",), False),
        ("localhost:8000", ("",), False),
        ("localhost:8000", (), False),
        ("localhost:8000", ("http://localhost:8000", "http://attacker.example"), False),
        # Both headers may be the attacker's (a name that leads here): the host must be one of ours.
        ("attacker.example", ("http://attacker.example",), False),
    ],
)
def test_a_page_of_this_site_only(host: str, origins: tuple[str, ...], allowed: bool) -> None:
    assert is_allowed(scope(host, *origins)) is allowed


def test_behind_tls_the_proxys_scheme_counts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["desk.example.org"]
    behind = scope("desk.example.org", "https://desk.example.org", x_forwarded_proto="https")
    assert not is_allowed(behind)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert is_allowed(behind)
    assert not is_allowed(scope("desk.example.org", "http://desk.example.org", x_forwarded_proto="https"))
    assert is_allowed(scope("desk.example.org", "https://desk.example.org", scheme="wss"))


@pytest.mark.parametrize(
    ("trusted", "origin", "allowed"),
    [
        ("https://desk.example.org", "https://desk.example.org", True),
        ("https://desk.example.org", "https://desk.example.org:8443", False),
        ("https://desk.example.org", "http://desk.example.org", False),
        ("https://*.example.org", "https://desk.example.org", True),
        ("https://*.example.org", "https://notexample.org", False),
        ("https://*.example.org:8443", "https://desk.example.org:8443", True),
    ],
)
def test_the_origins_that_forms_are_accepted_from(settings: Settings, trusted: str, origin: str, allowed: bool) -> None:
    settings.CSRF_TRUSTED_ORIGINS = [trusted]
    assert is_allowed(scope("localhost:8000", origin)) is allowed


def test_nth_address_is_that_of_the_nth_source() -> None:
    page = "https://example.org/prix"
    sources = [
        {"n": 1, "title": "Guide", "question": "Prix", "url": page},
        {"n": 2, "title": "Guide", "question": "Dates", "url": page},
        {"n": 3, "title": "Guide > Lieu", "question": "Lieu"},
        {"n": 4, "title": "Guide", "question": "Rien"},
    ]
    request = RequestFactory().get("/v1/chat/completions")
    found = [
        each["url_citation"]
        for each in url_citations(request, uuid.uuid4(), "Ici [3], en mai [2] [9], ici [3].", sources)
    ]
    urls = list(dict.fromkeys(each["url"] for each in found))
    assert len(urls) == 3
    assert urls[0] == page
    assert [each["title"] for each in found] == ["Guide › Prix", "Guide › Dates", "Guide › Lieu", "Guide › Lieu"]
    places = [(each["start_index"], each["end_index"]) for each in found]
    assert places == [(0, 0), (16, 19), (4, 7), (29, 32)]


def test_answer_goes_out_as_html_whose_citations_lead_to_its_sources() -> None:
    done = Done("done", "llm", "m", 7, "**Oui** [1] [2]", turn_id="t", source_numbers=[1])
    frame = json.loads(websocket_frame(1, done))
    number, name, data = server_sent_event(1, done).decode().splitlines()[:3]
    assert (number, name) == ("id: 1", "event: done")
    assert frame == {"type": "done", "id": 1, **json.loads(data.removeprefix("data: "))}
    assert "<strong>Oui</strong>" in frame["html"]
    assert 'href="#source-t-1"' in frame["html"]
    assert "source-t-2" not in frame["html"]
    assert frame["content"] == "**Oui** [1] [2]"
    told = "status answerSource model messageId content html title agent score suggestions notice readAs"
    assert set(frame) == {"type", "id", *told.split()}


def test_html_is_no_part_of_the_event_that_a_log_keeps() -> None:
    assert "html" not in Done("done", "llm", "m", 7, "**Oui**").as_json()
