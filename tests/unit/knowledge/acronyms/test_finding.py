"""Acronyms that a text spells out, in French and English, whichever of the two stands in brackets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.acronyms import spelled_out
from tests.waiting import little_work


def found(text: str) -> list[tuple[str, str]]:
    return [(pair.short, pair.long) for pair in spelled_out(text)]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        (
            "La reconnaissance de la qualité de travailleur handicapé (RQTH) ouvre des droits.",
            "RQTH",
            "reconnaissance de la qualité de travailleur handicapé",
        ),
        (
            "Demandez la RQTH (reconnaissance de la qualité de travailleur handicapé) en ligne.",
            "RQTH",
            "reconnaissance de la qualité de travailleur handicapé",
        ),
        ("la taxe sur la valeur ajoutée (TVA)", "TVA", "taxe sur la valeur ajoutée"),
        ("Votre caisse d'allocations familiales (Caf)", "Caf", "caisse d'allocations familiales"),
        ("The National Health Service (NHS) pays.", "NHS", "National Health Service"),
        ("GDPR (General Data Protection Regulation)", "GDPR", "General Data Protection Regulation"),
        ("value added tax (« VAT »)", "VAT", "value added tax"),
        ("un plan d'épargne en actions (P.E.A.)", "P.E.A.", "plan d'épargne en actions"),
        ("a power of attorney (POA, see below)", "POA", "power of attorney"),
        ("une aide au retour à l'emploi (ARE)", "ARE", "aide au retour à l'emploi"),
    ],
)
def test_acronym_is_found_with_what_it_stands_for(text: str, short: str, long: str) -> None:
    assert found(text) == [(short, long)]


@pytest.mark.parametrize(
    "text",
    [
        "Envoyez le document (PDF) avant la fin du mois.",
        "Il habite Paris (France).",
        "un contrat (CDI ou CDD)",
        "L'allocation au retour à l'emploi. (ARE)",
        "Le montant (voir page 3) est fixe.",
        "RQTH (voir plus bas)",
        "après un refus d'attribution (RSA)",
        "le Règlement européen sur la protection des données (RGPD)",
        "la TVA (TVA)",
        "Prenez rendez-vous. Tout Visiteur Attend (RTVA)",
        "",
    ],
)
def test_brackets_that_spell_nothing_out_teach_nothing(text: str) -> None:
    assert found(text) == []


@settings(deadline=None)
@given(st.text(alphabet="AbcDe (). dé'", max_size=120))
def test_what_is_found_stands_in_the_text_and_begins_with_the_same_letter(text: str) -> None:
    for pair in spelled_out(text):
        assert pair.short in text
        assert all(word in text for word in pair.long.split())
        assert pair.long[0].casefold() == pair.short[0].casefold()


@pytest.mark.parametrize("text", ["(" * 20_000, "A (A" * 8_000, "aa " * 10_000 + "(AAAAAAAAAA)"])
def test_long_text_is_read_in_bounded_time(text: str) -> None:
    with little_work(1):
        spelled_out(text)
