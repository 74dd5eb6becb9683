"""Events out: the same content over a socket and as server-sent events, an answer with its HTML."""

import json

from chat.api.questions import server_sent_event, websocket_frame
from chat.protocol import Delta, Done


def test_event_has_the_same_content_on_both_wires() -> None:
    frame = json.loads(websocket_frame(3, Delta("é\n")))
    lines = server_sent_event(3, Delta("é\n")).decode().splitlines()
    assert frame == {"type": "delta", "id": 3, "text": "é\n"}
    assert lines[0] == "id: 3"
    assert lines[1] == "event: delta"
    assert json.loads(lines[2].removeprefix("data: ")) == {"text": "é\n"}


def test_answer_goes_out_as_html_whose_citations_lead_to_its_sources() -> None:
    done = Done("done", "llm", "m", 7, "**Oui** [1] [2]", turn_id="t", source_numbers=[1])
    frame = json.loads(websocket_frame(1, done))
    data = server_sent_event(1, done).decode().splitlines()[2].removeprefix("data: ")
    assert frame == {"type": "done", "id": 1, **json.loads(data)}
    assert "<strong>Oui</strong>" in frame["html"]
    assert 'href="#source-t-1"' in frame["html"]
    assert "source-t-2" not in frame["html"]
    assert frame["content"] == "**Oui** [1] [2]"
    told = {
        "status",
        "answerSource",
        "model",
        "messageId",
        "content",
        "html",
        "title",
        "agent",
        "score",
        "suggestions",
        "notice",
        "readAs",
    }
    assert set(frame) == {"type", "id"} | told


def test_html_is_no_part_of_the_event_that_a_log_keeps() -> None:
    assert "html" not in Done("done", "llm", "m", 7, "**Oui**").as_json()
