"""A model's reasoning is taken out of its replies in every form that servers send it in, however it is cut."""

import pytest

from agents.llm.openai import StreamDecoder
from agents.llm.reasoning import MAX_REASONING_CHARACTERS, ReasoningFilter
from tests.unit.agents.test_llm_decoder import decode, event

pytestmark = pytest.mark.unit

SAID = "Bonjour [1]."
MARKS = ("think", "thinking", "reasoning", "Thought", "reason", "seed:think")
FORMS = [
    *(f"<{mark}>\nle prix 4711\n</{mark}>\n\n{SAID}" for mark in MARKS),
    f"Je dois taire 4711.\n</think>\n\n{SAID}",
    f"<think>a <think>b</think> 4711</think>{SAID}",
    f"<think>`</think>` 4711</think>{SAID}",
    f" \n<think>4711</think>{SAID}",
    f"<think>4711 finit par `</think>{SAID}",
    f"<think>```py\n4711\n```</think>{SAID}",
    f"<think>Ne pas écrire `</think>`, 4711</think>\n\n{SAID}",
    f"<think>\n\n</think>\n\n{SAID}",
    f"[THINK]4711[/THINK]{SAID}",
    f"◁think▷4711◁/think▷{SAID}",
    f"<|begin_of_thought|>4711<|end_of_thought|><|begin_of_solution|>{SAID}<|end_of_solution|>",
    f"<|channel|>analysis<|message|>4711<|end|><|start|>assistant<|channel|>final<|message|>{SAID}<|return|>",
]
#: What a person may write about, and texts in which a mark is none.
TEXTS = [
    "La balise `<think>` ouvre, `</think>` ferme.",
    "```\n<think>\n```\nfin",
    "git <reason> et a<b, [T] ◁",
    " \n x\n",
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 50, 1000])
@pytest.mark.parametrize("form", FORMS)
def test_no_cut_of_a_reply_lets_reasoning_through(form: str, size: int) -> None:
    pieces = [form[at : at + size] for at in range(0, len(form), size)]
    decoder = StreamDecoder(model="unit")
    shown = ""
    for chunk in [decoder.chunk(decoder.feed(event(piece))) for piece in pieces] + [decoder.chunk(decoder.close())]:
        if chunk is not None:
            shown = chunk.text if chunk.starts_over else shown + chunk.text
    decoder.feed(b"data: [DONE]\n\n")
    assert shown == decoder.reply().text == SAID
    assert ("4711" in form) == ("4711" in decoder.reply().reasoning)


@pytest.mark.parametrize("text", TEXTS)
def test_marks_in_code_and_texts_like_marks_stay(text: str) -> None:
    assert decode(*map(event, text))[1] == text


def test_reasoning_that_is_never_closed_is_no_text() -> None:
    assert decode(event("<think>4711, and then the limit"))[1] == ""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("field", ["", "Je pense."])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>4711</think>\n\n- a\n  - b\n\n    c = 1\n", "- a\n  - b\n\n    c = 1\n"),
        ("Un. <think>4711</think>\n\nDeux :\n\n    x\n", "Un. Deux :\n\n    x\n"),
        ("<think>\n</think>\n\na \n\n b", "a \n\n b"),
    ],
)
def test_white_space_goes_only_where_reasoning_stood(said: str, text: str, field: str, size: int) -> None:
    filtered = ReasoningFilter()
    filtered.note(field)
    pieces = [filtered.feed(said[at : at + size]) for at in range(0, len(said), size)]
    assert "".join([*pieces, filtered.flush()]) == filtered.text == text


def test_answer_held_back_for_a_closing_mark_comes_whole_and_alone() -> None:
    filtered, answer = ReasoningFilter(awaits_close=True), "mot " * MAX_REASONING_CHARACTERS + "fin"
    filtered.note("Je pense.")
    assert filtered.feed(answer) == ""
    assert filtered.flush() == filtered.text == answer
    assert filtered.reasoning == "Je pense."
