"""PDF pages as they are set: words placed one by one, accents drawn apart, columns, tables, heads, contents, code,
bookmarks.
"""

import re

from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.readers.base import Block, ParsedDocument
from knowledge.readers.registry import parse_document

SENTENCE = "Le locataire adresse une lettre recommandée au bailleur avant la fin du mois de juin."
WORDS = st.text(alphabet="abcdeghimnoprstuvéèàç", min_size=2, max_size=12)


def page(pdf: FPDF | None = None, *, size: float = 11) -> FPDF:
    pdf = pdf or FPDF(unit="pt", format="A4")
    pdf.set_auto_page_break(False)
    pdf.add_page()
    pdf.set_font("helvetica", size=size)
    return pdf


def put(pdf: FPDF, x: float, y: float, text: str, *, size: float = 11, font: str = "helvetica") -> None:
    pdf.set_font(font, size=size)
    pdf.text(x, y, text)


def read(pdf: FPDF) -> ParsedDocument:
    return parse_document(bytes(pdf.output()), filename="guide.pdf")


def table(pdf: FPDF, rows: list[list[str]], *, x: float = 60, y: float = 100, width: float = 120) -> None:
    """Rows of 20 points, each cell with its borders; an empty text has no border above it."""
    for row, cells in enumerate(rows):
        for column, text in enumerate(cells):
            left, top = x + column * width, y + row * 20
            if text:
                pdf.line(left, top, left + width, top)
                put(pdf, left + 4, top + 14, text)
            pdf.line(left, top, left, top + 20)
            pdf.line(left + width, top, left + width, top + 20)
    bottom = y + len(rows) * 20
    pdf.line(x, bottom, x + len(rows[0]) * width, bottom)


def texts(parsed: ParsedDocument) -> list[str]:
    return [block.text for block in parsed.blocks]


def only(parsed: ParsedDocument, kind: str) -> Block:
    [block] = [block for block in parsed.blocks if block.kind == kind]
    return block


def test_words_that_are_placed_one_by_one_are_not_glued() -> None:
    pdf, x = page(), 60.0
    for word in SENTENCE.split():
        put(pdf, x, 100, word)
        x += pdf.get_string_width(word) + 3.2
    assert texts(read(pdf)) == [SENTENCE]


def test_accent_that_is_drawn_over_its_letter_is_put_on_it() -> None:
    pdf = page()
    put(pdf, 60, 100, "Toute l'")
    x = 60 + pdf.get_string_width("Toute l'")
    put(pdf, x + 1, 100, "\xb4")
    put(pdf, x, 100, "equipe est pr\xeate")
    assert texts(read(pdf)) == ["Toute l'équipe est prête"]


def test_columns_that_are_written_line_by_line_are_read_one_after_the_other() -> None:
    pdf = page()
    for line in range(8):
        put(pdf, 60, 100 + 14 * line, f"gauche {line} avec assez de mots ici")
        put(pdf, 320, 100 + 14 * line, f"droite {line} avec assez de mots ici")
    written = " ".join(texts(read(pdf)))
    assert [int(n) for n in re.findall(r"gauche (\d)", written)] == list(range(8))
    assert written.index("gauche 7") < written.index("droite 0")


def test_table_keeps_its_rows_and_cells() -> None:
    pdf = page()
    table(pdf, [["Zone", "Tarif réduit", "Plein tarif"], ["A", "12 euros", "24 euros"], ["B", "9 euros", "18 euros"]])
    assert only(read(pdf), "table").text.splitlines() == [
        "| Zone | Tarif réduit | Plein tarif |",
        "| --- | --- | --- |",
        "| A | 12 euros | 24 euros |",
        "| B | 9 euros | 18 euros |",
    ]  # fmt: skip


def test_cell_over_several_rows_is_said_in_each() -> None:
    pdf = page()
    table(pdf, [["Service", "Jour", "Heure"], ["Accueil", "lundi", "9 h"], ["", "mardi", "14 h"]])
    assert only(read(pdf), "table").text.splitlines()[2:] == ["| Accueil | lundi | 9 h |", "| Accueil | mardi | 14 h |"]


def test_table_between_level_rules_has_its_columns() -> None:
    pdf = page()
    for y in (90, 110, 175):
        pdf.line(60, y, 400, y)
    rows = [("Pièce", "Délai"), ("Passeport", "six semaines"), ("Carte", "trois semaines"), ("Permis", "un mois")]
    for row, (left, right) in enumerate(rows):
        put(pdf, 62, 104 + 22 * row, left)
        put(pdf, 240, 104 + 22 * row, right)
    assert "| Passeport | six semaines |" in only(read(pdf), "table").text


def test_table_that_goes_on_over_the_page_is_one_table_under_one_header() -> None:
    pdf = page()
    table(pdf, [["Nom", "Code"], *([f"ville {n}", f"code {n}"] for n in range(5))], y=680)
    page(pdf)
    table(pdf, [["Nom", "Code"], *([f"ville {n}", f"code {n}"] for n in range(5, 9))], y=60)
    written = only(read(pdf), "table").text.splitlines()
    assert len(written) == 11
    assert written.count("| Nom | Code |") == 1


def test_box_around_a_note_is_no_table() -> None:
    pdf = page()
    pdf.rect(50, 80, 400, 60)
    put(pdf, 60, 100, SENTENCE[:60])
    assert [block.kind for block in read(pdf).blocks] == ["prose"]


