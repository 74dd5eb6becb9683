"""Three-way merges: both sides' changes are kept, and a conflict is never decided."""

from hypothesis import given
from hypothesis import strategies as st

from knowledge.chunking import KnowledgeUnit
from knowledge.indexing.chunks import merge_text, merge_units, resemblance

BASE = "La carte coûte 12 euros. Elle est gratuite avant 18 ans.\n\nLe retard est puni."

_sentence = st.sampled_from([f"Phrase {n}." for n in range(8)])
_text = st.lists(_sentence, max_size=8).map(" ".join)
_units = st.lists(
    st.builds(KnowledgeUnit, st.sampled_from(["A ?", "B ?", "C ?"]), st.sampled_from("12")),
    max_size=3,
    unique_by=lambda unit: unit.question,
)


def test_changes_that_lie_apart_are_both_kept() -> None:
    staff = BASE.replace("12 euros", "12 euros par an")
    new = BASE.replace("Le retard est puni", "Le retard n’est plus puni")
    merged = merge_text(BASE, staff, new)
    assert not merged.is_conflict
    assert "12 euros par an" in merged.text
    assert "n’est plus puni" in merged.text


def test_same_sentence_changed_twice_is_a_conflict_and_staff_text_stands() -> None:
    staff, new = BASE.replace("12", "13"), BASE.replace("12", "15")
    merged = merge_text(BASE, staff, new)
    assert merged.is_conflict
    assert merged.text == staff


def test_sentence_added_by_staff_at_the_end_joins_one_added_by_the_document_at_the_top() -> None:
    merged = merge_text("Un. Deux.", "Un. Deux. Trois.", "Zéro. Un. Deux.")
    assert (merged.text, merged.is_conflict) == ("Zéro. Un. Deux. Trois.", False)


@given(base=_text, other=_text)
def test_only_side_that_changed_wins(base: str, other: str) -> None:
    assert merge_text(base, base, other).text == other
    assert merge_text(base, other, base).text == other
    assert merge_text(base, other, other).text == other


@given(base=_text, staff=_text, new=_text)
def test_merge_never_drops_a_sentence_that_nobody_took_out(base: str, staff: str, new: str) -> None:
    merged = merge_text(base, staff, new)
    kept = set(base.split(".")) & set(staff.split(".")) & set(new.split("."))
    assert {sentence.strip() for sentence in kept} <= {s.strip() for s in merged.text.split(".")}
    if merged.is_conflict:
        assert merged.text == staff


def test_units_that_staff_added_changed_and_removed_stay_so() -> None:
    base = [KnowledgeUnit("Prix ?", "12"), KnowledgeUnit("Lieu ?", "Mairie")]
    staff = [KnowledgeUnit("Prix ?", "12 euros"), KnowledgeUnit("Qui ?", "Tous")]
    merged = merge_units(base, staff, [*base, KnowledgeUnit("Quand ?", "Lundi")])
    assert not merged.is_conflict
    assert {unit.question: unit.answer for unit in merged.units} == {
        "Prix ?": "12 euros",
        "Qui ?": "Tous",
        "Quand ?": "Lundi",
    }


def test_answer_changed_by_both_is_a_conflict() -> None:
    base, staff, new = ([KnowledgeUnit("Prix ?", price)] for price in ("12", "13", "15"))
    merged = merge_units(base, staff, new)
    assert merged.is_conflict
    assert merged.units == tuple(staff)


@given(base=_units, other=_units)
def test_units_of_the_only_side_that_changed_win(base: list[KnowledgeUnit], other: list[KnowledgeUnit]) -> None:
    assert set(merge_units(base, base, other).units) == set(other)
    assert set(merge_units(base, other, base).units) == set(other)


def test_resemblance_tells_an_edited_text_from_another() -> None:
    assert resemblance(BASE, BASE.replace("12", "15")) > 0.8
    assert resemblance(BASE, "Les salles se réservent à l’accueil du premier étage.") < 0.3
