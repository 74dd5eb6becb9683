"""Questions as people type them: what is read, and what is never changed."""

import re
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge.language import words
from knowledge.language.spelling import NO_WORDS, Vocabulary
from knowledge.language.typed import TypedQuestion, read_typed
from knowledge.language.words import LANGUAGES, fold, language_data

DOCUMENTS = """
L'attestation de domicile est délivrée par la mairie de Lyon. La CNIL contrôle la vidéosurveillance des immeubles.
Comment obtenir une attestation ? Pour résilier un abonnement, écrivez à la mairie. Le remboursement prend deux semaines.
How do I get a refund? Send the invoice and the receipt. The CNIL and the prefecture answer by e-mail.
Désactiver ou activer une option est gratuit. La parabanque rembourse l'attestation en 2024.
"""
WORDS = Vocabulary.of([DOCUMENTS])


def read(question: str) -> TypedQuestion:
    return read_typed(question, WORDS)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("COMMENT OBTENIR UNE ATTESTATION DE LA CNIL ?", "Comment obtenir une attestation de la CNIL ?"),
        ("JE VEUX RESILIER MON ABONNEMENT", "Je veux résilier mon abonnement"),
        ("HOW DO I GET A REFUND?", "How do I get a refund?"),
        ("jai perdu lattestation", "j'ai perdu l'attestation"),
        ("quest ce que la videosurveillance", "qu'est-ce que la vidéosurveillance"),
        ("Commment résilier un abonnement ?", "Comment résilier un abonnement ?"),
        ("quest ce", "qu'est-ce"),
        ("comment avoir un remboursmeent", "comment avoir un remboursement"),
        ("how do i get a reciept", "how do I get a receipt"),
        ("why cant you send the invoice", "why can't you send the invoice"),
        ("Bonjour, comment résilier un abonnement ? Merci d'avance.", "Comment résilier un abonnement ?"),
        ("Bonjour Madame,\ncomment payer ?\nCordialement,", "Comment payer ?"),
        ("Pouvez-vous m'expliquer comment résilier mon abonnement ?", "Comment résilier mon abonnement ?"),
        ("J'ignore comment résilier", "Comment résilier ?"),
        ("Je voudrais savoir si je peux résilier.", "Est-ce que je peux résilier ?"),
        ("Je me demande s'il faut payer", "Est-ce qu'il faut payer ?"),
        ("I was wondering whether I can cancel my subscription, thanks", "I can cancel my subscription?"),
        ("Hi, could you please tell me how I can get a refund? Thanks in advance", "How I can get a refund?"),
        ("Could you tell me if the pool is open?", "The pool is open?"),
        ("Do you know how I pay the invoice?", "How I pay the invoice?"),
        ("Hello, comment résilier mon contract please ?", "Comment résilier mon contract ?"),
        ("Je voudrais savoir si vous pouvez me dire comment payer", "Comment payer ?"),
    ],
)  # fmt: skip
def test_a_question_is_read_without_what_is_around_it(typed: str, expected: str) -> None:
    assert read(typed).text == expected


@pytest.mark.parametrize(
    "question",
    [
        "Comment obtenir une attestation de la CNIL ?",
        "Je ne sais pas nager, puis-je résilier ?",
        "Qui ne paie pas l'abonnement ?",
        "CNIL ?",
        "RSA CAF",
        "Comment dire merci",
        "bonjour",
        "Merci beaucoup !",
        "Bonjour, merci",
        "?",
        "",
        "mon frère y a",
        "Et pour 2024 ?",
        "Mon code est ATT3STATI0N-77, comment payer ?",
        "Écrire à jean.dupnot@exmaple.org ou www.lataxe.fr ?",
        "M. Dupnot peut-il résilier ?",
        "How do I say thanks",
        "I don't want a refund.",
        "Où ou quand payer ?",
        "Cordialement, Cordialement, pas",
        "C'est quoi le num de tél du service RH ?",
        "Can my neighbour complain about me?",
        "Must employees refuse overtime?",
        "Dois-je fournir un RIB avant l'embauche ?",
        # A word of a language stays beside one of the documents, a short one of no list as well.
        *("comment réactiver une option", "la banque rembourse", "the perfect invoice"),
        "Le cerfa 12345*01 est-il gratuit ?",
    ],
)
def test_a_tidy_question_is_read_as_itself(question: str) -> None:
    assert read(question).is_as_typed


