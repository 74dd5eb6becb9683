"""Questions written by a model: what is let in, and what is refused with a reason."""

import json

import pytest
from pytest_django.fixtures import Settings

from knowledge.indexing.questions import GeneratedUnits, UnitsRequest
from tests.scripted import ScriptedLLM

CONTENT = "La demande de passeport coûte 86 euros. Elle se dépose à la mairie, sur rendez-vous."
GOOD = {"question": "Combien coûte un passeport ?", "answer": "La demande coûte 86 euros."}


def reply(*units: object, **more: object) -> str:
    return json.dumps({"units": list(units), **more})


def generate(text: str) -> tuple[GeneratedUnits, ScriptedLLM]:
    model = ScriptedLLM([text])
    request = UnitsRequest(title="Passeport", parent_context="Prix", content=CONTENT)
    generated = request.take(model.complete(request.messages, request.options))
    return generated, model


def test_valid_reply_gives_units_summary_and_keywords() -> None:
    generated, model = generate(reply(GOOD, summary="Le prix.", keywords=["prix", "prix", ""]))
    assert [(unit.question, unit.answer) for unit in generated.units] == [tuple(GOOD.values())]
    assert (generated.summary, generated.keywords) == ("Le prix.", ("prix",))
    assert generated.rejected == 0
    assert model.calls[0].options.json_object
    assert "Passeport > Prix" in model.calls[0].messages[1].content


def test_reply_in_a_code_fence_is_read() -> None:
    assert len(generate(f"```json\n{reply(GOOD)}\n```")[0].units) == 1


@pytest.mark.parametrize("bad", ["", "{", "[1]", '{"units": "x"}', reply({"question": 3})])
def test_malformed_reply_gives_no_units(bad: str) -> None:
    generated, _model = generate(bad)
    assert generated.units == ()
    assert not generated.is_readable


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (" ", "86 euros."),
        ("Combien ?", " "),
        ("Le prix du passeport", "86 euros."),
        ("Combien" + " vraiment" * 60 + " ?", "86 euros."),
        ("Combien coûte un passeport neuf ?", "La demande coûte 96 euros."),
        ("La demande de passeport coûte-t-elle 86 euros ?", "La demande de passeport coûte 86 euros."),
        ("Quelles sont les conditions ?", "La demande coûte 86 euros."),
        ("Où déposer la demande de passeport ?", "Le formulaire s’envoie par courrier recommandé au ministère."),
    ],
)
def test_bad_unit_is_dropped_and_counted(question: str, answer: str) -> None:
    generated, _model = generate(reply(GOOD, {"question": question, "answer": answer}))
    assert (len(generated.units), generated.rejected) == (1, 1)


def test_same_question_is_kept_once() -> None:
    assert len(generate(reply(GOOD, GOOD))[0].units) == 1


def test_number_of_units_is_bounded(settings: Settings) -> None:
    settings.MAX_UNITS_PER_CHUNK = 2
    units = [{**GOOD, "question": f"Combien coûte le passeport {word} ?"} for word in "abcd"]
    generated, _model = generate(reply(*units))
    assert len(generated.units) == 2


@pytest.mark.parametrize(("language", "named"), [("en", True), ("fr", False), ("", False)])
def test_language_other_than_that_of_the_prompt_is_named(language: str, named: bool) -> None:
    request = UnitsRequest(title="T", parent_context="", content=CONTENT, language=language)
    assert ("ISO 639" in request.messages[-1].content) is named
