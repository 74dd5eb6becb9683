"""Every door of readers and programs, knocked at by every role: rows are read and changed by those whose they are."""

from collections.abc import Iterable, Mapping

from django.test import TestCase

from agents.database import in_database
from tests.doors import frames
from tests.doors.catalogue import frame_doors, http_doors
from tests.doors.readers import COLUMNS, Visitors, knocks
from tests.doors.world import make_site

#: Whose the rows of these doors are; `forged` reads as its owner's browser does, and never writes.
OWNERS = {"owner", "widget"}
#: Whoever holds the link reads them.
SHARED_BY_LINK = {"GET /p/{token}/"}
#: Whoever is admitted to the deployment begins a conversation of their own there.
MAY_BE_DOWN = {"GET /readyz", "GET /login/organisation/", "GET /login/organisation/back/"}
OPEN_TO_QUESTIONS = {"POST /api/conversations/", "POST /api/rag/chat", "POST /widget/ask"}
#: Programs with a key or a token of their own.
PROGRAMS = {
    "GET /api/ui/chat-sessions/{conversation_id}/messages": "service",
    "POST /api/ui/chat-sessions/{conversation_id}/messages/batch": "service",
    "POST /v1/chat/completions": "key",
}


def allowed(door: str, role: str, cell: str) -> bool:
    """Say whether this role may meet this."""
    if cell.startswith("5") and door not in MAY_BE_DOWN:
        return False
    reads, writes = " r" in cell, " w" in cell
    if role in OWNERS or PROGRAMS.get(door) == role:
        return True
    if role == "forged":
        return not writes
    return not (reads and door not in SHARED_BY_LINK) and not (writes and door not in OPEN_TO_QUESTIONS)


def trespasses(columns: Iterable[str], seen: Mapping[str, Iterable[str]]) -> list[str]:
    return [
        f"{door} as {role}: {cell}"
        for door, cells in seen.items()
        for role, cell in zip(columns, cells, strict=True)
        if not allowed(door, role, cell)
    ]


class ReaderDoorsTest(TestCase):
    async def test_rows_are_their_owners(self) -> None:
        visitors = await in_database(lambda: Visitors(make_site()))
        seen: dict[str, list[str]] = {}
        for knock in knocks([door for door in http_doors() if not door.is_admin]):
            if met := await visitors.row(knock):
                seen[str(knock)] = met
        assert trespasses(COLUMNS, seen) == []
        assert len(seen) > 50
        by_role = {role: [cells[number] for cells in seen.values()] for number, role in enumerate(COLUMNS)}
        assert any(" r" in cell for cell in by_role["owner"])
        assert any(" w" in cell for cell in by_role["owner"])


class FrameDoorsTest(TestCase):
    async def test_sockets_answer_their_owner_alone(self) -> None:
        visitors = await in_database(lambda: Visitors(make_site()))
        seen = {door: [await frames.knock(visitors, door, role) for role in frames.COLUMNS] for door in frame_doors()}
        for door, cells in seen.items():
            met = dict(zip(frames.COLUMNS, cells, strict=True))
            assert met.pop("owner") not in ("closed", "denied"), door
            assert set(met.values()) <= {"closed", "denied"}, door


def test_rules_tell_a_trespass() -> None:
    door = "GET /api/conversations/{pk}/"
    assert trespasses(["nobody", "owner", "stranger"], {door: ["404", "200 r", "200 r"]}) == [
        f"{door} as stranger: 200 r"
    ]
    assert trespasses(["forged", "nobody"], {"POST /api/rag/chat": ["200 w", "200 w"]}) == [
        "POST /api/rag/chat as forged: 200 w"
    ]
    assert trespasses(["nobody"], {"POST /api/new-door": ["500"]}) == ["POST /api/new-door as nobody: 500"]
