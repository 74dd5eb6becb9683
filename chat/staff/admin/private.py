"""Markup that admin pages of conversations share: question, answer, sources, score, outcome and verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import ReadOnlyAdmin, Tone, admin_url, badge, rounded, stacked
from chat.models import AnswerSource, Conversation, Feedback, Message, Turn, Verdict
from chat.rendering import render_answer
from faqs.models import LearnedResponse
from knowledge.models import Chunk, Document

_SOURCE_TONES: dict[str, Tone] = {
    AnswerSource.MEMORY_GUARD: "good",
    AnswerSource.DIRECT_QA: "good",
    AnswerSource.GUARD_RAIL: "warning",
    AnswerSource.LLM: "busy",
    AnswerSource.ROUND_LIMIT: "warning",
}


class PrivateAdmin(ReadOnlyAdmin):
    """Rows that hold what people asked: one permission opens them, and no other stands in for it."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.has_perm("chat.view_turn")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chat.view_turn")


def verdict_badge(given: Feedback) -> SafeString:
    if given.withdrawn_at is not None:
        text = gettext("%(verdict)s, retiré") % {"verdict": given.get_verdict_display()}
        return badge(text)
    return badge(given.get_verdict_display(), "good" if given.verdict == Verdict.UP else "bad")


def source_badge(turn: Turn) -> SafeString | str:
    if not turn.answer_source:
        return "–"
    tone = _SOURCE_TONES.get(turn.answer_source, "neutral")
    return badge(turn.get_answer_source_display(), tone)


def prose_of(message: Message) -> SafeString:
    """An answer as its reader saw it; its citations lead to its sources on the same page."""
    return prose(message.content, sources_of(message), key=str(message.turn_id))


def prose(text: str, sources: Sequence[Mapping[str, Any]], *, key: str) -> SafeString:
    """An answer as its reader sees it; `key` tells its sources from those of others on the page."""
    numbers = {source["n"] for source in sources if isinstance(source.get("n"), int)}
    html = render_answer(text, turn_id=key, source_numbers=numbers)
    return mark_safe(html)  # noqa: S308  # sanitised there


def sources_of(message: Message) -> list[dict[str, Any]]:
    return [source for source in message.sources if isinstance(source, dict)]


def asked_text(text: str, conversation: Conversation) -> SafeString:
    """A question or a title in a list, marked where its author asked for it not to last."""
    shown = format_html('<span class="rp-clip">{}</span>', text)
    return stacked(shown, badge(_("Temporaire"), "warning")) if conversation.is_temporary else shown


def score_text(score: float | None) -> str:
    return "–" if score is None else rounded(score, 3)


def linked_sources(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each source with links to its passage, document and validated answer, as far as they still exist."""
    chunks = _existing(Chunk, sources, "chunk_id")
    documents = _existing(Document, sources, "document_id")
    answers = _existing(LearnedResponse, sources, "learned_id")
    return [
        {
            **source,
            "score": score_text(source.get("score")),
            "chunk_url": _url_of(Chunk, source.get("chunk_id"), chunks),
            "document_url": _url_of(Document, source.get("document_id"), documents),
            "answer_url": _url_of(LearnedResponse, source.get("learned_id"), answers),
        }
        for source in sources
    ]


def _existing(model: type[Model], sources: list[dict[str, Any]], key: str) -> set[int]:
    wanted = [source[key] for source in sources if isinstance(source.get(key), int)]
    return set(model._default_manager.filter(pk__in=wanted).values_list("pk", flat=True))


def _url_of(model: type[Model], key: object, existing: set[int]) -> str:
    return admin_url(model, "change", key) if key in existing else ""
