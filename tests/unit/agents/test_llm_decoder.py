"""The stream decoder alone: any cut of the bytes gives the text, and hostile events give an error of ours."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import LLMError, LLMResponseError, LLMUnavailableError
from agents.llm.base import RequestedCall
from agents.llm.openai import StreamDecoder

pytestmark = pytest.mark.unit

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))


def event(token: str, *, ascii_only: bool = False) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": token}}]}
    return b"data: " + json.dumps(chunk, ensure_ascii=ascii_only).encode() + b"\n\n"


def decode(*pieces: bytes) -> tuple[StreamDecoder, str]:
    decoder = StreamDecoder(model="unit")
    text = "".join(decoder.feed(piece) for piece in pieces)
    return decoder, text + decoder.close()


@given(tokens=TEXTS, cuts=st.lists(st.integers(0, 5_000)), crlf=st.booleans())
def test_any_cut_of_the_bytes_gives_the_same_text(tokens: list[str], cuts: list[int], crlf: bool) -> None:
    body = b"".join(map(event, tokens)) + b"data: [DONE]\n\n"
    body = body.replace(b"\n", b"\r\n") if crlf else body
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    decoder, text = decode(*pieces)
    assert text == decoder.reply().text == "".join(tokens)


@given(body=st.binary())
def test_rubbish_raises_nothing_but_the_projects_errors(body: bytes) -> None:
    decoder = StreamDecoder(model="unit")
    try:
        decoder.feed(b"data: " + body + b"\n\n")
        decoder.close()
        decoder.reply()
    except LLMError:
        pass
    assert decoder.is_done is (body.strip() == b"[DONE]")


def test_tokens_of_one_network_chunk_leave_as_one_text() -> None:
    decoder = StreamDecoder(model="unit")
    assert decoder.feed(event("La ") + event("gare") + event(".")[:20]) == "La gare"


def test_an_event_of_several_lines_is_one_document() -> None:
    _decoder, text = decode(b'data: {"choices": [{"delta":\ndata: {"content": "x"}}]}\n\n')
    assert text == "x"


def test_a_lone_half_and_a_nul_can_be_stored() -> None:
    _decoder, text = decode(event("a\ud83d", ascii_only=True), event("b\0c", ascii_only=True))
    assert text == "a\ufffdbc"
    text.encode()


def test_the_last_event_needs_no_blank_line() -> None:
    decoder, text = decode(event("x"), b"data: [DONE]")
    assert decoder.reply().text == text == "x"


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(LLMResponseError):
        decode(*[b"x" * 100_000] * 20)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"[]", LLMResponseError),
        (b'{"choices": [1]}', LLMResponseError),
        (b'{"choices": {"a": 1}}', LLMResponseError),
        (b'{"choices": [{"delta": {"content": 3}}]}', LLMResponseError),
        (b'{"choices": [{"delta": {"content": "\xff"}}]}', LLMResponseError),
        (b'{"choices": [{"delta": {"tool_calls": "no list"}}]}', LLMResponseError),
        (b'{"choices": [{"delta": {"tool_calls": [3]}}]}', LLMResponseError),
        (b'{"choices": [{"delta": {"tool_calls": [{"function": "f"}]}}]}', LLMResponseError),
        (b"[" * 100_000, LLMResponseError),
        (b'{"error": "boom"}', LLMResponseError),
        (b'{"error": {"type": "overloaded_error"}}', LLMUnavailableError),
        (b'{"error": {"code": 503}}', LLMUnavailableError),
        (b'{"object": "error", "code": 400, "message": "no"}', LLMResponseError),
    ],
)
def test_a_malformed_or_error_event_raises(payload: bytes, kind: type[LLMError]) -> None:
    with pytest.raises(kind):
        decode(b"data: " + payload + b"\n\n")


CALLS = st.lists(
    st.builds(
        RequestedCall,
        id=st.just(""),
        name=st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
        arguments=st.dictionaries(st.text("abé", max_size=3), st.integers()).map(json.dumps),
    ),
    max_size=5,
).map(lambda calls: [RequestedCall(f"call_{n}", c.name, c.arguments) for n, c in enumerate(calls)])


def call_event(*pieces: dict[str, object]) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": list(pieces)}}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def calls_of(*events: bytes) -> list[RequestedCall]:
    decoder, _text = decode(*events, b"data: [DONE]\n\n")
    return list(decoder.reply().tool_calls)


@given(calls=CALLS, cuts=st.lists(st.integers(0, 3_000)), size=st.integers(1, 9))
def test_any_cut_of_the_bytes_gives_the_same_tool_calls(calls: list[RequestedCall], cuts: list[int], size: int) -> None:
    body = b""
    for index, call in enumerate(calls):
        head = {"name": call.name, "arguments": ""}
        body += call_event({"index": index, "id": call.id, "type": "function", "function": head})
        for start in range(0, len(call.arguments), size):
            piece = {"arguments": call.arguments[start : start + size]}
            body += call_event({"index": index, "function": piece})
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert calls_of(*pieces) == calls


def test_calls_that_a_server_numbers_alike_or_not_at_all_stay_apart() -> None:
    def whole(name: str, **head: object) -> dict[str, object]:
        return {**head, "function": {"name": name, "arguments": {"x": 1}}}

    same_index = calls_of(call_event(whole("a", index=0, id="1")), call_event(whole("b", index=0, id="2")))
    assert [(call.id, call.name) for call in same_index] == [("1", "a"), ("2", "b")]
    bare = calls_of(call_event(whole("a"), whole("b")))
    assert [(call.name, call.arguments) for call in bare] == [("a", '{"x": 1}'), ("b", '{"x": 1}')]
