"""What differs between two texts, word by word."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from faqs.admin.imports import Piece, compare_fields, compare_words

TEXTS = st.text(alphabet="ab é0.,'\n\t ", max_size=40) | st.text(max_size=40)


def marked(before: str, after: str) -> tuple[str, str]:
    def side(pieces: Sequence[Piece]) -> str:
        return "".join(f"[{piece.text}]" if piece.is_changed else piece.text for piece in pieces)

    left, right = compare_words(before, after)
    return side(left), side(right)


@given(TEXTS, TEXTS)
def test_pieces_of_a_side_are_its_text(before: str, after: str) -> None:
    left, right = compare_words(before, after)
    assert "".join(piece.text for piece in left) == before
    assert "".join(piece.text for piece in right) == after


@given(TEXTS, TEXTS)
def test_what_is_not_marked_stands_on_both_sides(before: str, after: str) -> None:
    kept = [
        "".join(piece.text for piece in side if not piece.is_changed).split() for side in compare_words(before, after)
    ]
    assert "".join(kept[0]) == "".join(kept[1])


@given(TEXTS)
def test_same_text_has_no_difference(text: str) -> None:
    assert not any(piece.is_changed for side in compare_words(text, text) for piece in side)


def test_words_and_numbers_are_marked_whole() -> None:
    assert marked("L’entrée coûte 6,50 €.", "L’entrée coûte 6,80 €.") == (
        "L’entrée coûte [6,50] €.",
        "L’entrée coûte [6,80] €.",
    )
    assert marked("Ouvert lundi.", "Ouvert lundi et mardi.") == ("Ouvert lundi.", "Ouvert lundi [et mardi].")


def test_line_break_is_a_difference_and_a_space_is_none() -> None:
    assert marked("un  deux", "un deux") == ("un  deux", "un deux")
    assert marked("un deux", "un\ndeux") == ("un [deux]", "un\n[deux]")


def test_fields_that_are_equal_are_left_out() -> None:
    (change,) = compare_fields({"a": "1", "b": "2"}, {"a": "1", "b": "3"})
    assert change.label == "b"
    assert [piece.text for piece in change.after] == ["3"]
