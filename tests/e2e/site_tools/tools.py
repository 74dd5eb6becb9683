"""Tools of the served site: one that only looks, and one that asks first."""

from tools_registry.tool import tool


@tool()
def free_rooms(day: str) -> dict[str, object]:
    """List the meeting rooms that are free.

    Args:
        day: the day, as YYYY-MM-DD.
    """
    return {"day": day, "rooms": ["B2"]}


@tool(needs_approval=True)
def book_room(room: str) -> dict[str, object]:
    """Book a meeting room.

    Args:
        room: the room's name.
    """
    return {"booked": room}
