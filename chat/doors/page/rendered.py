"""Exchanges and sources as HTML of the server's own, for the pages that are only read: shared, cited, kept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.html import linebreaks

from chat.citations import escape_citations
from chat.rendering import ANSWER_HEADING, render_answer

#: A longer question is folded; `chat/static/chat/dom.js` does the same.
LONG_QUESTION_CHARACTERS, LONG_QUESTION_LINES = 600, 8
#: A shared page is opened by anybody and as often as they like: all that its passages may cost is about a second.
MAX_RENDERED_CHARACTERS = 200_000


def rendered_exchanges(exchanges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Exchanges (`question`, `answer`, `sources`) with their answers as sanitised HTML; `place` numbers them, as
    citations do.
    """
    passages = rendered_texts(text_of(source) for exchange in exchanges for source in exchange["sources"])
    return [
        {
            **exchange,
            "place": place,
            "is_long": is_long(exchange["question"]),
            "html": render_answer(
                exchange["answer"],
                turn_id=str(place),
                source_numbers={source["n"] for source in exchange["sources"] if "n" in source},
            ),
            "sources": [rendered_source(source, passages) for source in exchange["sources"]],
        }
        for place, exchange in enumerate(exchanges, start=1)
    ]


def is_long(question: str) -> bool:
    lines = question.count("\n") + 1
    return len(question) > LONG_QUESTION_CHARACTERS or lines > LONG_QUESTION_LINES


def rendered_texts(texts: Iterable[str], *, heading: int = ANSWER_HEADING) -> dict[str, str]:
    """The HTML of each text of a source, its first heading of the level `heading`; of those past
    `MAX_RENDERED_CHARACTERS`, their lines as they stand.
    """
    html: dict[str, str] = {}
    left = MAX_RENDERED_CHARACTERS
    for text in texts:
        if text in html:
            continue
        left -= len(text)
        html[text] = (
            render_answer(escape_citations(text), turn_id="", source_numbers=(), heading=heading)
            if left >= 0
            else linebreaks(text, autoescape=True)
        )
    return html


def rendered_source(source: Mapping[str, Any], passages: Mapping[str, str]) -> dict[str, Any]:
    """A source as the chat page shows it: called by its question, and then with its `place`, else by where it stands."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    path = [] if source.get("learned_id") else title.split(" > ")
    if question and path[-1:] == [question]:
        path.pop()
    place = " › ".join(path)
    return {**source, "title": question or place, "place": place if question else "", "html": passages[text_of(source)]}


def text_of(source: Mapping[str, Any]) -> str:
    return str(source.get("text") or "")
