"""Events and frames of a streamed turn, and their wire names.

Every edge (WebSocket, server-sent events) sends the same events; each has an `id` that rises within its turn, so that a
reader who lost the connection asks for what comes after the last id it saw. This file and the serializers of
`chat.api` are the only ones that know wire names; the HTML of `done` is added by the door that sends it
(`chat.api.questions`).

    meta     turnId, conversationId, clientMessageId, title, question
    delta    text
    restart  (the text that came before it is to be forgotten: a model's reasoning, or what the quotation replaces)
    sources  sources: [{n, title, document_id, chunk_id, type, question, score, text}], url of a page, page (of a PDF),
             date (validated, or its document read), learned_id of a validated answer, option of a `clarification`
    tool     toolCallId, name, status (running | done | failed | awaiting | denied), relanceIndex, durationMs,
             arguments; `reasoning` for id: the model's own thought
    done     status (done | interrupted | awaiting_approval), answerSource, model, messageId, content, html, title,
             agent, score (of what was stored and given; else null), suggestions (questions that a refusal offers),
             notice (what is to be said of the answer: it was cut, or quoted in the model's place; else empty),
             readAs (how the question was read, where otherwise than typed; else empty)
    error    code, message, retryable, retryAfter (seconds, where known)   (the last event of a turn that failed)
    beat     (nothing has happened for a while; a comment where events are server-sent)

Frames a page sends: `{"type": "ask", "message", "clientMessageId"}`, `{"type": "stop"}`, `{"type": "resume", "turnId",
"lastEventId"}`, `{"type": "retry", "turnId"}` for a turn that was interrupted or failed, and for a tool that awaits its
approval `{"type": "approve" | "deny", "turnId", "toolCallId"}`. An `ask` with `replaces` (a turn's id) is another
version of that turn: the edited question, or the same one asked again; with `asTyped` it is looked up as it was typed.
A turn that is retried, or whose calls are all decided, goes on under its own id. A `meta` begins an answer anew: what
came before it is to be forgotten.
"""

import codecs
import json
import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NoReturn

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from agents.errors import ApplicationError
from chat.errors import InvalidMessageError, UnreadableTextError
from chat.models import SCOPE_CHARACTERS, AnswerSource

MAX_MESSAGE_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True)
class Source:
    """A passage given to the answer, numbered as its citations are."""

    n: int
    title: str
    document_id: int | None
    chunk_id: int | None
    type: str
    question: str
    score: float
    text: str
    #: The page it comes from, where it comes from one.
    url: str = ""
    #: The page of its document that it begins on, from 1, where the document has pages.
    page: int | None = None
    #: The day (ISO) on which a person last vouched for it, or its document was last read; empty where nobody knows.
    date: str = ""
    #: The validated answer that it is, where it is one.
    learned_id: int | None = None
    #: Its place among the questions to choose from, where it is one.
    option: int | None = None

    def as_json(self) -> dict[str, Any]:
        fields = {**asdict(self), "score": round(self.score, 4)}
        for name in ("url", "date", "page", "learned_id", "option"):
            if fields[name] in ("", None):
                del fields[name]
        return fields


@dataclass(frozen=True, slots=True)
class Meta:
    name: ClassVar[str] = "meta"
    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    client_message_id: str
    title: str
    question: str

    def as_json(self) -> dict[str, Any]:
        return {
            "turnId": str(self.turn_id),
            "conversationId": str(self.conversation_id),
            "clientMessageId": self.client_message_id,
            "title": self.title,
            "question": self.question,
        }


@dataclass(frozen=True, slots=True)
class Delta:
    name: ClassVar[str] = "delta"
    text: str

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text}


@dataclass(frozen=True, slots=True)
class Restart:
    name: ClassVar[str] = "restart"

    def as_json(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class Sources:
    name: ClassVar[str] = "sources"
    sources: Sequence[Mapping[str, Any]]

    def as_json(self) -> dict[str, Any]:
        return {"sources": list(self.sources)}


ToolStatus = Literal["running", "done", "failed", "awaiting", "denied"]
#: The id, in the place of a call's, under which readers are told that the model reasons.
REASONING = "reasoning"


@dataclass(frozen=True, slots=True)
class Tool:
    """A step of one tool. `arguments` are shown where a person is asked for approval, and empty otherwise."""

    name: ClassVar[str] = "tool"
    tool_call_id: str
    tool_name: str
    status: ToolStatus
    relance_index: int
    duration_ms: int | None = None
    arguments: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "toolCallId": self.tool_call_id,
            "name": self.tool_name,
            "status": self.status,
            "relanceIndex": self.relance_index,
            "durationMs": self.duration_ms,
            "arguments": self.arguments,
        }


