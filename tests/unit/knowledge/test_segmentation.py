"""Cuts that an edit elsewhere does not move."""

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.chunking import Item, chunk_document, segments
from knowledge.models import SourceType
from knowledge.readers.base import Block, ParsedDocument

AIM = 1_000
_text = st.text("abcdefghij ", min_size=20, max_size=400)
_items = st.lists(st.builds(Item, _text, st.integers(0, 2)), max_size=60)


def hashes(texts: list[str], *, kind: str = "prose") -> list[str]:
    blocks = tuple(Block(text, ("Congés",), "prose") for text in texts)
    if kind == "table":
        table = "\n".join(["| Nom | Valeur |", "|---|---|", *(f"| {t} | oui |" for t in texts)])
        blocks = (Block(table, ("Congés",), "table"),)
    return [c.content_hash for c in chunk_document(ParsedDocument("T", blocks, SourceType.TEXT))]


def paragraph(number: int) -> str:
    return f"Le paragraphe {number * 7919} traite du cas {number * number} et de ses suites. " * 3


@given(items=_items)
def test_segments_hold_every_text_in_order(items: list[Item]) -> None:
    assert list(chain(*segments(items, aim=AIM))) == [item.text for item in items]


@given(items=_items)
def test_segments_stay_below_the_tolerance(items: list[Item]) -> None:
    for group in segments(items, aim=AIM):
        assert len(group) == 1 or sum(map(len, group)) <= 1.4 * AIM


@settings(max_examples=60)
@given(at=st.integers(0, 200), text=_text.filter(str.strip))
def test_paragraph_put_in_anywhere_changes_only_the_chunks_around_it(at: int, text: str) -> None:
    texts = [paragraph(number) for number in range(200)]
    before = hashes(texts)
    after = hashes([*texts[:at], text.strip(), *texts[at:]])
    assert len(before) > 30
    assert len(set(after) - set(before)) <= 4


@settings(max_examples=40)
@given(at=st.integers(0, 199))
def test_paragraph_taken_out_changes_only_the_chunks_around_it(at: int) -> None:
    texts = [paragraph(number) for number in range(200)]
    assert len(set(hashes(texts[:at] + texts[at + 1 :])) - set(hashes(texts))) <= 4


def test_paragraph_put_in_at_the_top_of_a_long_section_shifts_no_later_chunk() -> None:
    texts = [paragraph(number) for number in range(120)]
    before, after = hashes(texts), hashes(["Un alinéa nouveau ouvre désormais la section.", *texts])
    assert before[3:] == after[-len(before[3:]) :]


def test_row_put_in_at_the_top_of_a_long_table_shifts_no_later_chunk() -> None:
    rows = [f"commune {number * 7919} du canton {number}" for number in range(300)]
    before, after = hashes(rows, kind="table"), hashes(["Nouvelle", *rows], kind="table")
    assert before[3:] == after[-len(before[3:]) :]


def test_tiny_section_put_in_first_shifts_no_later_group_of_tiny_sections() -> None:
    def cut(names: list[str]) -> list[str]:
        blocks = tuple(Block(f"À voir à {name}, sans rendez-vous.", ("Lieux", name)) for name in names)
        return [c.content_hash for c in chunk_document(ParsedDocument("T", blocks, SourceType.TEXT))]

    names = [f"Commune {number * 7919}" for number in range(200)]
    assert len(set(cut(["Ville neuve", *names])) - set(cut(names))) <= 2


def test_equal_texts_are_still_cut() -> None:
    groups = segments([Item("x" * 100)] * 100, aim=AIM)
    assert max(len(group) for group in groups) * 100 <= 1.4 * AIM
