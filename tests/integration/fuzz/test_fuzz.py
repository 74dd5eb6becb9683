"""Doors with rights and rows, sent what nobody would send: whatever comes, no door answers 500.

A few hundred cases by default; `make fuzz CASES=5000` sends so many to each of the three.
"""

import json
import os
from typing import Any

from asgiref.sync import async_to_sync
from django.test import TestCase
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from tests.doors import frames
from tests.doors.admin import Staff, form_of
from tests.doors.catalogue import http_doors
from tests.doors.readers import COLUMNS, Knock, Visitors, knocks
from tests.doors.world import CALL, Writes, make_site

CASES = int(os.environ.get("FUZZ_CASES", "60"))
fuzzed = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize="FUZZ_CASES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

#: What programs trip over, beside what Hypothesis finds by itself.
_TRICKY: list[Any] = [
    *("", "\0", "\ud800", "a" * 9_000, "'; --", "../..", "{}", "%00", "\u202e", "1e999", "NaN", "-1", "true"),
    *("99999999999999999999", "10000", "\ufeff"),
    *(None, True, -1, 0, 2**31, 2**63, 2**64, 1e308, [], {}, [[]], {"a": {"b": []}}, [None] * 50),
]  # fmt: skip
#: What lists of the admin read from their address.
_QUERIED = (
    *("q", "o", "p", "e", "all", "_facets", "id__in", "pk__gt"),
    *("agent", "agent__id__exact", "owner", "created_at__year", "date_joined__year"),
)
_TEXT = st.text(max_size=40)
VALUES: SearchStrategy[Any] = st.sampled_from(_TRICKY) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)
#: JSON may hold half a character as an escape; a test client cannot send one otherwise.
_WORDS = st.one_of(_TEXT, st.sampled_from([each for each in _TRICKY if isinstance(each, str)]))
_SENDABLE = _WORDS.map(lambda text: text.encode("utf-8", "replace").decode())


def changed(data: DataObject, body: Any) -> Any:
    """The object with some of its fields, at any depth, taken out or given another value, and others added."""
    if isinstance(body, list):
        kept = [changed(data, each) for each in body]
        return kept if data.draw(st.booleans()) else [*kept, data.draw(VALUES)]
    if not isinstance(body, dict):
        return data.draw(VALUES) if data.draw(st.booleans()) else body
    found: dict[Any, Any] = {}
    for name, value in body.items():
        what = data.draw(st.integers(0, 5))
        if what == 0:
            continue
        found[name] = data.draw(VALUES) if what == 1 else value
        if what == 2:
            found[name] = changed(data, value)
    if data.draw(st.integers(0, 3)) == 0:
        found[data.draw(_TEXT)] = data.draw(VALUES)
    return found


class ReaderFuzz(TestCase):
    def setUp(self) -> None:
        self.visitors = Visitors(make_site())
        doors = [door for door in http_doors() if not door.is_admin and door.name != "logout"]
        self.knocks = list(knocks(doors))

    def test_no_body_query_or_header_brings_a_reader_s_door_down(self) -> None:
        fuzzed(given(data=st.data())(self._knock_anything))()

    def _knock_anything(self, data: DataObject) -> None:
        knock: Knock = data.draw(st.sampled_from(self.knocks))
        role = data.draw(st.sampled_from(COLUMNS))
        sent: dict[str, Any] = {}
        if knock.method != "GET":
            text = json.dumps(changed(data, self.visitors.body(knock)))
            sent = {"data": text, "content_type": "application/json"}
            if data.draw(st.integers(0, 9)) == 0:
                sent["data"] = data.draw(st.binary(max_size=60))
        query = data.draw(st.dictionaries(_SENDABLE, _SENDABLE, max_size=3))
        if query and knock.door.name != "widget-frame":
            sent["query_params"] = query
        name = data.draw(st.sampled_from(["Last-Event-ID", "Accept-Language", "If-Match", "X-Trace"]))
        sent["headers"] = {name: data.draw(st.text(st.characters(codec="latin-1"), max_size=30))}
        response, _body, has_written = async_to_sync(self.visitors.send)(knock, role, **sent)
        is_probe = knock.door.name == "readyz" and response.status_code == 503
        assert response.status_code < 500 or is_probe, (str(knock), role, sent, response.status_code)
        if has_written:
            self.visitors.renew()


class FrameFuzz(TestCase):
    def setUp(self) -> None:
        self.visitors = Visitors(make_site())

    def test_no_frame_brings_a_socket_down(self) -> None:
        fuzzed(given(data=st.data())(self._say_anything))()

    def _say_anything(self, data: DataObject) -> None:
        turn = self.visitors.world.answered["page"]
        kind = data.draw(st.sampled_from(["ask", "resume", "retry", "approve", "deny", "stop"]))
        frame: dict[str, Any] = {"type": kind, "turnId": str(turn.pk), "toolCallId": CALL, "message": "Où ?"}
        frame |= {"clientMessageId": "a", "replaces": str(turn.pk), "lastEventId": 0}
        text = json.dumps(changed(data, frame))
        if data.draw(st.integers(0, 9)) == 0:
            text = data.draw(st.text(max_size=40))
        writes = Writes()
        writes.start()
        met = async_to_sync(frames.answered)(self.visitors, text)
        assert met, text
        assert "server" not in met, text
        if writes.stop():
            self.visitors.renew()


class AdminFuzz(TestCase):
    def setUp(self) -> None:
        self.staff = Staff(make_site())
        self.pages = [door for door in http_doors() if door.is_admin and "log" not in door.route.split("/")[1]]

    def test_no_form_or_query_brings_a_page_of_the_admin_down(self) -> None:
        fuzzed(given(data=st.data())(self._open_anything))()

    def _open_anything(self, data: DataObject) -> None:
        door = data.draw(st.sampled_from(self.pages))
        address = self.staff.address(door)
        query = data.draw(st.dictionaries(st.sampled_from(_QUERIED) | _SENDABLE, _SENDABLE, max_size=3))
        client = self.staff.client(door.model, "superuser")
        looked = client.get(address, query)
        assert looked.status_code < 500, (address, query)
        form = form_of(self.staff.client(door.model, "superuser").get(address))
        names = sorted(form)
        for name in data.draw(st.lists(st.sampled_from(names), max_size=4)):
            form[name] = data.draw(_SENDABLE)
        met = self.staff.knock(door, form)
        assert not met.startswith("5"), (address, form, met)
