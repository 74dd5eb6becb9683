"""Exchanges and sources as HTML of the server's own, for the pages that are only read: shared, cited, kept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.utils.html import linebreaks

from chat.citations import escape_citations
from chat.rendering import render_answer

#: A shared page is opened by anybody and as often as they like: all that its passages may cost is about a second.
MAX_RENDERED_CHARACTERS = 200_000


def rendered_exchanges(exchanges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Exchanges (`question`, `answer`, `sources`) with their answers as sanitised HTML; `place` numbers them, as citations do."""
    passages = rendered_texts(
        text_of(source) for exchange in exchanges for source in exchange["sources"]
    )
    return [
        {
            **exchange,
            "place": place,
            "html": render_answer(
                exchange["answer"],
                turn_id=str(place),
                source_numbers={source["n"] for source in exchange["sources"] if "n" in source},
            ),
            "sources": [rendered_source(source, passages) for source in exchange["sources"]],
        }
        for place, exchange in enumerate(exchanges, start=1)
    ]


def rendered_texts(texts: Iterable[str]) -> dict[str, str]:
    """The HTML of each text of a source; of those past `MAX_RENDERED_CHARACTERS`, their lines as they stand."""
    html: dict[str, str] = {}
    left = MAX_RENDERED_CHARACTERS
    for text in texts:
        if text in html:
            continue
        left -= len(text)
        html[text] = (
            render_answer(escape_citations(text), turn_id="", source_numbers=())
            if left >= 0
            else linebreaks(text, autoescape=True)
        )
    return html


def rendered_source(source: Mapping[str, Any], passages: Mapping[str, str]) -> dict[str, Any]:
    """A source as the chat page shows it. `repeats`: its question is already the end of its title."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    return {
        **source,
        "title": title.replace(" > ", " › "),
        "repeats": title.split(" > ")[-1] == question,
        "html": passages[text_of(source)],
    }


def text_of(source: Mapping[str, Any]) -> str:
    return str(source.get("text") or "")