def test_what_two_words_are_near_to_stays_as_typed() -> None:
    assert read_typed("comment iactiver une option", Vocabulary.of(["activer inactiver une option"])).is_as_typed


def test_the_question_of_a_story_is_searched_beside_the_whole() -> None:
    typed = "Je viens d'emménager à Lyon avec ma sœur. Comment obtenir une attestation de domicile ?"
    found = read(typed)
    assert found.text == typed
    assert found.others == ("Comment obtenir une attestation de domicile ?",)


def test_a_question_that_leans_on_its_story_stays_with_it() -> None:
    assert read("La mairie de Lyon me demande une copie de mon contrat. Est-ce normal ?").others == ()


_PIECES = st.sampled_from(
    "bonjour, merci svp je voudrais savoir si comment puis-je résilier RESILIER labonnement d'une attestaton CNIL "
    "n'ai pas jamais sans 2024 12,5 € AB-12 X77 jean@x.fr not don't never i wondering whether please how thanks ? . ! , \n "
    "Cordialement, Jean MAJUSCULES PARTOUT ICI il faut 3 jours tell me l 'avis qu".split(" ")
)
_TEXTS = st.lists(_PIECES, max_size=14).map(" ".join) | st.text(max_size=60)
_NEGATIONS = re.compile(r"\b(?:pas|jamais|sans|never|not)\b")


@settings(max_examples=400, deadline=None)
@example("RESILIER i")
@given(_TEXTS)
def test_what_is_read_is_read_as_itself(text: str) -> None:
    once = read(text).text
    assert read(once).text == once


@settings(max_examples=400, deadline=None)
@example("3 svp bonjour, merci")
@given(_TEXTS)
def test_figures_codes_and_negations_stay(text: str) -> None:
    found = read(text)
    assert len(found.others) <= 1
    digits = [c for c in text if c.isdigit()]
    assert [c for c in found.text if c.isdigit()] == digits
    assert len(_NEGATIONS.findall(fold(found.text))) >= len(_NEGATIONS.findall(fold(text)))
    assert bool(found.text.strip()) == bool(text.strip())


def test_every_language_has_the_same_files_with_the_same_entries() -> None:
    folders = [path for path in words._FOLDER.iterdir() if path.is_dir()]
    assert sorted(folder.name for folder in folders) == sorted(LANGUAGES)
    for file in ("classes", "typed"):
        known = {name for code in LANGUAGES for name in language_data(code, file)}
        for code in LANGUAGES:
            missing = sorted(known - set(language_data(code, file)))
            assert not missing, f"data/{code}/{file}.toml lacks: {', '.join(missing)} (empty where it has none)"


@pytest.mark.parametrize("language", LANGUAGES)
def test_typed_phrases_stand_folded_without_signs(language: str) -> None:
    for name, entry in language_data(language, "typed").items():
        text = entry.replace("|", " ") if isinstance(entry, str) else " ".join(entry)
        assert fold(text) == text, name
        assert not re.search(r"['’\d-]", text), name


@pytest.mark.parametrize("word", ["b" * 8_000, "\N{LATIN SMALL LIGATURE FFI}" * 8_000, "ab" * 40])
def test_a_word_of_no_length_that_words_have_costs_no_memory(word: str) -> None:
    read_typed("attestaton", NO_WORDS)  # The languages' words are loaded once.
    tracemalloc.start()
    try:
        read_typed(word, NO_WORDS)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
