"""Stored conversations: exports (never naming the author), search, cited passages, and purging."""

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, TextField, Value
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from agents.effective import effective_config
from agents.models import OPEN_JOBS, Deployment
from agents.retention import delete_in_batches
from chat.access.permissions import open_deployments
from chat.access.visitors import SomeUser
from chat.errors import LinkNotFoundError
from chat.models import Conversation, GoldenRun, Message, Role, Turn, TurnStatus
from chat.rendering import plain_markdown
from chat.thread.messages import branch_turns
from knowledge.language.words import ACCENTED, PLAIN, fold_letters
from knowledge.page_viewer import CitedPages, cited_pages

#: An export holds the last exchanges only, where there are more.
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
    """A file name made from the title that every file system accepts."""
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
    """« [1] Title, p. 3 – the question that the passage answers – its address », as `write` puts them."""
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


#: Of a person's conversations, so many of the latest are searched; so many words of the search count.
SEARCH_MAX_CONVERSATIONS = 2_000
SEARCH_MAX_WORDS = 8

_LONGEST_WORD = 60


class Folded(Func):
    """`fold_letters` in the database: SQLite is given the function itself (`chat.signals`), PostgreSQL its letters."""

    output_field = TextField()
    function = "repondant_folded"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return Func(
            Func(*self.source_expressions, function="LOWER"),
            Value(ACCENTED),
            Value(PLAIN),
            function="TRANSLATE",
            output_field=TextField(),
        ).as_sql(compiler, connection, **context)


def search_conversations(own: QuerySet[Conversation], text: str) -> QuerySet[Conversation]:
    """Those of a person's conversations that hold every word of `text`; all of them where it has none."""
    words = _words(text)
    if not words:
        return own
    latest = own.order_by("-is_pinned", "-updated_at").values("pk")
    latest = latest[:SEARCH_MAX_CONVERSATIONS]
    in_title = Q()
    for word in words:
        in_title &= Q(plain_title__contains=word)
    found = Conversation.objects.filter(pk__in=latest).alias(plain_title=Folded(F("title")))
    return found.filter(in_title | Q(Exists(_saying(words).filter(conversation=OuterRef("pk")))))


def _words(text: str) -> list[str]:
    plain = fold_letters(text).replace("\0", " ")
    return [word[:_LONGEST_WORD] for word in plain.split()][:SEARCH_MAX_WORDS]


def _saying(words: Iterable[str]) -> QuerySet[Message]:
    said = Message.objects.exchanges().alias(plain=Folded(F("content")))
    for word in words:
        said = said.filter(plain__contains=word)
    return said


_SIGNER = Signer(salt="chat.cited_passages")


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A source as the answer had it, with the keys of `chat.protocol.Source`."""

    deployment: Deployment
    source: Mapping[str, Any]


def pages_of(passage: CitedPassage) -> CitedPages | None:
    """The pages of the passage, if its deployment shows pages and the document still has the passage."""
    return cited_pages(passage.source.get("chunk_id"), agent_ids=_showing(passage.deployment))


def _showing(deployment: Deployment) -> list[int]:
    configs = effective_config(deployment).of_each_agent
    return [config.agent_id for config in configs if config.show_cited_pages]


def passage_token(turn_id: uuid.UUID, number: int) -> str:
    return _SIGNER.sign_object([turn_id.hex, number])


def cited_passage(user: SomeUser, token: str) -> CitedPassage:
    """The passage behind a token; a missing, forged or forbidden one raises the same `LinkNotFoundError`."""
    try:
        turn_id, number = _SIGNER.unsign_object(token)
    except BadSignature as error:
        raise LinkNotFoundError("no address of a passage") from error
    answers = Message.objects.filter(
        turn=turn_id, role="assistant", conversation__deployment__in=open_deployments(user).values("pk")
    ).select_related("conversation__deployment")
    for answer in answers:
        for source in answer.sources:
            if source.get("n") == number:
                return CitedPassage(answer.conversation.deployment, source)
    raise LinkNotFoundError("no such passage for this person")


#: Conversations deleted in one transaction.
BATCH = 50


def conversations_older_than(days: int) -> QuerySet[Conversation]:
    """Those whose last message is older, temporary ones included."""
    limit = timezone.now() - timedelta(days=days)
    return _not_running(Conversation.objects.filter(updated_at__lt=limit))


def expired_chats() -> QuerySet[Conversation]:
    """Temporary chats past `TEMPORARY_CHAT_HOURS`."""
    limit = timezone.now() - timedelta(hours=settings.TEMPORARY_CHAT_HOURS)
    return _not_running(Conversation.objects.filter(is_temporary=True, updated_at__lt=limit))


def _not_running(conversations: QuerySet[Conversation]) -> QuerySet[Conversation]:
    running = Turn.objects.filter(
        conversation=OuterRef("pk"), status=TurnStatus.RUNNING, lease_expires_at__gt=timezone.now()
    )
    return conversations.filter(~Exists(running))


def purge(conversations: QuerySet[Conversation]) -> Iterator[int]:
    """Delete conversations in batches; yields the number of each. A killed deletion resumes at the next run."""
    yield from delete_in_batches(conversations.order_by("updated_at"), BATCH)


def old_conversations() -> QuerySet[Conversation]:
    """Conversations past their retention (`CONVERSATION_DAYS`); none where the site keeps all."""
    days = settings.CONVERSATION_DAYS
    return conversations_older_than(days) if days else Conversation.objects.none()


def forget_expired() -> int:
    """Delete expired temporary chats; workers run it every few seconds, cheap when idle."""
    return sum(purge(expired_chats()))


def surplus_runs() -> QuerySet[GoldenRun]:
    """Finished runs beyond the last `GOLDEN_RUNS_KEPT` of their set, or of their deployment's « what if »."""
    over = GoldenRun.objects.exclude(job__status__in=OPEN_JOBS)
    kept: set[int] = set()
    for golden_set, deployment in over.order_by().values_list("golden_set", "deployment").distinct():
        same = over.filter(golden_set=golden_set, deployment=deployment).order_by("-pk")
        kept.update(same.values_list("pk", flat=True)[: settings.GOLDEN_RUNS_KEPT])
    return over.exclude(pk__in=kept)
