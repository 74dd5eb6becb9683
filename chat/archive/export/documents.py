"""A branch as a document to keep: Markdown or JSON, with the sources of its answers. Nothing here says who asked."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import formats, timezone
from django.utils.translation import gettext as _

from chat.models import Conversation, Message, Role
from chat.rendering import plain_markdown
from chat.thread.branches import branch_turns

#: An export or a shared link holds the last exchanges only, where there are more.
EXPORT_MAX_EXCHANGES = 200

_ADDRESS = re.compile(r"https?://[^\s<>\[\]`\\]+")


@dataclass(frozen=True, slots=True)
class ExportedExchange:
    """A question and its answer. `answer` is Markdown, empty where there is none; `sources` are as they were given."""

    question: str
    answer: str
    sources: list[dict[str, Any]]
    answer_source: str
    model: str
    is_whole: bool
    asked_at: datetime


def exported_exchanges(conversation: Conversation) -> list[ExportedExchange]:
    """The last `EXPORT_MAX_EXCHANGES` exchanges of the current branch, oldest first."""
    turns = branch_turns(conversation.pk, conversation.leaf)
    stored = Message.objects.for_conversation(conversation.pk).exchanges().on_branch(turns)
    newest = stored.exclude(turn=None).select_related("turn").order_by("-id")
    messages = list(reversed(newest[: 2 * EXPORT_MAX_EXCHANGES]))
    answers = {m.turn_id: m for m in messages if m.role == Role.ASSISTANT}
    return [_exchange(message, answers.get(message.turn_id)) for message in messages if message.role == Role.USER]


def _exchange(asked: Message, answered: Message | None) -> ExportedExchange:
    turn = asked.turn
    return ExportedExchange(
        question=asked.content,
        answer=answered.content if answered else "",
        sources=[s for s in answered.sources if isinstance(s, dict)] if answered else [],
        answer_source=turn.answer_source if turn else "",
        model=turn.model if turn else "",
        is_whole=answered is not None and turn is not None and turn.status == "done",
        asked_at=asked.created_at,
    )


def file_name(title: str, extension: str) -> str:
    """A name that every file system takes, from the title."""
    stem = re.sub(r"[^\w\- ]+", " ", title).strip()
    return f"{' '.join(stem.split())[:80].rstrip() or 'conversation'}.{extension}"


def as_json(conversation: Conversation) -> bytes:
    body = {
        "title": conversation.title,
        "deployment": conversation.deployment.slug,
        "created_at": conversation.created_at.isoformat(),
        "exported_at": timezone.now().isoformat(),
        "exchanges": [
            {
                "question": exchange.question,
                "answer": exchange.answer,
                "answer_source": exchange.answer_source,
                "model": exchange.model,
                "complete": exchange.is_whole,
                "asked_at": exchange.asked_at.isoformat(),
                "sources": exchange.sources,
            }
            for exchange in exported_exchanges(conversation)
        ],
    }
    return json.dumps(body, ensure_ascii=False, indent=2).encode()


def as_markdown(conversation: Conversation) -> bytes:
    parts = [f"# {plain_markdown(_one_line(conversation.title))}", dated(conversation)]
    for exchange in exported_exchanges(conversation):
        quoted = "\n".join(f"> {line}".rstrip() for line in exchange.question.splitlines())
        parts += [f"## {_('Question')}", quoted, exchange.answer or f"*{no_answer()}*"]
        if exchange.answer and not exchange.is_whole:
            parts.append(f"*{_('Réponse incomplète.')}*")
        if exchange.sources:
            lines = source_lines(exchange.sources, write=plain_markdown)
            listed = "\n".join(f"- {line}" for line in lines)
            parts += [f"**{_('Sources')}**", listed]
    return ("\n\n".join(parts) + "\n").encode()


def source_lines(sources: Sequence[dict[str, Any]], *, write: Callable[[str], str] = str) -> list[str]:
    """« [1] Title, p. 3 – the question that the passage answers – its address », title and question as `write` puts
    them.
    """
    lines = []
    for source in sources:
        is_learned = bool(source.get("learned_id") and source.get("question"))
        title = _("Réponse validée") if is_learned else source.get("title")
        title = write(_one_line(str(title or _("Document sans titre"))))
        if isinstance(source.get("page"), int):
            title += f", {_('p. {page}').format(page=source['page'])}"
        question = write(_one_line(str(source.get("question") or "")))
        address = str(source.get("url") or "")
        named = (title, question, address if _ADDRESS.fullmatch(address) else "")
        lines.append(f"[{source.get('n', '')}] {' – '.join(part for part in named if part)}")
    return lines


def dated(conversation: Conversation) -> str:
    day = formats.date_format(timezone.localtime(conversation.created_at), "DATE_FORMAT")
    return _("%(desk)s, conversation du %(day)s.") % {"desk": conversation.deployment.name, "day": day}


def no_answer() -> str:
    return _("Cette question est restée sans réponse.")


def _one_line(text: str) -> str:
    return " ".join(text.split())
