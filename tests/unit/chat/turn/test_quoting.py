"""The answer without a model: the sentences that answer, with their list, table or code whole, and where the rest is."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.turn.quoting import in_language_first, quoted_text, telling_part, without_twins
from knowledge.search import Passage
from tests.factories import make_passage

PADDING = "Le paramètre se lit au démarrage du serveur et se change dans son fichier de configuration. " * 3

TECHNICAL = f"""\
## Backups

{PADDING}

To dump a single database into a file, run the following command:

```sh
pg_save mydb > mydb.sql
pg_check mydb.sql
```

{PADDING}

The formats of a dump are these:

| option | format | parallel |
| --- | --- | --- |
| `-Fp` | plain text | no |
| `-Fd` | directory | yes |

{PADDING}

Before an upgrade, the following must be stopped:

- the archiver,
- every client,
- the monitoring agent.

{PADDING}"""

SHEET = f"""\
La carte est valable 15 ans pour un majeur. {PADDING}

La demande se fait en mairie. Il faut prendre rendez-vous en ligne. {PADDING} Dans ce cas, le délai est de 3 semaines. \
{PADDING}"""


def passage(content: str, **facts: Any) -> Passage:
    return make_passage(content, **{"title": "Sauvegardes", "parent_context": "Serveur", **facts})


@pytest.mark.parametrize(
    ("asked", "quoted"),
    [
        (
            "How do I dump a single database into a file?",
            "run the following command:\n\n```sh\npg_save mydb > mydb.sql\npg_check mydb.sql\n```",
        ),
        (
            "Which format of dump is parallel?",
            "these:\n\n| option | format | parallel |\n| --- | --- | --- |\n| `-Fp` | plain text | no |\n| `-Fd`",
        ),
        (
            "What must be stopped before an upgrade?",
            "must be stopped:\n\n- the archiver,\n- every client,\n- the monitoring agent.",
        ),
    ],
)
def test_code_table_and_list_are_whole_with_what_announces_them(asked: str, quoted: str) -> None:
    told = telling_part(TECHNICAL, asked)
    assert quoted in told
    assert "[…]" in told


def test_rule_is_quoted_with_the_exceptions_after_it() -> None:
    rules = f"{PADDING}{PADDING}Le télétravail est ouvert aux agents. Sauf pour les stagiaires. Toutefois, le samedi non. {PADDING}"
    told = telling_part(rules, "télétravail")
    assert "agents. Sauf pour les stagiaires. Toutefois, le samedi non." in told


@pytest.mark.parametrize(
    "sentence",
    [
        "La dispense prévue par l'art. L. 512 ne vaut pas pour les apprentis.",
        "Les réclamations sont à adresser à M. Dupont avant la fin du trimestre.",
        "Le remboursement arrive dans un délai de max. 30 jours après la réclamation.",
    ],
)
def test_sentence_is_not_cut_after_an_abbreviation_or_before_a_figure(sentence: str) -> None:
    assert telling_part(f"{PADDING}{sentence} {PADDING}", sentence, limit=1) == f"[…] {sentence} […]"


def test_sentence_is_cut_after_a_word_or_a_year() -> None:
    text = f"Le service ferme en 2024. Les badges se rendent à la sortie. {PADDING}"
    assert telling_part(text, "badges ?", limit=1) == "[…] Les badges se rendent à la sortie. […]"


LONG_LIST = "\n".join(f"- les frais de la catégorie numéro {at} du barème" for at in range(30))
ROWS = "\n".join(f"| salle {at} | {at} euros |" for at in range(60))


def test_long_list_and_long_table_are_cut_around_what_answers() -> None:
    told = telling_part(f"Ne sont pas remboursés :\n\n{LONG_LIST}", "numéro 17")
    assert "numéro 17" in told
    assert "numéro 1 " not in told
    told = telling_part(f"| salle | prix |\n| --- | --- |\n{ROWS}", "salle 41")
    assert told.startswith("| salle | prix |\n| --- | --- |\n| salle ")
    assert "| salle 41 | 41 euros |" in told
    assert told.endswith("\n\n[…]")


@pytest.mark.parametrize(
    "end",
    [
        "Les pièces à fournir sont :",
        "## Recours",
        "**Recours**",
        "### Délais\n\nComptez :",
        "**Recours**\n\nIl faut fournir :",
        "## Tarifs\n\n### Enfants",
        "**Pièces**\n\n**Mineurs**",
    ],
)
def test_what_only_announces_is_not_the_end(end: str) -> None:
    assert telling_part(f"{SHEET}\n\n{end}", "Quel est le délai ?").endswith("[…]")
    told = quoted_text([passage(f"Le délai est de 3 semaines.\n\n{end}")], "Quel est le délai ?")
    assert not any(line in told for line in end.split("\n\n"))


@pytest.mark.parametrize("last", ["**Cliquez sur Envoyer**", "**Le dossier est complet.**"])
def test_steps_in_bold_are_quoted_to_the_last(last: str) -> None:
    steps = f"**Ouvrez la console**\n\n**Choisissez Équipes**\n\n{last}"
    assert telling_part(steps, "ouvrir la console") == steps


@pytest.mark.parametrize(
    ("content", "asked", "marked"),
    [
        ("La carte coûte 12 euros. Le délai est de 3 semaines.", "délai", "**Le délai est de 3 semaines.**"),
        ("- la photo\n- le passeport expiré", "passeport", "- **le passeport expiré**"),
        ("| salle | prix |\n| --- | --- |\n| A | 5 |\n| B | 7 |", "salle B ?", "| **B** | **7** |"),
        ("Le délai est de 3 semaines.", "délai", "> Le délai est de 3 semaines."),
        ("Voir `délai`. Sinon rien.", "délai", "> Voir `délai`. Sinon rien."),
    ],
)
def test_sentence_item_or_row_that_answers_is_in_bold(content: str, asked: str, marked: str) -> None:
    assert marked in quoted_text([passage(content)], asked)


def test_much_weaker_passages_are_only_named() -> None:
    strong, weak = (passage(f"Texte {at}.", chunk_id=at) for at in (1, 2))
    strong, weak = replace(strong, relevance=1.0), replace(weak, relevance=0.2, parent_context="Recours")
    told = quoted_text([strong, weak], "texte ?")
    assert "> Texte 1." in told
    assert "Texte 2." not in told
    assert "- Sauvegardes › Recours [2]" in told


def test_an_answer_is_quoted_in_one_language_the_readers_where_it_is_near() -> None:
    english = replace(passage("The pool is open on Sunday.", chunk_id=1), relevance=1.0)
    french = replace(passage("La piscine est ouverte le dimanche.", chunk_id=2), relevance=0.9)
    assert in_language_first([english, french], "fr") == [french, english]
    assert in_language_first([english, replace(french, relevance=0.5)], "fr")[0] == english
    told = quoted_text([french, english], "piscine dimanche")
    assert "dimanche" in told
    assert "Sunday" not in told
    assert "[2]" in told


def test_where_no_word_is_shared_the_beginning_is_quoted() -> None:
    assert telling_part(SHEET, "Wie lange?").startswith("La carte est valable 15 ans")


def test_what_is_left_out_is_marked_and_the_end_says_where_the_rest_is() -> None:
    first, second = (f"{TECHNICAL}{PADDING * 3}Fin {at}." for at in (1, 2))
    found = [passage(first, url="https://exemple.org/backup"), passage(second, chunk_id=2)]
    told = quoted_text(found, "What must be stopped before an upgrade?")
    assert "(https://exemple.org/backup)" in told
    assert "*Le passage entier est dans la source* [2]" in told
    assert told.count("[…]") >= 2
    whole = quoted_text([passage("Court.")], "x")
    assert "entier" not in whole


def test_twins_are_one_passage_and_other_words_are_none() -> None:
    text = "La demande de passeport se fait en mairie, sur rendez-vous, et coûte 86 euros."
    found = [
        passage(text),
        passage(text.upper().replace(" ", "\n"), chunk_id=2),
        passage(text.replace("86", "96"), chunk_id=3),
        passage(f"{text} {PADDING}", chunk_id=4),
        passage(text.replace("mairie", "préfecture"), chunk_id=5),
        passage(text.replace("mairie", "préfecture"), document_id=2, chunk_id=6),
        passage(text, document_id=2, chunk_id=7),
        passage(PADDING, chunk_id=8),
        passage(PADDING, document_id=2, chunk_id=9),
    ]
    assert [each.chunk_id for each in without_twins(found, 9)] == [1, 3, 4, 5, 9]


@pytest.mark.parametrize(
    ("said", "opposite"),
    [
        ("La demande est acceptée.", "La demande n'est pas acceptée."),
        ("Badge with a photo.", "Badge without a photo."),
        ("Repas avec les enfants.", "Repas sans les enfants."),
        (f"{PADDING}Elle est acceptée d'office.", f"{PADDING}Elle est refusée d'office."),
        ("Le dossier est incomplet.", "complet."),
        ("Le délai est ≥ 3 jours.", "Le délai est ≤ 3 jours."),
    ],
)
def test_opposites_of_one_place_are_both_quoted(said: str, opposite: str) -> None:
    for first, second in ((said, opposite), (opposite, said)):
        found = [passage(first), passage(second, chunk_id=2)]
        assert without_twins(found, 9) == found


def test_one_text_at_two_places_is_two_answers() -> None:
    text = "Le ramassage a lieu le mardi."
    north, south = (passage(text, chunk_id=at) for at in (1, 2))
    north, south = replace(north, parent_context="Nord"), replace(south, parent_context="Sud")
    elsewhere = replace(north, document_id=2, title="Autre ville")
    found = [north, south, elsewhere]
    assert without_twins(found, 9) == found
    assert without_twins([north, replace(north, document_id=2)], 9) == [north]


def test_one_answer_to_two_questions_is_two_answers() -> None:
    cat = replace(passage("Oui.", document_id=1), question="Peut-on venir avec un chat ?")
    dog = replace(cat, question="Peut-on venir avec un chien ?", content="Oui. En laisse.")
    text = passage("Oui. En laisse.", chunk_id=3)
    assert without_twins([text, dog, cat], 9) == [text, dog, cat]
    assert without_twins([dog, text], 9) == [dog]


def test_of_twins_the_next_passage_takes_the_place() -> None:
    found = [passage("Un texte."), passage("Un texte.", chunk_id=2), passage("Autre.", chunk_id=3)]
    assert [each.chunk_id for each in without_twins(found, 2)] == [1, 3]


_BLOCKS = st.sampled_from(
    [
        "Une phrase courte. Une autre qui suit : la voici. " * 4,
        "Voici la liste :",
        "- un\n- deux\n\n  suite\n- trois",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
        "```\nligne 1\n\nligne 2\n```",
        "## Titre",
        "**Terme**",
        "Sauf ceci. Il est bref. Mais cela :",
        "- long\n" * 120,
        "```\nsans fin",
        "> cité",
        "1. premier\n2. second",
        "---",
    ]
)


@given(st.lists(_BLOCKS, min_size=1, max_size=12), st.sampled_from(["deux", "ligne", "titre", "?"]))
def test_what_is_quoted_stands_in_the_passage_in_its_order(blocks: list[str], asked: str) -> None:
    content = "\n\n".join(blocks)
    told = telling_part(content, asked)
    assert told
    at = 0
    for piece in (part.split() for part in told.split("[…]")):
        for word in piece:
            at = content.index(word, at)
    # A fence that was opened in what is quoted is closed there, where it is in the passage.
    if "sans fin" not in content:
        assert told.count("```") % 2 == 0


def test_first_passage_is_quoted_whole_where_the_others_are_cut() -> None:
    content = f"La demande se fait en mairie. {PADDING * 5}Le délai est de 3 semaines."
    first, second = quoted_text(
        [passage(content), passage(content + " Fin.", chunk_id=2)], "Quel est le délai ?"
    ).split("[2]")[:2]
    assert f"> {content}" in first.replace("semaines.**", "semaines.").replace("**Le délai", "Le délai")
    assert "[…]" in second


def test_answer_to_a_question_is_quoted_to_its_end() -> None:
    content = "Appelez le service. Numéro :"
    answer = replace(passage(content), question="Qui appeler ?", is_faq=True)
    assert content in quoted_text([answer], "Qui appeler ?")