@dataclass(frozen=True, slots=True)
class Done:
    name: ClassVar[str] = "done"
    status: str
    answer_source: str
    model: str
    message_id: int | None
    content: str
    #: What a door needs to write the answer as HTML (`chat.api.questions`): whose sources its citations lead to.
    turn_id: str = ""
    source_numbers: Sequence[int] = ()
    title: str = ""
    #: Which of the deployment's agents answered, where it has several.
    agent: str = ""
    #: How near the question of the stored answer that was given is (seed 000, section 2: the metadata of a local
    #: answer).
    score: float | None = None
    #: The code of what is to be said of the answer (`message_of`).
    cut: str = ""
    read_as: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "answerSource": self.answer_source,
            "model": self.model,
            "messageId": self.message_id,
            "content": self.content,
            "title": self.title,
            "agent": self.agent,
            "score": None if self.score is None else round(self.score, 4),
            "suggestions": offered_questions(self.answer_source, self.content),
            "notice": message_of(self.cut),
            "readAs": self.read_as,
        }


def message_of(code: str) -> str:
    """What every error of this code says, in the reader's language; empty where there is none."""
    kind = kind_of(code)
    return "" if kind is None else str(kind.default_message)


def kind_of(code: str) -> type[ApplicationError] | None:
    if not code:  # as in every answer that is whole
        return None
    return next((kind for kind in _kinds_of(ApplicationError) if kind.code == code), None)


def offered_questions(answer_source: str, content: str) -> list[str]:
    """The questions that a refusal lists, for a page that has them asked by a click."""
    if answer_source != AnswerSource.GUARD_RAIL:
        return []
    items = (line.removeprefix("- ") for line in content.splitlines() if line.startswith("- "))
    return [item for item in items if item.endswith("?")]


