"""The thread of a client that keeps it itself: `/v1` sends all messages with every question.

The last question is this turn's. What came before is what a follow-up leans on and what the prompt shows, in place of a
stored thread, of which there is none; as much of it as the turn uses is kept with the conversation, so that staff see
what an answer was given to. It is the client's word: nothing of it is searched, learned from or shown to others.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientThread:
    """What was said before a question: finished exchanges, oldest first, and the last question, answered or not."""

    exchanges: tuple[tuple[str, str], ...] = ()
    previous: str = ""

    def last(self, exchanges: int, *, characters: int) -> "ClientThread":
        """As many of the last exchanges as both bounds allow."""
        kept: list[tuple[str, str]] = []
        for question, answer in reversed(self.exchanges[-exchanges:] if exchanges else ()):
            characters -= len(question) + len(answer)
            if characters < 0:
                break
            kept.append((question, answer))
        return ClientThread(tuple(reversed(kept)), self.previous)

    def as_json(self) -> dict[str, object]:
        return {"exchanges": [list(pair) for pair in self.exchanges], "previous": self.previous}


def read_messages(messages: Sequence[tuple[str, str]]) -> tuple[ClientThread, str]:
    """Split `(role, text)` messages, of users and assistants alone, into what came before and the last question.

    Questions in a row are one question (the last of them), and so are answers; an answer before any question (a
    greeting of the client's own) belongs to no exchange. Raises `ValueError` where no question comes last.
    """
    if not messages or messages[-1][0] != "user":
        raise ValueError("The last message is no question.")
    exchanges: list[tuple[str, str]] = []
    previous, is_answered = "", False
    for role, text in messages[:-1]:
        if role == "user":
            previous, is_answered = text, False
        elif is_answered:
            exchanges[-1] = (previous, text)
        elif previous:
            exchanges.append((previous, text))
            is_answered = True
    return ClientThread(tuple(exchanges), previous), messages[-1][1]
