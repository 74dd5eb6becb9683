"""The second key: what it must tell apart, what it must forgive, and that it has no direction."""

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faqs.second_key.lexicon import Fragments, Lexicon, Rule, lexicon_of, rewritten
from faqs.second_key.reading import MAX_CHARACTERS, read_question
from faqs.second_key.same_question import Agreement, compare_questions
from knowledge.language.numbers import prepare, quantities, tokens
from tests.waiting import little_work


def rows_of(*names: str) -> list[dict[str, Any]]:
    folder = Path(__file__).resolve().parents[3] / "pairs"
    return [json.loads(line) for name in names for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]


PAIRS = rows_of("everyday_fr")
WRITTEN = rows_of("written_for_rules")
#: What is refused for one of these is never left to a model.
_NO_MODEL = ("operator",)
_WORDS = st.sampled_from(
    "comment puis je payer ne pas sans 2 trois 2024 € % mois Lyon COVID-19 le la de à vers avant après "
    "how can i not pay from to the 7am a one year Paris ? , : ( ) ' - né IT".split()
)
_TEXTS = st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=10).map(" ".join))


def both_ways(row: dict[str, Any]) -> Iterator[Agreement]:
    yield compare_questions(row["a"], row["b"])
    yield compare_questions(row["b"], row["a"])


def test_pairs_written_for_the_rules_are_told_apart_or_not_and_say_why() -> None:
    wrong = []
    for row in WRITTEN:
        for found in both_ways(row):
            kinds = {each.kind for each in found.disagreements}
            is_right = found.agrees is row["same_answer"] and ("kind" not in row or row["kind"] in kinds)
            if row["category"] in _NO_MODEL and found.is_open_to_verification:
                is_right = False
            if not is_right:
                wrong.append((row, kinds))
    assert not wrong


def test_no_pair_of_opposite_meaning_agrees() -> None:
    opposites = rows_of("operators_review", "operators_probe", "operators_fresh", "rephrasing_traps", "forms_traps")
    agreed = [row for row in opposites if any(each.agrees for each in both_ways(row))]
    assert [row for row in agreed if row["category"] != "known error"] == []


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("fr_dev", 0.75),
        ("en_dev", 0.55),
        ("fr_operators_dev", 0.75),
        ("en_operators_dev", 0.75),
        ("adversarial_first", 0.70),
        ("adversarial_second", 0.80),
        # Written independently of the rules; what the first measurement, before any rule was changed for them, gave:
        # `benchmarks/thresholds`.
        ("independent_fr", 0.60),
        ("independent_en", 0.64),
        ("frames", 0.86),
        ("forms", 0.95),
        ("everyday_fr", 0.80),
    ],
)
def test_pairs_keep_their_floor(name: str, floor: float) -> None:
    agrees = [(row["same_answer"], compare_questions(row["a"], row["b"]).agrees) for row in rows_of(name)]
    hits = [agreed for same, agreed in agrees if same]
    assert sum(hits) / len(hits) >= floor
    assert not any(agreed for same, agreed in agrees if not same)


@settings(max_examples=300, deadline=None)
@given(_TEXTS | st.sampled_from(["Est-elle ?", "sont", "Are they?", "?", ""]))
def test_a_question_agrees_with_itself(text: str) -> None:
    assert compare_questions(text, text).agrees


@settings(max_examples=300, deadline=None)
@given(_TEXTS, _TEXTS)
def test_agreement_has_no_direction(one: str, two: str) -> None:
    assert compare_questions(one, two).agrees == compare_questions(two, one).agrees


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PAIRS), st.integers(2, 90_000), st.integers(2, 90_000), st.booleans())
def test_another_number_always_disagrees(pair: dict[str, str], one: int, two: int, unit: bool) -> None:
    text = pair["a"].rstrip(" ?") + (" pour {} euros ?" if unit else " dossier {} ?")
    agrees = compare_questions(text.format(one), text.format(two)).agrees
    assert agrees == (one == two)


@pytest.mark.parametrize("gap", ["\n" * MAX_CHARACTERS, " bonjour" * 300, "?" * MAX_CHARACTERS])
def test_nothing_behind_the_bound_is_ignored(gap: str) -> None:
    stored = "Quel est le montant de la prime ?"
    agreement = compare_questions(stored, f"{stored}{gap} Quelle est la pénalité de retard ?")
    assert not agreement.agrees
    assert not agreement.is_open_to_verification


def test_a_long_text_is_compared_in_reasonable_time() -> None:
    text = ("Comment payer 1 000 € en 12 mois, sans frais ? " * 200)[: MAX_CHARACTERS - 10]
    with little_work(2):
        compare_questions(text, text + " jamais")


_CLEAN = [
    "Comment renouveler mon passeport ?",
    "Quel est le délai de livraison d'un colis ?",
    "Puis-je payer ma facture en plusieurs fois ?",
    "La piscine est-elle ouverte le samedi ?",
    "How do I change my delivery address?",
    "Is the gym open on Sundays?",
    "What documents do I need to open an account?",
]
_POLITE = {
    "fr": ("bonjour, {}", "{} svp", "Bonsoir, {} Merci d'avance", "excusez-moi, {}"),
    "en": ("hi, {}", "{} please", "Hello, {} Thanks in advance", "excuse me, {}"),
}


