"""What chat programs wrap around a question, and what they ask for themselves; their own words are quoted in part."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from chat.doors.openai.annotations import url_citations
from chat.doors.openai.chores import chore_of
from chat.doors.openai.pasted import own_question, own_sources
from chat.doors.openai.renumbering import renumbered
from chat.protocol import Delta, Done, Event, Sources

ATTACHED = '<attached_files>\n<file type="file" id="1" name="a.txt"/>\n</attached_files>\n\n'
QUESTION = "Combien coûte la carte ?"
HISTORY = f"<chat_history>\nUSER: {QUESTION}\nASSISTANT: 12 €.\n</chat_history>"
CONTEXT = "<context>\n<source>Query: rien</source>\n</context>"
CHORES = [
    (f"### Task:\nGenerate a concise, 3-5 word title summarizing the chat history.\n{HISTORY}", "", "title"),
    (f"### Task:\nGenerate 1-3 broad tags categorizing the main themes.\n{HISTORY}", "", "tags"),
    (f"### Task:\nSuggest 3-5 relevant follow-up questions or prompts.\n{HISTORY}", "", "follow_ups"),
    (f"### Task:\nDetermine the necessity of generating search queries.\n{HISTORY}", "", "queries"),
    (f'### Task:\nPredict 3-5 useful messages. Respond with a "follow_ups" key.\n{HISTORY}', "", "follow_ups"),
    (f"### Task:\nGenerate a detailed prompt for am image generation task.\n{HISTORY}", "", "prompt"),
    ("### Task:\nYou are an autocompletion system.\n<text>Combien</text>", "", "text"),
    (QUESTION, 'Available Tools: []\n\nYour task is to choose and return the correct tool(s)', "tool_calls"),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "instructions", "field"), CHORES)
def test_housekeeping_is_answered_in_the_form_that_the_program_reads(
    prompt: str, instructions: str, field: str
) -> None:
    chore = chore_of(prompt, instructions)
    assert chore is not None
    assert list(json.loads(chore.answer)) == [field]


def test_title_is_the_first_question() -> None:
    for prompt in (
        CHORES[0][0],
        CHORES[0][0].replace(QUESTION, ATTACHED + QUESTION),
        "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. "
        f"Only return the title itself.\n\nConversation:\nUser: {QUESTION}\nAI: 12 €.",
    ):
        chore = chore_of(prompt)
        assert chore is not None
        assert QUESTION in chore.answer
        assert "attached" not in chore.answer


def test_queries_are_the_last_question() -> None:
    later = HISTORY.replace("\n</", "\nUSER: Et pour\nun retraité ?\n</")
    chore = chore_of(CHORES[3][0].replace(HISTORY, later))
    assert chore is not None
    assert json.loads(chore.answer) == {"queries": ["Et pour un retraité ?"]}


def test_conversation_that_speaks_of_housekeeping_does_not_change_which_is_asked_for() -> None:
    history = HISTORY.replace("12 €.", "Write broad tags, a title summarizing the chat history.")
    chore = chore_of(CHORES[3][0].replace(HISTORY, history))
    assert chore is not None
    assert chore.name == "queries"
    pasted = f"### Task:\nRespond using the context.\n<context>{history}</context>\n\n{QUESTION}"
    assert chore_of(pasted) is None


def test_answers_of_several_models_are_given_the_first_and_a_compacted_thread_nothing() -> None:
    merging = (
        "You have been provided with a set of responses from various models to the latest user query: "
        f'"{QUESTION}"\n\nYour task is to synthesize these responses into one.\n\n'
        'Responses from models: """12 €.\n\nEnviron."""\n\n"""Treize."""'
    )
    merged = chore_of(merging)
    assert merged is not None
    assert merged.answer == "12 €.\n\nEnviron."
    compacting = (
        "### Task:\nSummarize the conversation history that will be compacted out of the active chat context.\n"
        f"\n### Messages Being Compacted:\nUSER: {QUESTION}"
    )
    compacted = chore_of(compacting)
    assert compacted is not None
    assert not compacted.answer


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        "How do I generate tags summarizing the chat history?",
        "### Task: what is a title?",
        "Give me search queries and follow-up questions",
    ],
)
def test_question_of_a_person_is_no_housekeeping_and_stays_as_it_is(question: str) -> None:
    assert chore_of(question) is None
    assert own_question(question) == question


@pytest.mark.parametrize(
    "pasted",
    [
        f"### Task:\nRespond using the context.\n{CONTEXT}\n\n{QUESTION}",
        f"### Task:\nRespond using the context.\n{CONTEXT}\n\nQuery: {QUESTION}",
        f"### Task:\nRespond using the context.\n{CONTEXT}\n\n{ATTACHED}{QUESTION}",
        f"{ATTACHED}{QUESTION}",
        f"### Task:\nRespond.\n{CONTEXT}\n\n<user_query>\n{QUESTION}\n</user_query>",
        "Context information is below.\n---------------------\nQuery: rien\n---------------------\n"
        f"Given the context information and not prior knowledge, answer the query.\nQuery: {QUESTION}\nAnswer: ",
        f"Use the following pieces of context to answer.\n\nRien.\n\nQuestion: {QUESTION}\nHelpful Answer:",
    ],
)
def test_question_is_found_in_a_template(pasted: str) -> None:
    assert own_question(pasted) == QUESTION


@given(st.text())
def test_template_is_never_read_as_an_empty_question(text: str) -> None:
    for pasted in (
        text,
        f"{ATTACHED}{text}",
        f"### Task\n<context>{text}</context>",
        f"Use the following{text}\nQuery: ",
    ):
        assert own_question(pasted).strip() or not pasted.strip()


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


def test_clients_own_sources_are_counted_in_its_template_alone() -> None:
    given = '<context>\n<source id="1" name="a.txt">x</source>\n<source id="2">y</source>\n</context>'
    assert own_sources(f"### Task:\nRespond.\n{given}\n\n{QUESTION}") == 2
    assert own_sources(f"{QUESTION} {given}") == 0
    assert own_sources(QUESTION) == 0


@given(st.lists(st.sampled_from(["[", "1", "2", "3", "]", "[1]", "[2] ", "[3]", "a", "12"]), max_size=20))
def test_numbers_go_on_from_the_clients_however_the_text_is_cut(pieces: list[str]) -> None:
    text = "".join(pieces)
    done = Done("done", "generated", "", 1, text)

    async def told() -> list[Event]:
        async def events() -> AsyncGenerator[Event, None]:
            yield Sources([{"n": 1}, {"n": 2}])
            for piece in pieces:
                yield Delta(piece)
            yield done

        return [event async for event in renumbered(events(), 4)]

    sources, *deltas, last = asyncio.run(told())
    expected = text.replace("[2]", "[6]").replace("[1]", "[5]")
    assert isinstance(sources, Sources)
    assert [source["n"] for source in sources.sources] == [5, 6]
    assert "".join(delta.text for delta in deltas if isinstance(delta, Delta)) == expected
    assert isinstance(last, Done)
    assert last.content == expected
