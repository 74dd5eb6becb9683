"""Personal data in questions and answers: what is seen, what is not, and that no text is slow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faqs.learning import personal_data
from tests.waiting import little_work


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("email", "Écrivez-moi à jeanne.martin@exemple.fr"),
        ("email", "my address is j+test@mail.example.co.uk"),
        ("iban", "Mon IBAN est FR76 3000 6000 0112 3456 7890 189"),
        ("iban", "virement sur DE89370400440532013000"),
        ("social_security", "Mon numéro est le 2 85 07 75 123 456 78"),
        ("card", "carte 4970 1000 0000 0014"),
        ("phone", "Appelez le 06 12 34 56 78"),
        ("phone", "tél. 01.23.45.67.89"),
        ("phone", "call +44 20 7946 0958"),
        ("phone", "call 555-123-4567"),
        ("ip_address", "depuis 192.168.10.24"),
        ("own_number", "Où en est mon dossier n° 20245871 ?"),
        ("own_number", "What about my file AB-123456?"),
        ("name", "Je m’appelle Jeanne Martin"),
        ("name", "My name is John Smith"),
        ("birth_date", "Je suis née le 12 mars 1985"),
        ("birth_date", "born on 12/03/1985"),
        ("address", "J'habite au 12 rue des Lilas"),
    ],
)
def test_personal_data_is_seen(kind: str, text: str) -> None:
    assert personal_data(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "Quel est le montant du Smic en 2024 ?",
        "Combien coûte un passeport de 86 euros ?",
        "L'article 1240 du code civil s'applique-t-il ?",
        "Faut-il le formulaire Cerfa n° 12100*02 ?",
        "Le plafond est de 22 950 euros par an.",
        "Du 12 mars 2024 au 15 avril 2025",
        "Composez le 3939 ou le 112.",
        "Where do I declare a change of address?",
        "Python 3.11.4 is supported",
    ],
)
def test_what_the_desk_is_asked_every_day_is_not_personal(text: str) -> None:
    assert personal_data(text) == ""


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="0123456789 .-@+()FRmonaddressen°#AB", max_size=60))
def test_no_text_is_slow(text: str) -> None:
    long = text * (8_000 // max(len(text), 1))
    with little_work(2):
        personal_data(long)
