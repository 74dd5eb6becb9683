"""Rules that tell a follow-up from a question that stands alone."""

import pytest

from chat.standalone import follow_up_rule, standalone_question

ALONE = [
    "Quels sont les horaires d'ouverture de la mairie ?",
    "Comment renouveler un passeport ?",
    "Faut-il une pièce d'identité pour voter ?",
    "Est-il possible de payer en ligne ?",
    "Y a-t-il un délai pour porter plainte ?",
    "Où se trouve le guichet ?",
    "Le bailleur doit-il fournir un diagnostic ?",
    "Combien coûte la carte de lecteur ?",
    "Puis-je utiliser PostgreSQL au lieu de SQLite ?",
    "À quelle heure ferme la mairie ?",
    "En quoi consiste la garantie ?",
    "Au bout de combien de temps le dossier est-il traité ?",
    "Si je perds ma carte grise, que dois-je faire ?",
    "For how long is the pass valid?",
    "How do I reset my password?",
    "Is it possible to pay in cash?",
    "What is the price of the annual pass?",
    "Where can I park near the station?",
]
FOLLOW_UPS = [
    "Et pour 2024 ?",
    "et si je suis mineur ?",
    "Mais pour un étudiant ?",
    "Pourquoi ?",
    "Combien ?",
    "Pour un mineur ?",
    "Doit-elle payer ?",
    "Quand doit-il le faire ?",
    "Comment le renouveler ?",
    "Combien de temps dure celui-ci ?",
    "Est-ce que cela est gratuit ?",
    "And for students?",
    "What about minors?",
    "How long does it last?",
    "Can I renew it online?",
    "Why?",
]


@pytest.mark.parametrize("question", ALONE)
def test_question_that_stands_alone_is_left_alone(question: str) -> None:
    assert follow_up_rule(question) == ""


@pytest.mark.parametrize("question", FOLLOW_UPS)
def test_follow_up_is_recognised(question: str) -> None:
    assert follow_up_rule(question)


def test_follow_up_is_searched_with_the_question_before_it() -> None:
    asked = standalone_question("Et pour 2024 ?", "Quel était le tarif en 2023 ?")
    assert asked.is_follow_up
    assert asked.text == "Quel était le tarif en 2023 ?\nEt pour 2024 ?"


def test_first_question_is_never_a_follow_up() -> None:
    asked = standalone_question("Et pour 2024 ?", "")
    assert not asked.is_follow_up
    assert asked.text == "Et pour 2024 ?"
