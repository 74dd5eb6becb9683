"""Knocking at the sockets: each type of frame, by each role that a browser's cookie makes."""

import json
from typing import Any

from agents.database import in_database
from tests.doors.readers import QUESTION, Visitors
from tests.doors.world import CALL, Writes, settled
from tests.sockets import Socket
from tests.waiting import PATIENCE_SECONDS

COLUMNS = ("nobody", "stranger", "owner", "elsewhere", "person", "superuser")


async def knock(visitors: Visitors, door: str, role: str) -> str:
    """What came of one frame of this door (`ws/chat/{conversation_id}/ ask`), as a cell of the table."""
    route, kind = door.split()
    world = visitors.world
    turn = {"retry": world.interrupted, "approve": world.waiting, "deny": world.waiting}.get(kind, world.answered)[
        "page"
    ]
    client = visitors.client("owner" if role == "elsewhere" else role)
    socket = Socket(f"/{route.format(conversation_id=turn.conversation_id)}", client)
    if role == "elsewhere":
        socket.scope["headers"][1] = (b"origin", b"https://elsewhere.example")
    frame = {"type": kind, "turnId": str(turn.pk), "toolCallId": CALL, "message": QUESTION}
    writes = Writes()
    await in_database(writes.start)
    met = await _met(socket, frame)
    await settled()
    written = await in_database(writes.stop)
    if written:
        await in_database(visitors.renew)
    return met + " w" * written


async def answered(visitors: Visitors, text: str) -> str:
    """What the owner's socket answers to a text, whatever it is; `server` where it closes for a failure of ours."""
    turn = visitors.world.answered["page"]
    socket = Socket(f"/ws/chat/{turn.conversation_id}/", visitors.client("owner"))
    await socket.open()
    await socket.send_text(text)
    await socket.send(type="unknown")
    names = await _until(socket, "error")
    await settled()
    return " ".join(names)


async def _met(socket: Socket, frame: dict[str, Any]) -> str:
    await socket.send_input({"type": "websocket.connect"})  # type: ignore[no-untyped-call]  # asgiref has no types
    opened = await socket.receive_output(PATIENCE_SECONDS)  # type: ignore[no-untyped-call]  # asgiref has no types
    if opened["type"] == "websocket.close":
        return "denied"
    await socket.send(**frame)
    if frame["type"] == "stop":
        # Nothing runs: no event follows it. An unknown frame after it says that it was read.
        await socket.send(type="unknown")
    return " ".join(dict.fromkeys(await _until(socket, "done", "error")))


async def _until(socket: Socket, *ends: str) -> list[str]:
    """The types of the frames up to one of these, or to the end of the socket, which is closed."""
    names = [""]
    while names[-1] not in (*ends, "closed", "server"):
        output = await socket.receive_output(PATIENCE_SECONDS)  # type: ignore[no-untyped-call]  # asgiref has no types
        if output["type"] == "websocket.close":
            names.append("server" if output.get("code") == 1011 else "closed")
        else:
            names.append(json.loads(output["text"])["type"])
    await socket.close()
    return names[1:]
