"""What `/v1/chat/completions` accepts: a body becomes a `CompletionRequest`, or an error that names the field.

Three kinds of fields: those that are used; those that change what an answer *is*, which are refused unless they ask for
what is done anyway; and all others, which tune a model that the deployment's staff have tuned, and are ignored. System
messages are ignored too: an instruction of the client's would not bind validated answers, which no model writes, and
would leave its mark on answers that are remembered for others.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from django.conf import settings
from django.utils.translation import gettext as _

from chat.doors.openai.client_threads import ClientThread, read_messages
from chat.exceptions import InvalidMessageError
from chat.protocol import parse_json_object, valid_question

_SAID = {"user", "assistant"}
_IGNORED_ROLES = {"system", "developer"}
#: Fields that change what an answer is, each with the values that ask for nothing unusual.
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "stop": ([], ""),
    "modalities": (["text"], []),
    "audio": (),
    "web_search_options": (),
}


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
    """`fingerprint` is the same for the same model and messages: what an idempotency key may be used again for."""

    model: str
    question: str
    before: ClientThread
    is_streamed: bool
    includes_usage: bool
    fingerprint: str


def parse_request(body: bytes) -> CompletionRequest:
    """Raises `RefusedFieldError`, or `InvalidMessageError` where the body is no JSON object at all."""
    data = parse_json_object(body)
    model = data.get("model")
    if not isinstance(model, str) or not model:
        _refuse("model", _("« model » est demandé : l’identifiant d’un déploiement."))
    for name, usual in _FIXED.items():
        if data.get(name) is not None and data[name] not in usual:
            _refuse(
                name,
                _("« %(name)s » n’est pas pris en charge avec cette valeur.") % {"name": name},
                wire_code="unsupported_value",
            )
    is_streamed = _flag(data, "stream")
    options = data.get("stream_options")
    if options is not None and not (is_streamed and isinstance(options, dict)):
        _refuse("stream_options", _("« stream_options » est un objet, et va avec « stream »."))
    before, question = _thread(data.get("messages"))
    return CompletionRequest(
        model=model,
        question=question,
        before=before,
        is_streamed=is_streamed,
        includes_usage=_flag(options or {}, "include_usage", within="stream_options."),
        fingerprint=hashlib.sha256(
            json.dumps([model, data.get("messages")], sort_keys=True).encode()
        ).hexdigest()[:32],
    )


def _flag(data: Mapping[str, Any], name: str, *, within: str = "") -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        _refuse(within + name, _("« %(name)s » est vrai ou faux.") % {"name": within + name})
    return bool(value)


def _thread(messages: Any) -> tuple[ClientThread, str]:
    """What was said before, and the question."""
    if not isinstance(messages, list) or not messages:
        _refuse("messages", _("« messages » est une liste qui n’est pas vide."))
    said = [
        (message["role"], text)
        for number, message in enumerate(messages)
        if (text := _text(message, f"messages[{number}]")) is not None
    ]
    try:
        before, last = read_messages(said)
    except ValueError:
        _refuse("messages", _("Le dernier message doit être une question : « role » « user »."))
    try:
        question = valid_question(last)
    except InvalidMessageError as error:
        is_long = len(last) > settings.MAX_MESSAGE_CHARACTERS
        _refuse(
            f"messages[{len(messages) - 1}].content",
            str(error.public_message),
            wire_code="string_above_max_length" if is_long else None,
        )
    return before, question


def _text(message: Any, where: str) -> str | None:
    """What a user or the assistant said; `None` for a message that is ignored."""
    role = message.get("role") if isinstance(message, dict) else None
    if isinstance(role, str) and role in _IGNORED_ROLES:
        return None
    if not isinstance(role, str) or role not in _SAID:
        _refuse(
            f"{where}.role",
            _("« role » doit être « system », « developer », « user » ou « assistant »."),
        )
    content = message.get("content")
    if content is None and role == "assistant":
        return None
    if isinstance(content, str):
        return content.replace("\0", "")
    if isinstance(content, list) and content:
        return "\n".join(
            _part(part, f"{where}.content[{number}]") for number, part in enumerate(content)
        )
    _refuse(f"{where}.content", _("« content » est un texte, ou une liste de textes."))


def _part(part: Any, where: str) -> str:
    is_text = isinstance(part, dict) and part.get("type") == "text"
    if not is_text or not isinstance(part.get("text"), str):
        _refuse(where, _("Seules les parties de type « text » sont acceptées."))
    return str(part["text"]).replace("\0", "")


def _refuse(param: str, message: str, *, wire_code: str | None = None) -> NoReturn:
    raise RefusedFieldError(param, message, wire_code=wire_code)
