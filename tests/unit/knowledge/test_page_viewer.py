"""Where passages stand on their pages: found after they were cut, whatever the cutting added or mended."""

import re

from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.chunking import ChunkDraft, Place, affordable_chunks
from knowledge.page_viewer import placed_chunks
from knowledge.readers.base import Block, ParsedDocument, PlacedLine
from knowledge.readers.registry import parse_document


def line(text: str, page: int = 1, row: int = 0, *, is_title: bool = False) -> PlacedLine:
    return PlacedLine(text, page, (0.1, 0.1 + row * 0.02, 0.9, 0.115 + row * 0.02), is_title)


def places(contents: list[str], lines: list[PlacedLine]) -> list[tuple[Place, ...]]:
    block = Block("…", ())
    parsed = ParsedDocument("Guide", (block,), "pdf", lines=tuple(lines))  # type: ignore[arg-type]  # no format here
    drafts = [ChunkDraft(content, "") for content in contents]
    return [draft.places for draft in placed_chunks(drafts, parsed)]


def test_lines_that_follow_closely_are_one_box_whatever_cuts_a_word_or_marks_it() -> None:
    [[box]] = places(["**Un employeur** averti."], [line("Un em-"), line("ployeur averti.", row=1)])
    assert box == Place(1, 0.1, 0.1, 0.9, 0.135)


def test_passage_over_two_pages_has_a_box_on_each() -> None:
    [found] = places(["La fin et le début."], [line("La fin", 4), line("et le début.", 5)])
    assert [place.page for place in found] == [4, 5]


def test_line_that_is_cut_between_two_passages_belongs_to_both() -> None:
    first, second = places(["Une phrase.", "Une autre."], [line("Une phrase. Une autre.")])
    assert first == second


def test_repeated_header_of_a_table_does_not_lead_astray() -> None:
    header = "| Nom | Prix |\n| --- | --- |\n"
    contents = [header + "| Adulte | 12 |", header + "| Enfant | 6 |"]
    first, second = places(contents, [line("Nom Prix"), line("Adulte 12", row=1), line("Enfant 6", 2)])
    assert [place.page for place in (*first, *second)] == [1, 2]


def test_title_that_stands_above_is_not_looked_for_in_the_text() -> None:
    lines = [line("Congés", is_title=True), line("Le salarié a des congés.", 1, 1), line("Fin.", 2)]
    [found] = places(["Le salarié a des congés. Fin."], lines)
    assert [place.page for place in found] == [1, 2]


def test_passage_that_is_not_found_has_the_page_of_the_one_before() -> None:
    _first, second = places(["Une phrase.", "Tout autre chose."], [line("Une phrase.", 3)])
    assert second == (Place(3),)


@given(
    st.lists(st.lists(st.text("abcdefghij", min_size=3, max_size=9), min_size=5, max_size=60), min_size=1, max_size=30)
)
@settings(max_examples=15, deadline=None)
def test_every_passage_of_a_pdf_has_the_page_of_its_words(paragraphs: list[list[str]]) -> None:
    pdf = FPDF(unit="pt", format="A4")
    for number, words in enumerate(paragraphs):
        if number % 4 == 0:
            pdf.add_page()
            pdf.set_font("helvetica", size=11)
        text = " ".join(f"{word}{number}" for word in words) + "."
        pdf.multi_cell(0, 14, text, align="L", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(10)
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    pages = {n: p for p, group in _words_by_page(parsed) for n in group}
    for draft in placed_chunks(affordable_chunks(parsed)[0], parsed):
        numbers = {int(n) for n in re.findall(r"[a-j](\d+)", draft.content)}
        assert {place.page for place in draft.places} == set().union(*(pages[n] for n in numbers))
        assert all(0 <= p.x0 < p.x1 <= 1 and 0 <= p.y0 < p.y1 <= 1 for p in draft.places)


def _words_by_page(parsed: ParsedDocument) -> list[tuple[set[int], set[int]]]:
    found: dict[int, set[int]] = {}
    for placed in parsed.lines:
        for number in re.findall(r"[a-j](\d+)", placed.text):
            found.setdefault(int(number), set()).add(placed.page)
    return [(pages, {number}) for number, pages in found.items()]
