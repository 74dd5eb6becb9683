"""Where the sources of an answer stand in its text, as `url_citation` says it."""

import uuid

from django.test import RequestFactory

from chat.api.v1.writers import url_citations

QUESTION = "Combien coûte la carte ?"


def test_answer_that_cites_nothing_rests_whole_on_each_of_its_sources() -> None:
    sources = [
        {"n": 1, "title": "Guide > Prix", "question": "Prix", "url": "https://example.org/prix"},
        {"n": 2, "title": "Guide", "question": QUESTION},
    ]
    request = RequestFactory().get("/v1/chat/completions")
    found = [each["url_citation"] for each in url_citations(request, uuid.uuid4(), "12 €.", sources)]
    assert [(each["start_index"], each["end_index"]) for each in found] == [(0, 5), (0, 5)]
    assert [each["title"] for each in found] == ["Guide › Prix", f"Guide › {QUESTION}"]
    assert found[0]["url"] == "https://example.org/prix"
    assert found[1]["url"].startswith("http://testserver/p/")


def test_nth_address_is_that_of_the_nth_source() -> None:
    page = "https://example.org/prix"
    sources = [
        {"n": 1, "title": "Guide", "question": "Prix", "url": page},
        {"n": 2, "title": "Guide", "question": "Dates", "url": page},
        {"n": 3, "title": "Guide", "question": "Lieu"},
        {"n": 4, "title": "Guide", "question": "Rien"},
    ]
    request = RequestFactory().get("/v1/chat/completions")
    found = [
        each["url_citation"]
        for each in url_citations(request, uuid.uuid4(), "Ici [3], en mai [2] [9], ici [3].", sources)
    ]
    urls = list(dict.fromkeys(each["url"] for each in found))
    assert len(urls) == 3
    assert urls[0] == page
    assert [each["title"] for each in found] == [
        "Guide › Prix", "Guide › Dates", "Guide › Lieu", "Guide › Lieu",
    ]  # fmt: skip
    places = [(each["start_index"], each["end_index"]) for each in found]
    assert places == [(0, 0), (16, 19), (4, 7), (29, 32)]
