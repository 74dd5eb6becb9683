"""Housekeeping of chat programs: prompts that a program sends by itself (a title, tags, suggestions), not its user.

A desk that took them for questions would search, refuse and count them, and list some as unanswered. They are
recognised by the words of the programs' own templates, several of which must be there together, and answered by plain
rules in the form that the program reads: a title is the first question itself, what to search for is the last one,
several answers become the first of them; whatever would have to be invented is left empty.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from chat.doors.openai.pasted import own_question
from chat.thread.turns import default_title

_QUESTIONS = re.compile(
    r"^(?:USER|User|Human)\s*:\s*(.+?)(?=^(?:ASSISTANT|Assistant|AI|USER|User|Human)\s*:|^</chat_history>|\Z)",
    re.DOTALL | re.MULTILINE,
)
_QUOTED = re.compile(r'"""(.*?)"""', re.DOTALL)
#: Where a template gives what people said or wrote, which may speak of anything.
_GIVEN = re.compile(r"(?<=<chat_history>)|(?<=<context>)")


@dataclass(frozen=True, slots=True)
class Chore:
    """What a program is given in place of an answer."""

    name: str
    answer: str


@dataclass(frozen=True, slots=True)
class _Template:
    """A prompt of a program: all `marks` stand in it, in lower case. `program` says whose words they are."""

    name: str
    program: str
    marks: tuple[str, ...]
    answer: Callable[[str], str]


def _questions(prompt: str) -> list[str]:
    return [" ".join(own_question(found).split()) for found in _QUESTIONS.findall(prompt)]


def _title(prompt: str) -> str:
    return default_title("".join(_questions(prompt)[:1]))


def _first_answer(prompt: str) -> str:
    found = _QUOTED.search(prompt)
    return found[1] if found else ""


def _as_json(name: str, value: Callable[[str], object]) -> Callable[[str], str]:
    return lambda prompt: json.dumps({name: value(prompt)}, ensure_ascii=False)


def _nothing(_prompt: str) -> str:
    return ""


def _none(_prompt: str) -> list[str]:
    return []


_OPEN_WEBUI, _LIBRECHAT = "Open WebUI", "LibreChat"
_TASK = "### task:"
_TEMPLATES = (
    _Template(
        "title",
        _OPEN_WEBUI,
        (_TASK, "title", "summarizing the chat history", "<chat_history>"),
        _as_json("title", _title),
    ),
    _Template("tags", _OPEN_WEBUI, (_TASK, "broad tags", "<chat_history>"), _as_json("tags", _none)),
    _Template(
        "follow_ups", _OPEN_WEBUI, (_TASK, "follow-up questions", "<chat_history>"), _as_json("follow_ups", _none)
    ),
    _Template("follow_ups", _OPEN_WEBUI, (_TASK, '"follow_ups"', "<chat_history>"), _as_json("follow_ups", _none)),
    _Template(
        "queries",
        _OPEN_WEBUI,
        (_TASK, "search queries", "<chat_history>"),
        _as_json("queries", lambda prompt: _questions(prompt)[-1:]),
    ),
    _Template(
        "image",
        _OPEN_WEBUI,
        (_TASK, "image generation", "<chat_history>"),
        _as_json("prompt", lambda prompt: "".join(_questions(prompt)[-1:])),
    ),
    _Template("autocompletion", _OPEN_WEBUI, (_TASK, "autocompletion", "<text>"), _as_json("text", _nothing)),
    _Template("emoji", _OPEN_WEBUI, ("your task is to reflect", "facial expression", "fitting emoji"), _nothing),
    _Template(
        "merging", _OPEN_WEBUI, ("set of responses from various models", "responses from models:"), _first_answer
    ),
    # Nothing summarised: the program shortens the thread itself.
    _Template(
        "compacting",
        _OPEN_WEBUI,
        (_TASK, "summarize the conversation history", "### messages being compacted:"),
        _nothing,
    ),
    _Template(
        "tool_choice",
        _OPEN_WEBUI,
        ("available tools:", "choose and return the correct tool"),
        _as_json("tool_calls", _none),
    ),
    _Template("title", _LIBRECHAT, ("5-word-or-less title for the conversation", "title case"), _title),
    _Template(
        "title", _LIBRECHAT, ("analyze this conversation and provide", "detected language", "concise title"), _title
    ),
)


def chore_of(prompt: str, instructions: str = "") -> Chore | None:
    """The housekeeping that a last message, or the instructions with it, ask for; `None` for a person's question."""
    words = " ".join(_GIVEN.split(text.casefold(), maxsplit=1)[0] for text in (instructions, prompt))
    for template in _TEMPLATES:
        if all(mark in words for mark in template.marks):
            return Chore(template.name, template.answer(prompt))
    return None