@dataclass(frozen=True, slots=True)
class Beat:
    """The turn goes on in silence: a reader, or a proxy on the way, is told that the connection is alive."""

    name: ClassVar[str] = "beat"

    def as_json(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class Failure:
    name: ClassVar[str] = "error"
    code: str
    message: str
    retryable: bool
    #: Seconds after which another try may succeed, where somebody said so.
    retry_after: float | None = None

    @classmethod
    def of(cls, error: ApplicationError) -> "Failure":
        return cls(
            code=error.code, message=str(error.public_message), retryable=error.retryable, retry_after=error.retry_after
        )

    @classmethod
    def of_code(cls, code: str) -> "Failure":
        """What is known of an error by its code alone: of a turn that is told again from its row."""
        kind = kind_of(code) or ApplicationError
        return cls(code or kind.code, str(kind.default_message), retryable=kind.retryable)

    def as_json(self) -> dict[str, Any]:
        said = {"code": self.code, "message": self.message, "retryable": self.retryable}
        return said if self.retry_after is None else {**said, "retryAfter": self.retry_after}


def _kinds_of(error: type[ApplicationError]) -> Iterator[type[ApplicationError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _kinds_of(kind)


Event = Meta | Delta | Restart | Sources | Tool | Beat | Done | Failure
FINAL_EVENTS = (Done, Failure)


@dataclass(frozen=True, slots=True)
class AskFrame:
    """A question; with `replaces`, another version of that turn."""

    message: str
    client_message_id: str
    replaces: uuid.UUID | None = None
    as_typed: bool = False


#: Every type of frame that a socket takes.
FRAMES = ("ask", "stop", "resume", "retry", "approve", "deny")


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """Raises `InvalidMessageError`, and the kind of it that `read_json` raises."""
    try:
        data = read_json(text)
    except ValueError as error:
        raise InvalidMessageError("not JSON", public_message=_("Un objet JSON est attendu.")) from error
    if not isinstance(data, dict):
        raise InvalidMessageError("not an object", public_message=_("Un objet JSON est attendu."))
    return data


def parse_frame(text: str) -> dict[str, Any]:
    """What a page sends through its socket: an object whose `type` is one of `FRAMES`."""
    if len(text.encode(errors="replace")) > settings.MAX_FRAME_BYTES:
        raise InvalidMessageError("frame too large", public_message=too_long())
    frame = parse_json_object(text)
    if frame.get("type") not in FRAMES:
        raise InvalidMessageError(
            "unknown frame type",
            public_message=_("« type » doit être « ask », « stop », « resume », « retry », « approve » ou « deny »."),
        )
    return frame


def parse_ask(data: Mapping[str, Any]) -> AskFrame:
    """The question in an object that a reader sent, by whichever door."""
    replaced = data.get("replaces")
    return AskFrame(
        message=valid_question(data.get("message")),
        client_message_id=valid_client_message_id(data.get("clientMessageId")),
        replaces=None if replaced in (None, "") else valid_uuid("replaces", replaced),
        as_typed=data.get("asTyped") is True,
    )


#: Letters and signs by their category that show nothing: the fillers of Hangul and the empty cell of Braille.
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"


def valid_question(value: Any) -> str:
    """The trimmed question; refuses what is no text, is empty to the eye, or too long."""
    if not isinstance(value, str):
        raise InvalidMessageError("message is not text", public_message=_("« message » doit être un texte."))
    question = value.replace("\x00", "").strip()
    # Seen is a letter, a figure or a sign: neither a space nor a control, nor a mark without its letter.
    if not any(unicodedata.category(each)[0] in "LNPS" and each not in _BLANK for each in question):
        raise InvalidMessageError("blank message", public_message=_("« message » est vide : écrivez une question."))
    if len(question) > MAX_MESSAGE_CHARACTERS:
        raise InvalidMessageError("message too long", public_message=too_long())
    return question


def valid_client_message_id(value: Any) -> str:
    """The client's id of its message, or a new one where it gave none."""
    if value in (None, ""):
        return str(uuid.uuid4())
    if not isinstance(value, str) or len(value) > 100 or not value.isprintable():
        raise InvalidMessageError(
            "bad clientMessageId", public_message=_("« clientMessageId » doit être un texte d’au plus 100 caractères.")
        )
    return value


def valid_scope(field: str, value: Any) -> str:
    """A phase or a project as a conversation may name it; empty where it names none."""
    name = "" if value is None else value
    if not isinstance(name, str) or len(name.strip()) > SCOPE_CHARACTERS or "\0" in name:
        raise InvalidMessageError(
            f"{field} is not a name",
            public_message=_("« %(field)s » doit être un texte d’au plus %(limit)d caractères.")
            % {"field": field, "limit": SCOPE_CHARACTERS},
        )
    return name.strip()


def valid_uuid(field: str, value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(str(value))
    except ValueError as error:
        raise InvalidMessageError(
            f"{field} is not a UUID",
            public_message=_("« %(field)s » doit être un identifiant UUID.") % {"field": field},
        ) from error


def valid_tool_call_id(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidMessageError("`toolCallId` is a string")
    return value.replace("\0", "")


def valid_event_id(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidMessageError("bad event id", public_message=_("« lastEventId » doit être un nombre.")) from error


def too_long() -> str:
    return _("« message » dépasse %(limit)d caractères : raccourcissez-le ou coupez-le.") % {
        "limit": MAX_MESSAGE_CHARACTERS
    }


def read_json(said: bytes | str) -> Any:
    """The value of a JSON text. Raises `UnreadableTextError`, or `ValueError` where it is no JSON."""
    text = _whole_text(said)
    try:
        value = json.loads(text, parse_constant=refuse_constant)
        if "\\u" in text:
            _whole_text(json.dumps(value, ensure_ascii=False))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def require_utf8_form(request: HttpRequest) -> None:
    """Refuse forms that are not UTF-8: Django fails in encodings that are none."""
    is_form = request.content_type in ("multipart/form-data", "application/x-www-form-urlencoded")
    if is_form and request.encoding and codecs.lookup(request.encoding).name != "utf-8":
        raise UnreadableTextError(f"a form in {request.encoding}")


def _whole_text(said: bytes | str) -> str:
    """The text, without the mark that some programs begin with; a zero byte is how other encodings look."""
    try:
        data = said.encode() if isinstance(said, str) else said
        text = data.decode("utf-8-sig")
    except UnicodeError as error:
        raise UnreadableTextError("not UTF-8, or half a character") from error
    if "\0" in text:
        raise UnreadableTextError("zero bytes")
    return text


def refuse_constant(name: str) -> NoReturn:
    """What Python reads and JSON does not have: `NaN`, `Infinity`."""
    raise ValueError(f"{name} is not JSON")
