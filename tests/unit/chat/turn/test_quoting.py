"""The answer without a model: the sentences that answer, with their list, table or code whole, and where the rest is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from chat.turn.quoting import quoted_text, telling_part, without_twins
from knowledge.search import Passage
from knowledge.vectors.payloads import PointType

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


def passage(content: str, *, document_id: int = 1, chunk_id: int = 1, url: str = "") -> Passage:
    return Passage(
        point_id=f"p{chunk_id}",
        type=PointType.SOURCE_MATERIAL,
        score=0.7,
        content=content,
        question="",
        title="Sauvegardes",
        parent_context="Serveur",
        category="",
        summary="",
        document_id=document_id,
        chunk_id=chunk_id,
        url=url,
    )


def test_short_passage_is_quoted_whole() -> None:
    assert telling_part("La carte coûte 12 euros.", "Où ?") == "La carte coûte 12 euros."


def test_code_is_whole_with_the_sentence_that_announces_it() -> None:
    told = telling_part(TECHNICAL, "How do I dump a single database into a file?")
    assert "run the following command:\n\n```sh\npg_save mydb > mydb.sql\npg_check mydb.sql\n```" in told
    assert told.startswith("## Backups\n\n[…]\n\n")


def test_table_is_whole_with_its_header() -> None:
    told = telling_part(TECHNICAL, "Which format of dump is parallel?")
    assert "these:\n\n| option | format | parallel |\n| --- | --- | --- |\n| `-Fp`" in told
    assert "| `-Fd` | directory | yes |" in told


def test_list_is_whole() -> None:
    told = telling_part(TECHNICAL, "What must be stopped before an upgrade?")
    assert "must be stopped:\n\n- the archiver,\n- every client,\n- the monitoring agent." in told


def test_sentence_comes_with_the_one_that_it_leans_on() -> None:
    told = telling_part(SHEET, "Quel est le délai ?")
    before = PADDING.strip().rsplit(". ", 1)[1]
    assert f"{before} Dans ce cas, le délai est de 3 semaines." in told
    assert "15 ans" not in told


@pytest.mark.parametrize(
    "sentence",
    [
        "La dispense prévue par l'art. L. 512 ne vaut pas pour les apprentis.",
        "Les réclamations sont à adresser à M. Dupont avant la fin du trimestre.",
        "Le remboursement arrive dans un délai de max. 30 jours après la réclamation.",
        "Le recours se fonde sur l'art. R. 421-3 du code forestier.",
        "Le remboursement arrive en approx. 30 jours après la réclamation.",
    ],
)
def test_sentence_is_not_cut_after_an_abbreviation_or_before_a_figure(sentence: str, settings: Settings) -> None:
    settings.MAX_QUOTE_CHARACTERS = 1
    assert telling_part(f"{PADDING}{sentence} {PADDING}", sentence) == f"[…] {sentence} […]"


def test_sentence_is_cut_after_a_word_or_a_year(settings: Settings) -> None:
    settings.MAX_QUOTE_CHARACTERS = 1
    text = f"Le service ferme en 2024. Les badges se rendent à la sortie. {PADDING}"
    assert telling_part(text, "badges ?") == "[…] Les badges se rendent à la sortie. […]"


def test_word_that_the_best_sentence_lacks_is_looked_for_in_the_others() -> None:
    text = f"""\
**shared_pool (integer)**

Sets the memory that the shared pool uses. The default is typically 128 megabytes. {PADDING}

