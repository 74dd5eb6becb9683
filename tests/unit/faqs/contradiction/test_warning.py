"""When staff are warned, and what they are told."""

import json
from pathlib import Path

import pytest
from django.utils import translation

from faqs.contradiction.warning import Entry, Warning, warning_about

PAIRS = Path(__file__).resolve().parents[3] / "pairs"


def warn(stored: Entry, new: Entry, *, asks_the_same: bool = False) -> Warning | None:
    return warning_about(stored, new, asks_the_same=asks_the_same)


def told(stored: Entry, new: Entry) -> list[str]:
    warning = warn(stored, new)
    return [str(clash) for clash in warning.clashes] if warning else []


POOL = ("Combien coûte la piscine ?", "L'entrée est à 5 €.")


def test_price_of_a_narrower_question_clashes() -> None:
    adult = ("Combien coûte l'entrée de la piscine pour un adulte ?", "6 €.")
    assert told(POOL, adult) == ["prix : 5 € ≠ 6 €"]


def test_two_addresses_of_one_place_clash() -> None:
    stored = ("Où est la mairie ?", "12 place de la République.")
    new = ("Quelle est l'adresse de la mairie ?", "3 rue Victor-Hugo.")
    assert told(stored, new) == ["adresse : 12 place de la republique ≠ 3 rue victor-hugo"]


@pytest.mark.parametrize(
    "new",
    [
        ("Combien coûte la piscine pour un enfant ?", "3 €."),
        ("Combien coûte la patinoire ?", "6 €."),
        ("Combien coûte l'entrée de la piscine ?", "Cinq euros."),
        ("How much is the pool?", "The entrance is €5."),
        ("Quand ouvre la piscine ?", "À 9 h."),
    ],
)
def test_another_subject_part_or_notation_does_not_clash(new: Entry) -> None:
    assert told(POOL, new) == []


def test_two_languages_with_other_facts_clash() -> None:
    assert told(POOL, ("How much is the pool?", "It costs €6.")) == ["prix : 5 € ≠ €6"]
    closed = ("Is the library open on Sundays?", "No.")
    assert told(("La bibliothèque est-elle ouverte le dimanche ?", "Oui."), closed)


def test_what_one_answer_denies_and_the_other_asks_for_clashes() -> None:
    stored = ("Faut-il une ordonnance pour le vaccin contre la grippe ?", "Oui.")
    new = ("Que faut-il pour le vaccin contre la grippe ?", "L'ordonnance n'est pas demandée.")
    assert "ordonnance : oui ≠ non" in told(stored, new)


def test_exception_that_is_named_explains_the_other_answer() -> None:
    stored = ("La mairie est-elle ouverte le samedi ?", "Oui, sauf en août.")
    assert told(stored, ("La mairie ouvre-t-elle le samedi en août ?", "Non, elle est fermée.")) == []
    assert told(stored, ("La mairie ouvre-t-elle le samedi matin ?", "Non, elle est fermée."))


def test_clashes_are_told_in_the_language_of_the_reader() -> None:
    stored = ("Horaires de la piscine le vendredi", "De 12 h à 20 h.")
    new = ("What time does the pool close on Fridays?", "At 9 pm.")
    assert told(stored, new) == ["heure : 12:00 ≠ 21:00"]
    with translation.override("en"):
        assert told(stored, new) == ["time: 12:00 ≠ 21:00"]


def test_same_question_contradicts_unless_the_answers_agree() -> None:
    question = "Quel est le délai de rétractation ?"
    stored = (question, "Deux semaines à compter de la réception.")
    kinds = {
        answer: warn(stored, (question, answer), asks_the_same=True)
        for answer in (stored[1], "14 jours après réception.", "Un mois.", "Aucun délai.")
    }
    found = [warning.kind if warning else "" for warning in kinds.values()]
    assert found == ["duplicate", "duplicate", "contradiction", "contradiction"]


def test_development_set_stays_at_its_floor() -> None:
    rows = [json.loads(row) for row in (PAIRS / "contradictions_dev.jsonl").open(encoding="utf-8")]
    warned = [bool(told(*(tuple(r[s].values()) for s in ("stored", "new")))) for r in rows]
    right = sum(w and r["label"] == "contradiction" for w, r in zip(warned, rows, strict=True))
    assert right / 120 >= 0.75
    assert right / sum(warned) >= 0.95
