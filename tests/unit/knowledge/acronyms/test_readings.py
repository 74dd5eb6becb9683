"""What a table of forms makes of a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.acronyms import Form, Forms

RQTH = Form("RQTH", "reconnaissance de la qualité de travailleur handicapé")
BAL = Form("BAL", "boîte à lettres", is_confirmed=True)
PAS = Form("PAS", "prélèvement à la source")
FORMS = Forms((RQTH, BAL, PAS, Form("Apre", "aide personnalisée de retour à l'emploi")))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Comment demander la RQTH ?", f"Comment demander la {RQTH.long} ?"),
        ("comment demander la rqth", f"comment demander la {RQTH.long}"),
        ("Qui obtient la Reconnaissance de la qualite de travailleur handicapé ?", "Qui obtient la RQTH ?"),
        ("Où sont les boîtes à lettres ?", "Où sont les BAL ?"),
        ("Comment marche le PAS ?", "Comment marche le prélèvement à la source ?"),
        ("Je ne comprends pas", ""),
        ("JE NE COMPRENDS PAS", ""),
        ("Quels sont les horaires ?", ""),
        ("Le relevé qui tue l'heure (RQTH), c'est quoi ?", ""),
        ("Peut-on payer après coup ?", ""),
        ("Combien de RQTHs par an ?", f"Combien de {RQTH.long} par an ?"),
    ],
)
def test_other_reading_has_the_other_form(text: str, other: str) -> None:
    assert FORMS.other_reading(text) == other


def test_both_forms_have_one_writing() -> None:
    first = FORMS.one_writing("Comment demander la RQTH ?")
    assert FORMS.one_writing(f"Comment demander la {RQTH.long} ?") == first


def test_acronym_with_two_long_forms_proves_nothing_until_staff_confirm_one() -> None:
    forms = Forms((Form("CP", "code postal"), Form("CP", "congés payés")))
    assert forms.other_reading("Comment poser des CP ?") == ""
    assert forms.one_writing("Comment poser des congés payés ?").endswith("congés payés ?")
    forms = Forms((Form("CP", "code postal"), Form("CP", "congés payés", is_confirmed=True)))
    assert forms.other_reading("Comment poser des CP ?") == "Comment poser des congés payés ?"


@pytest.mark.parametrize(
    ("short", "first", "second"),
    [
        ("PEL", "plan épargne logement", "Plans d'épargne logement"),
        ("CDD", "contrat à durée déterminée", "contrats de travail à durée déterminée"),
        ("ALS", "allocation de logement sociale", "Allocations logement sociales"),
    ],
)
def test_long_form_that_only_says_more_or_is_written_otherwise_is_the_same(short: str, first: str, second: str) -> None:
    assert Forms((Form(short, first), Form(short, second))).other_reading(f"Un {short} ?")


@given(st.text(max_size=120))
def test_text_without_a_form_is_left_as_it_is(text: str) -> None:
    assert Forms().one_writing(text) == text
    FORMS.other_reading(text)


@given(st.text(alphabet="RQTH bal àé lettres", max_size=60))
def test_one_writing_is_the_same_written_again(text: str) -> None:
    once = FORMS.one_writing(text)
    assert FORMS.one_writing(once) == once