A reasonable value for the shared pool is a quarter of the memory. {PADDING}{PADDING}"""
    told = telling_part(text, "What is the default of shared_pool?")
    assert "128 megabytes" in told
    assert told.startswith("**shared_pool (integer)**")


def _items_of(kind: str, count: int = 30) -> str:
    return "\n".join(f"- les {kind} de la catégorie numéro {at} du barème" for at in range(count))


LIST = _items_of("frais", 4)
LONG_LIST = _items_of("frais")
PLAIN = "Le service reste ouvert pendant les travaux."


@pytest.mark.parametrize(
    ("content", "asked", "quoted"),
    [
        # What stands before a list, a table or code is its announcement, whatever sign it ends with.
        (
            f"{PLAIN} Ne sont pas remboursés les frais qui suivent.\n\n{LIST}",
            "catégorie 3 du barème",
            "[…] Ne sont pas remboursés les frais qui suivent.\n\n[…]\n\n- les frais de la catégorie numéro 3 du barème",
        ),
        (
            f"{PLAIN} Ces commandes effacent tout.\n\n```\nraz --barème\n```\n\n{PLAIN}",
            "raz barème",
            f"{PLAIN} Ces commandes effacent tout.\n\n```\nraz --barème\n```\n\n[…]",
        ),
        # Each item of a long list stands under it, the first and the last, in a second list too.
        (
            f"{PLAIN} Ne sont pas remboursés :\n\n{LONG_LIST}",
            "numéro 17",
            "[…] Ne sont pas remboursés :\n\n[…]\n\n- les frais de la catégorie numéro 17 du barème\n\n[…]",
        ),
        (
            f"Ne sont pas remboursés ceux-ci.\n\n{LIST}\n\n1. le taxi\n2. le parking",
            "parking",
            "Ne sont pas remboursés ceux-ci.\n\n[…]\n\n2. le parking",
        ),
        # A sentence stands under its title, a bold line or the bold beginning of its paragraph, and under each heading
        # above.
        (
            f"**Ce qui est interdit**\n\n{PLAIN} Venir avec un chien au guichet. {PLAIN}",
            "chien",
            "**Ce qui est interdit**\n\n[…]\n\nVenir avec un chien au guichet. […]",
        ),
        (
            f"**Ce qui est interdit :**\n{PLAIN} Venir avec un chien au guichet. {PLAIN}",
            "chien",
            "**Ce qui est interdit :** […] Venir avec un chien au guichet. […]",
        ),
        (
            f"**Interdit :** fumer dans la salle. {PLAIN} Venir avec un chien au guichet. {PLAIN}",
            "chien",
            "**Interdit :** fumer dans la salle. […] Venir avec un chien au guichet. […]",
        ),
        (
            f"## Permis\n\n{PLAIN}\n\n## Interdit\n\n{PLAIN}\n\n### Au guichet\n\n{PLAIN} Venir avec un chien au guichet. {PLAIN}",
            "chien",
            "[…]\n\n## Interdit\n\n[…]\n\n### Au guichet\n\n[…]\n\nVenir avec un chien au guichet. […]",
        ),
        # What follows an announcement stands under it, all sentences of it.
        (
            f"Ne sont pas admis :\n\n{PLAIN} Venir avec un chien au guichet. {PLAIN}",
            "chien",
            "Ne sont pas admis :\n\n[…]\n\nVenir avec un chien au guichet. […]",
        ),
        # An exception is quoted with its rule, of the next paragraph and after a sentence that leans too.
        (
            f"Le télétravail est ouvert aux agents. Ils choisissent le jour. Sauf pour les stagiaires. {PLAIN}",
            "télétravail",
            "Le télétravail est ouvert aux agents. Ils choisissent le jour. Sauf pour les stagiaires. […]",
        ),
        (
            f"Le télétravail est ouvert aux agents.\n\n**Toutefois**, les stagiaires en sont exclus.\n\n{PLAIN}",
            "télétravail",
            "Le télétravail est ouvert aux agents.\n\n**Toutefois**, les stagiaires en sont exclus. […]",
        ),
        (
            f"Sont remboursés :\n\n{LONG_LIST}\n\nÀ l’exception des stagiaires.\n\n{PLAIN}",
            "numéro 17",
            "Sont remboursés :\n\n[…]\n\n- les frais de la catégorie numéro 17 du barème\n\n[…]\n\n- les frais de la catégorie numéro 29 du barème\n\nÀ l’exception des stagiaires. […]",
        ),
        # An exception that is announced at the end of a passage is said all the same, and brings its list where there
        # is one.
        (
            f"{PLAIN} Le télétravail est ouvert aux agents. Sauf dans les cas suivants :",
            "télétravail",
            "[…] Le télétravail est ouvert aux agents. Sauf dans les cas suivants :",
        ),
        (
            f"Le télétravail est ouvert aux agents. Sauf dans ces cas :\n\n- un stage\n- un essai\n\n{PLAIN}",
            "télétravail",
            "Le télétravail est ouvert aux agents. Sauf dans ces cas :\n\n- un stage\n\n[…]",
        ),
        # What is said of a list after it is not quoted without it, nor the list without it.
        (
            f"{PLAIN}\n\n{LIST}\n\nCes dépenses ne sont jamais payées.\n\n{PLAIN}",
            "catégorie 3 du barème",
            f"{PLAIN}\n\n[…]\n\n- les frais de la catégorie numéro 3 du barème\n\nCes dépenses ne sont jamais payées. […]",
        ),
    ],
)
def test_piece_is_quoted_with_what_may_reverse_its_sense_whatever_the_limit(
    content: str, asked: str, quoted: str, settings: Settings
) -> None:
    settings.MAX_QUOTE_CHARACTERS = 1
    assert telling_part(content, asked) == quoted


@pytest.mark.parametrize(
    "contrast",
    "Sauf|Hormis|Excepté|À l'exception|Mais|Néanmoins|Toutefois|Cependant|En revanche|Except|Unless|But|However|Only if|"
    "Uniquement si|À moins|Seuls|Par exception|« Sauf|*Sauf*".split("|"),
)
def test_exception_is_quoted_with_its_rule(contrast: str, settings: Settings) -> None:
    settings.MAX_QUOTE_CHARACTERS = 1
    rule, exception = "Le télétravail est ouvert aux agents.", f"{contrast} pour les stagiaires."
    content = f"{rule} {exception} {PADDING}"
    for asked in ("télétravail", "stagiaires"):
        assert telling_part(content, asked) == f"{rule} {exception} […]"


def test_announcement_whose_list_is_elsewhere_is_not_the_end() -> None:
    text = f"{SHEET}\n\nLes pièces à fournir sont :"
    assert not telling_part(text, "Quel est le délai ? Quelles pièces fournir ?").endswith(":")


def test_where_no_word_is_shared_the_beginning_is_quoted() -> None:
    assert telling_part(SHEET, "Wie lange?").startswith("La carte est valable 15 ans")


def test_what_is_left_out_is_marked_and_the_end_says_where_the_rest_is() -> None:
    found = [passage(TECHNICAL, url="https://exemple.org/backup"), passage(SHEET, chunk_id=2)]
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


@pytest.mark.parametrize("limit", [1, 80, 700])
def test_any_limit_quotes_something(settings: Settings, limit: int) -> None:
    settings.MAX_QUOTE_CHARACTERS = limit
    assert "archiver" in telling_part(TECHNICAL, "What must be stopped before an upgrade?")


def test_first_passage_is_quoted_whole_where_the_others_are_cut() -> None:
    content = f"La demande se fait en mairie. {PADDING * 3}Le délai est de 3 semaines."
    first, second = quoted_text(
        [passage(content), passage(content + " Fin.", chunk_id=2)], "Quel est le délai ?"
    ).split("[2]")[:2]
    assert f"> {content}" in first
    assert "[…]" in second


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        ("Le service s'arrête seul.\n\nPrenons un cas :", "Le service s'arrête seul.\n>\n> […]"),
        ("Il s'arrête toujours. Prenons un cas :", "Il s'arrête toujours. […]"),
    ],
)
def test_announcement_without_what_it_announces_is_left_out(content: str, quoted: str) -> None:
    told = quoted_text([passage(content)], "Pourquoi ?")
    assert f"> {quoted}\n\n*Le passage entier" in told


@pytest.mark.parametrize(
    "content",
    [
        "Prenons un cas :",
        "## Durée\n\nDurée du prêt :",
        "Questions :\n\nContact : tel 1\nAdresse :",
        "Pièces à fournir :\n\n- un justificatif.\n- pour les mineurs :",
        "Ouvert.\n\n- le lundi\n\n**Le mardi :**",
    ],
)
def test_short_passage_that_ends_in_a_colon_otherwise_is_quoted_whole(content: str) -> None:
    told = quoted_text([passage(content)], "Pourquoi ?")
    assert "\n".join(f"> {line}".rstrip() for line in content.splitlines()) in told


def test_answer_to_a_question_is_quoted_to_its_end() -> None:
    content = "Appelez le service. Numéro :"
    answer = replace(passage(content), question="Qui appeler ?", is_faq=True)
    assert content in quoted_text([answer], "Qui appeler ?")


@pytest.mark.parametrize(
    "leaning",
    [
        "Le pseudo-paquet permet ainsi le suivi des archives.",
        "The table also shows the archives.",
        "Une autre option liste les archives.",
        "For example, the archives are listed.",
    ],
)
def test_sentence_that_goes_on_is_quoted_with_the_one_before_it(leaning: str) -> None:
    told = telling_part(f"{PADDING}{PADDING}Il y a un dépôt. {leaning} {PADDING}", "archives")
    assert f"Il y a un dépôt. {leaning}" in told
