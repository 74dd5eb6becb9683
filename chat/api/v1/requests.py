"""What `/v1` accepts: a body becomes a `CompletionRequest`, or an error that names the field.

What tunes a model, or asks for what a desk does not do, is ignored; system messages and what is no text are passed
over. The thread is the client's own word: a follow-up leans on it and the prompt shows it; nothing of it is searched,
learned from or shown to others.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from django.utils.translation import gettext as _

from chat.errors import InvalidMessageError
from chat.protocol import MAX_MESSAGE_CHARACTERS, parse_json_object, valid_question


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
    """Split `(role, text)` messages into the exchanges before and the last question; of some in a row the last counts.

    An answer before any question belongs to no exchange. Raises `ValueError` where no question comes last.
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


#: How Open WebUI heads what it asks for by itself (titles, tags, follow-ups): no question, and answered with nothing.
_TASK = re.compile(r"\s*### Task:.*<chat_history>", re.DOTALL)
_SAID = {"user", "assistant"}
#: As chat completions and responses name them.
_TEXT_PARTS = {"text", "input_text", "output_text"}
_INSTRUCTING = {"system", "developer"}
#: What the client's own tools were asked and said.
_OF_TOOLS = {"tool", "function"}


class RefusedFieldError(InvalidMessageError):
    """A field that is missing, malformed or not supported; `param` names it as OpenAI does."""

    code = "invalid_request"
    status = 400

    def __init__(self, param: str, public_message: str, *, wire_code: str | None = None) -> None:
        super().__init__(f"refused: {param}", public_message=public_message)
        self.param = param
        self.wire_code = wire_code


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """`is_task`: the client asks for housekeeping of its own, and no question is meant. `follows`: the turn of the
    answer before, which the desk keeps.
    """

    model: str
    question: str
    before: ClientThread
    is_streamed: bool
    includes_usage: bool
    is_task: bool = False
    follows: uuid.UUID | None = None


def parse_request(body: bytes) -> CompletionRequest:
    """Raises `RefusedFieldError`, or `InvalidMessageError` where the body is no JSON object at all."""
    return read_request(parse_json_object(body))


def read_request(data: Mapping[str, Any], *, follows: uuid.UUID | None = None) -> CompletionRequest:
    model = required_model(data)
    is_streamed = flag(data, "stream")
    options = data.get("stream_options")
    if options is not None and not (is_streamed and isinstance(options, dict)):
        refuse("stream_options", _("« stream_options » est un objet, et va avec « stream »."))
    messages = _Messages.read(data.get("messages"))
    is_task = _TASK.match(messages.said[-1][1]) is not None
    return CompletionRequest(
        model=model,
        question="" if is_task else messages.question(),
        before=ClientThread() if is_task else messages.before(),
        is_streamed=is_streamed,
        includes_usage=flag(options or {}, "include_usage", within="stream_options."),
        is_task=is_task,
        follows=follows,
    )


def required_model(data: Mapping[str, Any]) -> str:
    model = data.get("model")
    if not isinstance(model, str) or not model:
        refuse("model", _("« model » est demandé : l’identifiant d’un déploiement."))
    return model


def flag(data: Mapping[str, Any], name: str, *, within: str = "") -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        refuse(within + name, _("« %(name)s » est vrai ou faux.") % {"name": within + name})
    return bool(value)


@dataclass(frozen=True, slots=True)
class _Messages:
    """What user and assistant said, to the last question; `place` names it in a refusal."""

    said: list[tuple[str, str]]
    place: str

    @classmethod
    def read(cls, messages: Any) -> "_Messages":
        if not isinstance(messages, list) or not messages:
            refuse("messages", _("« messages » est une liste qui n’est pas vide."))
        said: list[tuple[str, str]] = []
        end, place = 0, ""
        for number, message in enumerate(messages):
            where = f"messages[{number}]"
            role, text = _read_message(message, where)
            if role == "user" or (role not in _INSTRUCTING and text.strip()):
                said.append((role, text))
                if role == "user":
                    end, place = len(said), f"{where}.content"
        if not end:
            refuse("messages", _("Le dernier message doit être une question : « role » « user »."))
        return cls(said[:end], place)

    def question(self) -> str:
        last = self.said[-1][1]
        try:
            return valid_question(last)
        except InvalidMessageError as error:
            is_long = len(last) > MAX_MESSAGE_CHARACTERS
            refuse(self.place, str(error.public_message), wire_code="string_above_max_length" if is_long else None)

    def before(self) -> ClientThread:
        thread, _last = read_messages(self.said)
        return thread


def _read_message(message: Any, where: str) -> tuple[str, str]:
    """Its role and its text, which is empty for a message of the client's tools."""
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in _SAID | _INSTRUCTING | _OF_TOOLS:
        refuse(f"{where}.role", _("« role » doit être « system », « developer », « user » ou « assistant »."))
    if role in _OF_TOOLS:
        return "assistant", ""
    return role, text_of(message.get("content"), where)


def text_of(content: Any, where: str) -> str:
    """The text of a message's content; parts that are no text are passed over."""
    if isinstance(content, str):
        return content.replace("\0", "")
    if content is None:
        return ""
    if not isinstance(content, list):
        refuse(f"{where}.content", _("« content » est un texte, ou une liste de textes."))
    parts = (part for part in content if isinstance(part, dict) and part.get("type") in _TEXT_PARTS)
    return "\n".join(part["text"].replace("\0", "") for part in parts if isinstance(part.get("text"), str))


def refuse(param: str, message: str, *, wire_code: str | None = None) -> NoReturn:
    raise RefusedFieldError(param, message, wire_code=wire_code)
