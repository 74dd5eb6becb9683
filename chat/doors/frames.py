"""The events of a turn as a page reads them, over a socket or as server-sent events; an answer has its HTML here."""

import json
from typing import Any

from chat.protocol import Done, Event
from chat.rendering import render_answer


def websocket_frame(event_id: int, event: Event) -> str:
    return json.dumps({"type": event.name, "id": event_id, **_fields(event)}, ensure_ascii=False)


def server_sent_event(event_id: int, event: Event) -> bytes:
    data = json.dumps(_fields(event), ensure_ascii=False)
    return f"id: {event_id}\nevent: {event.name}\ndata: {data}\n\n".encode()


def _fields(event: Event) -> dict[str, Any]:
    if not isinstance(event, Done):
        return event.as_json()
    html = render_answer(event.content, turn_id=event.turn_id, source_numbers=event.source_numbers)
    return {**event.as_json(), "html": html}
