"""The numbers of sources where the client has sources of its own: a desk's `[1]` beside a client's first would lead to
the wrong one.

Open WebUI numbers what was attached in the template that it sends (`<source id="1" …>`), and shows `[n]` as the n-th of
all sources, its own first. So a desk's numbers go on from there, in the text and in what it refers to.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from chat.protocol import Delta, Done, Event, Sources

_MARK = re.compile(r"\[(\d{1,3})\]")
#: What may become a mark with the next piece of text.
_OPEN_MARK = re.compile(r"\[\d{0,3}\Z")


async def renumbered(events: AsyncGenerator[Event, None], first: int) -> AsyncGenerator[Event, None]:
    """The same events with each source's number, and each mark of a source in the text, greater by `first`."""
    known: set[int] = set()
    held = ""

    def shifted(text: str) -> str:
        return _MARK.sub(lambda mark: f"[{int(mark[1]) + first}]" if int(mark[1]) in known else mark[0], text)

    async with aclosing(events) as following:
        async for event in following:
            if isinstance(event, Delta):
                text = held + event.text
                open_mark = _OPEN_MARK.search(text)
                held = open_mark[0] if open_mark else ""
                if said := shifted(text.removesuffix(held)):
                    yield Delta(said)
                continue
            if held and not isinstance(event, Sources):
                yield Delta(held)
                held = ""
            if isinstance(event, Sources):
                known = {source["n"] for source in event.sources}
                yield Sources([{**source, "n": source["n"] + first} for source in event.sources])
            elif isinstance(event, Done):
                yield replace(event, content=shifted(event.content))
            else:
                yield event