def test_running_head_with_the_chapter_and_the_page_is_removed() -> None:
    pdf: FPDF | None = None
    for number in range(1, 9):
        pdf = page(pdf)
        chapter = "Accueil du public" if number < 5 else "Gestion du parc"
        put(pdf, 60, 40, chapter, size=9)
        put(pdf, 500, 40, str(number + 10), size=9)
        put(pdf, 60, 130, f"{SENTENCE} Page {number}.")
    assert pdf is not None
    written = " ".join(texts(read(pdf)))
    assert "Accueil" not in written
    assert "Gestion" not in written
    assert [int(n) for n in re.findall(r"Page (\d)", written)] == list(range(1, 9))


def test_first_line_of_each_page_is_no_running_head() -> None:
    pdf: FPDF | None = None
    for number in range(6):
        pdf = page(pdf)
        put(pdf, 60, 60, f"Article {'abcdef'[number]} de la convention sur les {number + 3} congés.")
        put(pdf, 60, 300, SENTENCE)
    assert pdf is not None
    assert sum("Article" in text for text in texts(read(pdf))) == 6


def test_contents_give_way_to_the_titles_they_lead_to() -> None:
    pdf = page()
    put(pdf, 60, 60, "Sommaire", size=16)
    for row, title in enumerate(["Accueil", "Congés", "Paie"]):
        put(pdf, 60, 100 + 20 * row, f"{title} . . . . . . . . . . . . . . . {row + 2}")
    for title in ["Accueil", "Congés", "Paie"]:
        page(pdf)
        put(pdf, 60, 130, title, size=16)
        put(pdf, 60, 160, SENTENCE)
    parsed = read(pdf)
    assert texts(parsed) == [SENTENCE] * 3
    assert [block.headings for block in parsed.blocks] == [("Accueil",), ("Congés",), ("Paie",)]


def test_prices_at_the_end_of_dots_are_kept() -> None:
    pdf = page()
    for row, (name, price) in enumerate([("Café", 2), ("Thé", 3), ("Chocolat", 4), ("Sirop", 5)]):
        put(pdf, 60, 130 + 20 * row, f"{name} . . . . . . . . . . . . . . . . . . . . {price}")
    written = " ".join(texts(read(pdf)))
    assert written == "Café … 2 Thé … 3 Chocolat … 4 Sirop … 5"


def test_lines_of_code_stay_lines_with_their_indent() -> None:
    pdf = page()
    put(pdf, 60, 100, "La commande est :")
    for row, (indent, line) in enumerate(
        [(0, "for f in *.csv; do"), (2, r"psql -c '\copy t from stdin' < $f"), (0, "done")]
    ):
        put(pdf, 80 + 6.6 * indent, 130 + 13 * row, line, font="courier")
    put(pdf, 60, 200, SENTENCE)
    code = only(read(pdf), "code").text
    assert code == "```\nfor f in *.csv; do\n  psql -c '\\copy t from stdin' < $f\ndone\n```"


def test_bookmarks_give_titles_their_level() -> None:
    pdf = page()
    for y, level, title in [
        (60, 0, "1 Généralités"),
        (140, 1, "1.1 Objet"),
        (220, 1, "1.2 Durée"),
        (300, 0, "2 Litiges"),
    ]:
        pdf.set_y(y - 10)
        pdf.start_section(title, level=level)
        put(pdf, 60, y, title, size=13)
        put(pdf, 60, y + 30, SENTENCE)
    assert [block.headings for block in read(pdf).blocks] == [
        ("1 Généralités",),
        ("1 Généralités", "1.1 Objet"),
        ("1 Généralités", "1.2 Durée"),
        ("2 Litiges",),
    ]  # fmt: skip


def test_title_that_is_printed_twice_is_said_once() -> None:
    pdf = page()
    put(pdf, 60, 100, "Guide du locataire", size=26)
    page(pdf)
    put(pdf, 60, 100, "Guide du locataire", size=26)
    put(pdf, 60, 160, SENTENCE)
    parsed = read(pdf)
    assert (parsed.title, texts(parsed)) == ("Guide du locataire", [SENTENCE])


def test_each_line_says_where_it_stands() -> None:
    pdf = page()
    put(pdf, 59.5, 84.2, SENTENCE)
    page(pdf)
    put(pdf, 297.6, 421, "Seconde page.")
    first, second = read(pdf).lines
    assert (first.page, second.page) == (1, 2)
    assert (round(first.box[0], 2), round(second.box[0], 2)) == (0.1, 0.5)
    assert first.box[1] < 0.1 < first.box[3] < 0.12
    assert second.text == "Seconde page."


def test_turned_page_is_read_and_placed_as_it_is_shown() -> None:
    pdf = FPDF(unit="pt", format="A4", orientation="landscape")
    page(pdf)
    put(pdf, 84.2, 59.5, "En travers.")
    [line] = read(pdf).lines
    assert round(line.box[0], 2) == 0.1
    assert 0.08 < line.box[1] < line.box[3] < 0.12


@given(st.lists(st.lists(WORDS, min_size=1, max_size=40), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_every_word_is_read_once_and_in_order(paragraphs: list[list[str]]) -> None:
    pdf = FPDF(unit="pt", format="A4")
    pdf.add_page()
    pdf.set_font("helvetica", size=11)
    for words in paragraphs:
        pdf.multi_cell(0, 14, " ".join(words) + ".", align="L", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(10)
    written = " ".join(texts(read(pdf)))
    assert re.findall(r"\w+", written) == [word for words in paragraphs for word in words]
