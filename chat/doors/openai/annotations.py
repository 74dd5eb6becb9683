"""Citations as OpenAI's `url_citation` annotations: what chat programs show as sources.

An address is the page that a passage comes from, or this site's own page of the passage.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from chat.archive.cited_passages import passage_token

_CITED = re.compile(r"\[(\d{1,3})\]")


def url_citations(
    request: HttpRequest, turn_id: uuid.UUID, text: str, sources: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One for each `[n]` in the text, by characters; an answer that cites none rests whole on each of its sources.

    Programs that show `[n]` as the n-th source count the addresses in the order in which they come. So they come by
    number, each source with an address of its own, and a lower number that the text does not cite has an empty place.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for found in _CITED.finditer(text):
        places.setdefault(int(found[1]), []).append(found.span())
    by_number = sorted(sources, key=lambda source: source["n"])
    last = max((source["n"] for source in by_number if source["n"] in places), default=0)
    elsewhere = (0, 0) if last else (0, len(text))
    shown = [source for source in by_number if not last or source["n"] <= last]
    return [
        {
            "type": "url_citation",
            "url_citation": {"start_index": start, "end_index": end, "title": _title(source), "url": url},
        }
        for source, url in zip(shown, _addresses(request, turn_id, shown), strict=True)
        for start, end in places.get(source["n"], [elsewhere])
    ]


def _addresses(request: HttpRequest, turn_id: uuid.UUID, sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """The pages they come from; a second passage of one page has its own page of this site."""
    addresses: list[str] = []
    for source in sources:
        url = source.get("url")
        is_new = url and url not in addresses
        addresses.append(str(url) if is_new else _page(request, turn_id, source["n"]))
    return addresses


def _title(source: Mapping[str, Any]) -> str:
    """One line that tells two sources of one document apart."""
    title, question = str(source.get("title") or ""), str(source.get("question") or "")
    return title.replace(" > ", " › ") if question in title else f"{title} › {question}"


def _page(request: HttpRequest, turn_id: uuid.UUID, number: int) -> str:
    return request.build_absolute_uri(reverse("cited-passage", args=[passage_token(turn_id, number)]))