def _language(text: str) -> str:
    return "en" if text.split()[0] in {"How", "Is", "Where", "What", "Can", "Which", "Do"} else "fr"


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(_CLEAN), st.integers(0, 3), st.sampled_from(("", "lower", "upper")))
def test_accents_case_and_politeness_change_nothing(text: str, polite: int, case: str) -> None:
    asked = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    asked = getattr(asked, case)() if case else asked
    asked = _POLITE[_language(text)][polite].format(asked)
    assert compare_questions(text, asked).agrees, compare_questions(text, asked).disagreements


_THINGS = [
    ("Quelle", "la ", "distance minimale entre deux réseaux"),
    ("Quel", "le ", "délai maximal pour rembourser un acompte"),
    ("Quelle", "la ", "vitesse autorisée sur une route étroite"),
    ("Quel", "l'", "âge légal de la retraite"),
    ("Quelle", "l'", "amende encourue en cas de retard"),
    ("Quels", "les ", "frais de dossier d'un prêt"),
    ("Quelles", "les ", "conditions pour adopter un enfant"),
]
_FRENCH_FORMS = [
    "{which} {thing} ?",
    "{which} {be} {the}{thing} ?",
    "{which} {be} donc {the}{thing} ?",
    "{which} {be} exactement {the}{thing} ?",
    "C'est quoi {the}{thing} ?",
    "Pouvez-vous me dire {which} {be} {the}{thing} ?",
    "Bonjour, je voudrais savoir {which} {be} {the}{thing}, s'il vous plaît.",
    "J'aimerais connaître {the}{thing}.",
]
_ENGLISH_THINGS = ["maximum weight for hand luggage", "minimum age for a licence", "speed limit on a country road"]
_ENGLISH_FORMS = [
    "What is the {thing}?",
    "What's the {thing}?",
    "what is the {thing}",
    "So what is the {thing}, please?",
    "Could you tell me what the {thing} is?",
    "Hi, I would like to know what the {thing} is.",
    "Please tell me the {thing}.",
]


def _french(form: str, which: str, the: str, thing: str) -> str:
    be = "sont" if which.endswith("s") else "est"
    return form.format(which=which if form[0] == "{" else which.lower(), be=be, the=the, thing=thing)


_SAID = [[_french(form, *thing) for form in _FRENCH_FORMS] for thing in _THINGS]
_SAID += [[form.format(thing=thing) for form in _ENGLISH_FORMS] for thing in _ENGLISH_THINGS]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(_SAID).flatmap(lambda forms: st.tuples(st.sampled_from(forms), st.sampled_from(forms))))
def test_forms_of_a_question_are_one_question(pair: tuple[str, str]) -> None:
    stored, asked = pair
    assert compare_questions(stored, asked).agrees, (stored, asked, compare_questions(stored, asked).disagreements)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(_SAID), min_size=2, max_size=2, unique_by=tuple), st.data())
def test_no_form_makes_two_things_one(two: list[list[str]], data: st.DataObject) -> None:
    stored, asked = (data.draw(st.sampled_from(forms)) for forms in two)
    assert not compare_questions(stored, asked).agrees


@pytest.mark.parametrize(
    ("text", "value"), [("$5 an hour", 5), ("€1,250 a year", 1250), ("a £5 charge", 5), ("vingt et un euros", 21)]
)
def test_article_beside_a_price_is_no_part_of_it(text: str, value: int) -> None:
    found = [quantity for _start, _end, quantity in quantities(tokens(prepare(text)))]
    assert found[0].value == value


# --- Rewrite rules ---------------------------------------------------------------------------------------------------


def _rules() -> Iterator[tuple[Lexicon, str, Rule]]:
    for lexicon in map(lexicon_of, ("fr", "en")):
        for stage in ("accents", "contractions", "rewrites"):
            yield from ((lexicon, stage, rule) for rule in getattr(lexicon, stage))


def test_the_examples_of_every_rule_hold() -> None:
    for _lexicon, _stage, rule in _rules():
        assert rule.why
        for one, two in rule.same:
            assert compare_questions(one, two).agrees, (rule.id, compare_questions(one, two).disagreements)
        for one, two in rule.different:
            assert not compare_questions(one, two).agrees, (rule.id, one, two)


def test_an_example_needs_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    for lexicon, stage, rule in list(_rules()):
        others = tuple(each for each in getattr(lexicon, stage) if each is not rule)
        with monkeypatch.context() as patched:
            read_question.cache_clear()
            patched.setattr(lexicon, stage, others)
            same = [compare_questions(*pair).agrees for pair in rule.same]
            different = [compare_questions(*pair).agrees for pair in rule.different]
        assert not all(same) or any(different), rule.id
    read_question.cache_clear()


def test_a_rule_may_be_written_as_phrases_and_fragments() -> None:
    fragments = Fragments({"article": "le | la", "thing": "{article} (?:chat|chien)"})
    table = {"animal": {"why": "…", "phrases": "{thing} | un animal", "to": "bete"}}
    assert rewritten("voir le chien et un animal", fragments.rules(table)) == "voir bete et bete"
    assert rewritten("voir le chienne", fragments.rules(table)) == "voir le chienne"


def test_an_explanation_shows_both_sides() -> None:
    assert "2023 ≠ 2024" in compare_questions("Le barème 2023 ?", "Le barème 2024 ?").explain()
    assert "où ≠ quand + où" in compare_questions("Où payer ?", "Où et quand payer ?").explain()
