"""Inside a conversation a message is looked up alone only where it names its own subject."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.turn.follow_ups import leaned_on, leaning_rule, standalone_question
from tests.waiting import little_work

MESSAGES = Path(__file__).resolve().parents[5] / "benchmarks" / "followups" / "messages.jsonl"
#: What is recognised of the messages that the rules were made on, and mistaken of those that stand alone.
LEAST_RECOGNISED = {"fr": 0.90, "en": 0.86}
MOST_MISTAKEN = 0.02

LEANING = [
    ("Oui, volontiers", "Souhaitez-vous le détail ?", "assent"),
    ("ok, go ahead", "", "assent"),
    ("yes, send me the papers", "Shall I send them?", "assent"),
    ("la deuxième", "Laquelle voulez-vous ?", "choice"),
    ("the first one, thanks", "", "choice"),
    ("48213", "Which order is it?", "choice"),
    ("une paire de chaussures bleues", "Quel article voulez-vous rendre ?", "reply"),
    ("Y a-t-il un préavis ?", "", "existence"),
    ("is there an early exit fee?", "", "existence"),
    ("L'appel est surtaxé ?", "", "definite"),
    ("Is the router included?", "", "definite"),
    ("Je dois la payer d'abord ?", "", "pronoun"),
    ("ok renew it please", "", "assent"),
    ("How does exercise affect it?", "", "pronoun"),
    ("the cheaper one, thanks", "", "choice"),
    ("Laquelle est la plus fiable ?", "", "comparison"),
    ("je voulais dire le contrat pro", "", "correction"),
    ("I was asking about the family one", "", "correction"),
    ("faut signer ?", "", "ellipsis"),
    ("il faut combien de photos", "", "ellipsis"),
    ("do I have to pay a deposit", "", "existence"),
    ("Ireland as well?", "", "connective"),
    ("Et pour les réunions d’équipe, quel jour est prévu ?", "", "connective"),
    ("Dans ce cas, comment déclarer la naissance de ma fille ?", "", "connective"),
]
ALONE = [
    "Comment commander un chéquier ?",
    "Où trouver mon identifiant de messagerie ?",
    "Qui peut bénéficier de MaPrimeRénov' ?",
    "Comment contester une amende ?",
    "Y a-t-il un délai pour porter plainte ?",
    "Is there a limit on transfers abroad?",
    "OK, how do I raise my overdraft limit?",
    "Is the Spy Museum free?",
    "If I lose my card, can I replace it?",
    "Bonjour, comment obtenir un extrait de naissance ?",
    "Merci beaucoup !",
    "Do you have a train to London?",
    "Et comment déclarer la naissance de ma fille ?",
    "And by the way, how do I report a broken street lamp?",
    "Et si je perds ma carte, comment bloquer mon compte ?",
    "et sinon où jeter mes vieilles peintures",
    "Prix d'une carte de pêche ?",
    "canoe hire prices?",
    "Do I have to pay the television licence?",
    "erase my to do list",
    "order all items on the list",
    "J'ai perdu mon écharpe rouge hier soir au concert de Noël",
]


@pytest.mark.parametrize(("message", "answer", "rule"), LEANING)
def test_message_without_a_subject_of_its_own_leans(message: str, answer: str, rule: str) -> None:
    assert leaning_rule(message, "Comment fonctionne l'abonnement ?", answer) == rule


@pytest.mark.parametrize("message", ALONE)
def test_message_that_names_its_subject_stands_alone(message: str) -> None:
    assert leaning_rule(message, "Quels sont les horaires de la piscine ?", "De 10 h à 19 h.") == ""


def test_noun_with_its_article_leans_where_it_was_said_before() -> None:
    question = "Qui entretient la chaudière ?"
    assert leaning_rule(question, "Qui change la chaudière d'un logement loué ?")
    assert leaning_rule(question, "Comment contester une amende ?") == ""


def test_question_that_goes_on_asking_for_the_same_kind_of_thing_leans() -> None:
    question = "Et combien coûte la carte de lecteur ?"
    assert leaning_rule(question, "Quels sont les tarifs pour les mineurs ?") == "connective"
    assert leaning_rule(question, "Où est la bibliothèque ?") == ""


def test_message_that_only_takes_up_what_was_said_is_not_searched_by_itself() -> None:
    previous = "Comment renouveler ma carte ?"
    assert standalone_question("oui", previous, "Voulez-vous le lien ?").alone == ""
    assert standalone_question("L'appel est surtaxé ?", previous).alone == "L'appel est surtaxé ?"


def test_follow_up_of_a_follow_up_leans_on_the_question_that_stands_alone() -> None:
    asked = ["Qui paie la taxe foncière ?", "Comment renouveler un passeport ?", "C'est gratuit ?"]
    assert leaned_on(asked) == "Comment renouveler un passeport ?\nC'est gratuit ?"


@pytest.mark.parametrize("language", ["fr", "en"])
def test_most_messages_that_lean_are_recognised_and_hardly_any_other(language: str) -> None:
    rows = [json.loads(line) for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    said: dict[bool, list[bool]] = {True: [], False: []}
    for row in rows:
        if row["language"] == language:
            rule = leaning_rule(row["question"], row["previous"], row["answer"])
            said[row["leans"]].append(bool(rule))
    assert sum(said[True]) / len(said[True]) >= LEAST_RECOGNISED[language]
    assert sum(said[False]) / len(said[False]) <= MOST_MISTAKEN


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_read(message: str, previous: str, answer: str) -> None:
    leaning_rule(message, previous, answer)


@given(st.sampled_from(["oui", "d'accord", "yes please", "ok", "la première", "the second one"]))
def test_assent_or_choice_leans_however_it_is_written(message: str) -> None:
    for form in (message, message.upper(), f"{message} !", f"  {message}. "):
        assert leaning_rule(form, "Comment fonctionne l'abonnement ?")


@pytest.mark.parametrize(
    "text", ["ok " * 3_000, "the fee " * 2_000, "is there a " + "b " * 4_000, "oui, " * 2_000 + "x"]
)
def test_long_message_is_read_in_bounded_time(text: str) -> None:
    with little_work(0.1):
        leaning_rule(text, text, text)
